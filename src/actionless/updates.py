"""Many updates in one dispatch, the same for every learner and agent.

Update t depends on the learner before it, its batch, the key and t, and on nothing else. Dispatches may
therefore be as long as the machine likes without a bit of the result changing.
"""

from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

Metrics = dict[str, Float[Array, ""]]


@runtime_checkable
class Learner(Protocol):
    """What can be updated: an offline learner or an online agent."""

    def update(self, batch: Any, key: PRNGKeyArray) -> tuple[Any, Metrics]:
        """The learner after one update, and its metrics."""
        ...


class TrainState(NamedTuple):
    """A learner, and its metrics added up since the last row."""

    learner: Any
    sums: Metrics
    updates: Int[Array, ""]


def train_state(learner: Learner, example: Any, key: PRNGKeyArray) -> TrainState:
    """Before the first update; `example` is a batch of the shape to come."""
    _, metrics = jax.eval_shape(lambda batch, key: learner.update(batch, key), example, key)
    return TrainState(learner, {name: jnp.zeros(()) for name in metrics}, jnp.zeros((), jnp.int32))


@partial(jax.jit, static_argnums=5, donate_argnums=0)
def updated(
    state: TrainState, batches: Any, step: Array | int, updates: Array | int, key: PRNGKeyArray, batch_size: int
) -> TrainState:
    """The state after some updates, whose batches lie one behind the other.

    Their number is no part of the program, so that one is compiled for all.
    """

    def update(i: Array, state: TrainState) -> TrainState:
        batch = jax.tree.map(lambda rows: jax.lax.dynamic_slice_in_dim(rows, i * batch_size, batch_size), batches)
        learner, metrics = state.learner.update(batch, jax.random.fold_in(key, step + i))
        sums = {name: total + metrics[name] for name, total in state.sums.items()}
        return TrainState(learner, sums, state.updates + 1)

    return jax.lax.fori_loop(0, updates, update, state)


def means(state: TrainState) -> dict[str, float]:
    """The mean of each metric since the last row; nothing where nothing was updated."""
    count = int(state.updates)
    return {name: float(total) / count for name, total in state.sums.items()} if count else {}


def reset_metrics(state: TrainState) -> TrainState:
    """The same learner with nothing added up."""
    return TrainState(state.learner, jax.tree.map(jnp.zeros_like, state.sums), jnp.zeros_like(state.updates))


def padded(rows: np.ndarray, size: int) -> np.ndarray:
    """Rows filled up with zeros that no update looks at: few sizes are ever compiled."""
    return np.concatenate([rows, np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype)])


def power_of_two(rows: int) -> int:
    """The smallest power of two that is not below: a size to pad to, so that few are ever compiled."""
    return 1 << (rows - 1).bit_length()
