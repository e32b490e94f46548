"""The logs of an experiment: found in a folder, or recorded with our own agents, and what is to be said of them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from actionless.data.log import Log
from actionless.data.read import MINARI_PREFIX, read
from actionless.errors import ActionlessError
from actionless.execution.executor import Executor
from actionless.execution.job import Job
from actionless.execution.outcome import worst_error
from actionless.files import written_aside
from actionless.offline.data_sets import DATA_SETS, data_set
from actionless.offline.learner import LogFacts
from actionless.settings import ScaleName
from actionless.training.record import Level, record

Origin = Literal["recorded", "paper-sized", "other", "own"]

ENVIRONMENTS = {
    "hopper": "Hopper-v5",
    "halfcheetah": "HalfCheetah-v5",
    "walker2d": "Walker2d-v5",
    "cheetah-run": "dmc:cheetah-run",
    "quadruped-walk": "dmc:quadruped-walk",
}

_PAPER_SIZES = {
    "hopper-medium-replay": 402_000,
    "halfcheetah-medium-replay": 202_000,
    "walker2d-medium-replay": 302_000,
    "random-medium-expert": 200_000,
    "medium-expert": 2_000_000,
    "medium": 1_000_000,
    "expert": 1_000_000,
}
_RECORDED_STEPS: Mapping[ScaleName, int] = {"smoke": 1_000, "cpu": 200_000, "paper": 1_000_000}
_LEVELS: Mapping[str, tuple[Level, ...]] = {
    "medium-replay": ("replay",),
    "medium": ("medium",),
    "medium-expert": ("medium", "expert"),
    "expert": ("expert",),
    "random-medium-expert": ("random", "medium", "expert"),
}


@dataclass(frozen=True)
class LogFile:
    """A log that was read, without its arrays."""

    name: str
    """The paper's data set, or the path in the declaration."""
    path: str
    fingerprint: str
    facts: LogFacts
    transitions: int
    state_dim: int
    memory: int
    """Bytes of its states."""
    origin: Origin

    @property
    def about(self) -> str:
        """What a reader of the table must know of it."""
        size = f"{self.transitions:,} transitions"
        if self.origin == "recorded":
            return f"{size}, regenerated with our own agents (`actionless record`)"
        if self.origin == "paper-sized":
            return f"{size}, about as many as the paper's log; whether it is that log was not checked"
        return size if self.origin == "own" else f"{size}, regenerated: the paper's log has {_paper_size(self.name):,}"


def environment_of(name: str) -> str | None:
    """Where the agents of a data set act."""
    return next((known for robot, known in ENVIRONMENTS.items() if name.startswith(f"{robot}-")), None)


def robot_of(name: str) -> str:
    """The part of a data set's name that says what acts: hopper."""
    return next((robot for robot in ENVIRONMENTS if name.startswith(f"{robot}-")), name)


def found_in(folder: Path) -> dict[str, Path]:
    """The data sets of the paper that a folder holds, by their names."""
    if not folder.is_dir():
        raise ActionlessError(f"{folder}: no such folder; give --data a folder with logs")
    found: dict[str, Path] = {}
    for path in sorted(path for path in folder.iterdir() if not path.name.startswith(".")):
        # A log's name may have an ending or none, as pickles of the factorised Control Suite do.
        name = data_set(path.name) or data_set(path.stem)
        if name is None or path.suffix == ".run":
            continue
        if name in found:
            raise ActionlessError(f"{path}: stands for {name}, as {found[name]} does; keep one of them in the folder")
        found[name] = path
    return found


def located(names: Sequence[str], folder: Path | None, declared_in: Path) -> dict[str, str]:
    """The path of each log. Data sets that are missing are named, with what to do."""
    wanted = [name for name in names if name in DATA_SETS]
    there = found_in(folder) if folder is not None else {}
    if missing := [name for name in wanted if name not in there]:
        files = ", ".join(_file_of(name) for name in missing)
        where = "no --data was given" if folder is None else f"{folder} lacks"
        raise ActionlessError(
            f"{where}: needed are {files}; give --data FOLDER with these logs (D4RL's, factorised DMC's or your own "
            "under these names), take --data-from-record to make them with our own agents, or choose less with --tasks"
            if folder is None
            else f"{where} {files}; add these logs, take --data-from-record to make logs with our own agents, or "
            "choose less with --tasks"
        )
    return {name: str(there[name]) if name in there else _own_path(name, declared_in) for name in names}


