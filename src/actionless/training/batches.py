"""A log made ready to learn from: split by episode, normalised, discretised; on the device or on the host."""

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int, Int8, Shaped

from actionless.data.log import Log, blocks
from actionless.discretise import Discretiser
from actionless.offline.learner import Batch, Column
from actionless.randomness import generator
from actionless.updates import padded


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows held out, each in the order of the log; no episode is in both."""

    training: Int[np.ndarray, " training"]
    held_out: Int[np.ndarray, " held_out"]

    @classmethod
    def by_episode(cls, log: Log, share: float, seed: int) -> "Split":
        """Hold out a share of the episodes, at least one; nothing where there is but one episode."""
        episodes = len(log.episode_stops)
        count = 0 if share == 0 else max(1, round(share * episodes))
        chosen = np.zeros(episodes, bool)
        chosen[np.random.default_rng(seed).permutation(episodes)[: min(count, episodes - 1)]] = True
        held_out = np.repeat(chosen, log.episode_lengths)
        return cls(np.flatnonzero(~held_out), np.flatnonzero(held_out))


class Rows(eqx.Module):
    """Transitions as a learner sees them, still in NumPy."""

    states: Float32[np.ndarray, "rows dim"]
    next_states: Float32[np.ndarray, "rows dim"]
    rewards: Float32[np.ndarray, " rows"]
    masks: Float32[np.ndarray, " rows"]
    deltas: Int8[np.ndarray, "rows dim"]
    actions: Float32[np.ndarray, "rows actions"] | None = None
    extra: dict[str, Shaped[np.ndarray, " rows"]] = eqx.field(default_factory=dict)

    def on_device(self) -> Batch:
        """The same in JAX."""
        return Batch(**vars(jax.tree.map(jnp.asarray, self)))


@dataclass(frozen=True)
class Preparation:
    """How rows of a log become what a learner sees: each row by itself, so any subset has the same bits."""

    log: Log
    discretiser: Discretiser
    extra: Mapping[str, Shaped[np.ndarray, " rows"]] = field(default_factory=dict)
    """Columns of the whole log that a learner needs besides transitions."""

    @classmethod
    def of(cls, log: Log, discretiser: Discretiser, columns: Mapping[str, Column]) -> "Preparation":
        """With the columns that a learner declares."""
        return cls(log, discretiser, {name: column(log) for name, column in columns.items()})

    @property
    def row_bytes(self) -> int:
        """Size of one prepared transition."""
        actions = 0 if self.log.actions is None else self.log.actions.shape[1]
        return 9 * self.log.state_dim + 8 + 4 * actions + sum(column.itemsize for column in self.extra.values())

    def rows(self, chosen: Int[np.ndarray, " rows"]) -> Rows:
        """Prepare these rows of the log."""
        log, discretiser = self.log, self.discretiser
        states, next_states = np.asarray(log.states[chosen]), np.asarray(log.next_states[chosen])
        return Rows(
            states=_float32(discretiser.normaliser.normalise(states)),
            next_states=_float32(discretiser.normaliser.normalise(next_states)),
            rewards=_float32(log.rewards[chosen]),
            masks=_float32(~log.terminals[chosen]),
            deltas=discretiser.index(discretiser.difference(states, next_states)),
            actions=None if log.actions is None else _float32(log.actions[chosen]),
            extra={name: column[chosen] for name, column in self.extra.items()},
        )

    def many_rows(self, chosen: Int[np.ndarray, " rows"]) -> Rows:
        """Prepare rows block by block: no second copy of them all in the log's own precision."""
        whole = jax.tree.map(
            lambda array: np.empty((len(chosen), *array.shape[1:]), array.dtype), self.rows(chosen[:1])
        )
        for block in blocks(len(chosen), 8 * self.log.state_dim):
            for target, part in zip(jax.tree.leaves(whole), jax.tree.leaves(self.rows(chosen[block])), strict=True):
                target[block] = part
        return whole

    def anywhere(self, chosen: Int[np.ndarray, " rows"]) -> Rows:
        """Prepare rows in any order, reading a memory map from front to back."""
        order = np.argsort(chosen, kind="stable")
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return jax.tree.map(lambda array: array[back], self.rows(chosen[order]))


@dataclass(frozen=True)
class Draw:
    """Which rows each update learns from: decided by the seed and the update's number, nothing else."""

    rows: int
    batch_size: int
    seed: int
    window: int = 1
    """Rows that are learnt from together: a drawn one, and those before it."""

    @property
    def rows_per_update(self) -> int:
        """Of all samples together."""
        return self.batch_size * self.window

    def indices(self, step: int, updates: int) -> Int[np.ndarray, " drawn"]:
        """Those of the `updates` updates after `step`, one behind the other."""
        return with_those_before(np.concatenate([self._of(step + i) for i in range(updates)]), self.window)

    def _of(self, step: int) -> Int[np.ndarray, " batch"]:
        return generator(self.seed, "log rows", step).integers(0, self.rows, self.batch_size, dtype=np.int32)


class Batches(abc.ABC):
    """The batches of every update."""

    capacity: int
    """Updates that one call can serve."""

    @abc.abstractmethod
    def of(self, step: int, updates: int) -> Batch:
        """Batches of the updates after `step`, one behind the other, filled up to `capacity` with anything."""


@dataclass(frozen=True)
class ResidentBatches(Batches):
    """Gathered on the device from the whole training data."""

    data: Batch
    draw: Draw
    capacity: int

    def of(self, step: int, updates: int) -> Batch:
        """One program gathers for any number of updates: it always fills the buffer."""
        return _gathered(self.data, padded(self.draw.indices(step, updates), self.capacity * self.draw.rows_per_update))


@dataclass(frozen=True)
class HostBatches(Batches):
    """Gathered from a log that may be memory-mapped."""

    preparation: Preparation
    training: Int[np.ndarray, " training"]
    draw: Draw
    capacity: int

    def of(self, step: int, updates: int) -> Batch:
        """Only the rows that are needed are read."""
        rows = self.preparation.anywhere(self.training[self.draw.indices(step, updates)])
        return jax.tree.map(lambda array: padded(array, self.capacity * self.draw.rows_per_update), rows).on_device()


@jax.jit
def _gathered(data: Batch, indices: Int[Array, " drawn"]) -> Batch:
    return jax.tree.map(lambda array: array[indices], data)


def with_those_before(rows: Int[np.ndarray, " drawn"], window: int) -> Int[np.ndarray, " all"]:
    """Each row after the `window` - 1 before it; where the log begins, its first row stands in for what is not there.

    What is not of the row's own episode is for the learner to leave out: its time tells how far that goes back.
    """
    return np.maximum(rows[:, None] + np.arange(1 - window, 1, dtype=rows.dtype), 0).reshape(-1)


def _float32(array: np.ndarray) -> Float32[np.ndarray, "..."]:
    return np.asarray(array).astype(np.float32)
