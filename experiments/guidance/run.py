"""Agents alone and with each kind of guidance, on one thread per run.

    python experiments/guidance/run.py LOGS RUNS [--only both] [--workers 2]

LOGS holds the logs, named TASK-LEVEL.hdf5 (hopper-medium.hdf5, walker2d-replay.hdf5). The guides are pre-trained first,
into RUNS/guides. Stop it at any time and call it again: finished runs are kept, stopped ones are resumed. The runs that
answer the first question come first: does the default guidance help? `table.py RUNS` makes tables and curves of
whatever is finished.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from actionless.execution.job import Job
from actionless.execution.local_processes import LocalProcesses
from actionless.execution.outcome import what_is_left

ENVIRONMENTS = {"hopper": "Hopper-v5", "halfcheetah": "HalfCheetah-v5", "walker2d": "Walker2d-v5"}
LEVELS = ("medium", "replay")
STEPS = {"hopper": 100_000, "halfcheetah": 100_000, "walker2d": 250_000}
SIZES = ("--hidden", "128,128", "--batch-size", "128", "--evaluate-every", "5000", "--episodes", "5")
"""Half the width and half the batch of the `cpu` scale, for every agent alike: twice the runs in the same time."""

ALONE = "alone"
"""Sees states in the units of the medium log, as every guided agent does, and nothing else of any log."""


class Way(NamedTuple):
    """How an agent is guided."""

    method: str
    """What the guide was pre-trained with."""
    flags: tuple[str, ...]


WAYS = {
    ALONE: Way("iql-delta", ("--guidance", "normalise")),
    "paper": Way("oso-decqn", ("--guidance", "paper")),
    "potential": Way("iql-delta", ("--guidance", "potential")),
    "relabel": Way("iql-delta", ("--guidance", "relabel")),
    "both": Way("iql-delta", ("--guidance", "potential,relabel")),
}


class Agent(NamedTuple):
    """One run."""

    name: str
    task: str
    level: str
    way: str
    seed: int

    def job(self, runs: Path) -> Job:
        """Alone, there is no log but the one that gives units."""
        guide = guide_of(runs, WAYS[self.way].method, self.task, self.level)
        parts = [self.name, self.task, *([] if self.way == ALONE else [self.level]), self.way, str(self.seed)]
        out = runs / "-".join(parts)
        flags = ["train", ENVIRONMENTS[self.task], "--out", str(out), "--agent", self.name, "--seed", str(self.seed)]
        flags += ["--steps", str(STEPS[self.task]), "--guide", str(guide), *SIZES, *WAYS[self.way].flags]
        return Job(out, tuple(flags), after=(guide,))


def guide_of(runs: Path, method: str, task: str, level: str) -> Path:
    """The run of a guide."""
    return runs / "guides" / f"{method}-{task}-{level}"


def guides(logs: Path, runs: Path) -> Iterator[Job]:
    """All that guides."""
    for task in ENVIRONMENTS:
        for level in LEVELS:
            for method in ("iql-delta", "oso-decqn"):
                out = guide_of(runs, method, task, level)
                yield Job(out, ("pretrain", str(logs / f"{task}-{level}.hdf5"), "--out", str(out), "--method", method))


def agents() -> Iterator[Agent]:
    """Every run, in the order of what it tells."""
    fast = ("hopper", "halfcheetah")
    for level in LEVELS:
        for seed in range(5):
            for task in fast if seed > 2 else ENVIRONMENTS:
                if level == "medium":
                    yield Agent("td3", task, level, ALONE, seed)
                yield Agent("td3", task, level, "both", seed)
    for way in ("paper", "potential", "relabel"):
        for seed in range(5):
            for task in fast if seed > 2 or way != "paper" else ENVIRONMENTS:
                for level in LEVELS:
                    yield Agent("td3", task, level, way, seed)
    for seed in range(3):
        for task in fast:
            yield Agent("sac", task, "medium", ALONE, seed)
            for level in LEVELS:
                for way in ("both", "paper", "potential", "relabel"):
                    yield Agent("sac", task, level, way, seed)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--only", default="", help="runs whose name holds this text")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    chosen = [job for job in (agent.job(asked.runs) for agent in agents()) if asked.only in job.out.name]
    pretraining = {job.out: job for job in guides(asked.logs, asked.runs)}
    # Each guide right before the first agent that needs it.
    jobs = dict.fromkeys(each for job in chosen for each in (*(pretraining[guide] for guide in job.after), job))
    sys.exit(what_is_left(LocalProcesses(asked.workers).run(list(jobs))))


if __name__ == "__main__":
    main()
