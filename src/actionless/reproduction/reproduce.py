"""`reproduce`: plan experiments, run what is missing, write their tables and figures."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from actionless.errors import ActionlessError
from actionless.execution.executor import Executor
from actionless.execution.job import Job
from actionless.execution.local_processes import LocalProcesses
from actionless.execution.outcome import Outcome, what_is_left, worst_error
from actionless.execution.slurm import array_script
from actionless.execution.watch import Lines, Watch
from actionless.files import disk_trouble
from actionless.offline.data_sets import DATA_SETS
from actionless.offline.learner import LogFacts
from actionless.reporting.report import report
from actionless.reproduction import theorem
from actionless.reproduction.declaration import Declaration, load, shipped_names
from actionless.reproduction.estimate import Estimate, duration, estimated, measure, sizes_of
from actionless.reproduction.figure import write_figure
from actionless.reproduction.logs import (
    LogFile,
    described,
    environment_of,
    join,
    labelled_parts,
    located,
    record_missing,
    robot_of,
)
from actionless.reproduction.plan import Data, Labelled, Piece, Planned, Planner
from actionless.reproduction.tables import write_tables
from actionless.settings import Count, ScaleName, Settings

ALL = "all"
DEFAULT_OUT = Path("reproduced")

_STATE_DIMS = {"hopper": 11, "halfcheetah": 17, "walker2d": 17, "cheetah-run": 17, "quadruped-walk": 78}


@dataclass(frozen=True)
class ReproduceSettings(Settings):
    """How much of an experiment is run, on which logs."""

    scale: ScaleName = "cpu"
    """Preset sizes: seconds for a test, minutes on two cores for each run, or the paper's."""
    data: str | None = None
    """A folder with the logs, under the names that D4RL and factorised DMC give them."""
    data_from_record: bool = False
    """Make logs that the folder lacks with our own agents. Without a folder, they are put into OUT/recorded."""
    seeds: Count | None = None
    """Number of seeds; if not given, the declaration's, or 1, 3 and 5 at the scales smoke, cpu and paper."""
    tasks: tuple[str, ...] = ()
    """Only logs of these robots or environments, or these logs: hopper, Hopper-v5, hopper-medium."""

    @property
    def flags(self) -> list[str]:
        """The same on the command line."""
        words = ["--scale", self.scale]
        words += [] if self.data is None else ["--data", self.data]
        words += ["--data-from-record"] * self.data_from_record
        words += [] if self.seeds is None else ["--seeds", str(self.seeds)]
        return words + (["--tasks", ",".join(self.tasks)] if self.tasks else [])


@dataclass(frozen=True)
class Experiments:
    """What is asked for: the runs of all experiments, and the folder of each."""

    out: Path
    settings: ReproduceSettings
    planned: tuple[Planned, ...]
    pieces: tuple[Piece, ...]

    @property
    def jobs(self) -> list[Job]:
        """All runs, each after those that it needs."""
        return [piece.job for piece in self.pieces]

    def folder(self, planned: Planned) -> Path:
        """Where a table or figure is written."""
        return self.out / planned.declaration.name

    def command(self, planned: Planned) -> str:
        """What makes it again."""
        name = planned.declaration.name
        asked = name if planned.declaration.shipped else str(planned.declaration.folder / f"{name}.toml")
        return shlex.join(["actionless", "reproduce", asked, "--out", str(self.out), *self.settings.flags])

    def write_tables(self, planned: Planned) -> None:
        """From what is finished so far."""
        folder, command = self.folder(planned), self.command(planned)
        with disk_trouble(folder, "make room or choose an --out that can be written"):
            if planned.declaration.computed is None:
                write_tables(planned, folder, command)
            else:
                theorem.write(folder, planned.declaration.title, command)

    def write(self) -> list[Path]:
        """Every table, figure and page; returns their folders."""
        for planned in self.planned:
            self.write_tables(planned)
            write_figure(planned, self.folder(planned))
            if runs := [run for run in _learnt(planned) if _has_metrics(run)]:
                report(runs, self.folder(planned) / "page.html", overwrite=True)
        return [self.folder(planned) for planned in self.planned]

    def estimate(self) -> Estimate:
        """What is left to do, by a short measurement."""
        return estimated(self.pieces, measure(sizes_of(self.pieces)), self.settings.scale)

    def slurm_script(self) -> str:
        """The jobs as an array of SLURM."""
        return array_script(self.jobs, "reproduce")


