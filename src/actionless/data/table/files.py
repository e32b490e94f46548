"""One file of a table: its columns, and its rows block by block."""

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl

from actionless.data.log import BLOCK_BYTES
from actionless.data.table import csv_text
from actionless.errors import ActionlessError, first_line

if TYPE_CHECKING:
    from polars import DataType
else:
    # The class's own name differs from the name it is imported by, which run-time type checkers refuse.
    DataType = object

TableKind = Literal["parquet", "csv", "arrow"]
_TITLES: dict[TableKind, str] = {"parquet": "Parquet", "csv": "CSV", "arrow": "Arrow IPC"}
_LAST_BYTES: dict[TableKind, bytes] = {"parquet": b"PAR1", "arrow": b"ARROW1"}
# To read a slice, Parquet decodes all earlier pages of the row group. So slices are large, but fit in memory.
_SLICE_BYTES, _SLICE_ROWS = 2 * BLOCK_BYTES, 500_000
_INFER_ROWS = 1000


@dataclasses.dataclass(frozen=True)
class TableFile:
    """One file of a table; `blocks` reads only the requested columns."""

    path: Path
    kind: TableKind

    @cached_property
    def schema(self) -> dict[str, DataType]:
        """The columns and their types; for a CSV, types inferred from the first rows."""
        return self._collected(lambda: dict(self._scan({}).collect_schema()))

    @cached_property
    def separator(self) -> str:
        """The separator between the cells of a CSV."""
        return csv_text.separator_of(self.path)

    def require_complete(self) -> None:
        """Refuse a truncated file, and a CSV with duplicate names or lines that are too long."""
        if self.kind == "csv":
            csv_text.require_distinct_names(self.path, self.separator)
            csv_text.require_no_long_lines(self.path, self.separator, len(self.schema))
            return
        wanted = _LAST_BYTES[self.kind]
        with self.path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - len(wanted)))
            end = file.read()
        if end != wanted or size < 3 * len(wanted):
            raise ActionlessError(
                f"{self.path}: truncated: it starts as {_TITLES[self.kind]}, but its end is missing; "
                "copy or write it again"
            )

    def has_rows(self) -> bool:
        """Whether there is at least one row below the header."""
        name = next(iter(self.schema))
        return self._collected(lambda: self._scan({name: pl.String()}).select(pl.first()).head(1).collect().height > 0)

    def blocks(self, wanted: Mapping[str, DataType]) -> Iterator[pl.DataFrame]:
        """Read these columns as these types, in blocks of a few tens of megabytes, rows in order."""
        size = min(_SLICE_ROWS, max(1, _SLICE_BYTES // (8 * len(wanted))))
        # By position, because Polars treats names such as `*` and `^…$` as patterns.
        found = list(self.schema)
        columns = [pl.nth(found.index(name)).cast(dtype) for name, dtype in wanted.items()]
        lazy = self._scan(wanted).select(columns)
        if self.kind == "csv":
            # A CSV has no index of lines: a single pass from the top avoids parsing the same lines repeatedly.
            batches = self._collected(lambda: lazy.collect_batches(chunk_size=size, maintain_order=True))
            while (block := self._collected(lambda: next(batches, None))) is not None:
                yield block
            return
        # Not `collect_batches`: it holds several row groups in memory at once, a gigabyte instead of 100 MB.
        start, block = 0, None
        while block is None or block.height == size:
            block = self._collected(lambda start=start: lazy.slice(start, size).collect())
            start += size
            if block.height:
                yield block

    def place(self, row: int) -> str:
        """The location of a row, for error messages."""
        if self.kind == "csv":
            return f"line {csv_text.line_of(self.path, self.separator, row)}"
        return f"row {row} (counting from 0)"

    def _scan(self, wanted: Mapping[str, DataType]) -> pl.LazyFrame:
        # No globbing: brackets in a file name are part of the name.
        if self.kind == "parquet":
            return pl.scan_parquet(self.path, glob=False, hive_partitioning=False)
        if self.kind == "arrow":
            return pl.scan_ipc(self.path, glob=False, hive_partitioning=False)
        return pl.scan_csv(
            self.path,
            separator=self.separator,
            null_values=list(csv_text.MISSING),
            infer_schema_length=_INFER_ROWS,
            try_parse_dates=True,
            schema_overrides={name: self._cell_type(name, dtype) for name, dtype in wanted.items()},
            glob=False,
        )

    def _cell_type(self, name: str, wanted: DataType) -> DataType:
        """How to parse the cells of a CSV column: `true` must be parsed as a boolean before it becomes a number."""
        boolean = wanted.is_numeric() and self.schema[name] == pl.Boolean
        return self.schema[name] if boolean or wanted.is_temporal() else wanted

    def _collected(self, query):
        try:
            return query()
        except (pl.exceptions.PolarsError, OSError) as error:
            if self.kind == "csv":
                raise csv_text.problem(self.path, self.separator, error) from error
            raise ActionlessError(
                f"{self.path}: damaged: cannot be read as {_TITLES[self.kind]} ({first_line(error)}); write it again"
            ) from error
