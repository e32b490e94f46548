"""The cells of an experiment's tables from the runs that are there, beside the paper's numbers."""

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from actionless.analysis.scores import reference_scores
from actionless.analysis.statistics import aggregate, mean_and_error
from actionless.execution.job import has_whole_result
from actionless.reporting.records import Curve, Record, read_records
from actionless.reproduction.plan import Cell, Piece, Planned
from actionless.runs.directory import Result, read_result

LAST_EVALUATIONS = 3
"""An agent's final return is the mean of so many evaluations."""

_RESAMPLES = 10_000


@dataclass(frozen=True)
class Value:
    """What a cell may show. Every other name is a metric, by its last value in result.json."""

    title: str
    digits: int
    of: Callable[[Piece, Result], float | None]


@dataclass(frozen=True)
class Number:
    """A number of the paper, and its error where it has one."""

    mean: float
    error: float | None

    def __str__(self) -> str:
        return f"{self.mean:g}" if self.error is None else f"{self.mean:g} ± {self.error:g}"


@dataclass(frozen=True)
class Entry:
    """One cell of a table: the values of its seeds, and the paper's number."""

    table: str
    """The value that the table is of."""
    value: str
    """What this cell shows: the same, unless its line shows something else."""
    log: str
    line: str
    wanted: int
    """Seeds asked for."""
    values: tuple[float, ...]
    runs: tuple[Path, ...]
    """The runs behind the values."""
    paper: Number | None

    @property
    def mean(self) -> float | None:
        """Over the seeds that are there."""
        return float(np.mean(self.values)) if self.values else None

    @property
    def error(self) -> float | None:
        """Standard error; a single seed has none."""
        return float(mean_and_error(np.array(self.values))[1]) if len(self.values) > 1 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 %, by a bootstrap over the seeds."""
        if len(self.values) < 2:
            return None
        estimate = aggregate(np.array(self.values)[:, None], "mean", resamples=_RESAMPLES)
        return float(estimate.low), float(estimate.high)

    def text(self, *, with_paper: bool = True) -> str:
        """Mean ± standard error (the paper's number)."""
        beside = f" ({self.paper})" if with_paper and self.paper is not None else ""
        if self.mean is None:
            return f"–{beside}"
        digits = digits_of(self.value)
        error = "" if self.error is None else f" ± {self.error:.{digits}f}"
        few = "" if len(self.values) == self.wanted else f" [{len(self.values)} of {self.wanted} seeds]"
        return f"{self.mean:.{digits}f}{error}{few}{beside}"


def entries(planned: Planned) -> list[Entry]:
    """Every cell of every table, those without a finished run too."""
    paper = _paper_numbers(planned.declaration.name) if planned.declaration.shipped else {}
    return [
        _entry(cell, value, paper.get((value, cell.log.name, cell.line.name)))
        for value in planned.declaration.values
        for cell in planned.cells
    ]


def title_of(value: str) -> str:
    """What a value is called above its table."""
    return VALUES[value].title if value in VALUES else value


def digits_of(value: str) -> int:
    """Digits behind the point."""
    return VALUES[value].digits if value in VALUES else 3


def curve_of(piece: Piece, metric: str) -> Curve | None:
    """A metric of a run over its steps, as far as the run is; returns as scores where they are known."""
    record = _record(piece)
    if record is None or metric not in record.metrics:
        return None
    curve = record.metrics[metric]
    reference = None if piece.environment is None else reference_scores(piece.environment)
    if metric != "eval/return" or reference is None:
        return curve
    return Curve(curve.steps, np.array([reference.score(value) for value in curve.values]))


def _entry(cell: Cell, table: str, paper: Number | None) -> Entry:
    value = cell.line.value or table
    found = [(piece.job.out, number) for piece in cell.pieces if (number := _number(piece, value)) is not None]
    return Entry(
        table=table,
        value=value,
        log=cell.log.name,
        line=cell.line.name,
        wanted=len(cell.pieces),
        values=tuple(number for _, number in found),
        runs=tuple(run for run, _ in found),
        paper=paper,
    )


def _number(piece: Piece, value: str) -> float | None:
    if not has_whole_result(piece.job.out):
        return None
    result = read_result(piece.job.out)
    assert result is not None
    return VALUES[value].of(piece, result) if value in VALUES else result.final.get(value)


def _score(piece: Piece, result: Result) -> float | None:
    """Of an evaluation its own; of an agent that of its last evaluations; a return where no scores are known."""
    if piece.verb == "evaluate":
        return result.final.get("score", result.final.get("return"))
    curve = curve_of(piece, "eval/return")
    return None if curve is None else float(curve.values[-LAST_EVALUATIONS:].mean())


def _area(piece: Piece, result: Result) -> float | None:  # noqa: ARG001
    curve = curve_of(piece, "eval/return")
    return None if curve is None else float(curve.values[curve.steps >= 0].mean())


def _seconds(piece: Piece, result: Result) -> float | None:  # noqa: ARG001
    return 10_000 * result.seconds / result.steps if result.steps else None


VALUES: Mapping[str, Value] = {
    "score": Value("normalised score, of agents the mean of the last three evaluations", 1, _score),
    "area": Value("normalised score, mean over the whole run", 1, _area),
    "rollout_delta_error": Value(
        "Δs error per step when acting; of a random policy about 1 for each variable, with two bins ½",
        2,
        lambda _, result: result.final.get("rollout_delta_error"),
    ),
    "seconds_per_10000": Value("seconds per 10,000 steps", 1, _seconds),
    "hours": Value("hours of the whole run", 2, lambda _, result: result.seconds / 3600),
}


def _record(piece: Piece) -> Record | None:
    if not (piece.job.out / "metrics.jsonl").exists() or not (piece.job.out / "metrics.jsonl").stat().st_size:
        return None
    records, _ = read_records([piece.job.out])
    return records[0]


def _paper_numbers(name: str) -> dict[tuple[str, str, str], Number]:
    """By value, log and line."""
    file = resources.files("actionless.reproduction") / "paper" / f"{name}.csv"
    if not file.is_file():
        return {}
    return {
        (row["value"], row["log"], row["line"]): Number(
            float(row["mean"]), float(row["error"]) if row["error"] else None
        )
        for row in csv.DictReader(io.StringIO(file.read_text(encoding="utf-8")))
    }
