"""Order the rows of a table by episode and time, and split episodes at gaps in time."""

import dataclasses
import datetime
import itertools

import numpy as np
import polars as pl
from jaxtyping import Bool, Int, Shaped

from actionless.data.options import ReadOptions
from actionless.data.row_pairs import RowPairs
from actionless.data.table.columns import TableColumns
from actionless.data.table.files import DataType
from actionless.data.table.keys import Keys, Places
from actionless.errors import ActionlessError

_REGULAR_SHARE, _STEP_TOLERANCE, _GAP_STEPS = 0.9, 0.01, 1.5

# The row at each position. A full slice if the files are already in order, which avoids a copy.
Order = slice | Int[np.ndarray, "rows"]


@dataclasses.dataclass(frozen=True)
class RowOrder:
    """The rows of all files, episode after episode.

    `last` and `terminal` are flags in this order; `episodes` is their number before any is split at gaps.
    """

    order: Order
    last: Bool[np.ndarray, "rows"]
    terminal: Bool[np.ndarray, "rows"]
    episodes: int
    places: Places
    warnings: tuple[str, ...]

    def in_files(self, ordered: RowPairs) -> RowPairs:
        """Convert pairs of rows in this order to pairs of rows in the order of the files."""
        if isinstance(self.order, slice):
            return ordered
        leaves, arrives = np.empty_like(ordered.leaves), np.empty_like(ordered.arrives)
        leaves[self.order], arrives[self.order] = ordered.leaves, ordered.arrives
        return dataclasses.replace(ordered, leaves=leaves, arrives=arrives)


@dataclasses.dataclass(frozen=True)
class _Finder:
    """Finds the row to name in an error about certain positions of the order."""

    places: Places
    order: Order

    def first(self, positions: Int[np.ndarray, "some"]) -> int:
        """The row at one of these positions that comes first in the files."""
        return int(positions.min() if isinstance(self.order, slice) else self.order[positions].min())

    def error(self, positions: Int[np.ndarray, "some"], what: str, rest: str) -> ActionlessError:
        """An error that names the first row and says how many there are."""
        others = f", the first of {len(positions):,} such rows" if len(positions) > 1 else ""
        return self.places.error(self.first(positions), f"{what}{others}; {rest}")


def order_rows(keys: Keys, columns: TableColumns, options: ReadOptions) -> RowOrder:
    """Group rows by episode, in file order or sorted by time, and split episodes at gaps."""
    order = _episode_order(keys.episodes)
    if keys.times is not None and options.sort:
        order = _time_order(keys.episodes, keys.times, order)
    finder = _Finder(keys.places, order)
    episodes = keys.episodes[order]
    last = np.append(episodes[1:] != episodes[:-1], True)
    count = int(last.sum())
    warnings = []
    if columns.episode is None:
        what = "the file is" if count == 1 else "each file is"
        warnings.append(f"no episode column given: {what} treated as one episode; name one with --episode-column")
    if keys.times is None and (carried := _episodes_of_several_files(keys)):
        what = "episode continues" if carried == 1 else "episodes continue"
        warnings.append(
            f"{carried:,} {what} from one file to another and no time column is given: the order of the files "
            "was used as the order of time; name one with --time-column"
        )
    if keys.times is not None:
        times = keys.times[order]
        _require_increasing(finder, columns, times, last)
        warnings += _split_at_gaps(finder, columns, options, times, keys.time_type, last)
    terminal = np.zeros(len(last), bool) if keys.terminals is None else keys.terminals[order]
    _require_terminal_at_end(finder, columns, last, terminal)
    return RowOrder(order, last, terminal, count, keys.places, tuple(warnings))


def _episode_order(episodes: Int[np.ndarray, "rows"]) -> Order:
    if (episodes[1:] >= episodes[:-1]).all():
        return slice(None)
    return np.argsort(episodes, kind="stable")


