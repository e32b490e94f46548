"""The policies of the paper's Tables 1 and 2 on Hopper at `cpu` scale, and their figures; 2 bins, and other ε.

    python experiments/tables/run.py LOGS RUNS [--only medium_replay] [--workers 2]

LOGS holds hopper_{medium_replay,medium,medium_expert,expert}-v2.hdf5 with actions. Every piece is a pre-training run
and what `actionless evaluate` says of it in Hopper-v5. Stop it at any time and call it again: what is finished is kept,
a stopped run goes on. `table.py RUNS` makes the tables of what is there.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

import actionless

TASK = "Hopper-v5"
LOGS = tuple(f"hopper_{level}-v2" for level in ("medium_replay", "medium", "medium_expert", "expert"))
LABELLED = tuple(log for log in LOGS if "medium_expert" not in log)  # which holds nothing that the others lack
METHODS = ("bc-delta", "oso-decqn", "bc-action", "bc-next", "bc-diff", "decqn")
SEEDS = (0, 1)
FIGURES = "figures.json"
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


def work(piece: Piece, logs: Path, runs: Path, labelled: Path) -> None:
    """Pre-train, or go on with it, and play; what is finished costs nothing."""
    run = runs / piece.name
    if (run / FIGURES).exists():
        return
    if not (run / "result.json").exists():
        begin = ["pretrain", str(logs / f"{piece.log}.hdf5"), "--out", str(run), "--method", piece.method]
        begin += ["--seed", str(piece.seed), "--bins", str(piece.bins), "--epsilon", str(piece.epsilon)]
        begin += ["--with-actions"] * (piece.method == "bc-action")
        actionless_(["resume", str(run)] if run.exists() else begin)
    played = ["evaluate", str(run), "--env", TASK, "--labelled", str(labelled), "--seed", str(piece.seed), "--json"]
    figures = actionless_(played)
    aside = run / f".{FIGURES}"
    aside.write_text(figures)
    aside.rename(run / FIGURES)


def actionless_(arguments: list[str]) -> str:
    """What a verb prints, on one thread."""
    command = [sys.executable, "-m", "actionless", *arguments]
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "NPROC": "1"}
    ).stdout


def main() -> None:
    """Work on what is asked for, one log per worker: policies of a log share experts, which none should train twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--only", default="", help="pieces whose name holds this text")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    asked.runs.mkdir(parents=True, exist_ok=True)
    labelled = joined(asked.logs, asked.runs)

    def work_on(log: str) -> None:
        for piece in pieces():
            if piece.log == log and asked.only in piece.name:
                work(piece, asked.logs, asked.runs, labelled)

    with ThreadPoolExecutor(asked.workers) as pool:
        list(pool.map(work_on, LOGS))


if __name__ == "__main__":
    main()
