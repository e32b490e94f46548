"""CSV details that Polars does not report: the separator, lines with too many cells, and the line of a bad cell."""

import csv
import re
import sys
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path

from actionless.errors import ActionlessError, first_line

# R writes NA, databases write NULL or null. An empty cell always counts as missing.
MISSING = ("NA", "N/A", "NULL", "null")
_CHUNK_BYTES = 16 * 2**20
_QUOTED = re.compile(r'"[^"]*"')
_BAD_CELL = re.compile(r"could not parse `(.*?)` as dtype `(.*?)` at column '(.*?)'", re.DOTALL)


class NotWholeError(ActionlessError):
    """A cell was read as a whole number but is not one; it may still be a fraction."""


def separator_of(path: Path) -> str:
    """The most frequent separator in the first line, outside quotes; a comma if there is none."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = next((line for line in file if line.strip()), "")
    return max(",\t;|", key=_QUOTED.sub("", header).count)


def records(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with the number of its first line, counted from 1. The first record is the header."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        csv.field_size_limit(sys.maxsize)
        reader = csv.reader(file, delimiter=separator)
        line, header_seen = 1, False
        for record in reader:
            # A blank line above the header is skipped; below the header, it is a row without values.
            header_seen |= bool(record)
            if header_seen:
                yield line, record
            line = reader.line_num + 1


def line_of(path: Path, separator: str, row: int) -> int:
    """The number of the first line of a row below the header. A quoted cell may span several lines."""
    with path.open("rb") as file:
        quoted = any(b'"' in chunk for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))
    lines = records(path, separator)
    if quoted:
        return next(line for index, (line, _) in enumerate(lines) if index == row + 1)
    header_line, _ = next(lines)
    return header_line + 1 + row


def require_utf8(path: Path) -> None:
    """Refuse text in another encoding, and name the first line that is not UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ActionlessError(f"{path}: line {number} is not UTF-8; save the file as UTF-8") from error


def require_distinct_names(path: Path, separator: str) -> None:
    """Refuse two columns of the same name: Polars would silently rename the second."""
    _, header = next(records(path, separator), (0, []))
    if not any(name.strip() for name in header):
        raise ActionlessError(f"{path}: no column names; add a first line with the names of the columns")
    for name, times in Counter(header).items():
        if name and times > 1:
            raise ActionlessError(f"{path}: {times} columns are named '{name}' in the header; rename all but one")


def require_no_long_lines(path: Path, separator: str, fields: int) -> None:
    """Refuse a line with more cells than the header: Polars drops the extra ones, but the others may be shifted."""
    if not _lines_may_be_long(path, separator, fields):
        return
    for line, record in records(path, separator):
        if len(record) > fields:
            raise ActionlessError(
                f"{path}: line {line} has {len(record)} cells, but the header names {fields} columns; "
                f"put quotes around cells that contain '{separator}'"
            )


def _lines_may_be_long(path: Path, separator: str, fields: int) -> bool:
    """Fast test: does any line have more separators than the header? Counts quoted ones too, so it may be wrong."""
    wanted = separator.encode()
    others = bytes(set(range(256)) - {ord("\n"), *wanted})
    carried = b""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            marks = carried + chunk.translate(None, delete=others)
            if wanted * fields in marks:
                return True
            carried = marks[marks.rfind(b"\n") + 1 :]
    return False


def problem(path: Path, separator: str, error: Exception) -> ActionlessError:
    """Turn an error of the CSV parser into one that names the line."""
    message = str(error)
    if "utf-8" in message.lower():
        require_utf8(path)
    if "not properly escaped" in message:
        [(line, _)] = deque(records(path, separator), maxlen=1)
        return ActionlessError(f"{path}: a quoted cell that begins on line {line} is never closed; close the quote")
    if (found := _BAD_CELL.search(message)) is not None:
        text, dtype, column = found.groups()
        if dtype == "i64":
            return NotWholeError(f"{path}: column '{column}': '{text}' is not a whole number")
        line = _line_of_cell(path, separator, column, text)
        if line is not None:
            return ActionlessError(
                f"{path}: line {line}, column '{column}': '{text}' is not {_wanted(dtype)}; "
                "correct the cell, or leave it empty if a value may be missing"
            )
    return ActionlessError(f"{path}: cannot be read as CSV ({first_line(error)})")


def _line_of_cell(path: Path, separator: str, column: str, text: str) -> int | None:
    lines = records(path, separator)
    _, header = next(lines)
    if column not in header:
        return None
    position = header.index(column)
    wanted = text.strip()
    return next((line for line, cells in lines if len(cells) > position and cells[position].strip() == wanted), None)


def _wanted(dtype: str) -> str:
    if dtype.startswith(("date", "time", "duration")):
        return "a date or time like those above it"
    return "true or false like the cells above it" if dtype == "bool" else "a number"
