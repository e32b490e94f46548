"""Read plain states (no episodes, no rewards) to ask a policy about."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from actionless.data.checks import FiniteCheck
from actionless.data.log import float_type
from actionless.data.read import kind_of
from actionless.errors import ActionlessError

STANDARD_INPUT = "-"


@dataclass(frozen=True, eq=False)
class States:
    """The rows of a file in order, with the variables in the requested order."""

    states: Float[np.ndarray, "rows dim"]
    next_states: Float[np.ndarray, "rows dim"] | None = None
    """The state after each, if the file has it."""


def read_states(source: str, names: Sequence[str]) -> States:
    """States from a CSV, Parquet, Arrow or npz file, or as CSV from standard input where `source` is `-`.

    A table needs a column for each of `names`; other columns are ignored. An npz file needs `states` (or D4RL's
    `observations`), may have `next_states`, and may name its variables in `state_names`.
    """
    if source == STANDARD_INPUT:
        return _from_standard_input(names)
    path = Path(source)
    if not path.is_file():
        raise ActionlessError(
            f"{path}: no such file; give a CSV, Parquet or npz file of states, or - for standard input"
        )
    kind = kind_of(path)
    if kind == "npz":
        return _from_npz(path, names)
    if kind in ("parquet", "csv", "arrow"):
        from actionless.data.table.read import read_columns

        return States(read_columns(path, kind, names))
    raise ActionlessError(f"{path}: states must be a CSV, Parquet, Arrow or npz file; convert it to one of these")


def _from_standard_input(names: Sequence[str]) -> States:
    """Copy standard input to a file first, because a table is read more than once."""
    content = sys.stdin.buffer.read()
    if not content.strip():
        raise ActionlessError("standard input: empty; pipe in a CSV whose first line names the columns")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "states.csv"
        path.write_bytes(content)
        try:
            return read_states(str(path), names)
        except ActionlessError as error:
            raise ActionlessError(str(error).replace(str(path), "standard input")) from error


def _from_npz(path: Path, names: Sequence[str]) -> States:
    from actionless.data.hdf5_npz import npz_arrays

    arrays = npz_arrays(path, ("states", "next_states", "state_names"))
    states = _matrix(path, arrays, ("states", "observations"))
    if states is None:
        raise ActionlessError(
            f"{path}: no key 'states' or 'observations'; the file has: {', '.join(sorted(arrays)) or 'nothing'}"
        )
    next_states = _matrix(path, arrays, ("next_states", "next_observations"))
    if next_states is not None and next_states.shape != states.shape:
        raise ActionlessError(
            f"{path}: next states have shape {next_states.shape}, but states have {states.shape}; "
            "give one next state for each state"
        )
    order = _order(path, arrays, names, states.shape[1])
    return States(states[:, order], None if next_states is None else next_states[:, order])


def _matrix(path: Path, arrays: dict[str, np.ndarray | None], keys: Sequence[str]) -> np.ndarray | None:
    key = next((key for key in keys if key in arrays), None)
    if key is None:
        return None
    array = arrays[key]
    assert array is not None
    if array.ndim != 2 or array.dtype.kind not in "fiub" or len(array) == 0:
        raise ActionlessError(
            f"{path}: '{key}' has type {array.dtype} and shape {array.shape}; give numbers, one row per state"
        )
    array = array.astype(float_type(array.dtype))
    check = FiniteCheck(str(path), lambda row, column: f"'{key}', row {row} (counting from 0), variable {column}")
    check.block(0, array)
    check.finish()
    return array


def _order(path: Path, arrays: dict[str, np.ndarray | None], names: Sequence[str], width: int) -> list[int]:
    """The column of each variable: found by name if the file has names, else in the order of the file."""
    stored = arrays.get("state_names")
    if stored is None:
        if width != len(names):
            raise ActionlessError(
                f"{path}: {width} variables per state and no 'state_names', but the policy has {len(names)} "
                f"variables: {', '.join(names)}"
            )
        return list(range(width))
    found = [str(name, "utf-8") if isinstance(name, bytes) else str(name) for name in np.ravel(stored).tolist()]
    if len(found) != width:
        raise ActionlessError(f"{path}: 'state_names' has {len(found)} names for {width} state variables")
    if missing := [name for name in names if name not in found]:
        raise ActionlessError(f"{path}: no variable '{missing[0]}' in 'state_names', which has {', '.join(found)}")
    return [found.index(name) for name in names]
