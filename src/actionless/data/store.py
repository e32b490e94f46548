"""Storage for the arrays of a log: in memory if they fit, else memory-mapped files in a cache."""

import dataclasses
import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np

from actionless.data.log import Log, Source
from actionless.errors import ActionlessError
from actionless.files import clear_leftovers, remove, replace_folder, unique_aside
from actionless.version import __version__

_FIELDS = ("states", "rewards", "next_states", "terminals", "ends", "actions")


@dataclasses.dataclass(frozen=True)
class LogArrays:
    """The arrays of a log while a reader fills them."""

    states: np.ndarray
    rewards: np.ndarray
    next_states: np.ndarray
    terminals: np.ndarray
    ends: np.ndarray
    actions: np.ndarray | None = None


class Store:
    """Gives a reader empty arrays, and turns the filled arrays into a log.

    A reader writes block by block into what `allocate` returns, whether in memory or memory-mapped.
    Files get their final name in the cache only when they are complete.
    """

    def __init__(self, folder: Path, memory_limit: int) -> None:
        self.folder = folder
        self.memory_limit = memory_limit
        self._partial = unique_aside(folder, "partial")

    def cached(self) -> Log | None:
        """The log cached by an earlier call, if it is complete and too large for memory."""
        return self._mapped(self.folder)

    def _mapped(self, folder: Path) -> Log | None:
        try:
            about = json.loads((folder / "log.json").read_text())
            arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in about["arrays"]}
            source = Source(about["path"], about["format"], tuple(about["read"]))
        except (OSError, ValueError, KeyError):
            return None  # missing or damaged: it is written again from the file
        if sum(array.nbytes for array in arrays.values()) <= self.memory_limit:
            return None
        log = Log(
            **arrays,
            state_names=tuple(about["state_names"]),
            source=source,
            warnings=tuple(about["warnings"]),
        )
        # Hashing gigabytes takes long, so the hash was stored when the cache was written.
        log.__dict__["fingerprint"] = about["fingerprint"]
        return log

    def allocate(
        self,
        transitions: int,
        state_dim: int,
        action_dim: int | None,
        state_dtype: np.dtype,
        reward_dtype: np.dtype,
    ) -> LogArrays:
        """Empty arrays for this many transitions: in memory up to the limit, else memory-mapped files."""
        shapes: dict[str, tuple[tuple[int, ...], np.dtype]] = {
            "states": ((transitions, state_dim), state_dtype),
            "rewards": ((transitions,), reward_dtype),
            "next_states": ((transitions, state_dim), state_dtype),
            "terminals": ((transitions,), np.dtype(bool)),
            "ends": ((transitions,), np.dtype(bool)),
        }
        if action_dim is not None:
            shapes["actions"] = ((transitions, action_dim), np.dtype(np.float32))
        needed = sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in shapes.values())
        if needed <= self.memory_limit:
            arrays = {name: np.empty(shape, dtype) for name, (shape, dtype) in shapes.items()}
        else:
            arrays = self._allocate_files(shapes, needed)
        return LogArrays(**arrays)

    def _allocate_files(
        self, shapes: dict[str, tuple[tuple[int, ...], np.dtype]], needed: int
    ) -> dict[str, np.ndarray]:
        try:
            clear_leftovers(self.folder)
            self._partial.mkdir(parents=True)
            free = shutil.disk_usage(self._partial).free
        except OSError as error:
            raise ActionlessError(
                f"{self._partial.parent}: cannot write the cache ({error.strerror}); "
                "set ACTIONLESS_CACHE to a writable folder"
            ) from error
        if free < needed:
            raise ActionlessError(
                f"{self._partial.parent}: the log needs {needed / 1e9:.1f} GB of cache, but only {free / 1e9:.1f} GB "
                "are free; set ACTIONLESS_CACHE to a folder on a larger disk"
            )
        return {
            name: np.lib.format.open_memmap(self._partial / f"{name}.npy", "w+", dtype, shape)
            for name, (shape, dtype) in shapes.items()
        }

    def finish(self, arrays: LogArrays, state_names: tuple[str, ...], source: Source, warnings: tuple[str, ...]) -> Log:
        """The log with the filled arrays. Memory-mapped files first get their final name in the cache."""
        log = Log(
            **{name: getattr(arrays, name) for name in _FIELDS},
            state_names=state_names,
            source=source,
            warnings=warnings,
        )
        if not log.memory_mapped:
            return log
        manifest = {
            "path": source.path,
            "format": source.format,
            "read": source.read,
            "state_names": state_names,
            "warnings": warnings,
            "fingerprint": log.fingerprint,
            "arrays": [name for name in _FIELDS if getattr(arrays, name) is not None],
        }
        for name in manifest["arrays"]:
            getattr(arrays, name).flush()
        (self._partial / "log.json").write_text(json.dumps(manifest))
        # Mapped before the rename, because another process that reads the same file may replace the folder.
        mapped = self._mapped(self._partial)
        assert mapped is not None
        replace_folder(self._partial, self.folder)
        return mapped

    def discard(self) -> None:
        """Remove what a failed read left behind."""
        remove(self._partial)


def cache_folder(files: list[Path], options: str) -> Path:
    """The cache folder for these files and options. A changed file or package version gets another folder."""
    stats = [(str(file.absolute()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = hashlib.sha256(json.dumps([__version__, stats, options]).encode()).hexdigest()[:20]
    return default_cache() / "logs" / key


def default_cache() -> Path:
    """The cache folder: everything in it can be made again."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "actionless"
    return Path(os.environ.get("ACTIONLESS_CACHE", default))


def default_memory_limit() -> int:
    """Half of the memory that this process may still allocate, in bytes."""
    return min(_free_memory(), *_process_limits()) // 2


def _free_memory() -> int:
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _process_limits() -> list[int]:
    """Memory limits of this process and its container, minus what is already used."""
    import resource

    limits = []
    status = Path("/proc/self/status")
    used = dict(re.findall(r"^(\w+):\s*(\d+) kB$", status.read_text(), re.MULTILINE)) if status.exists() else {}
    for limit, field in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        soft, _ = resource.getrlimit(limit)
        if soft != resource.RLIM_INFINITY:
            limits.append(max(0, soft - int(used.get(field, 0)) * 1024))
    container = Path("/sys/fs/cgroup")
    if (container / "memory.max").exists() and (text := (container / "memory.max").read_text().strip()) != "max":
        # The page cache counts as used memory, but is freed when memory is needed.
        files = re.findall(r"^file (\d+)$", (container / "memory.stat").read_text(), re.MULTILINE)
        used_now = int((container / "memory.current").read_text()) - sum(map(int, files))
        limits.append(max(0, int(text) - used_now))
    return limits or [2**63 - 1]
