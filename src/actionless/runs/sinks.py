"""Where metrics are written: always to JSON lines, and on request to TensorBoard and Weights & Biases."""

import abc
import dataclasses
import json
import logging
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Literal

from actionless.errors import require_extra
from actionless.files import disk_trouble, write_durably
from actionless.runs.directory import Run

Metrics = Mapping[str, float]
SinkName = Literal["tensorboard", "wandb"]

_MOST_OF_A_ROW = 65536

logger = logging.getLogger("actionless")


class Sink(abc.ABC):
    """Writes the metrics of a step somewhere."""

    @abc.abstractmethod
    def log(self, step: int, metrics: Metrics) -> None:
        """Record `metrics` at `step`."""

    @abc.abstractmethod
    def close(self) -> None:
        """Flush what is pending."""


class JsonLines(Sink):
    """One row per step. Rows after `step`, where a resumed run starts, are removed: they will be written again."""

    def __init__(self, path: Path, step: int):
        self._path = path
        with disk_trouble(path, "make the run directory writable"):
            if path.exists():
                _cut_back(path, step)
            self._file = path.open("ab", buffering=0)

    def log(self, step: int, metrics: Metrics) -> None:
        """Append one row."""
        row = json.dumps({"step": step, **metrics}, allow_nan=False).encode() + b"\n"
        with _disk_may_be_full(self._path):
            _write_all(self._file.fileno(), row)

    def sync(self) -> None:
        """Flush to the disk: the rows before a checkpoint must be there when the checkpoint is."""
        with _disk_may_be_full(self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; some file systems report a full disk only then."""
        with _disk_may_be_full(self._path):
            self._file.close()


class TensorBoard(Sink):
    """Event files under `RUN/tensorboard`."""

    def __init__(self, directory: Path, step: int):
        require_extra("tensorboard", "tensorboard", "logging to TensorBoard")
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # pyright: ignore
        from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore
        from tensorboard.summary.writer.event_file_writer import EventFileWriter  # pyright: ignore[reportMissingImports]

        self._directory = directory
        self._event, self._summary = Event, Summary
        with _disk_may_be_full(directory):
            self._writer = EventFileWriter(str(directory))
            # Tells TensorBoard to drop what a killed process logged after the step from which the run is resumed.
            self._writer.add_event(Event(step=step + 1, session_log=SessionLog(status=SessionLog.START)))

    def log(self, step: int, metrics: Metrics) -> None:
        """Add one scalar per metric."""
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        summary = self._summary(value=values)
        with _disk_may_be_full(self._directory):
            self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def close(self) -> None:
        """Flush and close."""
        with _disk_may_be_full(self._directory):
            self._writer.close()


class WandB(Sink):
    """A Weights & Biases run, which is resumed together with the run."""

    def __init__(self, run: Run):
        require_extra("wandb", "wandb", "logging to Weights & Biases")
        import wandb  # pyright: ignore[reportMissingImports]

        identity = run.path / "wandb-id"
        if not identity.exists():
            with _disk_may_be_full(identity):
                write_durably(identity, uuid.uuid4().hex.encode())
        self._run = wandb.init(
            project="actionless",
            name=run.path.name,
            id=identity.read_text(),
            resume="allow",
            dir=run.path,
            config=dataclasses.asdict(run.manifest),
        )

    def log(self, step: int, metrics: Metrics) -> None:
        """Send one row."""
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        """Wait until all is sent."""
        self._run.finish()


class Journal:
    """Everything that a run writes while it works: metrics.jsonl, timing.jsonl and the sinks asked for.

    Times have their own file, so that metrics.jsonl has the same bytes for the same seed.
    """

    def __init__(self, run: Run, step: int, names: Sequence[SinkName]):
        makers = {"tensorboard": lambda: TensorBoard(run.path / "tensorboard", step), "wandb": lambda: WandB(run)}
        self._others: list[Sink] = [makers[name]() for name in names]
        self._metrics = JsonLines(run.path / "metrics.jsonl", step)
        self._timing = JsonLines(run.path / "timing.jsonl", step)

    def log(self, step: int, metrics: Metrics, clock: Metrics) -> None:
        """Record what was measured at `step` and how long it took."""
        self._metrics.log(step, metrics)
        self._timing.log(step, clock)
        for sink in self._others:
            sink.log(step, {**metrics, **clock})

    def sync(self) -> None:
        """Flush the metrics to the disk."""
        self._metrics.sync()

    def close(self) -> None:
        """Flush and close everything, whichever of them fails."""
        with ExitStack() as stack:
            for sink in (self._metrics, self._timing, *self._others):
                stack.callback(sink.close)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a metrics file, without the half-written last line that a kill can leave."""
    for row, _ in _rows_with_ends(path):
        yield row


def last_row(path: Path) -> dict[str, Any] | None:
    """The newest whole row of a metrics file, read from its end."""
    if not path.exists():
        return None
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_OF_A_ROW))
        lines = file.read().split(b"\n")[:-1]
    return json.loads(lines[-1]) if lines else None


def last_values(path: Path) -> dict[str, float]:
    """The last value of each metric in a metrics file."""
    latest: dict[str, float] = {}
    for row in read_rows(path):
        latest.update(row)
    latest.pop("step", None)
    return latest


def _cut_back(path: Path, step: int) -> None:
    kept = [(row["step"], end) for row, end in _rows_with_ends(path) if row["step"] <= step]
    last, end = kept[-1] if kept else (0, 0)
    if last < step:
        logger.warning("%s ends at step %d, the checkpoint is of step %d: rows between are lost", path, last, step)
    os.truncate(path, end)


def _disk_may_be_full(path: Path) -> AbstractContextManager[None]:
    return disk_trouble(path, f"what was saved is safe: make room, then `actionless resume {path.parent}`")


def _rows_with_ends(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    end = 0
    with path.open("rb") as file:
        for line in file:
            end += len(line)
            try:
                row = json.loads(line)
            except ValueError:
                return
            if not line.endswith(b"\n"):
                return
            yield row, end


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
