"""Files that a crash cannot leave half-written, and the message when the disk refuses."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actionless.errors import ActionlessError


def write_durably(path: Path, data: bytes) -> None:
    """Write aside, flush to the disk, rename: `path` holds the old bytes or the new, never a part."""
    aside = path.with_name(f".{path.name}.writing")
    try:
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.rename(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


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
