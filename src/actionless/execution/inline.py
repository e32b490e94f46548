"""Jobs in this process, one after the other."""

import contextlib
import importlib
import os
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from actionless.errors import ActionlessError
from actionless.execution.executor import Executor, Plan
from actionless.execution.job import Job
from actionless.execution.outcome import Outcome
from actionless.execution.watch import Watch


class Inline(Executor):
    """Runs each job as a call of the command line, on the threads that this process has, whatever the job asks for.

    Progress is shown as ever. What a job prints on standard output goes to its output file.
    """

    def run(self, jobs: Sequence[Job], watch: Watch | None = None) -> list[Outcome]:
        """One by one; Ctrl-C and SIGTERM end the job that runs, after its checkpoint, and the call."""
        plan = Plan(jobs, watch)
        while ready := plan.ready():
            job = ready[0]
            plan.ended(job, _error_of(job, plan.begin(job)))
        return plan.outcomes


def _error_of(job: Job, output: Path) -> Exception | None:
    # By name, as a process of its own would call it: the command line is made of what is made of this.
    call = importlib.import_module("actionless.cli").call
    with output.open("a", encoding="utf-8") as file, contextlib.redirect_stdout(file), _environment_kept():
        try:
            call(job.command)
        except ActionlessError as error:
            return error
        except Exception as error:
            traceback.print_exc(file=file)
            return error
    return None


@contextlib.contextmanager
def _environment_kept() -> Iterator[None]:
    """Undo what a job sets for itself: `resume` sets the number of threads."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
