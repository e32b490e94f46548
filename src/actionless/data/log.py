"""The log: episodes of (state, reward, next state), and which columns or keys were read to build it."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int, Real

_NEGLIGIBLE = 0.05
"""A return is complete where what lies beyond the recording would weigh at most this much."""

# Large enough to hide NumPy's overhead per call, small enough that a pass over a memory-mapped log needs
# only a few tens of megabytes.
BLOCK_BYTES = 16 * 2**20


def blocks(rows: int, row_bytes: int) -> Iterator[slice]:
    """Slices that split `rows` rows into blocks of about `BLOCK_BYTES` each."""
    size = max(1, BLOCK_BYTES // max(1, row_bytes))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def column_range(
    parts: Iterable[Real[np.ndarray, "_ dim"]],
) -> tuple[Float[np.ndarray, "dim"], Float[np.ndarray, "dim"]]:
    """Lowest and highest value of each column over all parts, which may be read one after another."""
    extremes = [(part.min(axis=0), part.max(axis=0)) for part in parts]
    low, high = zip(*extremes, strict=True)
    return np.min(low, axis=0).astype(np.float64), np.max(high, axis=0).astype(np.float64)


@dataclasses.dataclass(frozen=True)
class Source:
    """What a log was read from: the path or id, the kind of file, and the columns or keys that were read."""

    path: str
    format: str
    read: tuple[str, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Log:
    """Transitions in order, episode after episode.

    `terminals` marks where the environment ended the episode, so that no reward can follow. `ends` marks every end
    of an episode, also by a time limit or the end of the recording; `terminals` implies `ends`. Within an episode
    the next state of a transition is exactly the state of the following one. Floats keep the precision of the
    file: float32 would lose small changes of large values.
    """

    states: Float[np.ndarray, "transitions dim"]
    rewards: Float[np.ndarray, "transitions"]
    next_states: Float[np.ndarray, "transitions dim"]
    terminals: Bool[np.ndarray, "transitions"]
    ends: Bool[np.ndarray, "transitions"]
    state_names: tuple[str, ...]
    source: Source
    actions: Float[np.ndarray, "transitions action_dim"] | None = None
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def state_dim(self) -> int:
        """Number of state variables."""
        return self.states.shape[1]

    @property
    def name(self) -> str:
        """The file name without its extension, or the Minari id without `minari:`."""
        path = self.source.path
        return path.removeprefix("minari:") if path.startswith("minari:") else Path(path).stem

    @property
    def memory_mapped(self) -> bool:
        """Whether the arrays are files on disk instead of in memory."""
        return isinstance(self.states, np.memmap)

    @cached_property
    def episode_stops(self) -> Int[np.ndarray, "episodes"]:
        """One past the last transition of each episode."""
        return np.flatnonzero(self.ends) + 1

    @cached_property
    def episode_lengths(self) -> Int[np.ndarray, "episodes"]:
        """Transitions in each episode."""
        return np.diff(self.episode_stops, prepend=0)

    @cached_property
    def episode_returns(self) -> Float[np.ndarray, "episodes"]:
        """Undiscounted sum of rewards of each episode."""
        starts = self.episode_stops - self.episode_lengths
        return np.add.reduceat(self.rewards, starts, dtype=np.float64)

    def episodes(self) -> Iterator[slice]:
        """The transitions of each episode, as slices into the arrays."""
        start = 0
        for stop in self.episode_stops.tolist():
            yield slice(start, stop)
            start = stop

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the names and arrays: the same for the same content, whatever file it was read from."""
        digest = hashlib.sha256(json.dumps(["actionless log 1", *self.state_names]).encode())
        arrays = [self.states, self.next_states, self.rewards, self.terminals, self.ends]
        for array in arrays if self.actions is None else [*arrays, self.actions]:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            for block in blocks(len(array), array.itemsize * (array.size // len(array))):
                digest.update(np.ascontiguousarray(array[block]).data)
        return digest.hexdigest()


def returns_to_go(
    rewards: Float[np.ndarray, "transitions"], ends: Bool[np.ndarray, "transitions"], discount: float
) -> Float[np.ndarray, "transitions"]:
    """Sum of discounted rewards from each transition to the end of its episode or of the recording."""
    rewards, ends = np.asarray(rewards), np.asarray(ends)  # reading single numbers of a memory map is slow
    returns, ahead = np.empty(len(rewards)), 0.0
    for row in range(len(rewards) - 1, -1, -1):
        ahead = float(rewards[row]) + (0.0 if ends[row] else discount * ahead)
        returns[row] = ahead
    return returns


def observed_returns(
    log: Log, rows: Int[np.ndarray, " rows"], discount: float
) -> tuple[Float[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]:
    """Discounted return from each row of whole episodes on, and whether the recording has all of it that matters."""
    ends = np.asarray(log.ends[rows])
    returns = returns_to_go(log.rewards[rows], ends, discount)
    return returns, _is_complete(ends, np.asarray(log.terminals[rows]), discount)


def _is_complete(
    ends: Bool[np.ndarray, " rows"], terminals: Bool[np.ndarray, " rows"], discount: float
) -> Bool[np.ndarray, " rows"]:
    stops = np.flatnonzero(ends)
    last = stops[np.searchsorted(stops, np.arange(len(ends)))]
    left = last - np.arange(len(ends)) + 1
    return terminals[last] | (discount**left <= _NEGLIGIBLE)


def default_state_names(dim: int) -> tuple[str, ...]:
    """Names for state variables without names: s0, s1, ..."""
    return tuple(f"s{i}" for i in range(dim))


def float_type(dtype: np.dtype) -> np.dtype:
    """float32 for floats of at most 32 bits, else float64, which also keeps integers exact."""
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64)
