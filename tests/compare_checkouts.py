"""Whether two checkouts learn the same bits: every method and agent at `smoke` scale, same seed, same machine.

    python tests/compare_checkouts.py hashes CHECKOUT FILE.json     # run everything with a checkout's sources
    python tests/compare_checkouts.py compare FILE.json FILE.json   # name the runs that differ

A hash covers the weights (their names, types and bytes) and the rows of metrics.jsonl of a finished run. Everything
goes through the command line, so that checkouts with different Python interfaces can be compared. Not a test of the
suite: hashes differ from machine to machine.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from safetensors.numpy import load_file

ENVIRONMENT = "HalfCheetah-v5"
METHODS = ("oso-decqn", "decqn", "iql-delta", "bc-delta", "bc-next", "bc-diff", "afdt")
SMOKE = ("--scale", "smoke")


def runs(folder: Path, log: Path, labelled: Path) -> dict[str, list[str]]:
    """The command of each run, in an order in which what a run needs comes before it."""
    commands = {method: ["pretrain", str(log), "--method", method, *SMOKE] for method in METHODS}
    commands["bc-action"] = ["pretrain", str(labelled), "--method", "bc-action", "--with-actions", *SMOKE]
    commands["oso-decqn-options"] = [
        *("pretrain", str(log), *SMOKE, "--bins", "5", "--spacing", "quantile", "--loss", "huber"),
        *("--logits", "scaled", "--penalty-on", "members", "--target", "min", "--seed", "3"),
    ]
    short = [ENVIRONMENT, *SMOKE, "--steps", "600", "--evaluate-every", "250", "--episodes", "1"]
    guide = str(folder / "oso-decqn")
    for agent in ("td3", "sac", "decqn"):
        alone = ["train", *short, "--agent", agent]
        commands |= {f"{agent}-alone": alone, f"{agent}-guided": [*alone, "--guide", guide, "--guidance", "switch"]}
    options = "--n-step 3 --guidance switch --beta 0.3 --no-bootstrap --idm-every 2"
    commands["td3-options"] = ["train", *short, "--guide", guide, *options.split()]
    for kind in ("potential", "relabel", "potential,relabel"):
        values = ["--guide", str(folder / "iql-delta"), "--guidance", kind]
        commands[f"td3-{kind.replace(',', '-')}"] = ["train", *short, *values]
    commands["af-guide"] = ["train", *short, "--agent", "sac", "--guide", str(folder / "afdt")]
    for method in ("iql", "awac", "cal-ql", "o3f"):
        commands[method] = [
            *("finetune", ENVIRONMENT, "--data", str(labelled), "--method", method, *SMOKE),
            *("--offline-steps", "250", "--steps", "250", "--evaluate-every", "250", "--episodes", "1"),
        ]
    return commands


def hashes(checkout: Path) -> dict[str, dict[str, str]]:
    """The hashes of every run made with the sources of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout.absolute() / "src"), "NPROC": "1", "JAX_PLATFORMS": "cpu"}

    def command(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "actionless", *words], check=True, env=environment, cwd=folder)

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        log, labelled = folder / "log.parquet", folder / "labelled.hdf5"
        for suffix in (".parquet", ".toml"):
            bundled = checkout / "src" / "actionless" / f"demo_log{suffix}"
            log.with_suffix(suffix).write_bytes(bundled.read_bytes())
        command("record", ENVIRONMENT, "--level", "random", "--steps", "3000", "--out", str(labelled), *SMOKE)
        found = {}
        for name, words in runs(folder, log, labelled).items():
            command(*words, "--out", str(folder / name))
            found[name] = hash_of(folder / name)
            print(name, *found[name].values(), flush=True)
        return found


def hash_of(run: Path) -> dict[str, str]:
    """Of the weights, and of the rows of metrics, whatever order a row's figures have."""
    weights = hashlib.sha256()
    for name, array in sorted(load_file(run / "policy" / "policy.safetensors").items()):
        weights.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    metrics = hashlib.sha256("\n".join(json.dumps(row, sort_keys=True) for row in rows).encode())
    return {"weights": weights.hexdigest()[:16], "metrics": metrics.hexdigest()[:16]}


def compare(one: Path, other: Path) -> int:
    """Print each run whose hashes differ; the number of them."""
    first, second = (json.loads(path.read_text()) for path in (one, other))
    names = sorted(first.keys() | second.keys())
    different = [name for name in names if first.get(name) != second.get(name)]
    for name in different:
        print(f"{name}: {first.get(name)} and {second.get(name)}")
    print(f"{len(names) - len(different)} of {len(names)} runs are the same")
    return len(different)


def main() -> None:
    """Parse and call."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("hashes", "compare"))
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    asked = parser.parse_args()
    if asked.what == "compare":
        sys.exit(1 if compare(asked.first, asked.second) else 0)
    found = hashes(asked.first)
    asked.second.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
