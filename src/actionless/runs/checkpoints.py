"""Checkpoints of one run: the newest two and the best, each a directory that is whole or not there.

`step-000000012000/` holds `arrays.safetensors`, `state.json` (step, seconds, score, plain values) and
`manifest.json` (format version and the SHA-256 of the other two).
"""

import hashlib
import json
import logging
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from safetensors import SafetensorError
from safetensors.numpy import load, save

from actionless.errors import ActionlessError
from actionless.files import disk_trouble, sync_directory
from actionless.runs.trees import first_non_finite, pack, unpack

State = TypeVar("State")

FORMAT = 1
NEWEST = 2

_log = logging.getLogger("actionless")


class DamagedError(Exception):
    """A checkpoint whose bytes are not those that were written."""


class NotFiniteError(Exception):
    """A state that holds a NaN or an infinity: never saved, so that every checkpoint is a good one."""


@dataclass(frozen=True)
class Saved(Generic[State]):
    """A state and where the run stood when it was saved."""

    path: Path
    state: State
    step: int
    logged: int
    """Step of the last row of metrics."""
    seconds: float
    score: float | None


class Checkpoints:
    """The checkpoints in one directory, oldest first."""

    def __init__(self, directory: Path):
        self.directory = directory

    def save(self, state: Any, *, step: int, logged: int, seconds: float, score: float | None) -> Path:
        """Add a checkpoint, then drop all but the newest two and the best.

        What lies beyond `step` goes as well: it can only be a damaged one that a resumed run passed over.
        """
        arrays, values = pack(state)
        if (bad := first_non_finite(arrays, values)) is not None:
            raise NotFiniteError(bad)
        facts = {"step": step, "logged": logged, "seconds": seconds, "score": score, "values": values}
        parts = {"arrays.safetensors": save(arrays), "state.json": _json(facts)}
        manifest = {"format": FORMAT, "sha256": {name: _sha256(data) for name, data in parts.items()}}
        path = self.directory / _name(step)
        with disk_trouble(path, f"what was saved is safe: make room, then `actionless resume {self.directory.parent}`"):
            _write_directory(path, {**parts, "manifest.json": _json(manifest)})
            self._prune(step)
        return path

    def newest(self, like: State) -> Saved[State] | None:
        """The newest undamaged checkpoint; None where none was ever written."""
        paths = self.paths()
        for path in reversed(paths):
            try:
                return _read(path, like)
            except DamagedError as damage:
                _log.warning("checkpoint %s is damaged (%s): using the one before it", path, damage)
        if paths:
            raise ActionlessError(f"{self.directory}: no checkpoint is intact; start the run again with --overwrite")
        return None

    def best(self, like: State) -> Saved[State] | None:
        """The checkpoint with the highest score, the newest where none has a score."""
        path = self._best_path()
        try:
            return self.newest(like) if path is None else _read(path, like)
        except DamagedError as damage:
            _log.warning("checkpoint %s, the best, is damaged (%s): using the newest", path, damage)
            return self.newest(like)

    def paths(self) -> list[Path]:
        """The finished checkpoint directories, oldest first."""
        found = self.directory.iterdir() if self.directory.is_dir() else ()
        return sorted(path for path in found if re.fullmatch(r"step-\d{12}", path.name))

    def _best_path(self) -> Path | None:
        scored = [(score, path) for path in self.paths() if (score := _score(path)) is not None]
        return max(scored, key=lambda pair: pair[0])[1] if scored else None

    def _prune(self, step: int) -> None:
        for path in self.paths():
            if path.name > _name(step):
                shutil.rmtree(path)
        keep = {*self.paths()[-NEWEST:], self._best_path()}
        for path in self.paths():
            if path not in keep:
                shutil.rmtree(path)


def _name(step: int) -> str:
    return f"step-{step:012d}"


def _write_directory(path: Path, parts: dict[str, bytes]) -> None:
    path.parent.mkdir(exist_ok=True)
    for leftover in path.parent.glob(".*.writing"):
        shutil.rmtree(leftover)
    aside = path.with_name(f".{path.name}.writing")
    try:
        aside.mkdir()
        for name, data in parts.items():
            with (aside / name).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        sync_directory(aside)
        if path.exists():
            shutil.rmtree(path)
        aside.rename(path)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    sync_directory(path.parent)


def _read(path: Path, like: State) -> Saved[State]:
    parts = _verified_parts(path)
    try:
        facts = json.loads(parts["state.json"])
        arrays = load(parts["arrays.safetensors"])
    except (SafetensorError, ValueError, KeyError) as error:
        raise DamagedError(str(error)) from error
    state = unpack(like, arrays, facts["values"], path)
    return Saved(path, state, facts["step"], facts["logged"], facts["seconds"], facts["score"])


def _verified_parts(path: Path) -> dict[str, bytes]:
    try:
        manifest = json.loads((path / "manifest.json").read_bytes())
        if manifest["format"] != FORMAT:
            raise DamagedError(f"format {manifest['format']} is unknown to this version of actionless")
        parts = {name: (path / name).read_bytes() for name in manifest["sha256"]}
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"manifest.json: {error}") from error
    for name, data in parts.items():
        if _sha256(data) != manifest["sha256"][name]:
            raise DamagedError(f"{name} does not match its checksum")
    return parts


def _score(path: Path) -> float | None:
    """The score alone: pruning must not read gigabytes of arrays."""
    try:
        score = json.loads((path / "state.json").read_bytes())["score"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return score if isinstance(score, float) else None


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
