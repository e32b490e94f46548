"""Atomic file writes, and error messages for disk problems."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actionless.errors import ActionlessError


def write_durably(path: Path, data: bytes) -> None:
    """Write atomically: after a crash, `path` holds either the old bytes or all of the new ones."""
    with written_aside(path) as aside:
        aside.write_bytes(data)


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to. On success it is flushed to disk and renamed to `path`, else removed."""
    aside = path.with_name(f".{path.name}.writing")
    try:
        yield aside
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        aside.rename(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


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
