"""Files that a crash cannot leave half-written, and the message when the disk refuses.

Whatever is written under a temporary name has a name of its own (`unique_aside`): processes that write the same
file at the same time never write into each other's, and the last rename wins.
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
    """`path` holds the old bytes or the new, never a part."""
    with written_aside(path) as aside:
        aside.write_bytes(data)


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Where to write what is to be `path`: flushed to the disk and renamed at the end, removed after an error."""
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
    """A hidden name beside `path` that nobody else uses: no other process, thread or machine on a shared disk."""
    return path.with_name(f".{path.name}.{_this_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.{kind}")


def clear_leftovers(path: Path) -> None:
    """Remove what killed processes of this machine left under a `unique_aside` of `path`."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.{_this_machine()}-*"):
        rest = leftover.name.removeprefix(f".{path.name}.{_this_machine()}-")
        owner = re.fullmatch(r"(\d+)-[0-9a-f]{8}\.[a-z]+", rest)
        if owner is not None and not _is_alive(int(owner[1])):
            remove(leftover)


def replace_folder(aside: Path, folder: Path) -> None:
    """Rename the folder `aside` to `folder`. What was there is moved away whole, then removed."""
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
    """A file or a folder, whether it exists or not."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()


@functools.cache
def _this_machine() -> str:
    """Where a process id means something: the machine and, in a container, its own table of processes."""
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
    """Refuse what cannot be written there or would replace something unasked; worth asking before the work."""
    if path.suffix.lower() != ending:
        raise ActionlessError(f"{path}: what can be written is FILE{ending}")
    if not path.parent.is_dir():
        raise ActionlessError(f"{path}: the folder {path.parent} does not exist; create it first")
    if path.is_dir():
        raise ActionlessError(f"{path}: a folder of this name is there, which is not replaced; choose another")
    # A link that leads nowhere now may lead somewhere later.
    if (path.exists() or path.is_symlink()) and not overwrite:
        raise ActionlessError(f"{path}: exists already; choose another name, or replace it with --overwrite")


def sync_directory(path: Path) -> None:
    """Flush a directory's entries, so that a rename in it outlives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def disk_trouble(path: Path, way_out: str) -> Iterator[None]:
    """Turn a refusal of the file system (full, read-only, not permitted) into one line with a way out."""
    try:
        yield
    except OSError as error:
        place = error.filename if isinstance(error.filename, str) else path
        raise ActionlessError(f"{place}: {error.strerror or error}; {way_out}") from error
