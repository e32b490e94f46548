"""Tables with one state per row: Parquet, CSV and Arrow IPC files, read through Polars.

There are always two passes. The first reads only the key columns; it determines the order of the rows and which
rows form transitions. The second streams states and rewards into the log's arrays.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from jaxtyping import Float

from actionless.data.checks import FiniteCheck, action_like, require_transitions
from actionless.data.log import Log, Source
from actionless.data.options import ReadOptions
from actionless.data.row_pairs import RowPairs, place
from actionless.data.store import LogArrays, Store
from actionless.data.table.columns import TableColumns, choose_columns, require_columns
from actionless.data.table.files import DataType, TableFile, TableKind
from actionless.data.table.keys import Places, read_keys
from actionless.data.table.order import order_rows
from actionless.errors import ActionlessError

_MISALIGNED_SHARE = 0.9


def read_table(files: list[Path], kind: TableKind, options: ReadOptions, store: Store) -> Log:
    """Read files of one kind as one log. `options` already includes the TOML file beside them."""
    tables = [TableFile(file, kind) for file in files]
    for table in tables:
        table.require_complete()
    columns = choose_columns(files[0], list(tables[0].schema), options)
    for table in tables[1:]:
        require_columns(table.path, list(table.schema), columns.read)
    tables, warnings = _with_rows(tables)
    warnings += _action_warnings(columns.states)
    state_type, reward_type = _float_type(tables, columns.states), _float_type(tables, [columns.reward])
    _float_type(tables, columns.actions)

    rows = order_rows(read_keys(tables, columns), columns, options)
    pairs = RowPairs.of(rows.last)
    require_transitions(str(files[0]), pairs.transitions)
    if pairs.single_rows:
        what = "episode has" if pairs.single_rows == 1 else "episodes have"
        warnings.append(f"{pairs.single_rows:,} {what} only one row, so no transition; left out")
    action_dim = len(columns.actions) or None
    arrays = store.allocate(pairs.transitions, len(columns.states), action_dim, state_type, reward_type)
    pairs.flag_ends(arrays, rows.last, rows.terminal)
    filler = _Filler(columns, rows.in_files(pairs), rows.places, arrays, options.reward_at == "arriving")
    filler.fill(tables)
    filler.finish(rows.episodes)
    source = Source(_path_of(files), kind, columns.read)
    return store.finish(arrays, columns.states, source, (*warnings, *rows.warnings))


def read_columns(path: Path, kind: TableKind, names: Sequence[str]) -> Float[np.ndarray, "rows columns"]:
    """Read columns of one table as plain rows, without episodes and rewards."""
    table = TableFile(path, kind)
    table.require_complete()
    require_columns(path, list(table.schema), names)
    [table], _ = _with_rows([table])
    dtype = _float_type([table], names)
    wanted = dict.fromkeys(names, _polars_type(dtype))
    rows = np.concatenate([_matrix(block, names, dtype) for block in table.blocks(wanted)])
    check = FiniteCheck(str(path), lambda row, column: f"{table.place(row)}, column '{names[column]}'")
    check.block(0, rows)
    check.finish()
    return rows


def _with_rows(tables: list[TableFile]) -> tuple[list[TableFile], list[str]]:
    filled = [table for table in tables if table.has_rows()]
    if not filled:
        raise ActionlessError(f"{tables[0].path}: no rows below the column names")
    return filled, [f"{table.path} has no rows and is left out" for table in tables if table not in filled]


def _action_warnings(states: Sequence[str]) -> list[str]:
    return [
        f"the state column '{name}' has a name that is typical of actions; if it is an action, remove it from "
        "--state-columns, because a state policy must not see actions"
        for name in action_like(states)
    ]


def _float_type(tables: Sequence[TableFile], names: Sequence[str]) -> np.dtype:
    """float32 if it holds every column without loss, else float64; columns that are not numeric are refused."""
    exact = {pl.Float32: True, pl.Float16: True, pl.Boolean: True}
    types = set()
    for table in tables:
        for name in names:
            dtype = table.schema[name]
            # CSV cells are parsed later; the error for a cell that is not a number then names its line.
            if table.kind != "csv" and not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
                raise ActionlessError(
                    f"{table.path}: the column '{name}' is {dtype}, which is not numeric; convert it or leave it out"
                )
            types.add(np.float32 if table.kind != "csv" and exact.get(dtype.base_type()) else np.float64)
    return np.dtype(np.float32 if types == {np.float32} else np.float64)


def _path_of(files: Sequence[Path]) -> str:
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


@dataclasses.dataclass
class _Filler:
    """Streams rows into the log's arrays and checks them."""

    columns: TableColumns
    pairs: RowPairs
    places: Places
    arrays: LogArrays
    arriving: bool
    row: int = 0
    first_missing: int = 0
    last_missing: int = 0

    def __post_init__(self) -> None:
        self.state_check = self._check(self.columns.states)
        self.reward_check = self._check([self.columns.reward])
        self.action_check = self._check(self.columns.actions)

    def fill(self, tables: Sequence[TableFile]) -> None:
        """The second pass: every row of every file."""
        columns, arrays = self.columns, self.arrays
        wanted = dict.fromkeys(columns.states, _polars_type(arrays.states.dtype))
        wanted[columns.reward] = _polars_type(arrays.rewards.dtype)
        wanted |= dict.fromkeys(columns.actions, pl.Float32())
        for table in tables:
            for block in table.blocks(wanted):
                self._place(block)

    def _place(self, block: pl.DataFrame) -> None:
        columns, pairs, arrays = self.columns, self.pairs, self.arrays
        start, self.row = self.row, self.row + block.height
        if self.row > len(pairs.leaves):
            self._raise_changed()
        rows = slice(start, self.row)
        first, last = pairs.arrives[rows] < 0, pairs.leaves[rows] < 0

        states = _matrix(block, columns.states, arrays.states.dtype)
        self.state_check.block(start, states, first & last)
        pairs.place_states(arrays, rows, states)

        rewards = block[columns.reward].to_numpy()
        self.reward_check.block(start, rewards, first if self.arriving else last)
        place(arrays.rewards, (pairs.arrives if self.arriving else pairs.leaves)[rows], rewards)
        missing = ~np.isfinite(rewards) & (first != last)
        self.first_missing += int((missing & first).sum())
        self.last_missing += int((missing & last).sum())

        if arrays.actions is not None:
            actions = _matrix(block, columns.actions, arrays.actions.dtype)
            self.action_check.block(start, actions, last)
            place(arrays.actions, pairs.leaves[rows], actions)

    def finish(self, episodes: int) -> None:
        """Raise if any check failed."""
        if self.row < len(self.pairs.leaves):
            self._raise_changed()
        self._require_aligned_rewards(episodes)
        for check in (self.state_check, self.reward_check, self.action_check):
            if check.first is not None:
                check.path = str(self.places.file(check.first[0]).path)
            check.finish()

    def _require_aligned_rewards(self, episodes: int) -> None:
        """Refuse rewards that seem to belong to the other step: the first or last row of most episodes has none."""
        needed, unread = self.first_missing, self.last_missing
        end, step, flag = "first", "arriving at", "arriving"
        if self.arriving:
            needed, unread = unread, needed
            end, step, flag = "last", "leaving", "leaving"
        if needed >= _MISALIGNED_SHARE * episodes and unread <= (1 - _MISALIGNED_SHARE) * episodes:
            raise ActionlessError(
                f"{self.places.files[0].path}: the reward column '{self.columns.reward}' is empty in the {end} row of "
                f"{needed:,} of {episodes:,} episodes, so a row's reward seems to be for the step {step} its state; "
                f"read with --reward-at {flag}"
            )

    def _check(self, names: Sequence[str]) -> FiniteCheck:
        return FiniteCheck("", lambda row, column: f"{self.places.within(row)}, column '{names[column]}'")

    def _raise_changed(self) -> None:
        raise ActionlessError(f"{self.places.files[0].path}: the table changed while it was read; read it again")


def _matrix(block: pl.DataFrame, names: Sequence[str], dtype: np.dtype) -> Float[np.ndarray, "rows columns"]:
    """Columns as a matrix, missing values as NaN. Polars' own conversion is slower and does not free its memory."""
    matrix = np.empty((block.height, len(names)), dtype)
    for index, name in enumerate(names):
        matrix[:, index] = block[name].to_numpy()
    return matrix


def _polars_type(dtype: np.dtype) -> DataType:
    return pl.Float32() if dtype == np.float32 else pl.Float64()
