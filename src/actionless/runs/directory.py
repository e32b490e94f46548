"""Run directory: created atomically, used by one process at a time, finished once it has a result.

run.json        verb, config, seed, the log and what was read of it; versions and threads
lock            locked while a process works on the run
metrics.jsonl   metrics: the same bytes for the same seed, even if the run was stopped and resumed
timing.jsonl    seconds and rates, which differ between runs
checkpoints/    from which a stopped run is resumed
result.json     the summary, written last: if it exists, the run is finished
"""

import fcntl
import importlib.metadata
import json
import logging
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from actionless.errors import ActionlessError
from actionless.files import clear_leftovers, disk_trouble, sync_directory, unique_aside, write_durably
from actionless.runs.threads import threads_here

_PACKAGES = ("actionless", "equinox", "jax", "jaxlib", "numpy")
"""What decides the last bits of every run."""
_SIMULATORS = ("dm-control", "gymnasium", "mujoco")
"""What decides the episodes of a run with an environment."""

logger = logging.getLogger("actionless")


def installed_versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide a run; of an extra, only where it is installed."""
    versions = {"python": platform.python_version()}
    for name in (*_PACKAGES, *_SIMULATORS):
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


@dataclass(frozen=True)
class Manifest:
    """The content of run.json."""

    verb: str
    config: dict[str, Any]
    seed: int
    data: dict[str, Any]
    threads: int = field(default_factory=threads_here)
    versions: dict[str, str] = field(default_factory=installed_versions)


@dataclass(frozen=True)
class Result:
    """The content of result.json: `final` holds the last value of each metric."""

    verb: str
    steps: int
    seconds: float
    final: dict[str, float]


class Run:
    """A run directory locked by this process; `close` (or the end of a `with`) unlocks it."""

    def __init__(self, path: Path, manifest: Manifest, lock: int):
        self.path = path
        self.manifest = manifest
        self._lock = lock

    @classmethod
    def create(cls, path: Path, manifest: Manifest, *, overwrite: bool = False) -> "Run":
        """Create the directory under a temporary name, locked and with its run.json, then rename it."""
        require_free(path, overwrite=overwrite)
        with disk_trouble(path, "choose an --out that can be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            clear_leftovers(path)
            aside = unique_aside(path, "new")
            aside.mkdir()
            try:
                lock = _lock(aside)
                write_durably(aside / "run.json", _json(asdict(manifest)))
                if overwrite:
                    remove_run(path)
                aside.rename(path)
            except BaseException:
                shutil.rmtree(aside, ignore_errors=True)
                raise
            sync_directory(path.parent)
        return cls(path, manifest, lock)

    @classmethod
    def open(cls, path: Path) -> "Run":
        """Lock an existing run, and warn if versions or threads have changed."""
        manifest = read_manifest(path)
        lock = _lock(path)
        _warn_of_changes(path, manifest)
        return cls(path, manifest, lock)

    def result(self) -> Result | None:
        """The summary of a finished run, None while it is not finished."""
        return read_result(self.path)

    def finish(self, result: Result) -> None:
        """Write the summary, which marks the run as finished."""
        with disk_trouble(self.path, f"make room, then `actionless resume {self.path}`"):
            write_durably(self.path / "result.json", _json(asdict(result)))

    def close(self) -> None:
        """Unlock the run, so that another process can work on it."""
        os.close(self._lock)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_manifest(path: Path) -> Manifest:
    """Read run.json, even while another process works on the run."""
    if not (path / "run.json").is_file():
        raise ActionlessError(f"{path}: no run.json there, so it is not a run directory; give the --out of a run")
    try:
        return Manifest(**json.loads((path / "run.json").read_bytes()))
    except (ValueError, TypeError) as error:
        raise ActionlessError(f"{path / 'run.json'}: {error}; restore it or start the run again") from error


def read_result(path: Path) -> Result | None:
    """The summary of a finished run, None while it is not finished."""
    file = path / "result.json"
    return Result(**json.loads(file.read_bytes())) if file.exists() else None


def require_free(path: Path, *, overwrite: bool = False) -> None:
    """Refuse an `--out` that exists; with `overwrite`, one that is not a run (nothing else is ever deleted)."""
    if not path.exists():
        return
    if not overwrite:
        raise ActionlessError(f"{path} exists: `actionless resume {path}` resumes it, --overwrite replaces it")
    if not (path / "run.json").is_file():
        raise ActionlessError(f"{path} is not a run directory: --overwrite does not replace it, choose another --out")


def _warn_of_changes(path: Path, manifest: Manifest) -> None:
    """Warn about versions and threads that have changed since the run was started.

    There is no warning about a version that run.json does not record: it was written before that version was recorded,
    or the package was not installed. An environment that needs a missing package is refused when it is made.
    """
    was = {**manifest.versions, "threads": str(manifest.threads)}
    now = {**installed_versions(), "threads": str(threads_here())}
    changed = {name for name in was.keys() & now.keys() if was[name] != now[name]}
    simulators = changed.intersection(_SIMULATORS)
    for names, consequence in (
        (changed - simulators, "the last bits may differ"),
        (simulators if "environment" in manifest.config else (), "the same seed may give different episodes"),
    ):
        if names:
            changes = "; ".join(f"{name} {was[name]}, now {now[name]}" for name in sorted(names))
            logger.warning("%s was made with %s: %s", path, changes, consequence)


def remove_run(path: Path) -> None:
    """Delete a run directory, if there is one and no process works on it."""
    require_free(path, overwrite=True)
    if not path.exists():
        return
    # The runs of several seeds inside may each be locked by its own process.
    locks = [_lock(held.parent) for held in (path / "lock", *sorted(path.glob("*/lock")))]
    old = unique_aside(path, "old")
    path.rename(old)
    shutil.rmtree(old)
    for lock in locks:
        os.close(lock)


def _lock(path: Path) -> int:
    """Lock the run until this process ends. The kernel unlocks it even after kill -9, so a lock is never stale."""
    with disk_trouble(path, "make the run directory writable"):
        descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode().strip()
            os.close(descriptor)
            raise ActionlessError(f"{path}: process {holder} works on this run; wait for it or stop it") from None
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether a process works on the run there, as far as this machine can see."""
    if not (path / "lock").exists():
        return False
    try:
        with locked(path):
            return False
    except ActionlessError:
        return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of an existing directory."""
    lock = _lock(path)
    try:
        yield
    finally:
        os.close(lock)


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2, allow_nan=False).encode() + b"\n"
