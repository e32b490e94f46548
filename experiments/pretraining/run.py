"""OSO-DecQN, DecQN_N and BC Δs on two regenerated Hopper logs, two seeds each, at `cpu` scale.

    python experiments/pretraining/run.py FOLDER_WITH_LOGS RUNS

FOLDER_WITH_LOGS holds hopper_medium_replay-v2.hdf5 and hopper_medium_expert-v2.hdf5. Stop it at any time and call it
again: finished runs are kept, a stopped one goes on. Writes results.csv beside this file.
"""

import csv
import json
import subprocess
import sys
from pathlib import Path

LOGS = ("hopper_medium_replay-v2", "hopper_medium_expert-v2")
METHODS = ("oso-decqn", "bc-delta", "decqn")
SEEDS = 2
COLUMNS = ("heldout/accuracy", "heldout/error", "penalty", "td_loss", "q/mean", "q/max", "q/data_return")


def finished_run(log: Path, method: str, run: Path) -> None:
    """Begin a run, or go on with it; a run that is finished costs nothing."""
    begin = ["pretrain", str(log), "--out", str(run), "--method", method, "--scale", "cpu", "--seeds", str(SEEDS)]
    arguments = ["resume", str(run)] if run.exists() else begin
    subprocess.run([sys.executable, "-m", "actionless", *arguments], check=True)


def rows(runs: Path) -> list[dict[str, object]]:
    """One row per log, method and seed, from each run's result."""
    found = []
    for log in LOGS:
        for method in METHODS:
            for seed in range(SEEDS):
                result = json.loads((runs / f"{log}-{method}" / f"seed-{seed}" / "result.json").read_text())
                figures = {name: result["final"].get(name, "") for name in COLUMNS}
                found.append({"log": log, "method": method, "seed": seed, "minutes": result["seconds"] / 60, **figures})
    return found


def main(logs: Path, runs: Path) -> None:
    """Run everything, then write the table."""
    for log in LOGS:
        for method in METHODS:
            finished_run(logs / f"{log}.hdf5", method, runs / f"{log}-{method}")
    table = rows(runs)
    with (Path(__file__).parent / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0].keys())
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
