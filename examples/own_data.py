"""Own data, own environment: from a Parquet log without actions to an agent that learns faster, in Python.

    python examples/own_data.py runs/own

reads the log of the heated tank, learns which way each sensor should move, says whether that can be believed, and
trains an agent in the tank, guided and alone. docs/own-data.md goes the same way on the command line.
"""

import argparse
import json
from pathlib import Path
from typing import Literal

import actionless
from actionless.analysis.diagnostics import diagnose_run

LOG = Path(__file__).with_name("heated_tank.parquet")
TASK = "heated_tank:HeatedTank-v0"  # the module is beside this file, so Python finds it
HIDDEN = (64, 64)


def main(out: Path, scale: Literal["smoke", "cpu"]) -> None:
    """Write the three runs to `out`, and say what came of them."""
    updates, steps = {"smoke": (60, 400), "cpu": (6_000, 10_000)}[scale]
    log = actionless.read(LOG)
    sizes = {"hidden": HIDDEN, "ensemble": 3, "learning_rate": 1e-3}
    actionless.pretrain(LOG, out / "policy", scale=scale, steps=updates, batch_size=128, **sizes)
    print(diagnose_run(out / "policy").verdict.sentence)

    policy = actionless.StatePolicy.load(out / "policy")
    advice = policy.recommend(log.states[-1])
    for variable, move, sure in zip(advice.state_names, advice.direction, advice.probability, strict=True):
        print(f"{variable:18} {move:+d}  {sure:.0%}")

    for name, guidance in (
        ("guided", {"guide": out / "policy", "guidance": "paper", "idm_hidden": HIDDEN}),
        ("alone", {}),
    ):
        actionless.train(TASK, out / name, scale=scale, steps=steps, batch_size=128, hidden=HIDDEN, **guidance)
        print(f"{name}: {', '.join(f'{value:.0f}' for value in curve(out / name))}")


def curve(run: Path) -> list[float]:
    """The returns of a run's evaluations."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [row["eval/return"] for row in rows if "eval/return" in row]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="directory for the runs")
    parser.add_argument(
        "--scale", choices=("smoke", "cpu"), default="cpu", help="seconds to see that it works, or minutes"
    )
    options = parser.parse_args()
    main(options.out, options.scale)
