"""What is said while jobs run."""

import abc
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from actionless.execution.job import Job
from actionless.execution.outcome import Outcome
from actionless.runs.sinks import last_row

_SECONDS_BETWEEN_LINES = 60.0


class Watch(abc.ABC):
    """Hears of every job as it starts and ends."""

    @abc.abstractmethod
    def started(self, job: Job) -> None:
        """A job starts; what it prints goes to `job.output`."""

    @abc.abstractmethod
    def ended(self, outcome: Outcome) -> None:
        """A job ended, or is not going to start."""

    @abc.abstractmethod
    def waiting(self) -> None:
        """Called several times a second while jobs run in other processes."""


class Lines(Watch):
    """One line on standard error for everything that happens, and one a minute for how far the jobs are."""

    def __init__(self, jobs: Sequence[Job]):
        self._total, self._ended = len(jobs), 0
        self._running: list[Job] = []
        self._last_line = time.monotonic()

    def started(self, job: Job) -> None:
        """Where its progress can be followed."""
        self._running.append(job)
        _say(f"{job.out.name}: {'resumed' if job.out.exists() else 'started'}, output in {job.output}")

    def ended(self, outcome: Outcome) -> None:
        """How it ended; of a failure, the reason and the file that tells more."""
        self._ended += 1
        self._running = [job for job in self._running if job != outcome.job]
        took = f" in {outcome.seconds:,.0f} s" if outcome.state == "done" else ""
        why = "" if outcome.error is None else f": {outcome.error}"
        see = f"; see {outcome.job.output}" if outcome.state == "failed" and outcome.job.output.exists() else ""
        _say(f"{outcome.job.out.name}: {outcome.state}{took} ({self._ended} of {self._total}){why}{see}")

    def waiting(self) -> None:
        """The step that each running job has reached."""
        now = time.monotonic()
        if now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            _say("running: " + ", ".join(f"{job.out.name} at step {_step(job.out):,}" for job in self._running))


def _step(run: Path) -> int:
    rows = [last_row(path) for path in (run / "metrics.jsonl", *run.glob("seed-*/metrics.jsonl"))]
    return sum(row["step"] for row in rows if row is not None)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
