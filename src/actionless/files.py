"""Atomic file writes, and error messages for disk problems.

Temporary files have unique names (`unique_aside`). So processes that write the same file at the same time never
write into each other's temporary file; the last rename wins.
"""

import errno
import functools
import glob
import hashlib
import os
import platform
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from actionless.errors import ActionlessError


def write_durably(path: Path, data: bytes) -> None:
    """Write atomically: after a crash, `path` holds either the old bytes or all of the new ones."""
    with written_aside(path) as aside:
        aside.write_bytes(data)


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to. On success it is flushed to disk and renamed to `path`, else removed."""
    clear_leftovers(path)
    aside = unique_aside(path)
    try:
        yield aside
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        aside.rename(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def unique_aside(path: Path, kind: str = "writing") -> Path:
    """A hidden name beside `path` that no other process, thread or machine on a shared disk uses."""
    return path.with_name(f".{path.name}.{_this_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.{kind}")


def clear_leftovers(path: Path) -> None:
    """Remove temporary files of `path` that killed processes on this machine left behind."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.{_this_machine()}-*"):
        rest = leftover.name.removeprefix(f".{path.name}.{_this_machine()}-")
        owner = re.fullmatch(r"(\d+)-[0-9a-f]{8}\.[a-z]+", rest)
        if owner is not None and not _is_alive(int(owner[1])):
            remove(leftover)


def replace_folder(aside: Path, folder: Path) -> None:
    """Rename the folder `aside` to `folder`. An existing `folder` is first renamed, then removed."""
    while True:
        try:
            aside.rename(folder)
            break
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        old = unique_aside(folder, "old")
        try:
            folder.rename(old)
        except FileNotFoundError:
            continue  # another process was faster
        remove(old)
    sync_directory(folder.parent)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()


@functools.cache
def _this_machine() -> str:
    """Identifies where a process id is valid: the machine and, in a container, its process namespace."""
    try:
        processes = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        processes = ""
    return hashlib.sha256(f"{platform.node()} {processes}".encode()).hexdigest()[:8]


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def require_free_file(path: Path, ending: str, *, overwrite: bool = False) -> None:
    """Refuse a path that cannot be written, or that exists and may not be overwritten. Call it before long work."""
    if path.suffix.lower() != ending:
        raise ActionlessError(f"{path}: the output file must end in {ending}")
    if not path.parent.is_dir():
        raise ActionlessError(f"{path}: the folder {path.parent} does not exist; create it first")
    if path.is_dir():
        raise ActionlessError(f"{path}: is an existing folder, which is not overwritten; choose another name")
    # `exists` is False for a broken symbolic link, but its target may appear later.
    if (path.exists() or path.is_symlink()) and not overwrite:
        raise ActionlessError(f"{path}: already exists; choose another name, or replace it with --overwrite")


def sync_directory(path: Path) -> None:
    """Flush a directory's entries, so that a rename in it survives a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def disk_trouble(path: Path, way_out: str) -> Iterator[None]:
    """Turn a file system error (disk full, read-only, no permission) into one line that says what to do."""
    try:
        yield
    except OSError as error:
        place = error.filename if isinstance(error.filename, str) else path
        raise ActionlessError(f"{place}: {error.strerror or error}; {way_out}") from error
