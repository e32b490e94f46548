"""Reader of the factorised DMC data sets: pickled lists of transitions, unpickled without running any code in them."""

import dataclasses
import gc
import math
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from actionless.data.checks import (
    FiniteCheck,
    as_flags,
    broken_rows_warning,
    mark_breaks,
    narrowed,
    require_transitions,
)
from actionless.data.log import Log, Source, blocks, default_state_names, float_type
from actionless.data.options import ReadOptions
from actionless.data.store import Store
from actionless.errors import ActionlessError, first_line

FIELDS = ("state", "action", "reward", "next_state", "done")
FORMAT = "factorised DMC pickle"


def read_factorised(path: Path, options: ReadOptions, store: Store) -> Log:
    """Read a pickled list of (state, sub-action indices, reward, next_state, done).

    Environments of dm_control never terminate: `done` marks the time limit, so it becomes an episode end and
    the log has no terminals. A pickle can only be read whole, so all of it, actions included, must fit in
    memory. The log itself holds actions only if `options` asks for them.
    """
    transitions = _load(path)
    _check_tuples(path, transitions)
    state, next_state = _Column.of(path, transitions, "state"), _Column.of(path, transitions, "next_state")
    if state.shape != next_state.shape:
        raise ActionlessError(f"{path}: the states have shape {state.shape}, the next states {next_state.shape}")
    action = _Column.of(path, transitions, "action") if options.with_actions else None
    rewards = _numbers(path, transitions, "reward")
    arrays = store.allocate(
        len(transitions),
        state_dim=state.width,
        action_dim=None if action is None else action.width,
        state_dtype=float_type(np.result_type(state.dtype, next_state.dtype)),
        reward_dtype=rewards.dtype,
    )
    state.fill(path, arrays.states)
    next_state.fill(path, arrays.next_states)
    if action is not None and arrays.actions is not None:
        action.fill(path, arrays.actions)
    _finite_check(path, "reward", rewards)
    arrays.rewards[:] = rewards
    arrays.terminals[:] = False
    arrays.ends[:] = as_flags(
        _numbers(path, transitions, "done"), lambda index: f"{_place(path, index)}: the done flag"
    )
    breaks = mark_breaks(arrays.states, arrays.next_states, arrays.ends)
    warnings = (broken_rows_warning(breaks, len(transitions)),) if breaks else ()
    read = tuple(field for field in FIELDS if field != "action" or options.with_actions)
    source = Source(str(path), FORMAT, read)
    return store.finish(arrays, default_state_names(state.width), source, warnings)


class _RefusedError(Exception):
    """The pickle contains something other than numbers."""


class _Array:
    """A pickle's description of an array. It becomes a NumPy array only after `is_sound` has checked it."""

    __slots__ = ("by_columns", "dtype", "raw", "shape")

    def __init__(self, raw: Any = b"", dtype: Any = None, shape: Any = (), by_columns: Any = False) -> None:
        self.raw, self.dtype, self.shape, self.by_columns = raw, dtype, shape, by_columns

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.dtype, self.by_columns, self.raw = state

    def is_sound(self) -> bool:
        return (
            isinstance(self.dtype, _Dtype)
            and isinstance(self.shape, tuple)
            and all(type(size) is int and size > 0 for size in self.shape)
            and (len(self.shape) < 2 or not self.by_columns)
            and isinstance(self.raw, bytes | bytearray)
            and len(self.raw) == math.prod(self.shape) * self.dtype.numpy.itemsize
        )

    def number(self) -> np.generic:
        return np.frombuffer(self.raw, self.dtype.numpy)[0]


class _Dtype:
    """A pickled dtype: one of NumPy's plain numeric types, in either byte order."""

    __slots__ = ("numpy",)

    def __init__(self, numpy: np.dtype) -> None:
        self.numpy = numpy

    def __setstate__(self, state: Any) -> None:
        _, byte_order, *structure = state
        if byte_order not in ("<", ">", "|", "=") or set(structure[:3]) != {None}:
            raise _RefusedError("it holds an array of a structured type, not of numbers")
        self.numpy = self.numpy.newbyteorder(byte_order)


# The only callables a pickle may use. They have no attributes, so a pickle cannot modify them.
class _MakeDtype:
    __slots__ = ()

    def __call__(self, code: Any, *_: Any) -> _Dtype:
        dtype = np.dtype(code) if isinstance(code, str) else None
        if dtype is None or dtype.kind not in "biuf":
            raise _RefusedError(f"it holds an array of type {code!r:.40}, not of numbers")
        return _Dtype(dtype)


class _MakeArray:
    __slots__ = ()

    def __call__(self, *_: Any) -> _Array:
        return _Array()


class _MakeArrayFromBuffer:
    __slots__ = ()

    def __call__(self, raw: Any, dtype: Any, shape: Any, order: Any, *_: Any) -> _Array:
        return _Array(raw, dtype, shape, by_columns=order != "C")


class _MakeScalar:
    __slots__ = ()

    def __call__(self, dtype: Any, raw: Any) -> np.generic:
        scalar = _Array(raw, dtype)
        if not scalar.is_sound():
            raise _RefusedError("it holds a malformed number")
        return scalar.number()


class _EncodeLatin1:
    """Pickle protocol 2 has no bytes type: it stores bytes as text, to be encoded again."""

    __slots__ = ()

    def __call__(self, text: Any, encoding: Any) -> bytes:
        if not isinstance(text, str) or encoding != "latin1":
            raise _RefusedError("it encodes text")
        return text.encode("latin1")


