"""Read runs from disk, finished or not: their settings, and their metrics so far."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from actionless.errors import ActionlessError
from actionless.old_runs import upgraded_config
from actionless.runs.directory import Manifest, Result, read_manifest, read_result
from actionless.runs.several_seeds import has_several_seeds
from actionless.runs.sinks import read_rows


@dataclass(frozen=True)
class Curve:
    """One metric of one run, at the steps where it was measured."""

    steps: Int[np.ndarray, " rows"]
    values: Float[np.ndarray, " rows"]


@dataclass(frozen=True)
class Record:
    """One run of one seed."""

    path: Path
    manifest: Manifest
    result: Result | None
    """None if the run is not finished."""
    step: int
    """The last step that was measured."""
    metrics: dict[str, Curve]

    @property
    def from_log(self) -> int:
        """Number of updates before the first step in the environment; their steps are negative."""
        return _from_log(self.manifest)

    @property
    def progress(self) -> str:
        """The last measured step and the total number of steps, as text."""
        steps = self.manifest.config.get("steps")
        total = "?" if steps is None else f"{self.from_log + steps:,}"
        return f"step {self.from_log + self.step:,} of {total}"


def read_records(paths: Sequence[Path]) -> tuple[list[Record], list[str]]:
    """Read the runs (one per seed if a run has several) and return notes about those left out."""
    if not paths:
        raise ActionlessError("nothing to report: give the directory of a run")
    records: dict[Path, Record] = {}
    notes = []
    for path in paths:
        for run in _runs_of(path):
            if run.resolve() in records:
                continue
            record = _read_record(run)
            if record is not None:
                records[run.resolve()] = record
            elif run != path:
                notes.append(f"{run} has no metrics yet and is left out.")
            else:
                raise ActionlessError(f"{run}: no metrics yet; wait for its first row, or `actionless resume {run}`")
    if not records:
        raise ActionlessError(f"{paths[0]}: none of its seeds has metrics yet; `actionless resume {paths[0]}`")
    return list(records.values()), notes


def _runs_of(path: Path) -> list[Path]:
    if not has_several_seeds(read_manifest(path)):
        return [path]
    seeds = [run.parent for run in path.glob("seed-*/run.json")]
    return sorted(seeds, key=lambda seed: (len(seed.name), seed.name))


def _read_record(path: Path) -> Record | None:
    rows = _read_metrics(path / "metrics.jsonl")
    if not rows:
        return None
    names = dict.fromkeys(name for row in rows for name in row if name != "step")
    manifest = read_manifest(path)
    manifest = dataclasses.replace(manifest, config=upgraded_config(manifest.verb, manifest.config))
    first = _from_log(manifest)
    metrics = {name: _curve(rows, name, first) for name in names}
    return Record(path, manifest, _read_result(path), rows[-1]["step"] - first, metrics)


def _from_log(manifest: Manifest) -> int:
    return manifest.config.get("offline_steps") or 0


def _curve(rows: list[dict[str, Any]], name: str, first: int) -> Curve:
    measured = [row for row in rows if name in row]
    return Curve(np.array([row["step"] - first for row in measured]), np.array([float(row[name]) for row in measured]))


def _read_result(path: Path) -> Result | None:
    try:
        return read_result(path)
    except (ValueError, TypeError) as error:
        raise ActionlessError(f"{path / 'result.json'}: {error}; restore it or start the run again") from error


def _read_metrics(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    whole_lines = path.read_bytes().count(b"\n")  # counted first: the run may add rows while they are read
    rows = list(read_rows(path))
    bad = next((number for number, row in enumerate(rows, 1) if not _is_row(row)), None)
    if bad is None and len(rows) < whole_lines:
        bad = len(rows) + 1
    if bad is None:
        bad = next((n for n in range(2, len(rows) + 1) if rows[n - 1]["step"] <= rows[n - 2]["step"]), None)
    if bad is not None:
        raise ActionlessError(
            f"{path}, line {bad}: not a row of metrics with a higher step than the row before; "
            "correct or delete the line, or leave out the run"
        )
    return rows


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("step"), int)
        and all(isinstance(value, int | float) and math.isfinite(value) for value in row.values())
    )
