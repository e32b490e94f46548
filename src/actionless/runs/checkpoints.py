"""Checkpoints of one run: the newest two and the best, each a directory that is written atomically.

`step-000000012000/` holds `arrays.safetensors`, `state.json` (step, seconds, score, plain values) and
`manifest.json` (format version and the SHA-256 of the other two).
"""

import functools
import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from actionless.errors import ActionlessError
from actionless.files import disk_trouble, sync_directory
from actionless.trees import first_non_finite, pack, unpack

State = TypeVar("State")
Value = TypeVar("Value")

FORMAT = 1

_ARRAYS, _STATE, _MANIFEST = "arrays.safetensors", "state.json", "manifest.json"

logger = logging.getLogger("actionless")


class DamagedError(Exception):
    """A checkpoint that cannot be read, or whose checksum is wrong."""


class NewerFormatError(ActionlessError):
    """A checkpoint that only a newer version can read: it is not treated as damaged and never deleted."""


class NotFiniteError(Exception):
    """A state that contains NaN or infinity. It is never saved, so every checkpoint is good."""


@dataclass(frozen=True)
class Saved(Generic[State]):
    """A loaded checkpoint: the state, and how far the run was when it was saved."""

    path: Path
    state: State
    step: int
    logged: int
    """Step of the last row of metrics."""
    seconds: float
    score: float | None


class Checkpoints:
    """The checkpoints in one directory, oldest first."""

    def __init__(self, directory: Path, keep_from: int | None = None):
        """All checkpoints from the step `keep_from` on are kept, where it is given."""
        self.directory = directory
        self._keep_from = keep_from

    def save(self, state: Any, *, step: int, logged: int, seconds: float, score: float | None) -> Path:
        """Write a checkpoint, then delete all but the newest two, the best (the highest score) and those to be kept.

        Checkpoints after `step` are deleted as well: a resumed run has skipped them because they are damaged.
        """
        arrays, values = pack(state)
        if (bad := first_non_finite(arrays, values)) is not None:
            raise NotFiniteError(bad)
        facts = {"step": step, "logged": logged, "seconds": seconds, "score": score, "values": values}
        path = self.directory / f"step-{step:012d}"
        with disk_trouble(path, f"what was saved is safe: make room, then `actionless resume {self.directory.parent}`"):
            _write(path, arrays, facts)
            self._prune(path)
        return path

    def load(self, path: Path, like: State, old_names: Mapping[str, str] | None = None) -> Saved[State]:
        """One of the checkpoints; a damaged one is refused."""
        try:
            return _read(path, like, old_names or {})
        except DamagedError as error:
            raise ActionlessError(f"{path}: the checkpoint is damaged ({error}): restore it, or run again") from error

    def newest(self, like: State, old_names: Mapping[str, str] | None = None) -> Saved[State] | None:
        """The newest undamaged checkpoint; None where none was ever written.

        `old_names` translates names that older versions wrote: a regular expression for each part of a name that
        changed, and what replaces it today.
        """
        damage = None
        for path in reversed(self.paths()):
            try:
                return _read(path, like, old_names or {})
            except DamagedError as error:
                damage = damage or error
                logger.warning("checkpoint %s is damaged (%s): using the one before it", path, error)
        if damage is not None:
            raise ActionlessError(
                f"{self.directory}: no checkpoint is intact ({damage}); restore one, "
                "or start the run again with --overwrite"
            )
        return None

    def last_good(self) -> Path | None:
        """The newest checkpoint from which the run can be resumed."""
        return _first(_is_intact, reversed(self.paths()))

    def paths(self) -> list[Path]:
        """The finished checkpoint directories, oldest first."""
        with disk_trouble(self.directory, "make it readable"):
            found = list(self.directory.iterdir()) if self.directory.is_dir() else []
        return sorted(path for path in found if re.fullmatch(r"step-\d{12}", path.name))

    def _prune(self, written: Path) -> None:
        """Delete old checkpoints; a damaged one counts neither as one of the newest nor as the best."""
        before = [path for path in self.paths() if path.name < written.name]
        scores = {path: score for path in (*before, written) if (score := _score(path)) is not None}
        is_intact = functools.cache(lambda path: path == written or _is_intact(path))
        best = _first(is_intact, sorted(scores, key=lambda path: scores[path], reverse=True))
        last = [path for path in before if self._keep_from is not None and step_of(path) >= self._keep_from]
        keep = {written, _first(is_intact, reversed(before)), best, *last}
        for path in self.paths():
            if path not in keep and not _is_of_newer_format(path):
                shutil.rmtree(path)


