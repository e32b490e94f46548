"""The policies of the paper's Tables 1 and 2 on Hopper at `cpu` scale, and their figures; 2 bins, and other ε.

    python experiments/tables/run.py LOGS RUNS [--only medium_replay] [--workers 2]

LOGS holds hopper_{medium_replay,medium,medium_expert,expert}-v2.hdf5 with actions. Every piece is a pre-training run
and what `actionless evaluate` says of it in Hopper-v5. Stop it at any time and call it again: what is finished is kept,
stopped runs are resumed. `table.py RUNS` makes the tables of what is there.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import actionless
from actionless.execution.job import Job
from actionless.execution.local_processes import LocalProcesses
from actionless.execution.outcome import what_is_left

TASK = "Hopper-v5"
LOGS = tuple(f"hopper_{level}-v2" for level in ("medium_replay", "medium", "medium_expert", "expert"))
LABELLED = tuple(log for log in LOGS if "medium_expert" not in log)  # which holds nothing that the others lack
METHODS = ("bc-delta", "oso-decqn", "bc-action", "bc-next", "bc-diff", "decqn")
SEEDS = (0, 1)
EVALUATION = "evaluation"
"""The folder in a policy's run directory that has its figures."""
EPSILON, BINS = 1e-4, 3
EPSILON_LOG, OTHER_EPSILONS = "hopper_medium_expert-v2", (1e-3, 1e-5, 1e-6)
TWO_BINS_LOG = "hopper_medium_replay-v2"


class Piece(NamedTuple):
    """One policy."""

    log: str
    method: str
    seed: int
    bins: int = BINS
    epsilon: float = EPSILON

    @property
    def name(self) -> str:
        """Its directory."""
        departures = [f"{self.bins}-bins"] * (self.bins != BINS) + [f"epsilon-{self.epsilon:g}"] * (
            self.epsilon != EPSILON
        )
        return "-".join([self.log, self.method, *departures, str(self.seed)])


def pieces() -> Iterator[Piece]:
    """Everything: both tables with one seed, then with the next; other ε with both, two bins with one."""
    for seed in SEEDS:
        yield from (Piece(log, method, seed) for method in METHODS for log in LOGS)
    yield Piece(TWO_BINS_LOG, "oso-decqn", SEEDS[0], bins=2)
    for seed in SEEDS:
        yield from (Piece(EPSILON_LOG, "oso-decqn", seed, epsilon=epsilon) for epsilon in OTHER_EPSILONS)


def joined(logs: Path, runs: Path) -> Path:
    """What the expert inverse dynamics models learn from: all labelled logs in one file, the same for every policy."""
    path = runs / "labelled.npz"
    if path.exists():
        return path
    parts = [actionless.read(logs / f"{name}.hdf5", with_actions=True) for name in LABELLED]
    aside = path.with_name("labelled.writing.npz")
    np.savez(
        aside,
        states=np.concatenate([part.states for part in parts]),
        next_states=np.concatenate([part.next_states for part in parts]),
        actions=np.concatenate([np.asarray(part.actions) for part in parts]),
        rewards=np.concatenate([part.rewards for part in parts]),
        terminals=np.concatenate([part.terminals for part in parts]),
        timeouts=np.concatenate([part.ends & ~part.terminals for part in parts]),
    )
    return aside.rename(path)


def jobs(chosen: list[Piece], logs: Path, runs: Path, labelled: Path) -> Iterator[Job]:
    """Pre-train each policy, then play it.

    Policies of one log are played one after the other: they share the models that find the actions, which should not
    be trained twice.
    """
    played_before: dict[str, tuple[Path, ...]] = {}
    for piece in chosen:
        run = runs / piece.name
        words = ["pretrain", str(logs / f"{piece.log}.hdf5"), "--out", str(run), "--method", piece.method]
        words += ["--seed", str(piece.seed), "--bins", str(piece.bins), "--epsilon", str(piece.epsilon)]
        words += ["--with-actions"] * (piece.method == "bc-action")
        yield Job(run, tuple(words))
        figures = run / EVALUATION
        words = ["evaluate", str(run), "--env", TASK, "--labelled", str(labelled), "--seed", str(piece.seed)]
        words += ["--out", str(figures), "--overwrite"]  # what is whole is kept, what is damaged is replaced
        yield Job(figures, tuple(words), after=(run, *played_before.get(piece.log, ())))
        played_before[piece.log] = (figures,)


def main() -> None:
    """Work on what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--only", default="", help="pieces whose name holds this text")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    asked.runs.mkdir(parents=True, exist_ok=True)
    labelled = joined(asked.logs, asked.runs)
    chosen = [piece for piece in pieces() if asked.only in piece.name]
    sys.exit(what_is_left(LocalProcesses(asked.workers).run(list(jobs(chosen, asked.logs, asked.runs, labelled)))))


if __name__ == "__main__":
    main()