@dataclass(frozen=True)
class Listed:
    """What `--list` says of an experiment."""

    name: str
    title: str
    robots: tuple[str, ...]
    takes: tuple[str, ...]
    """At each scale."""


def reproduce(
    names: str | Path | Sequence[str | Path],
    *,
    out: str | Path = DEFAULT_OUT,
    settings: ReproduceSettings | None = None,
    scale: ScaleName = "cpu",
    data: str | Path | None = None,
    data_from_record: bool = False,
    seeds: int | None = None,
    tasks: Sequence[str] = (),
    workers: int | None = None,
    ray: str | None = None,
    executor: Executor | None = None,
) -> list[Path]:
    """Make tables and figures of the paper, or of your own TOML files; return the folder of each.

        actionless.reproduce("table-1", data="logs", scale="smoke")

    What is finished already in `out` is kept, whichever experiment it was made for; what stopped is resumed. Tables
    are written anew whenever a run ends. `workers` processes run side by side, or the jobs of a Ray cluster at the
    address `ray`, or what another `executor` does.
    """
    asked = settings or ReproduceSettings(scale, _text(data), data_from_record, seeds, tuple(tasks))
    chosen = executor or chosen_executor(workers, ray)
    experiments = experiments_of(names, Path(out), asked, chosen)
    for planned in experiments.planned:
        experiments.write_tables(planned)
    outcomes = chosen.run(experiments.jobs, _Collecting(experiments))
    folders = experiments.write()
    error = worst_error(outcomes)
    if error is not None:
        kind = ActionlessError if isinstance(error, ActionlessError) else RuntimeError
        raise kind(f"{error} ({what_is_left(outcomes)})") from error
    return folders


def chosen_executor(workers: int | None, ray: str | None) -> Executor:
    """Processes of this machine, or a Ray cluster."""
    if ray is None:
        return LocalProcesses(workers)
    if workers is not None:
        raise ActionlessError("--workers and --ray: give one of them; on Ray, the cluster's cores decide")
    from actionless.execution.ray_cluster import RayCluster

    return RayCluster(ray)


def experiments_of(
    names: str | Path | Sequence[str | Path], out: Path, settings: ReproduceSettings, executor: Executor
) -> Experiments:
    """Read declarations and logs, and plan. The executor is for logs that are to be recorded first."""
    asked = [str(names)] if isinstance(names, str | Path) else [str(name) for name in names]
    if not asked:
        raise ActionlessError(f"what is to be reproduced? Choose {', '.join(shipped_names())}, {ALL}, or a FILE.toml")
    asked = [each for name in asked for each in (shipped_names() if name == ALL else [name])]
    declarations = [load(name, settings.scale) for name in dict.fromkeys(asked)]
    logs = {each.name: _chosen_logs(each, settings.tasks) for each in declarations}
    data = _data(declarations, logs, out, settings, executor)
    planner = Planner(out.absolute() / "runs", settings.scale, data)
    planned = [planner.plan(each, logs[each.name], settings.seeds or each.seeds) for each in declarations]
    return Experiments(out, settings, tuple(planned), tuple(planner.pieces.values()))


def listing() -> list[Listed]:
    """Each experiment of the package, and what it takes on this machine at each scale."""
    scales: Sequence[ScaleName] = get_args(ScaleName)
    pieces: dict[tuple[str, ScaleName], list[Piece]] = {}
    for scale in scales:
        for name in shipped_names():
            declared = load(name, scale)
            data = Data(
                {log: _supposed(log) for log in declared.logs}, {log: Labelled(log, log) for log in declared.logs}
            )
            planner = Planner(Path("runs"), scale, data)
            planner.plan(declared, declared.logs, 1)
            pieces[name, scale] = list(planner.pieces.values())
    rates = measure({size for each in pieces.values() for size in sizes_of(each)})
    rows = []
    for name in shipped_names():
        declared = load(name, "paper")
        robots = tuple(dict.fromkeys(map(robot_of, declared.logs)))
        words = []
        for scale in scales:
            one, seeds = estimated(pieces[name, scale], rates, scale), load(name, scale).seeds
            words.append(f"{scale}: {one.runs * seeds:,} runs, {duration(one.seconds * seeds)}")
        rows.append(Listed(name, declared.title, robots, tuple(words)))
    return rows