def _episodes_of_several_files(keys: Keys) -> int:
    per_file = [np.unique(keys.episodes[start:stop]) for start, stop in itertools.pairwise(keys.places.starts.tolist())]
    return int((np.bincount(np.concatenate(per_file)) > 1).sum())


def _time_order(episodes: Int[np.ndarray, "rows"], times: Shaped[np.ndarray, "rows"], order: Order) -> Order:
    ordered = episodes[order]
    if (np.diff(times[order]) < 0)[ordered[1:] == ordered[:-1]].any():
        return np.lexsort((times, episodes))
    return order


def _require_increasing(
    finder: _Finder, columns: TableColumns, times: Shaped[np.ndarray, "rows"], last: Bool[np.ndarray, "rows"]
) -> None:
    wrong = np.flatnonzero((times[1:] <= times[:-1]) & ~last[:-1]) + 1
    back = wrong[times[wrong] < times[wrong - 1]]
    hint = "" if columns.episode else ", or name the column that identifies episodes with --episode-column"
    if len(back):
        raise finder.error(
            back,
            f"is earlier than the row before it in its episode (time column '{columns.time}')",
            f"sort the rows by time, or read them with --sort{hint}",
        )
    if len(wrong):
        raise finder.error(
            wrong,
            f"has the same time as the row before it in its episode (time column '{columns.time}')",
            f"keep one row of each time{hint}",
        )


def _split_at_gaps(
    finder: _Finder,
    columns: TableColumns,
    options: ReadOptions,
    times: Shaped[np.ndarray, "rows"],
    time_type: DataType | None,
    last: Bool[np.ndarray, "rows"],
) -> list[str]:
    """Mark the row before each gap as the last of its episode, unless gaps are kept; return warnings."""
    steps = np.diff(times)
    within = steps[~last[:-1]]
    if not len(within):
        return []
    # If nine of ten steps are equal, the median is one of them.
    middle = (len(within) - 1) // 2
    within.partition(middle)
    usual = float(within[middle])
    regular = float((np.abs(within - usual) <= _STEP_TOLERANCE * usual).mean())
    if regular < _REGULAR_SHARE:
        return [
            f"time column '{columns.time}': the steps are irregular, only {regular:.0%} of them within 1% of the "
            f"median {_spoken(usual, time_type)}; every row is treated as one step; resample if that is wrong"
        ]
    before = np.flatnonzero((steps > _GAP_STEPS * usual) & ~last[:-1])
    if not len(before):
        return []
    if options.gaps != "keep":
        last[before] = True
    outcome = (
        "each is treated as one step"
        if options.gaps == "keep"
        else "a new episode starts after each; with --gaps keep, each is treated as one step"
    )
    row = finder.first(before + 1)
    return [
        f"time column '{columns.time}': {_counted(len(before), 'gap')} longer than 1.5 steps of "
        f"{_spoken(usual, time_type)}, the first before {finder.places.within(row)} of "
        f"{finder.places.file(row).path}: {outcome}"
    ]


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' if count > 1 else ''}"


def _spoken(step: float, dtype: DataType | None) -> str:
    if isinstance(dtype, pl.Date):
        return str(datetime.timedelta(days=step))
    if isinstance(dtype, pl.Datetime | pl.Duration):
        per_second = {"ms": 1e3, "us": 1e6, "ns": 1e9}[dtype.time_unit]
        return str(datetime.timedelta(seconds=step / per_second))
    return f"{step:g}"


def _require_terminal_at_end(
    finder: _Finder, columns: TableColumns, last: Bool[np.ndarray, "rows"], terminal: Bool[np.ndarray, "rows"]
) -> None:
    """A terminal flag may be in the last row of an episode or in the row before it, nowhere else."""
    near_end = last | np.append(last[1:], True)
    early = np.flatnonzero(terminal & ~near_end)
    if len(early):
        hint = "" if columns.episode else ", or name the column that identifies episodes with --episode-column"
        raise finder.error(
            early,
            f"is terminal (column '{columns.terminal}'), but its episode continues for two rows or more",
            f"start a new episode after each terminal row{hint}",
        )