def described(name: str, path: str, *, recorded: bool) -> LogFile:
    """Read a log for what the plan needs to know of it."""
    log = read(path)
    origin: Origin = "own"
    if name in DATA_SETS:
        same_size = abs(len(log) / _paper_size(name) - 1) < 0.02
        origin = "recorded" if recorded else "paper-sized" if same_size else "other"
    memory = log.states.nbytes + log.next_states.nbytes
    return LogFile(name, path, log.fingerprint, LogFacts.of(log), len(log), log.state_dim, memory, origin)


def labelled_parts(name: str, located_: Mapping[str, str], folder: Path | None) -> list[str]:
    """The logs from which an expert inverse dynamics model learns: all of that robot; of an own log, the log itself.

    Medium-expert is left out where medium and expert are there, which hold what it holds.
    """
    if name not in DATA_SETS or folder is None:
        return [located_[name]]
    robot = robot_of(name)
    levels = {
        key.removeprefix(f"{robot}-"): str(path) for key, path in found_in(folder).items() if robot_of(key) == robot
    }
    if {"medium", "expert"} <= levels.keys():
        levels.pop("medium-expert", None)
    return [levels[level] for level in sorted(levels)]


def join(parts: Sequence[str | Path], out: Path) -> Path:
    """Several logs with actions as one file, written once."""
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        logs = [read(part, with_actions=True) for part in parts]
        with written_aside(out) as aside, aside.open("wb") as file:
            np.savez(file, allow_pickle=False, **_arrays(logs))
    return out


def record_missing(names: Iterable[str], folder: Path, scale: ScaleName, executor: Executor) -> None:
    """Make the data sets that a folder lacks with our own agents: one agent for each robot, trained there."""
    folder.mkdir(parents=True, exist_ok=True)
    there = found_in(folder)
    missing = [name for name in dict.fromkeys(names) if name in DATA_SETS and name not in there]
    agents = {robot: folder / f"{robot}.run" for robot in dict.fromkeys(map(robot_of, missing))}
    jobs = [
        Job(
            out,
            (
                "train",
                ENVIRONMENTS[robot],
                "--out",
                str(out),
                "--scale",
                scale,
                "--agent",
                _agent(robot),
                "--snapshots",
            ),
        )
        for robot, out in agents.items()
    ]
    error = worst_error(executor.run(jobs)) if jobs else None
    if error is not None:
        raise error
    for name in missing:
        robot = robot_of(name)
        parts = [_recorded(robot, level, folder, scale) for level in _LEVELS[name.removeprefix(f"{robot}-")]]
        if len(parts) > 1:
            join(parts, folder / f"{name}.npz")


def _recorded(robot: str, level: Level, folder: Path, scale: ScaleName) -> Path:
    out = folder / f"{robot}-{'medium-replay' if level == 'replay' else level}.hdf5"
    if not out.exists():
        run, steps = folder / f"{robot}.run", _RECORDED_STEPS[scale]
        record(ENVIRONMENTS[robot], out, level=level, steps=steps, run=run, scale=scale, agent=_agent(robot))
    return out


def _agent(robot: str) -> str:
    return "decqn" if ENVIRONMENTS[robot].startswith("dmc:") else "td3"


def _arrays(logs: Sequence[Log]) -> dict[str, np.ndarray]:
    def together(name: str) -> np.ndarray:
        return np.concatenate([np.asarray(getattr(log, name)) for log in logs])

    terminals, ends = together("terminals"), together("ends")
    names = {name: together(name) for name in ("states", "next_states", "actions", "rewards")}
    return {**names, "terminals": terminals, "timeouts": ends & ~terminals}


def _paper_size(name: str) -> int:
    return next(size for ending, size in _PAPER_SIZES.items() if name.endswith(ending))


def _file_of(name: str) -> str:
    robot = robot_of(name)
    if ENVIRONMENTS[robot].startswith("dmc:"):
        return name
    return f"{robot}_{name.removeprefix(f'{robot}-').replace('-', '_')}-v2.hdf5"


def _own_path(name: str, declared_in: Path) -> str:
    if name.startswith(MINARI_PREFIX) or Path(name).is_absolute() or re.search(r"^\w+://", name):
        return name
    return str(declared_in / name)
