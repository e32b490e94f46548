"""Read episode, time and terminal flag of every row of a table: the first of two passes over the files."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import polars as pl
from jaxtyping import Bool, Int, Shaped

from actionless.data.table.columns import TableColumns
from actionless.data.table.csv_text import NotWholeError
from actionless.data.table.files import DataType, TableFile
from actionless.errors import ActionlessError

_UNITS = ("ms", "us", "ns")
# Integer types that may not fit into the signed 64 bits in which times are compared.
_WIDE = (pl.UInt64, pl.Int128, pl.UInt128)


@dataclasses.dataclass(frozen=True)
class Places:
    """Converts row numbers, which count through all files, to locations in a single file."""

    files: Sequence[TableFile]
    starts: Int[np.ndarray, "files_and_one"]

    def file(self, row: int) -> TableFile:
        """The file that holds a row."""
        return self.files[self._index(row)]

    def within(self, row: int) -> str:
        """The location of a row in its file."""
        index = self._index(row)
        return self.files[index].place(row - int(self.starts[index]))

    def error(self, row: int, what: str) -> ActionlessError:
        """An error whose message starts with the location of a row."""
        return ActionlessError(f"{self.file(row).path}: {self.within(row)} {what}")

    def _index(self, row: int) -> int:
        return int(np.searchsorted(self.starts, row, side="right")) - 1


@dataclasses.dataclass(frozen=True)
class Keys:
    """The columns that determine the order of rows. Episodes are numbered by first appearance."""

    places: Places
    episodes: Int[np.ndarray, "rows"]
    times: Shaped[np.ndarray, "rows"] | None
    time_type: DataType | None
    terminals: Bool[np.ndarray, "rows"] | None


def read_keys(files: Sequence[TableFile], columns: TableColumns) -> Keys:
    """Stream only the key columns; if there are none, read the reward to count the rows."""
    time_types = [] if columns.time is None else _time_types(files, columns.time)
    if columns.episode is not None:
        types = [_episode_type(file, columns.episode) for file in files]
        names = ["whole number" if dtype.is_integer() else str(dtype) for dtype in types]
        _require_one_type(files, columns.episode, "episode", names)
    try:
        return _stream_keys(files, columns, time_types)
    except NotWholeError:
        # Only times are read as whole numbers. A CSV may have fractions far below its first rows.
        return _stream_keys(files, columns, [pl.Float64() for _ in files])


def _stream_keys(files: Sequence[TableFile], columns: TableColumns, time_types: Sequence[DataType]) -> Keys:
    episode, time, terminal = columns.episode, columns.time, columns.terminal
    numbers: dict[object, int] = {}
    episodes, times, terminals, starts = [], [], [], [0]
    for index, file in enumerate(files):
        wanted: dict[str, DataType] = {}
        if episode is not None:
            wanted[episode] = _episode_type(file, episode)
        if time is not None:
            wanted[time] = time_types[index]
        if terminal is not None:
            wanted[terminal] = _terminal_type(file, terminal)
        starts.append(starts[-1])
        for block in file.blocks(wanted or {columns.reward: pl.Float64()}):
            row = starts[-1] - starts[-2]
            if episode is None:
                episodes.append(np.full(block.height, index, np.int32))
            else:
                _require_present(file, row, block[episode], "episode")
                episodes.append(_numbered(block[episode], numbers))
            if time is not None:
                _require_present(file, row, block[time], "time")
                times.append(_signed(file, row, block[time]).to_physical().to_numpy())
            if terminal is not None:
                terminals.append(_flags(file, row, block[terminal]))
            starts[-1] += block.height
    return Keys(
        places=Places(files, np.array(starts)),
        episodes=np.concatenate(episodes),
        times=np.concatenate(times) if times else None,
        time_type=time_types[0] if time_types else None,
        terminals=np.concatenate(terminals) if terminals else None,
    )


def _numbered(keys: pl.Series, numbers: dict[object, int]) -> Int[np.ndarray, "rows"]:
    seen = keys.unique(maintain_order=True)
    codes = [numbers.setdefault(key, len(numbers)) for key in seen.to_list()]
    return keys.replace_strict(seen, codes, return_dtype=pl.Int32).to_numpy()


def _flags(file: TableFile, row: int, values: pl.Series) -> Bool[np.ndarray, "rows"]:
    values = values.fill_nan(None)
    odd = values.is_not_null() & (values != 0.0) & (values != 1.0)
    if odd.any():
        first = odd.arg_max() or 0
        raise ActionlessError(
            f"{file.path}: {file.place(row + first)}, column '{values.name}' is {values[first]:g}; "
            "a terminal flag must be true or false, or 1 or 0"
        )
    return (values == 1.0).fill_null(False).to_numpy()


def _require_present(file: TableFile, row: int, values: pl.Series, role: str) -> None:
    missing = values.is_null() | ~values.is_finite() if values.dtype.is_float() else values.is_null()
    if missing.any():
        first = row + (missing.arg_max() or 0)
        raise ActionlessError(
            f"{file.path}: {file.place(first)}, column '{values.name}' has no {role}; fill it in or drop the row"
        )


def _signed(file: TableFile, row: int, times: pl.Series) -> pl.Series:
    if times.dtype not in _WIDE:
        return times
    signed = times.cast(pl.Int64, strict=False)
    if signed.has_nulls():
        first = signed.is_null().arg_max() or 0
        raise ActionlessError(
            f"{file.path}: {file.place(row + first)}, column '{times.name}' is {times[first]}, but a time may be at "
            f"most {2**63 - 1}; count from a later start or in a larger unit"
        )
    return signed


def _episode_type(file: TableFile, column: str) -> DataType:
    dtype = file.schema[column]
    if dtype.is_nested() or dtype == pl.Object:
        raise ActionlessError(f"{file.path}: the episode column '{column}' is {dtype}; it must be a number or a string")
    # In a CSV, "007" and "a7" may name episodes in the same column, so cells stay strings.
    return pl.String() if file.kind == "csv" or dtype in (pl.Categorical, pl.Enum) else dtype


def _terminal_type(file: TableFile, column: str) -> DataType:
    dtype = file.schema[column]
    if file.kind != "csv" and not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
        raise ActionlessError(
            f"{file.path}: the terminal column '{column}' is {dtype}; it must be true or false, or 1 or 0"
        )
    return pl.Float64()


def _time_types(files: Sequence[TableFile], column: str) -> list[DataType]:
    """The types to read times as, so that times of different files can be compared."""
    found = [_require_time(file, column) for file in files]
    _require_one_type(
        files, column, "time", ["number" if dtype.is_numeric() else str(dtype.base_type()) for dtype in found]
    )
    if found[0].is_numeric():
        whole = all(dtype.is_integer() for dtype in found)
        return [(dtype if dtype in _WIDE else pl.Int64()) if whole else pl.Float64() for dtype in found]
    if isinstance(found[0], pl.Date):
        return found
    unit = max((dtype.time_unit for dtype in found), key=_UNITS.index)  # pyright: ignore[reportAttributeAccessIssue]
    return [
        pl.Duration(unit) if isinstance(dtype, pl.Duration) else pl.Datetime(unit, dtype.time_zone)  # pyright: ignore[reportAttributeAccessIssue]
        for dtype in found
    ]


def _require_time(file: TableFile, column: str) -> DataType:
    dtype = file.schema[column]
    if dtype.is_numeric() or isinstance(dtype, pl.Date | pl.Datetime | pl.Duration):
        return dtype
    example = " such as 2024-01-31 or 2024-01-31 13:05:00" if file.kind == "csv" else ""
    raise ActionlessError(
        f"{file.path}: the time column '{column}' is {dtype}; convert it to a number, a date or a datetime{example}"
    )


def _require_one_type(files: Sequence[TableFile], column: str, role: str, types: Sequence[str]) -> None:
    for file, dtype in zip(files, types, strict=True):
        if dtype != types[0]:
            raise ActionlessError(
                f"{file.path}: the {role} column '{column}' is {dtype} here, but {types[0]} in {files[0].path}; "
                "write both as the same type"
            )
