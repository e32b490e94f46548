"""Summary of a log: sizes, returns, scale of each variable, how often it moves, and warnings."""

import dataclasses
import hashlib
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from actionless.data.log import Log, blocks, column_range
from actionless.discretise import Discretiser, Normaliser

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

# The paper's threshold; its results hardly change between 1e-3 and 1e-6.
DEFAULT_EPSILON = 1e-4


@dataclasses.dataclass(frozen=True)
class Dimension:
    """One state variable. `down`, `same` and `up` are shares of the transitions and add up to 1."""

    name: str
    min: float
    max: float
    mean: float
    std: float
    down: float
    same: float
    up: float
    constant: bool
    duplicate_of: str | None


@dataclasses.dataclass(frozen=True)
class Inspection:
    """The result of `actionless inspect`; `to_dict` has the keys of its JSON output."""

    name: str
    path: str
    format: str
    read: tuple[str, ...]
    fingerprint: str
    memory_mapped: bool
    transitions: int
    episodes: int
    state_dim: int
    terminals: int
    timeouts: int
    lengths: dict[str, float]
    returns: dict[str, float]
    rewards: dict[str, float]
    epsilon: float
    suggested_epsilon: float
    dimensions: tuple[Dimension, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Lists, dictionaries, numbers and strings only; None for a number that is not finite."""
        return plain(dataclasses.asdict(self))


def plain(value: Any) -> Any:
    """Convert to what JSON can hold: lists instead of tuples, None instead of NaN and infinity."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclasses.dataclass(frozen=True)
class _Columns:
    """Statistics of each dimension, from one pass over the states."""

    min: Float[np.ndarray, "dim"]
    max: Float[np.ndarray, "dim"]
    down: Float[np.ndarray, "dim"]
    same: Float[np.ndarray, "dim"]
    up: Float[np.ndarray, "dim"]
    digests: tuple[bytes, ...]


@np.errstate(over="ignore", invalid="ignore")
def inspect(log: Log, *, epsilon: float = DEFAULT_EPSILON) -> Inspection:
    """Summarise a log, block by block."""
    normaliser = Normaliser.fit(log.states, offset=0.0)
    columns = _columns(log, epsilon)
    std = np.where(columns.min == columns.max, 0.0, normaliser.scale)
    dimensions = tuple(
        Dimension(
            name=name,
            min=float(columns.min[i]),
            max=float(columns.max[i]),
            mean=float(normaliser.mean[i]),
            std=float(std[i]),
            down=float(columns.down[i]),
            same=float(columns.same[i]),
            up=float(columns.up[i]),
            constant=bool(columns.min[i] == columns.max[i]),
            duplicate_of=_duplicate_of(i, columns, log.state_names),
        )
        for i, name in enumerate(log.state_names)
    )
    suggested = suggest_epsilon(log.states.dtype, columns.min, columns.max, std)
    terminals = int(log.terminals.sum())
    return Inspection(
        name=log.name,
        path=log.source.path,
        format=log.source.format,
        read=log.source.read,
        fingerprint=log.fingerprint,
        memory_mapped=log.memory_mapped,
        transitions=len(log),
        episodes=len(log.episode_stops),
        state_dim=log.state_dim,
        terminals=terminals,
        timeouts=len(log.episode_stops) - terminals,
        lengths=_summary(log.episode_lengths),
        returns=_summary(log.episode_returns),
        rewards=_spread(log.rewards),
        epsilon=epsilon,
        suggested_epsilon=suggested,
        dimensions=dimensions,
        warnings=(*log.warnings, *_warnings(log, dimensions, epsilon, suggested)),
    )


def suggest_epsilon(
    dtype: np.dtype, low: Float[np.ndarray, "dim"], high: Float[np.ndarray, "dim"], std: Float[np.ndarray, "dim"]
) -> float:
    """The paper's 1e-4, or the next power of ten above the rounding error of the data if that is larger.

    A change of a few units in the last place of the stored numbers is a rounding error, not a movement.
    """
    varying = std > 0
    if not varying.any():
        return DEFAULT_EPSILON
    noise = 4 * np.finfo(dtype).eps * np.maximum(np.abs(low), np.abs(high))[varying] / (std[varying] + 1e-3)
    return max(DEFAULT_EPSILON, 10.0 ** math.ceil(math.log10(max(noise.max(), 1e-300))))


def _columns(log: Log, epsilon: float) -> _Columns:
    ranges = []
    counts = np.zeros((3, log.state_dim), np.int64)
    digests = [hashlib.sha256() for _ in range(log.state_dim)]
    discretiser = Discretiser.fit(log.states, log.next_states, bins=3, epsilon=epsilon)
    for block in blocks(len(log), 2 * log.states.itemsize * log.state_dim):
        states, next_states = np.asarray(log.states[block]), np.asarray(log.next_states[block])
        ranges += column_range((states, next_states))
        delta = discretiser.delta(states, next_states)
        counts += np.stack([(delta == label).sum(axis=0) for label in (-1, 0, 1)])
        for array in (states, next_states):
            for digest, column in zip(digests, np.ascontiguousarray(array.T), strict=True):
                digest.update(column.data)
    down, same, up = counts / len(log)
    low, high = column_range([np.stack(ranges)])
    return _Columns(low, high, down, same, up, tuple(digest.digest() for digest in digests))


def _duplicate_of(index: int, columns: _Columns, names: tuple[str, ...]) -> str | None:
    if columns.min[index] == columns.max[index]:
        return None
    first = columns.digests.index(columns.digests[index])
    return names[first] if first < index else None


def _summary(values: np.ndarray) -> dict[str, float]:
    quantiles = {f"q{round(100 * q):02d}": float(np.quantile(values, q)) for q in QUANTILES}
    return {**_spread(values), **quantiles}


def _spread(values: np.ndarray) -> dict[str, float]:
    """Mean, standard deviation and range, computed in blocks: even the rewards alone may be large."""
    mean = float(values.mean(dtype=np.float64))
    squares = sum(
        float(np.square(np.asarray(values[block], np.float64) - mean).sum()) for block in blocks(len(values), 8)
    )
    std = math.sqrt(squares / len(values))
    return {"mean": mean, "std": std, "min": float(values.min()), "max": float(values.max())}


def _warnings(log: Log, dimensions: tuple[Dimension, ...], epsilon: float, suggested: float) -> list[str]:
    warnings = []
    if constant := [d.name for d in dimensions if d.constant]:
        warnings.append(f"constant, so there is no change to learn: {', '.join(constant)}; leave out")
    for d in dimensions:
        if d.duplicate_of:
            warnings.append(f"{d.name} equals {d.duplicate_of} in every state; leave out one of them")
    if fixed := [d.name for d in dimensions if not d.constant and d.same == 1]:
        warnings.append(
            f"never changes by more than ε = {epsilon:g} within an episode: {', '.join(fixed)}; useful as context only"
        )
    if still := [d.name for d in dimensions if 0.99 < d.same < 1]:
        warnings.append(f"rarely changes by more than ε = {epsilon:g}: {', '.join(still)}; a smaller ε may help")
    if small := [d.name for d in dimensions if 0 < d.std < 1e-2]:
        warnings.append(
            f"standard deviation below 0.01, so the normaliser's offset of 0.001 matters: {', '.join(small)}; "
            "use a smaller unit"
        )
    if suggested > epsilon:
        warnings.append(f"rounding error of the stored numbers exceeds ε = {epsilon:g}; use --epsilon {suggested:g}")
    if log.rewards.min() == log.rewards.max():
        warnings.append(f"every reward is {float(log.rewards[0]):g}: good and bad episodes cannot be told apart")
    if len(log.episode_stops) == 1:
        warnings.append("only one episode: none can be held out to test a policy")
    return warnings