_ADMITTED = {
    ("numpy", "dtype"): _MakeDtype(),
    # Only passed to _reconstruct as the class to build, which is always the same here.
    ("numpy", "ndarray"): None,
    ("_codecs", "encode"): _EncodeLatin1(),
    **{
        (f"numpy.{core}.{module}", name): make
        for core in ("core", "_core")
        for module, name, make in [
            ("multiarray", "_reconstruct", _MakeArray()),
            ("multiarray", "scalar", _MakeScalar()),
            ("numeric", "_frombuffer", _MakeArrayFromBuffer()),
        ]
    },
}


class _NumbersOnly(pickle.Unpickler):
    """Unpickles plain values and numeric arrays; never imports or calls anything the file names."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in _ADMITTED:
            # `!r`, because the file may name anything, including line breaks and escape codes.
            raise _RefusedError(f"it asks for {f'{module_name}.{global_name}'!r:.100}")
        return _ADMITTED[module_name, global_name]


def _load(path: Path) -> Any:
    try:
        with path.open("rb") as file, _collector_paused():
            return _NumbersOnly(file).load()
    except OSError as error:
        raise ActionlessError(f"{path}: cannot be read ({error.strerror})") from error
    except MemoryError as error:
        raise ActionlessError(
            f"{path}: does not fit in memory, and a pickle can only be read whole; "
            "convert it to npz on a larger machine"
        ) from error
    except _RefusedError as error:
        raise ActionlessError(
            f"{path}: refused to unpickle: {error}; only plain numbers and NumPy arrays of numbers are allowed"
        ) from error
    # On a damaged pickle, the unpickler can raise any exception.
    except Exception as error:
        raise ActionlessError(
            f"{path}: a damaged or truncated pickle ({first_line(error)}); copy or download it again"
        ) from error


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Turn off garbage collection, which would scan the growing list again and again: twice as fast."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _check_tuples(path: Path, transitions: Any) -> None:
    if not isinstance(transitions, list):
        raise ActionlessError(
            f"{path}: a pickled {_kind(transitions)}, not a list of ({', '.join(FIELDS)}); "
            "save the arrays with numpy.savez instead"
        )
    require_transitions(str(path), len(transitions))
    for index, transition in enumerate(transitions):
        if not isinstance(transition, tuple | list) or len(transition) != len(FIELDS):
            size = f" of {len(transition)}" if isinstance(transition, tuple | list) else ""
            raise ActionlessError(f"{_place(path, index)} is a {_kind(transition)}{size}, not ({', '.join(FIELDS)})")


@dataclasses.dataclass(frozen=True)
class _Column:
    """One array field of all transitions, with the same shape and type in each."""

    field: str
    shape: tuple[int, ...]
    dtype: np.dtype
    raw: list[bytes | bytearray]

    @property
    def width(self) -> int:
        return math.prod(self.shape)

    @staticmethod
    def of(path: Path, transitions: list[Any], field: str) -> "_Column":
        values = [transition[FIELDS.index(field)] for transition in transitions]
        first = values[0]
        for index, value in enumerate(values):
            if not isinstance(value, _Array) or not value.is_sound():
                raise ActionlessError(f"{_place(path, index)}: the {field} is not a NumPy array of numbers")
            if value.shape != first.shape or value.dtype.numpy != first.dtype.numpy:
                raise ActionlessError(
                    f"{_place(path, index)}: the {field} has shape {value.shape} and type {value.dtype.numpy}, "
                    f"but the first has {first.shape} and {first.dtype.numpy}"
                )
        return _Column(field, first.shape, first.dtype.numpy, [value.raw for value in values])

    def fill(self, path: Path, target: np.ndarray) -> None:
        for block in blocks(len(target), self.width * self.dtype.itemsize):
            values = np.frombuffer(b"".join(self.raw[block]), self.dtype)
            target[block] = narrowed(values, target.dtype).reshape(-1, self.width)
        _finite_check(path, self.field, target)


def _numbers(path: Path, transitions: list[Any], field: str) -> np.ndarray:
    """One number per transition, stored as a Python number, a NumPy number, or an array of size 1."""
    values = [transition[FIELDS.index(field)] for transition in transitions]
    for index, value in enumerate(values):
        if isinstance(value, _Array) and value.is_sound() and math.prod(value.shape) == 1:
            values[index] = value.number()
        elif not isinstance(value, bool | int | float | np.generic):
            raise ActionlessError(f"{_place(path, index)}: the {field} is a {_kind(value)}, not a number")
    kinds = np.result_type(*{type(value) for value in values})
    try:
        return np.array(values, float_type(kinds))
    except OverflowError as error:
        raise ActionlessError(f"{path}: a {field} is too large for a 64-bit float") from error


def _finite_check(path: Path, field: str, values: np.ndarray) -> None:
    check = FiniteCheck(
        str(path), lambda row, column: f"{field} of transition {row:,} (counting from 0), value {column},"
    )
    for block in blocks(len(values), values[0].nbytes):
        check.block(block.start, values[block])
    check.finish()


def _place(path: Path, index: int) -> str:
    return f"{path}: transition {index:,} (counting from 0)"


def _kind(value: Any) -> str:
    return "NumPy array" if isinstance(value, _Array) else type(value).__name__
