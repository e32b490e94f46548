"""A pytree as named arrays and JSON values, and back: no pickle.

Arrays are stored bit for bit. A tag marks typed PRNG keys, NumPy generators and plain Python values. Functions and
static fields are not stored: they are taken from the template when the tree is restored.
"""

import math
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from actionless.errors import ActionlessError

Tree = TypeVar("Tree")

_BLOCK = 2**20


def pack(tree: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Every leaf under the name of its path: arrays in the first dictionary, JSON values in the second."""
    arrays: dict[str, np.ndarray] = {}
    values: dict[str, Any] = {}
    for name, leaf in _named_leaves(tree):
        if _is_key(leaf):
            arrays[name] = np.asarray(jax.random.key_data(leaf))
            values[name] = {"key": _key_kind(leaf)}
        elif isinstance(leaf, jax.Array | np.ndarray | np.generic):
            arrays[name] = np.asarray(leaf, order="C")
        elif isinstance(leaf, np.random.Generator):
            values[name] = {"generator": _as_json(leaf.bit_generator.state)}
        elif isinstance(leaf, bool | int | float | str):
            values[name] = {"value": leaf}
        elif not callable(leaf):
            raise TypeError(f"{name}: cannot store a {type(leaf).__name__}")
    return arrays, values


def unpack(like: Tree, arrays: dict[str, np.ndarray], values: dict[str, Any], source: Path) -> Tree:
    """Restore a packed tree with the structure of `like`; an error names the first leaf that does not fit.

    The tree uses the arrays without a copy.
    """
    template = _named_leaves(like)
    expected = {name for name, leaf in template if not _is_code(leaf)}
    stored = arrays.keys() | values.keys()
    if odd := sorted(expected ^ stored):
        where = "it is missing in the file" if odd[0] in expected else "this configuration does not have it"
        raise _misfit(source, odd[0], where)
    leaves = [_restore(leaf, name, arrays, values, source) for name, leaf in template]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def first_non_finite(arrays: dict[str, np.ndarray], values: dict[str, Any]) -> str | None:
    """The name of the first leaf that contains NaN or infinity."""
    for name, array in arrays.items():
        if jnp.issubdtype(array.dtype, jnp.inexact) and not _all_finite(array):
            return name
    for name, tagged in values.items():
        if isinstance(tagged.get("value"), float) and not math.isfinite(tagged["value"]):
            return name
    return None


def _all_finite(array: np.ndarray) -> bool:
    """Check block by block: for a whole replay, the result of `isfinite` would take a quarter of its memory."""
    flat = array.reshape(-1)
    return all(np.isfinite(flat[start : start + _BLOCK]).all() for start in range(0, flat.size, _BLOCK))


def _restore(leaf: Any, name: str, arrays: dict[str, np.ndarray], values: dict[str, Any], source: Path) -> Any:
    if _is_code(leaf):
        return leaf
    array, tagged = arrays.get(name), values.get(name, {})
    if _is_key(leaf):
        _require(tagged.get("key") == _key_kind(leaf), source, name, f"it is not a {_key_kind(leaf)} key")
        data = _fitting(array, jax.random.key_data(leaf), name, source)
        return jax.random.wrap_key_data(jnp.asarray(data), impl=_key_kind(leaf))
    if isinstance(leaf, jax.Array):
        return jnp.asarray(_fitting(array, leaf, name, source))
    if isinstance(leaf, np.ndarray):
        return _fitting(array, leaf, name, source)
    if isinstance(leaf, np.generic):
        return _fitting(array, leaf, name, source)[()]
    if isinstance(leaf, np.random.Generator):
        return _generator(type(leaf.bit_generator), tagged.get("generator", {}), name, source)
    value = tagged.get("value")
    _require(type(value) is type(leaf), source, name, f"it holds {value!r}, not a {type(leaf).__name__}")
    return value


def _fitting(stored: np.ndarray | None, leaf: Any, name: str, source: Path) -> np.ndarray:
    need = f"this configuration needs {leaf.dtype}{list(leaf.shape)}"
    if stored is None:
        raise _misfit(source, name, f"it is not an array, {need}")
    fits = stored.shape == leaf.shape and stored.dtype == leaf.dtype
    _require(fits, source, name, f"it holds {stored.dtype}{list(stored.shape)}, {need}")
    return stored


def _generator(kind: Any, state: dict[str, Any], name: str, source: Path) -> np.random.Generator:
    stored = state.get("bit_generator")
    _require(stored == kind.__name__, source, name, f"it holds the generator {stored}, not {kind.__name__}")
    bits = kind()
    bits.state = _as_state(state)
    return np.random.Generator(bits)


def _named_leaves(tree: Any) -> list[tuple[str, Any]]:
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _key_kind(key: jax.Array) -> str:
    return str(jax.random.key_impl(key))


def _is_code(leaf: Any) -> bool:
    return callable(leaf) and not isinstance(leaf, jax.Array | np.ndarray | np.generic)


def _as_json(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _as_json(value) for key, value in state.items()}
    if isinstance(state, np.ndarray):
        return {"dtype": str(state.dtype), "array": state.tolist()}
    return state


def _as_state(state: Any) -> Any:
    if not isinstance(state, dict):
        return state
    if state.keys() == {"dtype", "array"}:
        return np.array(state["array"], dtype=state["dtype"])
    return {key: _as_state(value) for key, value in state.items()}


def _require(fits: bool, source: Path, name: str, problem: str) -> None:
    if not fits:
        raise _misfit(source, name, problem)


def _misfit(source: Path, name: str, problem: str) -> ActionlessError:
    return ActionlessError(f"{source}: '{name}' does not fit: {problem}; load it with the settings it was made with")
