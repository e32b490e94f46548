"""Files that a crash cannot leave half-written, and the message when the disk refuses."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actionless.errors import ActionlessError


def write_durably(path: Path, data: bytes) -> None:
    """`path` holds the old bytes or the new, never a part."""
    with written_aside(path) as aside:
        aside.write_bytes(data)


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Where to write what is to be `path`: flushed to the disk and renamed at the end, removed if there is none."""
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
