"""A stand-in for the process of a job: what it writes and how it ends is a line of shell."""

import json
from pathlib import Path

from actionless.execution.job import Job
from actionless.execution.watch import Watch

RESULT = json.dumps({"verb": "toy", "steps": 1, "seconds": 2.0, "final": {}})
WELL = f"mkdir -p $out; echo '{RESULT}' > $out/result.json"


class Recorder(Watch):
    """Keeps what it hears."""

    def __init__(self):
        self.events = []

    def started(self, job):
        self.events.append(("started", job.out.name))

    def ended(self, outcome):
        self.events.append((outcome.state, outcome.job.out.name))

    def waiting(self):
        pass

    @property
    def most_at_once(self):
        """How many jobs ran at the same time."""
        count = most = 0
        for what, _ in self.events:
            count += 1 if what == "started" else -1
            most = max(most, count)
        return most


def write_python(path: Path, **doings: str) -> Path:
    """A program that is called as `python -m actionless toy OUT`, and does for each name of OUT what is said."""
    branches = "".join(f"*/{name}) {doing};;\n" for name, doing in doings.items())
    path.write_text(f"#!/bin/sh\nout=$4\ncase $out in\n{branches}esac\n")
    path.chmod(0o755)
    return path


def job(folder: Path, name: str, *after: str, **needs: int) -> Job:
    return Job(folder / name, ("toy", str(folder / name)), tuple(folder / other for other in after), **needs)
