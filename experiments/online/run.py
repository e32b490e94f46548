"""Guided against unguided agents at `cpu` scale, on one thread per run.

    python experiments/online/run.py POLICIES RUNS [--only td3] [--workers 2]

POLICIES holds the `pretrain` runs of the state policies, one per task (hopper, halfcheetah, walker2d, cheetah-run); a
run whose policy is missing is skipped. Stop it at any time and call it again: finished runs are kept, stopped ones are
resumed. `table.py RUNS PEER` makes the table and the curves.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from actionless.execution.job import Job
from actionless.execution.local_processes import LocalProcesses
from actionless.execution.outcome import what_is_left

POLICIES = {
    "Hopper-v5": "hopper",
    "HalfCheetah-v5": "halfcheetah",
    "Walker2d-v5": "walker2d",
    "dmc:cheetah-run": "cheetah-run",
}


def jobs(policies: Path, runs: Path) -> Iterator[Job]:
    """Everything, the pairs that answer most first."""

    def job(agent: str, task: str, guided: bool, seed: int, steps: int) -> Job:
        run = runs / f"{agent}-{task.removeprefix('dmc:')}-{'guided' if guided else 'alone'}-{seed}"
        policy = policies / POLICIES[task]
        words = ["train", task, "--out", str(run), "--agent", agent, "--steps", str(steps), "--seed", str(seed)]
        words += ["--guide", str(policy), "--guidance", "paper"] * guided
        words += ["--idm-every", "2"] * (agent == "td3" and guided)  # what `cpu` scale was when these runs were made
        return Job(run, tuple(words), after=(policy,) * guided)

    for task in ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5"):
        for seed in (0, 1):
            for guided in (False, True):
                yield job("td3", task, guided, seed, 50_000)
    for seed in (0, 1):
        for guided in (False, True):
            yield job("sac", "HalfCheetah-v5", guided, seed, 50_000)
    yield job("sac", "HalfCheetah-v5", False, 2, 50_000)
    for guided in (False, True):
        yield job("decqn", "dmc:cheetah-run", guided, 0, 20_000)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policies", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--only", default="", help="runs whose name holds this text")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    chosen = [job for job in jobs(asked.policies, asked.runs) if asked.only in job.out.name]
    sys.exit(what_is_left(LocalProcesses(asked.workers).run(chosen)))


if __name__ == "__main__":
    main()
