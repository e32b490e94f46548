"""Walker2d with every method of the paper's comparison at `cpu` scale, on one thread per run.

    python experiments/rivals/run.py LOGS RUNS [--only iql awac] [--workers 2]
    python experiments/rivals/run.py LOGS LONGER --steps 250000 --only td3 sac

LOGS holds walker2d_{medium,medium_replay}-v2.hdf5, hopper_medium-v2.hdf5 and halfcheetah_medium-v2.hdf5 with actions;
only `finetune` reads the actions. Stop it at any time and call it again: finished runs are kept, stopped ones resumed.
What is asked for brings along the pre-training that it needs.
`table.py RUNS` makes the tables and the figure, `table.py LONGER --out FOLDER` those of another length.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from actionless.execution.job import Job
from actionless.execution.local_processes import LocalProcesses
from actionless.execution.outcome import what_is_left

TASK = "Walker2d-v5"
LOGS = ("walker2d_medium-v2", "walker2d_medium_replay-v2")
SEEDS = (0, 1)
GUIDES = {"oso-decqn": "td3", "afdt": "sac"}
"""Methods of pre-training without actions, and the agent that each guides."""
GUIDANCE = {"oso-decqn": "paper", "afdt": "plans"}
"""How each guides."""
LABELLED = ("iql", "awac", "cal-ql", "o3f")
OFFLINE_METHODS = ("iql", "awac")
OFFLINE = {"hopper_medium-v2": "Hopper-v5", "halfcheetah_medium-v2": "HalfCheetah-v5"}
"""More logs with published scores of these two, which learn from them offline alone."""


class Piece(NamedTuple):
    """One run, and those that have to be finished before it."""

    name: str
    begin: tuple[str, ...]
    after: tuple[str, ...] = ()

    def job(self, runs: Path) -> Job:
        """What makes it."""
        run = runs / self.name
        return Job(run, (*self.begin, "--out", str(run)), after=tuple(runs / name for name in self.after))


def pieces(logs: Path, runs: Path, steps: int | None = None) -> Iterator[Piece]:
    """Everything: what the paper is about first, and what takes longest last. Steps in the task are the scale's."""
    length = () if steps is None else ("--steps", str(steps))
    for method in GUIDES:
        for log in LOGS:
            yield Piece(f"{method}-{log}", ("pretrain", str(logs / f"{log}.hdf5"), "--method", method))
    for seed in SEEDS:
        for method, agent in GUIDES.items():
            yield Piece(f"{agent}-alone-{seed}", ("train", TASK, "--agent", agent, "--seed", str(seed), *length))
            for log in LOGS:
                guide = f"{method}-{log}"
                begin = ("train", TASK, "--agent", agent, "--guide", str(runs / guide), "--seed", str(seed))
                begin += ("--guidance", GUIDANCE[method])
                yield Piece(f"{agent}-guided-by-{guide}-{seed}", (*begin, *length), (guide,))
    for method in LABELLED:
        for seed in SEEDS:
            for log in LOGS:
                yield Piece(f"{method}-{log}-{seed}", (*labelled(TASK, logs / log, method, seed), *length))
            if method in OFFLINE_METHODS:
                for log, task in OFFLINE.items():
                    begin = (*labelled(task, logs / log, method, seed), "--steps", "0")
                    yield Piece(f"offline-{method}-{log}-{seed}", begin)


def labelled(task: str, log: Path, method: str, seed: int) -> tuple[str, ...]:
    """Fine-tuning from a log."""
    return ("finetune", task, "--data", f"{log}.hdf5", "--method", method, "--seed", str(seed))


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path, help="the folder with the logs")
    parser.add_argument("runs", type=Path, help="the folder for the runs, one for each length")
    parser.add_argument("--only", nargs="+", default=[""], help="pieces whose name holds one of these texts")
    parser.add_argument(
        "--steps", type=int, help="in the task, if not those of the scale; learning from logs stays as it is"
    )
    parser.add_argument("--workers", type=int, default=2, help="runs side by side, each on one thread")
    asked = parser.parse_args()
    every = list(pieces(asked.logs, asked.runs, asked.steps))
    chosen = [piece for piece in every if any(text in piece.name for text in asked.only)]
    if not chosen:
        parser.error(
            f"--only {' '.join(asked.only)}: no run has such a name; there are {', '.join(p.name for p in every)}"
        )
    needed = {piece.name for piece in chosen}.union(*(piece.after for piece in chosen))
    jobs = [piece.job(asked.runs) for piece in every if piece.name in needed]
    sys.exit(what_is_left(LocalProcesses(asked.workers).run(jobs)))


if __name__ == "__main__":
    main()
