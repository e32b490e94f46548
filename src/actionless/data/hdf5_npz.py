"""Readers of files with one array per key: D4RL's HDF5 layouts (v0 to v2) and NumPy's npz."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from actionless.data.checks import (
    NO_ACTIONS,
    FiniteCheck,
    as_flags,
    broken_rows_warning,
    mark_breaks,
    narrowed,
    require_transitions,
)
from actionless.data.log import Log, Source, blocks, default_state_names, float_type
from actionless.data.options import ReadOptions
from actionless.data.row_pairs import RowPairs, place
from actionless.data.store import LogArrays, Store
from actionless.errors import ActionlessError, first_line

# Accepted keys of each array: our own first, then D4RL's, then Minari's.
KEYS = {
    "states": ("states", "observations"),
    "next_states": ("next_states", "next_observations"),
    "rewards": ("rewards",),
    "terminals": ("terminals", "terminations"),
    "ends": ("ends", "timeouts", "truncations"),
    "actions": ("actions",),
    "state_names": ("state_names",),
}

# Time limits of the environments whose first D4RL files did not store where the limit was reached.
TIME_LIMITS = {"hopper": 1000, "halfcheetah": 1000, "walker2d": 1000, "ant": 1000}


def read_hdf5(path: Path, options: ReadOptions, store: Store) -> Log:
    """Read a D4RL file.

    Next states come from `next_observations`. If the file has none, the next state is the state of the next
    row, and the last step of each episode is dropped, because the next row belongs to another episode.
    """
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise _damaged(path, error) from error
    with file:
        try:
            # h5py gives names that are not UTF-8 as bytes.
            arrays = {str(key): item for key, item in file.items() if isinstance(item, h5py.Dataset)}
        # On a damaged index, h5py can raise any exception.
        except Exception as error:
            raise _damaged(path, error) from error
        try:
            return _read(path, "hdf5", arrays, options, store)
        except OSError as error:
            raise ActionlessError(
                f"{path}: cannot be read to its end ({first_line(error)}); copy or download it again"
            ) from error


def _damaged(path: Path, error: Exception) -> ActionlessError:
    return ActionlessError(f"{path}: a damaged or truncated HDF5 file ({first_line(error)}); copy or download it again")


def read_npz(path: Path, options: ReadOptions, store: Store) -> Log:
    """Read an npz file with the keys that `actionless convert` writes, or with D4RL's keys."""
    arrays = npz_arrays(path, [role for role in KEYS if role != "actions" or options.with_actions])
    return _read(path, "npz", arrays, options, store)


def npz_arrays(path: Path, roles: Sequence[str]) -> dict[str, Any]:
    """Read the arrays whose key has one of these roles; other keys map to None and are not read."""
    wanted = {key for role in roles for key in KEYS[role]}
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {key: file[key] if key in wanted else None for key in file.files}
    except MemoryError as error:
        raise ActionlessError(
            f"{path}: does not fit in memory ({first_line(error)}), and an npz file can only be read whole; "
            "convert it to Parquet on a larger machine"
        ) from error
    # On damaged bytes, NumPy, zip and the decompressors raise about a dozen types of exception.
    except Exception as error:
        if "allow_pickle" in str(error):
            raise ActionlessError(
                f"{path}: contains Python objects, which are not read for safety reasons; "
                "save plain numeric arrays with numpy.savez"
            ) from error
        raise ActionlessError(
            f"{path}: a damaged or truncated npz file ({first_line(error)}); write it again"
        ) from error
    for key, array in arrays.items():
        # NumPy returns an entry that is not an array as bytes.
        if isinstance(array, bytes):
            raise ActionlessError(f"{path}: '{key}' is not a NumPy array; write the file with numpy.savez")
    return arrays


def _read(path: Path, form: str, arrays: Mapping[str, Any], options: ReadOptions, store: Store) -> Log:
    names = {role: next((key for key in keys if key in arrays), None) for role, keys in KEYS.items()}
    if not options.with_actions:
        names["actions"] = None
    for role in ["states", "rewards", "terminals", *(["actions"] if options.with_actions else [])]:
        if names[role] is None:
            raise ActionlessError(
                f"{path}: no key {' or '.join(repr(key) for key in KEYS[role])}; "
                f"the file has: {', '.join(sorted(arrays)) or 'nothing'}"
                f"{NO_ACTIONS if role == 'actions' else ''}"
            )
    found = {role: arrays[key] for role, key in names.items() if key is not None}
    _check_shapes(path, found, names)
    source = Source(str(path), form, tuple(key for key in names.values() if key is not None))
    if "next_states" in found:
        log_arrays, warnings = _with_next_states(path, found, names, store)
    else:
        log_arrays, warnings = _from_rows(path, found, names, options, store)
    return store.finish(log_arrays, _state_names(path, found), source, warnings)


def _check_shapes(path: Path, found: Mapping[str, Any], names: Mapping[str, str | None]) -> None:
    for role, array in found.items():
        if array.shape is None:
            raise ActionlessError(f"{path}: '{names[role]}' is empty (an HDF5 data set without a shape)")
    states = found["states"]
    if len(states.shape) != 2 or 0 in states.shape:
        raise ActionlessError(
            f"{path}: '{names['states']}' has shape {states.shape}; it must be (steps, state variables) and not empty"
        )
    for role, array in found.items():
        key = names[role]
        if role == "state_names":
            continue
        if array.dtype.kind not in "fiub":
            raise ActionlessError(f"{path}: '{key}' has type {array.dtype}, which is not numeric")
        if len(array.shape) == 0 or len(array) != len(states):
            raise ActionlessError(
                f"{path}: '{key}' has shape {array.shape} but '{names['states']}' has {len(states):,} rows; "
                "all arrays must have one row per step"
            )
    if "next_states" in found and found["next_states"].shape != states.shape:
        raise ActionlessError(
            f"{path}: '{names['next_states']}' has shape {found['next_states'].shape} "
            f"but '{names['states']}' has {states.shape}"
        )
    for role in ("rewards", "terminals", "ends"):
        if role in found and found[role].size != len(states):
            raise ActionlessError(
                f"{path}: '{names[role]}' has shape {found[role].shape}; it must have one value per step"
            )