class _Collecting(Watch):
    """Says what happens, and writes the tables that a finished run is a part of."""

    def __init__(self, experiments: Experiments):
        self._lines, self._experiments = Lines(experiments.jobs), experiments

    def started(self, job: Job) -> None:
        """A line."""
        self._lines.started(job)

    def ended(self, outcome: Outcome) -> None:
        """A line, and the tables."""
        self._lines.ended(outcome)
        if outcome.state == "done":
            for planned in self._experiments.planned:
                if any(piece.job.out == outcome.job.out for cell in planned.cells for piece in cell.pieces):
                    self._experiments.write_tables(planned)

    def waiting(self) -> None:
        """A line a minute."""
        self._lines.waiting()


def _chosen_logs(declared: Declaration, tasks: Sequence[str]) -> list[str]:
    if not tasks:
        return list(declared.logs)

    def belongs(log: str, task: str) -> bool:
        return task in (log, robot_of(log), environment_of(log), declared.environment)

    chosen = [log for log in declared.logs if any(belongs(log, task) for task in tasks)]
    if not chosen and declared.computed is None:
        raise ActionlessError(f"{declared.name}: no log of {', '.join(tasks)}; its logs are {', '.join(declared.logs)}")
    return chosen


def _data(
    declarations: Sequence[Declaration],
    logs: Mapping[str, Sequence[str]],
    out: Path,
    settings: ReproduceSettings,
    executor: Executor,
) -> Data:
    """Find or make the logs and read what the plan needs of them."""
    folder = Path(settings.data) if settings.data is not None else None
    recorded: set[str] = set()
    if settings.data_from_record:
        wanted = {name for names in logs.values() for name in names if name in DATA_SETS}
        recorded_in = out / "recorded" / settings.scale
        lacking = wanted if folder is None else wanted - _there(folder)
        record_missing(sorted(lacking), recorded_in, settings.scale, executor)
        recorded = set(lacking)
    files: dict[str, LogFile] = {}
    labelled: dict[str, Labelled] = {}
    for declared in declarations:
        mine = [name for name in logs[declared.name] if name not in files]
        given = [name for name in mine if name not in recorded]
        paths = located(given, folder, declared.folder)
        if len(given) < len(mine):
            paths |= located([name for name in mine if name in recorded], out / "recorded" / settings.scale, Path())
        for name, path in paths.items():
            files[name] = described(name, path, recorded=name in recorded)
        if any("evaluate" in line.verbs for line in declared.lines):
            for name in logs[declared.name]:
                where = out / "recorded" / settings.scale if name in recorded else folder
                labelled.setdefault(name, _labelled(name, files[name], where, out))
    return Data(files, labelled)


def _there(folder: Path) -> set[str]:
    from actionless.reproduction.logs import found_in

    return set(found_in(folder))


def _labelled(name: str, file: LogFile, folder: Path | None, out: Path) -> Labelled:
    parts = labelled_parts(name, {name: file.path}, folder)
    fingerprints = "-".join(sorted(described(part, part, recorded=False).fingerprint[:16] for part in parts))
    if len(parts) == 1:
        return Labelled(parts[0], fingerprints)
    short = f"{len(parts)}-{fingerprints[:8]}"
    return Labelled(str(join(parts, out.absolute() / "labelled" / f"{robot_of(name)}-{short}.npz")), fingerprints)


def _supposed(name: str) -> LogFile:
    """A log that is not there, for an estimate."""
    facts = LogFacts(name, np.zeros(1))
    return LogFile(name, name, name, facts, 1_000_000, _STATE_DIMS.get(robot_of(name), 17), 0, "own")


def _learnt(planned: Planned) -> list[Path]:
    """The runs that a page can show: of an evaluation, the policy's."""
    pieces = [piece for cell in planned.cells for piece in cell.pieces]
    return list(dict.fromkeys(piece.job.after[0] if piece.verb == "evaluate" else piece.job.out for piece in pieces))


def _has_metrics(run: Path) -> bool:
    file = run / "metrics.jsonl"
    return file.exists() and file.stat().st_size > 0


def _text(path: str | Path | None) -> str | None:
    return None if path is None else str(path)
