"""Guided against unguided agents at `cpu` scale, on one thread per run.

    python experiments/online/run.py POLICIES RUNS [--only td3] [--workers 2]

POLICIES holds the `pretrain` runs of the state policies, one per task (hopper, halfcheetah, walker2d, cheetah-run).
Stop it at any time and call it again: finished runs are kept, a stopped one goes on. `table.py RUNS PEER` makes the
table and the curves.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

POLICIES = {
    "Hopper-v5": "hopper",
    "HalfCheetah-v5": "halfcheetah",
    "Walker2d-v5": "walker2d",
    "dmc:cheetah-run": "cheetah-run",
}


class Job(NamedTuple):
    """One run."""

    agent: str
    task: str
    guided: bool
    seed: int
    steps: int

    @property
    def name(self) -> str:
        """Its directory."""
        return f"{self.agent}-{self.task.removeprefix('dmc:')}-{'guided' if self.guided else 'alone'}-{self.seed}"


def jobs() -> Iterator[Job]:
    """Everything, the pairs that answer most first."""
    for task in ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5"):
        for seed in (0, 1):
            for guided in (False, True):
                yield Job("td3", task, guided, seed, 50_000)
    for seed in (0, 1):
        for guided in (False, True):
            yield Job("sac", "HalfCheetah-v5", guided, seed, 50_000)
    yield Job("sac", "HalfCheetah-v5", False, 2, 50_000)
    for guided in (False, True):
        yield Job("decqn", "dmc:cheetah-run", guided, 0, 20_000)


def work(job: Job, policies: Path, runs: Path) -> None:
    """Begin a run, or go on with it; a run that is finished costs nothing, one whose policy is missing is left out."""
    run, policy = runs / job.name, policies / POLICIES[job.task]
    if (run / "result.json").exists() or (job.guided and not (policy / "result.json").exists()):
        return
    begin = ["train", job.task, "--out", str(run), "--agent", job.agent, "--steps", str(job.steps)]
    begin += ["--seed", str(job.seed), *(["--guide", str(policy)] if job.guided else [])]
    if job.agent == "td3" and job.guided:
        begin += ["--idm-every", "2"]  # what `cpu` scale was when these runs were made
    arguments = ["resume", str(run)] if run.exists() else begin
    subprocess.run([sys.executable, "-m", "actionless", *arguments], check=True, env={**os.environ, "NPROC": "1"})


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policies", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--only", default="", help="jobs whose name holds this text")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    with ThreadPoolExecutor(asked.workers) as pool:
        chosen = [job for job in jobs() if asked.only in job.name]
        list(pool.map(lambda job: work(job, asked.policies, asked.runs), chosen))


if __name__ == "__main__":
    main()
