"""Normalised states and Δs: the direction in which each state dimension moves, in bins.

Fitting works block by block, so a memory-mapped log may be larger than memory. The methods accept NumPy arrays
and return NumPy arrays, or accept JAX arrays (also inside `jit`) and return JAX arrays.
"""

import functools
import math
import operator
from typing import Any, Literal, TypeVar, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Real

from actionless.data.log import blocks, column_range
from actionless.errors import ActionlessError

Array = TypeVar("Array", np.ndarray, jax.Array)
Spacing = Literal["epsilon", "even", "quantile", "occupancy"]

QUANTILE_ROWS = 2_000_000
MOST_BINS = 127  # labels are int8


def _like(constant: Any, array: Array) -> Array:
    """`constant` with the library (NumPy or JAX), dtype and shape of `array`."""
    if isinstance(array, jax.Array):
        return jnp.broadcast_to(jnp.asarray(constant, array.dtype), array.shape)
    return np.broadcast_to(np.asarray(constant, array.dtype), array.shape)


def _floating(array: Array) -> Array:
    """`array` as floats in its own precision; integers and half precision become wider floats."""
    if isinstance(array, jax.Array):
        return array.astype(jnp.result_type(float))
    return array.astype(np.promote_types(array.dtype, np.float32))


class Normaliser(eqx.Module):
    """z-scores: (state - mean) / scale, where scale = standard deviation + a small offset."""

    mean: Float[np.ndarray, " dim"]
    scale: Float[np.ndarray, " dim"]

    @classmethod
    def fit(cls, states: Real[np.ndarray, "n dim"], offset: float = 1e-3) -> "Normaliser":
        """Mean and scale of a log's states; a dimension that would have scale 0 gets 1."""
        if len(states) == 0:
            raise ActionlessError("a normaliser cannot be fitted to a log without states: check the log")
        # Relative to the first row: a large common offset then costs no digits, and a constant dimension has no spread.
        origin = np.asarray(states[0], np.float64)
        count, mean, squares = 0, np.zeros_like(origin), np.zeros_like(origin)
        for block in blocks(len(states), 8 * states.shape[1]):
            x = np.asarray(states[block], np.float64) - origin
            block_mean = x.mean(axis=0)
            step, total = block_mean - mean, count + len(x)
            squares += np.square(x - block_mean).sum(axis=0) + step**2 * (count * len(x) / total)
            mean += step * (len(x) / total)
            count = total
        scale = np.sqrt(squares / count) + offset
        return cls(mean=origin + mean, scale=np.where(scale > 0, scale, 1.0))

    def normalise(self, states: Real[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
        """Convert states to z-scores."""
        if isinstance(states, jax.Array):
            x = _floating(states)
            return (x - _like(self.mean, x)) / _like(self.scale, x)
        # In float64, so that a float32 log with a mean far from zero loses no digits.
        x = _floating(states)
        return ((x - self.mean) / self.scale).astype(x.dtype)

    def denormalise(self, z: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
        """Convert z-scores back to states."""
        if isinstance(z, jax.Array):
            return z * _like(self.scale, z) + _like(self.mean, z)
        return (z * self.scale + self.mean).astype(z.dtype)


class Discretiser(eqx.Module):
    """Δs: the change of each normalised state dimension, in bins.

    An edge belongs to the bin nearer to zero, so symmetric edges give symmetric labels. `representatives` has
    one change per bin: the mean of the log's changes in it, or a point inside it if the log has none.
    """

    normaliser: Normaliser
    edges: Float[np.ndarray, "dim edges"]
    representatives: Float[np.ndarray, "dim bins"]

    @classmethod
    def fit(
        cls,
        states: Real[np.ndarray, "n dim"],
        next_states: Real[np.ndarray, "n dim"],
        *,
        bins: int = 3,
        spacing: Spacing = "epsilon",
        epsilon: float = 1e-4,
        normaliser: Normaliser | None = None,
    ) -> "Discretiser":
        """Fit bins to a log.

        `spacing` "epsilon" is the paper's rule: 3 bins split at ±epsilon, 2 bins at 0. "even" splits the range of
        the log's changes into intervals of equal width, "quantile" into intervals with equally many changes.
        "occupancy" does the latter with the sizes of changes, on both sides of 0: of 3 bins, `same` has the smallest
        third of each variable's changes, and down and up keep their meaning. With more than two million transitions,
        the quantiles come from an evenly spaced sample.
        """
        check_bins(bins, spacing, epsilon)
        normaliser = Normaliser.fit(states) if normaliser is None else normaliser
        edges = _edges(states, next_states, normaliser.scale, bins, spacing, epsilon)
        unfitted = cls(normaliser, edges, np.zeros((len(edges), bins)))
        return cls(normaliser, edges, _representatives(unfitted, states, next_states))

    @property
    def dim(self) -> int:
        """Number of state dimensions."""
        return self.edges.shape[0]

    @property
    def bins(self) -> int:
        """Number of bins of each dimension."""
        return self.edges.shape[1] + 1

    @property
    def _lowest_label(self) -> int:
        return -(self.bins // 2) if self.bins % 2 else 0

    def difference(
        self, states: Real[Array, "*batch dim"], next_states: Real[Array, "*batch dim"]
    ) -> Float[Array, "*batch dim"]:
        """Change in normalised units. The subtraction is done in the states' own units and precision."""
        return _difference(states, next_states, self.normaliser.scale)

    def index(self, difference: Float[Array, "*batch dim"]) -> Int[Array, "*batch dim"]:
        """Bin of each change, from 0 (lowest) to bins - 1, as int8."""
        passed = [
            _passed(difference, edge, edge_is_above)
            for edge, edge_is_above in zip(self.edges.T, at_edge_is_above(self.edges).T, strict=True)
        ]
        return functools.reduce(operator.add, passed)

    def labels(self, index: Int[Array, "*batch dim"]) -> Int[Array, "*batch dim"]:
        """Labels of bins, as int8: centred for an odd number of bins (-1, 0, 1), else counted from 0."""
        return (index + self._lowest_label).astype(np.int8)

    def index_of(self, labels: Int[Array, "*batch dim"]) -> Int[Array, "*batch dim"]:
        """Bin index of each label, as int8."""
        return (labels - self._lowest_label).astype(np.int8)

    def delta(
        self, states: Real[Array, "*batch dim"], next_states: Real[Array, "*batch dim"]
    ) -> Int[Array, "*batch dim"]:
        """Labels of the Δs of transitions."""
        return self.labels(self.index(self.difference(states, next_states)))

    def change(self, labels: Int[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
        """The representative change of each label, in normalised units."""
        index = self.index_of(labels).astype(np.int32)
        dimension = _like(np.arange(self.dim), index)
        if isinstance(index, jax.Array):
            return jnp.asarray(self.representatives)[dimension, index]
        return self.representatives[dimension, index]


def _difference(states: Array, next_states: Array, scale: Any) -> Array:
    # The mean cancels: subtracting it first would only cost digits for states far from zero.
    change = _floating(next_states) - _floating(states)
    return change / _like(scale, change)


def _passed(difference: Any, edge: Any, edge_is_above: Any) -> Any:
    limit = _like(edge, difference)
    at_edge = difference == limit
    return ((difference > limit) | (at_edge & _like(edge_is_above, at_edge))).astype(np.int8)


def at_edge_is_above(edges: Any) -> Any:
    """Whether a change exactly at an edge counts as above it: at negative edges, and the lower half of those at 0."""
    zero = edges == 0
    lower_half = zero.cumsum(axis=1) <= zero.sum(axis=1, keepdims=True) // 2
    return (edges < 0) | (zero & lower_half)


def check_bins(bins: int, spacing: Spacing, epsilon: float) -> None:
    """Refuse invalid values of the three settings."""
    if not 2 <= bins <= MOST_BINS:
        raise ActionlessError(f"bins={bins}: choose between 2 and {MOST_BINS} bins")
    if spacing not in get_args(Spacing):
        raise ActionlessError(f"spacing='{spacing}': choose {', '.join(map(repr, get_args(Spacing)))}")
    if spacing == "epsilon" and bins > 3:
        raise ActionlessError(
            f"bins={bins} with spacing='epsilon': more than 3 bins need 'even' or 'quantile' or 'occupancy'"
        )
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise ActionlessError(f"epsilon={epsilon}: choose a finite threshold of at least 0, such as 1e-4")


def _edges(
    states: np.ndarray,
    next_states: np.ndarray,
    scale: np.ndarray,
    bins: int,
    spacing: Spacing,
    epsilon: float,
) -> Float[np.ndarray, "dim edges"]:
    rows, dim = states.shape
    if spacing == "epsilon":
        return np.tile([0.0] if bins == 2 else [-epsilon, epsilon], (dim, 1))
    if spacing == "even":
        low, high = column_range(
            _difference(np.asarray(states[block]), np.asarray(next_states[block]), scale)
            for block in blocks(rows, 8 * dim)
        )
        return np.linspace(low, high, bins + 1, axis=1)[:, 1:-1]
    sample = slice(None, None, max(1, math.ceil(rows / QUANTILE_ROWS)))
    d = _difference(np.asarray(states[sample]), np.asarray(next_states[sample]), scale)
    d = d.astype(np.float64)
    if spacing == "quantile":
        return np.quantile(d, np.linspace(0, 1, bins + 1)[1:-1], axis=0).T
    # Bins at both ends of the same size share it: of k bins an odd one in the middle has 1/k, each pair 2/k.
    above = np.quantile(np.abs(d), np.arange(2 - bins % 2, bins, 2) / bins, axis=0).T
    middle = np.zeros((dim, 1 - bins % 2))
    return np.concatenate([-above[:, ::-1], middle, above], axis=1)


def _representatives(
    discretiser: Discretiser, states: np.ndarray, next_states: np.ndarray
) -> Float[np.ndarray, "dim bins"]:
    shape = (discretiser.dim, discretiser.bins)
    count, total = np.zeros(shape), np.zeros(shape)
    low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
    for block in blocks(len(states), 8 * states.shape[1]):
        d = discretiser.difference(np.asarray(states[block]), np.asarray(next_states[block]))
        index, d = discretiser.index(d), d.astype(np.float64)
        for k in range(discretiser.bins):
            inside = index == k
            count[:, k] += inside.sum(axis=0)
            total[:, k] += d.sum(axis=0, where=inside)
            low[:, k] = np.minimum(low[:, k], d.min(axis=0, where=inside, initial=np.inf))
            high[:, k] = np.maximum(high[:, k], d.max(axis=0, where=inside, initial=-np.inf))
    # Clipped, because rounding may move a mean out of its bin, and a float32 change at an edge is not exactly there.
    mean = np.clip(total / np.maximum(count, 1), low, high)
    limits = np.pad(discretiser.edges, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))
    return np.where(count > 0, np.clip(mean, limits[:, :-1], limits[:, 1:]), _points_inside(discretiser.edges))


def _points_inside(edges: Float[np.ndarray, "dim edges"]) -> Float[np.ndarray, "dim bins"]:
    """Bin centres; in the two outer bins, a point one bin width (or 1 if that is 0) beyond the edge."""
    width = (edges[:, -1:] - edges[:, :1]) / max(1, edges.shape[1] - 1)
    width = np.where(width > 0, width, 1.0)
    outer = np.concatenate([edges[:, :1] - 2 * width, edges, edges[:, -1:] + 2 * width], axis=1)
    return (outer[:, :-1] + outer[:, 1:]) / 2