def _with_next_states(
    path: Path, found: Mapping[str, Any], names: Mapping[str, str | None], store: Store
) -> tuple[LogArrays, tuple[str, ...]]:
    arrays = _allocate(store, found, len(found["states"]))
    for role in ("states", "next_states", "rewards", "actions"):
        if role in found:
            target: np.ndarray = getattr(arrays, role)
            check = _finite_check(path, names[role])
            for block in blocks(len(target), target.itemsize * max(1, target[0].size)):
                target[block] = narrowed(found[role][block], target.dtype).reshape(target[block].shape)
                check.block(block.start, target[block])
            check.finish()
    arrays.terminals[:] = _flags(path, found, names, "terminals")
    arrays.ends[:] = arrays.terminals
    if "ends" in found:
        arrays.ends[:] |= _flags(path, found, names, "ends")
    breaks = mark_breaks(arrays.states, arrays.next_states, arrays.ends)
    return arrays, (broken_rows_warning(breaks, len(arrays.ends)),) if breaks else ()


def _from_rows(
    path: Path,
    found: Mapping[str, Any],
    names: Mapping[str, str | None],
    options: ReadOptions,
    store: Store,
) -> tuple[LogArrays, tuple[str, ...]]:
    terminal = _flags(path, found, names, "terminals")
    if "ends" in found:
        last = terminal | _flags(path, found, names, "ends")
    else:
        last = _ends_by_time_limit(terminal, _time_limit(path, options))
    last[-1] = True
    pairs = RowPairs.of(last)
    require_transitions(str(path), pairs.transitions)
    arrays = _allocate(store, found, pairs.transitions)
    pairs.flag_ends(arrays, last, terminal)

    states = found["states"]
    check = _finite_check(path, names["states"])
    for block in blocks(len(states), states.dtype.itemsize * states.shape[1]):
        rows = narrowed(states[block], arrays.states.dtype)
        check.block(block.start, rows)
        pairs.place_states(arrays, block, rows)
    check.finish()
    for role in ("rewards", "actions"):
        if role in found:
            target: np.ndarray = getattr(arrays, role)
            rows = narrowed(found[role][:], target.dtype).reshape(len(states), *target.shape[1:])
            check = _finite_check(path, names[role])
            check.block(0, rows)
            check.finish()
            place(target, pairs.leaves, rows)
    warning = (
        f"no '{KEYS['next_states'][1]}' in the file: the next state is the state of the next row, and the last step "
        f"of each of the {int(last.sum()):,} episodes was dropped; a terminal flag there moved to the step before"
    )
    return arrays, (warning,)


def _allocate(store: Store, found: Mapping[str, Any], transitions: int) -> LogArrays:
    actions = found.get("actions")
    return store.allocate(
        transitions,
        state_dim=found["states"].shape[1],
        action_dim=None if actions is None else int(np.prod(actions.shape[1:])),
        state_dtype=float_type(found["states"].dtype),
        reward_dtype=float_type(found["rewards"].dtype),
    )


def _flags(path: Path, found: Mapping[str, Any], names: Mapping[str, str | None], role: str) -> np.ndarray:
    return as_flags(
        np.asarray(found[role]).reshape(-1),
        lambda row: f"{path}: '{names[role]}' at row {row:,} (counting from 0)",
    )


def _finite_check(path: Path, key: str | None) -> FiniteCheck:
    return FiniteCheck(str(path), lambda row, column: f"'{key}' at row {row:,} (counting from 0), column {column}")


def _time_limit(path: Path, options: ReadOptions) -> int:
    if options.episode_length is not None:
        return options.episode_length
    environment = re.match(r"[a-z]+(2d)?", path.stem.lower())
    if environment and environment[0] in TIME_LIMITS:
        return TIME_LIMITS[environment[0]]
    raise ActionlessError(
        f"{path}: neither 'timeouts' nor 'next_observations' in the file, so episode ends are unknown; "
        "give the environment's time limit with --episode-length"
    )


def _ends_by_time_limit(terminal: np.ndarray, limit: int) -> np.ndarray:
    """Find episode ends in files with terminal flags only: an episode also ends `limit` steps after its start."""
    last = terminal.copy()
    starts = np.concatenate([[0], np.flatnonzero(terminal) + 1])
    stops = np.append(starts[1:], len(terminal))
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        last[start + limit - 1 : stop : limit] = True
    return last


def _state_names(path: Path, found: Mapping[str, Any]) -> tuple[str, ...]:
    dim = found["states"].shape[1]
    if "state_names" not in found:
        return default_state_names(dim)
    stored = found["state_names"]
    if stored.size != dim:
        raise ActionlessError(f"{path}: 'state_names' has {stored.size} names for {dim} state variables")
    try:
        names = [str(name, "utf-8") if isinstance(name, bytes) else str(name) for name in np.ravel(stored).tolist()]
    except UnicodeDecodeError as error:
        raise ActionlessError(f"{path}: 'state_names' is not UTF-8; write the names as UTF-8") from error
    if len(set(names)) != dim:
        raise ActionlessError(f"{path}: 'state_names' has {len(set(names))} different names for {dim} state variables")
    return tuple(names)
