"""Agents alone and with each kind of guidance, on one thread per run.

    python experiments/guidance/run.py LOGS RUNS [--only both] [--workers 2] [--again]

LOGS holds the logs, named TASK-LEVEL.hdf5 (hopper-medium.hdf5, walker2d-replay.hdf5). The guides are pre-trained first,
into RUNS/guides. Stop it at any time and call it again: finished runs are kept, stopped ones are resumed, and runs that
curves.csv has already, from here or from another machine, are left out unless --again is given. The runs that answer
the first question come first: does the default guidance help? `table.py RUNS` makes tables and curves of whatever is
finished.
"""

import argparse
import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from actionless.execution.job import Job
from actionless.execution.local_processes import LocalProcesses
from actionless.execution.outcome import what_is_left

HERE = Path(__file__).parent
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
ABLATIONS = {
    "both-oso": Way("oso-decqn", ("--guidance", "potential,relabel")),
    "both-returns": Way("returns", ("--guidance", "potential,relabel")),
    "both-kappa-0": Way("iql-delta", ("--guidance", "potential,relabel", "--kappa", "0")),
    "both-kappa-10": Way("iql-delta", ("--guidance", "potential,relabel", "--kappa", "10")),
    "both-horizon": Way("iql-delta", ("--guidance", "potential,relabel", "--horizon", "0.9")),
    "both-share-25": Way("iql-delta", ("--guidance", "potential,relabel", "--share", "0.25")),
    "both-share-75": Way("iql-delta", ("--guidance", "potential,relabel", "--share", "0.75")),
    "both-plain": Way("iql-delta", ("--guidance", "potential,relabel", "--plain-critics")),
    "alone-layer-norm": Way("iql-delta", ("--guidance", "normalise", "--layer-norm")),
}
EVERY_WAY = WAYS | ABLATIONS
METHODS = {
    "iql-delta": ("iql-delta",),
    "oso-decqn": ("oso-decqn",),
    "returns": ("iql-delta", "--monte-carlo"),
}
"""Flags of `pretrain --method` by the name of a guide."""
WRONG = {
    "hopper": ("hopper-low", "hopper-random", "hopper-negated"),
    "halfcheetah": ("halfcheetah-random", "halfcheetah-negated", "walker2d-medium"),
}
"""Logs that mislead: of worse agents, with negated rewards, of another task whose states have the same size."""


class Agent(NamedTuple):
    """One run."""

    name: str
    task: str
    level: str
    """Of the log, or the log's whole name where it is another task's."""
    way: str
    seed: int

    def job(self, runs: Path) -> Job:
        """Alone, there is no log but the one that gives units."""
        way = EVERY_WAY[self.way]
        guide = guide_of(runs, way.method, self.log)
        parts = [self.name, self.task, *([] if self.is_alone else [self.level]), self.way, str(self.seed)]
        out = runs / "-".join(parts)
        flags = ["train", ENVIRONMENTS[self.task], "--out", str(out), "--agent", self.name, "--seed", str(self.seed)]
        flags += ["--steps", str(STEPS[self.task]), "--guide", str(guide), *SIZES, *way.flags]
        return Job(out, tuple(flags), after=(guide,))

    @property
    def log(self) -> str:
        """The file of its log, without the ending."""
        return self.level if "-" in self.level else f"{self.task}-{self.level}"

    @property
    def is_alone(self) -> bool:
        """Whether nothing but units comes from the log."""
        return self.way.startswith(ALONE)


def guide_of(runs: Path, method: str, log: str) -> Path:
    """The run of a guide."""
    return runs / "guides" / f"{method}-{log}"


def guide(logs: Path, runs: Path, method: str, log: str) -> Job:
    """What makes a guide."""
    out = guide_of(runs, method, log)
    return Job(out, ("pretrain", str(logs / f"{log}.hdf5"), "--out", str(out), "--method", *METHODS[method]))


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
    for seed in range(3):
        for task, logs in WRONG.items():
            for log in logs:
                yield Agent("td3", task, log.removeprefix(f"{task}-"), "both", seed)
        for way in ABLATIONS:
            yield Agent("td3", "hopper", "medium", way, seed)


def recorded() -> set[tuple[str, ...]]:
    """The runs that curves.csv has, as agents by their fields."""
    file = HERE / "curves.csv"
    if not file.exists():
        return set()
    with file.open() as rows:
        return {
            tuple(row[name] for name in ("agent", "task", "log", "guidance", "seed")) for row in csv.DictReader(rows)
        }


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--only", default="", help="runs whose name holds this text")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="also runs that curves.csv has already")
    asked = parser.parse_args()
    known = set() if asked.again else recorded()
    chosen = [agent for agent in agents() if tuple(map(str, agent)) not in known]
    chosen = [agent for agent in chosen if asked.only in agent.job(asked.runs).out.name]
    # Each guide right before the first agent that needs it.
    jobs: dict[Job, None] = {}
    for agent in chosen:
        jobs[guide(asked.logs, asked.runs, EVERY_WAY[agent.way].method, agent.log)] = None
        jobs[agent.job(asked.runs)] = None
    sys.exit(what_is_left(LocalProcesses(asked.workers).run(list(jobs))))


if __name__ == "__main__":
    main()
