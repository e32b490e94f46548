"""Jobs in processes of this machine, as many side by side as it has room for."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from actionless.data.store import default_memory_limit
from actionless.execution.executor import Executor, Plan
from actionless.execution.job import Job
from actionless.execution.outcome import Outcome
from actionless.execution.watch import Watch
from actionless.runs.signals import STOP_WITH_PARENT, StopRequest
from actionless.runs.threads import thread_variables, threads_here

PROCESS_BYTES = 1_000_000_000
"""What Python, JAX and a learner take."""

_SECONDS_BETWEEN_LOOKS = 0.2

Process = subprocess.Popen[bytes]


@dataclass(frozen=True)
class LocalProcesses(Executor):
    """One process per job, each on as many threads as the job has cores.

    A process whose matrix products use one core needs no waiting between threads, so single-threaded jobs side by
    side get more done than one after the other on all cores.
    """

    workers: int | None = None
    """Jobs at the same time; if not given, as many as there are cores for, one on an accelerator, which they share."""

    def run(self, jobs: Sequence[Job], watch: Watch | None = None) -> list[Outcome]:
        """Ctrl-C and SIGTERM stop every job after its checkpoint, then end the call as they would end a process."""
        plan = Plan(jobs, watch)
        if plan.ready():
            self._work(plan, Room.here(self.workers))
        return plan.outcomes

    def _work(self, plan: Plan, room: "Room") -> None:
        running: dict[Job, Process] = {}
        told = False
        with StopRequest() as stop:
            try:
                while running or (plan.ready() and not stop):
                    if not stop:
                        _start_what_fits(plan, room, running)
                    elif not told:
                        told = True
                        _stop(running)
                    _collect(plan, running, stop)
                    plan.waiting()
                    time.sleep(_SECONDS_BETWEEN_LOOKS)
            finally:
                _stop(running)
            stop.obey()


@dataclass(frozen=True)
class Room:
    """What jobs at the same time may take. A job that asks for more than there is runs alone."""

    workers: int | None
    cores: int
    memory: int

    @classmethod
    def here(cls, workers: int | None) -> "Room":
        """What this machine has free now."""
        if workers is None and _has_accelerator():
            workers = 1
        return cls(workers, threads_here(), 2 * default_memory_limit())

    def has_room(self, job: Job, running: Collection[Job]) -> bool:
        """Whether a job fits beside those that run."""
        if not running:
            return True
        together = [*running, job]
        if self.workers is None:
            fits = sum(each.cores for each in together) <= self.cores
        else:
            fits = len(together) <= self.workers
        return fits and sum(PROCESS_BYTES + each.memory for each in together) <= self.memory


def _start_what_fits(plan: Plan, room: Room, running: dict[Job, Process]) -> None:
    for job in plan.ready():
        if room.has_room(job, running.keys()):
            running[job] = _start(job, plan.begin(job))


def _start(job: Job, output: Path) -> Process:
    with output.open("ab") as file:
        # In a session of its own: Ctrl-C reaches it through us, once.
        return subprocess.Popen(
            [sys.executable, "-m", "actionless", *job.command],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            start_new_session=True,
            env={**os.environ, STOP_WITH_PARENT: "1", **thread_variables(job.cores)},
        )


def _collect(plan: Plan, running: dict[Job, Process], stop: StopRequest) -> None:
    for job in [job for job, process in running.items() if process.poll() is not None]:
        process = running.pop(job)
        if process.stdin is not None:
            process.stdin.close()
        if process.returncode == 0 or not stop:  # a job that stops as it was told has not failed
            plan.exited(job, process.returncode)


def _stop(running: Mapping[Job, Process]) -> None:
    # Not SIGINT, which a process inherits as ignored from one that was started in the background.
    for process in running.values():
        process.send_signal(signal.SIGTERM)


def _has_accelerator() -> bool:
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return False
    # Asked of another process: a process that has looked at an accelerator keeps most of its memory.
    code = "import jax; print(jax.default_backend())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return said.stdout.strip() not in ("cpu", "")
