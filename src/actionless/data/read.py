"""Read a log. The reader is chosen by the content of the file, not by its name."""

import dataclasses
import glob
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actionless.data.log import Log
from actionless.data.options import ReadOptions, read_options
from actionless.data.store import Store, cache_folder, default_memory_limit
from actionless.data.table.columns import with_settings_file
from actionless.declared import documented
from actionless.errors import ActionlessError
from actionless.settings import changed

MINARI_PREFIX = "minari:"

_SIGNATURES = {
    b"\x89HDF\r\n\x1a\n": "hdf5",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"PK\x03\x04": "npz",
    b"\x80": "pickle",
}
_ENDINGS = {
    ".hdf5": "hdf5",
    ".h5": "hdf5",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npz": "npz",
    ".pkl": "pickle",
    ".pickle": "pickle",
    ".csv": "csv",
    ".tsv": "csv",
}
_TITLES = {
    "hdf5": "an HDF5 file",
    "parquet": "a Parquet file",
    "arrow": "an Arrow IPC file",
    "npz": "an npz file",
    "pickle": "a pickle",
    "csv": "a text table",
}


@documented(read_options())
def read(data: str | Path | Sequence[str | Path], options: ReadOptions | None = None, **settings: Any) -> Log:
    """Read a log: D4RL HDF5, Minari (`minari:ID` or its folder), Parquet, CSV, Arrow, npz, factorised DMC.

    A table may be several files or a glob; name its columns here or in a TOML file beside it.
    Actions are not read unless `with_actions` is set. Options are given by name, or together as `ReadOptions`.

        log = actionless.read("hopper_medium-v2.hdf5")
        log = actionless.read("plant/*.parquet", state_columns=["temp_*", "flow"], reward_column="yield",
                              episode_column="batch", time_column="minute")
    """
    given = {name: value for name, value in settings.items() if value is not None}
    options = changed(options or ReadOptions(), given, "read")
    parts = [data] if isinstance(data, str | Path) else list(data)
    if not parts:
        raise ActionlessError("nothing to read: give a file, a glob or minari:ID")
    if len(parts) == 1 and (str(parts[0]).startswith(MINARI_PREFIX) or _is_folder(parts[0])):
        _refuse_table_options(str(parts[0]), "a Minari data set", options)
        return _read_minari(parts[0], options)
    files = [file for part in parts for file in _expand(part)]
    kinds = [kind_of(file) for file in files]
    if len(files) > 1 and (odd := next((i for i, kind in enumerate(kinds) if kind != kinds[0]), None)):
        raise ActionlessError(
            f"{files[odd]}: {_TITLES[kinds[odd]]}, but {files[0]} is {_TITLES[kinds[0]]}; "
            "files read together must have the same format"
        )
    is_table = kinds[0] in ("parquet", "csv", "arrow")
    if len(files) > 1 and not is_table:
        raise ActionlessError(f"{files[1]}: only tables may consist of several files; read {files[0]} alone")
    if is_table:
        # Before the cache lookup, because the options are part of the cache key.
        options = with_settings_file(files, options)
    else:
        _refuse_table_options(str(files[0]), _TITLES[kinds[0]], options)
    store = _store(files, options)
    return store.cached() or _filled(store, lambda: _read_files(files, kinds[0], options, store))


def _refuse_table_options(path: str, title: str, options: ReadOptions) -> None:
    if given := options.given_for_tables():
        raise ActionlessError(f"{path}: {next(iter(given))} is an option for tables, but this is {title}; leave it out")


def _read_files(files: list[Path], kind: str, options: ReadOptions, store: Store) -> Log:
    # Imported here, so that a reader does not load the libraries of the others.
    if kind == "hdf5":
        from actionless.data.hdf5_npz import read_hdf5

        return read_hdf5(files[0], options, store)
    if kind == "npz":
        from actionless.data.hdf5_npz import read_npz

        return read_npz(files[0], options, store)
    if kind == "pickle":
        from actionless.data.factorised_dmc import read_factorised

        return read_factorised(files[0], options, store)
    from actionless.data.table.read import read_table

    assert kind in ("parquet", "csv", "arrow")
    return read_table(files, kind, options, store)


def _read_minari(data: str | Path, options: ReadOptions) -> Log:
    from actionless.data.minari import minari_files, read_minari

    if not str(data).startswith(MINARI_PREFIX) and not _is_minari_folder(Path(data)):
        raise ActionlessError(
            f"{data}: is a folder, but not a Minari data set; give files or a glob, such as '{data}/*.parquet'"
        )
    store = _store(minari_files(data), options)
    return store.cached() or _filled(store, lambda: read_minari(data, options, store))


def _is_minari_folder(folder: Path) -> bool:
    return any((folder / place / "metadata.json").exists() for place in (".", "data"))


def _store(files: list[Path], options: ReadOptions) -> Store:
    limit = options.memory_limit_gb
    return Store(
        cache_folder(files, repr(dataclasses.replace(options, memory_limit_gb=None))),
        default_memory_limit() if limit is None else int(limit * 1e9),
    )


def _filled(store: Store, fill) -> Log:
    try:
        return fill()
    finally:
        store.discard()


def _is_folder(path: str | Path) -> bool:
    try:
        return Path(path).is_dir()
    except OSError as error:
        raise ActionlessError(f"{path}: cannot be read ({error.strerror})") from error


def _expand(part: str | Path) -> list[Path]:
    path = Path(part)
    if _is_folder(path):
        raise ActionlessError(f"{path}: is a folder among several files; give its files or a glob instead")
    if path.exists():
        return [path]
    if glob.has_magic(str(part)):
        matches = glob.glob(str(part), recursive=True)  # noqa: PTH207 (Path.glob takes no absolute pattern)
        paths = [Path(match) for match in sorted(matches, key=_natural_order)]
        files = [path for path in paths if path.is_file() and path.suffix != ".toml"]
        if files:
            return files
        raise ActionlessError(f"{part}: no file matches")
    raise ActionlessError(f"{part}: no such file")


def _natural_order(name: str) -> list[tuple[int, str]]:
    """Sort key that puts part2 before part10, so that an episode continues in the next file."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def kind_of(file: Path) -> str:
    """The kind of a file by its first bytes. A file whose name suggests another kind is refused."""
    try:
        with file.open("rb") as stream:
            head = stream.read(4096)
    except OSError as error:
        raise ActionlessError(f"{file}: cannot be read ({error.strerror})") from error
    if not head:
        raise ActionlessError(f"{file}: the file is empty")
    kind = next((kind for signature, kind in _SIGNATURES.items() if head.startswith(signature)), None)
    if kind is None and _is_text(head):
        kind = "csv"
    named = _ENDINGS.get(file.suffix.lower())
    if named == "csv" and kind is None:
        from actionless.data.table.csv_text import require_utf8

        require_utf8(file)
    if named is not None and named != kind:
        found = "of an unknown format" if kind is None else _TITLES[kind]
        raise ActionlessError(
            f"{file}: its name says {_TITLES[named]}, but its first bytes say it is {found}; "
            "check how it was made, or rename it"
        )
    if kind is None:
        raise ActionlessError(f"{file}: unknown format; give {', '.join(_TITLES.values())} or a Minari data set")
    return kind


def _is_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        # The block may end in the middle of a character. An error before its last three bytes means: not text.
        return error.start >= len(head) - 3
    return True
