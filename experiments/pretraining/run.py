"""OSO-DecQN, DecQN_N and BC Δs on two regenerated Hopper logs, two seeds each, at `cpu` scale.

    python experiments/pretraining/run.py FOLDER_WITH_LOGS RUNS

FOLDER_WITH_LOGS holds hopper_medium_replay-v2.hdf5 and hopper_medium_expert-v2.hdf5. Stop it at any time and call it
again: finished runs are kept, a stopped one is resumed. Writes results.csv beside this file.
"""

import csv
import json
import sys
from pathlib import Path

from actionless.execution.job import Job
from actionless.execution.local_processes import LocalProcesses
from actionless.execution.outcome import what_is_left
from actionless.runs.threads import threads_here

LOGS = ("hopper_medium_replay-v2", "hopper_medium_expert-v2")
METHODS = ("oso-decqn", "bc-delta", "decqn")
SEEDS = 2
COLUMNS = ("heldout/accuracy", "heldout/error", "penalty", "td_loss", "q/mean", "q/max", "q/data_return")


def jobs(logs: Path, runs: Path) -> list[Job]:
    """A run of every method on every log; its seeds share all cores, so one run follows the other."""
    found = []
    for log in LOGS:
        for method in METHODS:
            run = runs / f"{log}-{method}"
            words = ("pretrain", str(logs / f"{log}.hdf5"), "--out", str(run), "--method", method, "--scale", "cpu")
            found.append(Job(run, (*words, "--seeds", str(SEEDS)), cores=threads_here()))
    return found


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
    left = what_is_left(LocalProcesses(workers=1).run(jobs(logs, runs)))
    if left is not None:
        sys.exit(left)
    table = rows(runs)
    with (Path(__file__).parent / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0].keys())
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
