"""What every executor is, and the book-keeping that all of them share: order, failures, what is skipped."""

import abc
import graphlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from actionless.errors import ActionlessError
from actionless.execution.job import Job, is_done
from actionless.execution.outcome import Outcome, exit_error
from actionless.execution.watch import Lines, Watch


class Executor(abc.ABC):
    """Runs jobs. It keeps no state: a call that was stopped is made again, and finds on the disk what is left to do.

    All that an executor and its jobs share is the directory that the runs are in.
    """

    @abc.abstractmethod
    def run(self, jobs: Sequence[Job], watch: Watch | None = None) -> list[Outcome]:
        """Take every job to its end, each after those that it needs; the outcomes are in the order of the jobs.

        A job that fails stops none but those that come after it.
        """


@dataclass(frozen=True)
class _Started:
    output: Path
    written_before: int
    at: float


class Plan:
    """Which job may start next. An executor calls `begin` and `exited` (or `ended`) for each that it runs."""

    def __init__(self, jobs: Sequence[Job], watch: Watch | None = None):
        _check(jobs)
        self._jobs = tuple(jobs)
        self._watch = Lines(jobs) if watch is None else watch
        self._waiting = list(jobs)
        self._running: dict[Job, _Started] = {}
        self._outcomes: dict[Job, Outcome] = {}
        needed = {_key(path): path for job in jobs for path in job.after}
        elsewhere = needed.keys() - {_key(job.out) for job in jobs}
        self._done = {path for path in elsewhere if is_done(path)}
        for job in jobs:
            if job.is_done:
                self._close(Outcome(job, "already done"))
        for path in sorted(elsewhere - self._done):
            self._skip_after(needed[path])

    def ready(self) -> list[Job]:
        """The jobs that may start now."""
        return [job for job in self._waiting if {_key(path) for path in job.after} <= self._done]

    def begin(self, job: Job) -> Path:
        """Say that a job starts; what it prints is to be appended to the file that is returned."""
        self._waiting.remove(job)
        job.gather_output()  # of an earlier call that was stopped
        output = job.output
        output.parent.mkdir(parents=True, exist_ok=True)
        self._running[job] = _Started(output, output.stat().st_size if output.exists() else 0, time.monotonic())
        self._watch.started(job)
        return output

    def exited(self, job: Job, code: int) -> None:
        """Say that a job's process ended."""
        started = self._running[job]
        with started.output.open("rb") as output:
            output.seek(started.written_before)
            said = output.read().decode(errors="replace")
        job.gather_output()
        self.ended(job, exit_error(job, code, said, job.output))

    def ended(self, job: Job, error: Exception | None) -> None:
        """Say that a job ended, well or with an error."""
        job.gather_output()
        started = self._running.pop(job)
        if error is None and not job.is_done:
            error = RuntimeError(f"{job.out}: it ended without a whole result.json there, see {job.output}")
        state = "done" if error is None else "failed"
        self._close(Outcome(job, state, error, time.monotonic() - started.at))

    def waiting(self) -> None:
        """To be called several times a second while jobs run elsewhere: it shows how far they are."""
        self._watch.waiting()

    @property
    def outcomes(self) -> list[Outcome]:
        """In the order of the jobs."""
        return [self._outcomes[job] for job in self._jobs]

    def _close(self, outcome: Outcome) -> None:
        self._outcomes[outcome.job] = outcome
        if outcome.job in self._waiting:
            self._waiting.remove(outcome.job)
        self._watch.ended(outcome)
        if outcome.is_done:
            self._done.add(_key(outcome.job.out))
        else:
            self._skip_after(outcome.job.out)

    def _skip_after(self, path: Path) -> None:
        for job in [job for job in self._waiting if _key(path) in map(_key, job.after)]:
            if job in self._waiting:  # not skipped meanwhile, by way of another job
                self._close(Outcome(job, "skipped", ActionlessError(f"it needs {path}, which is not done")))


def _check(jobs: Sequence[Job]) -> None:
    outs = [_key(job.out) for job in jobs]
    twice = sorted({str(out) for out in outs if outs.count(out) > 1})
    if twice:
        raise ValueError(f"several jobs for {', '.join(twice)}: each needs a directory of its own")
    try:
        graphlib.TopologicalSorter({_key(job.out): [_key(path) for path in job.after] for job in jobs}).prepare()
    except graphlib.CycleError as error:
        raise ValueError(f"jobs wait for each other: {' after '.join(map(str, error.args[1]))}") from None


def _key(path: Path) -> Path:
    return path.resolve()
