"""How jobs ended, and what to say of those that failed."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from actionless.errors import ActionlessError
from actionless.execution.job import Job

_EXIT_USER = 2
_COMPLAINT = "actionless: "

State = Literal["already done", "done", "failed", "skipped"]


class ProcessKilledError(ActionlessError):
    """A signal ended the job's process: there may be nothing wrong with the job, and it can be resumed."""


class _ProcessOutputError(Exception):
    """What a job's process printed: with --traceback, that shows where the error was raised there."""


@dataclass(frozen=True)
class Outcome:
    """How one job ended."""

    job: Job
    state: State
    error: Exception | None = None
    """Why it failed or was skipped: an ActionlessError if the user can fix it, another if it is a bug."""
    seconds: float = 0.0

    @property
    def is_done(self) -> bool:
        """Whether the job's result is there."""
        return self.error is None


def exit_error(job: Job, code: int, said: str, output: Path) -> Exception | None:
    """What the exit code of a job's process means; `said` is what it printed since it was started."""
    if code == 0:
        return None
    number = -code if code < 0 else code - 128
    if number in {known.value for known in signal.Signals}:
        ended = "killed" if code < 0 else "stopped"
        cause = " (out of memory?)" if code == -signal.SIGKILL else ""
        return ProcessKilledError(f"{job.out}: its process was {ended} by {signal.Signals(number).name}{cause}")
    complaints = [line for line in said.splitlines() if line.startswith(_COMPLAINT)]
    if code == _EXIT_USER and complaints:
        error = ActionlessError(complaints[-1].removeprefix(_COMPLAINT))
        error.__cause__ = _ProcessOutputError(f"{output}:\n{said}")
        return error
    return RuntimeError(f"{job.out}: its process met a bug, see {output}")


def worst_error(outcomes: Sequence[Outcome]) -> Exception | None:
    """What to raise if anything failed: a bug in one job must not hide behind a mistake of the user in another."""
    errors = [outcome.error for outcome in outcomes if outcome.state == "failed" and outcome.error is not None]
    bugs = [error for error in errors if not isinstance(error, ActionlessError)]
    return next(iter([*bugs, *errors]), None)


def what_is_left(outcomes: Sequence[Outcome]) -> str | None:
    """One line about the jobs that are not done, for `sys.exit`; None if all are."""
    states = [outcome.state for outcome in outcomes]
    failed, skipped = states.count("failed"), states.count("skipped")
    if failed + skipped == 0:
        return None
    return f"{failed} of {len(states)} jobs failed, {skipped} skipped; start again to resume them"