def step_of(path: Path) -> int:
    """The step that a checkpoint was written at."""
    return int(path.name.removeprefix("step-"))


def _first(accept: Callable[[Path], bool], paths: Iterable[Path]) -> Path | None:
    return next(filter(accept, paths), None)


def _write(path: Path, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
    if not path.parent.is_dir():
        path.parent.mkdir()
        sync_directory(path.parent.parent)
    for leftover in path.parent.glob(".*.writing"):
        shutil.rmtree(leftover)
    aside = path.with_name(f".{path.name}.writing")
    try:
        aside.mkdir()
        _write_arrays(aside / _ARRAYS, arrays)
        (aside / _STATE).write_bytes(_json(facts))
        digests = {name: _flushed_digest(aside / name) for name in (_ARRAYS, _STATE)}
        (aside / _MANIFEST).write_bytes(_json({"format": FORMAT, "sha256": digests}))
        _flushed_digest(aside / _MANIFEST)
        sync_directory(aside)
        if path.exists():
            shutil.rmtree(path)
        aside.rename(path)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    sync_directory(path.parent)


def _write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write directly to the file: a second copy of a replay could take gigabytes."""
    try:
        save_file(arrays, path)
    except SafetensorError as error:
        refusal = re.search(r"os error (\d+)", str(error))
        if refusal is None:
            raise
        raise OSError(int(refusal[1]), os.strerror(int(refusal[1]))) from error


def _flushed_digest(path: Path) -> str:
    """Flush a file to the disk and return its SHA-256."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path, like: State, old_names: Mapping[str, str]) -> Saved[State]:
    _verify(path)
    try:
        facts = json.loads((path / _STATE).read_bytes())
        arrays = load_file(path / _ARRAYS)
    except (OSError, SafetensorError, ValueError) as error:
        raise DamagedError(str(error)) from error
    state = unpack(like, _renamed(arrays, old_names), _renamed(facts["values"], old_names), path)
    return Saved(path, state, facts["step"], facts["logged"], facts["seconds"], facts["score"])


def _renamed(parts: dict[str, Value], old_names: Mapping[str, str]) -> dict[str, Value]:
    """The same parts under the names of today's version."""
    for pattern, today in old_names.items():
        parts = {re.sub(pattern, today, name): part for name, part in parts.items()}
    return parts


def _verify(path: Path) -> None:
    expected = _expected_digests(path)
    for name in (_ARRAYS, _STATE):
        try:
            with (path / name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DamagedError(f"{name}: {error.strerror}") from error
        if digest != expected.get(name):
            raise DamagedError(f"{name} does not match its checksum")


def _expected_digests(path: Path) -> dict[str, str]:
    try:
        manifest = json.loads((path / _MANIFEST).read_bytes())
        version, digests = manifest["format"], dict(manifest["sha256"])
    except OSError as error:
        raise DamagedError(f"{_MANIFEST}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{_MANIFEST}: {error}") from error
    if isinstance(version, int) and version > FORMAT:
        raise NewerFormatError(
            f"{path}: a checkpoint of format {version}, but this version of actionless reads {FORMAT}; "
            "resume with the version that wrote it (nothing was changed)"
        )
    if version != FORMAT:
        raise DamagedError(f"{_MANIFEST}: unknown format {version!r}")
    return digests


def _is_intact(path: Path) -> bool:
    try:
        _verify(path)
    except (DamagedError, NewerFormatError):
        return False
    return True


def _is_of_newer_format(path: Path) -> bool:
    try:
        _expected_digests(path)
    except NewerFormatError:
        return True
    except DamagedError:
        return False
    return False


def _score(path: Path) -> float | None:
    """Read only the score, not the arrays, which may take gigabytes."""
    try:
        score = json.loads((path / _STATE).read_bytes())["score"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return score if isinstance(score, float) else None


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()
