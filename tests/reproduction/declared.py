"""Small experiments for the tests of this folder."""

from pathlib import Path

import numpy as np

from actionless.execution.watch import Watch
from actionless.offline.learner import LogFacts
from actionless.reproduction.declaration import parsed
from actionless.reproduction.logs import LogFile
from actionless.reproduction.plan import Data, Labelled, Planner


def log_file(name="hopper-medium", **changes):
    known = {
        "name": name,
        "path": f"/logs/{name}.hdf5",
        "fingerprint": f"of {name}",
        "facts": LogFacts(name, np.zeros(1)),
        "transitions": 1_000_000,
        "state_dim": 11,
        "memory": 0,
        "origin": "paper-sized",
    }
    return LogFile(**(known | changes))


def declaration(text, scale="smoke", name="mine", folder=Path()):
    return parsed(text, name, scale, f"{name}.toml", folder)


def planner(runs, logs, scale="smoke"):
    labelled = {log.name: Labelled(log.path, f"{log.fingerprint} with actions") for log in logs}
    return Planner(runs, scale, Data({log.name: log for log in logs}, labelled))


class Silent(Watch):
    def started(self, job):
        pass

    def ended(self, outcome):
        pass

    def waiting(self):
        pass
