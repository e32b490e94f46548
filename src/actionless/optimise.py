"""Adam as an immutable module, and the slow copy that a target network is."""

import math
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Parameters = TypeVar("Parameters")

FIRST_DECAY, SECOND_DECAY, EPSILON = 0.9, 0.999, 1e-8


class Adam(eqx.Module):
    """Adam's moments for one set of parameters, with its usual decays.

    Our own because it stays exact under strict type promotion, and one pass over memory serves it all.
    """

    first: Any
    second: Any
    count: Int[Array, ""]
    learning_rate: float = eqx.field(static=True)
    warm_up: int = eqx.field(static=True, default=0)
    """Steps over which the learning rate rises from nothing, evenly."""
    weight_decay: float = eqx.field(static=True, default=0.0)
    """Share of each parameter that a step takes away, times the learning rate (AdamW)."""

    @classmethod
    def create(cls, parameters: Any, learning_rate: float, *, warm_up: int = 0, weight_decay: float = 0.0) -> "Adam":
        """Moments at zero."""
        first, second = (jax.tree.map(jnp.zeros_like, parameters) for _ in range(2))
        return cls(first, second, jnp.zeros((), jnp.int32), learning_rate, warm_up, weight_decay)

    def step(self, parameters: Parameters, gradient: Parameters) -> tuple[Parameters, "Adam"]:
        """The parameters after one step, and the optimiser that takes the next."""
        count = self.count + 1
        first = jax.tree.map(lambda m, g: m + (1 - FIRST_DECAY) * (g - m), self.first, gradient)
        second = jax.tree.map(lambda v, g: v + (1 - SECOND_DECAY) * (g * g - v), self.second, gradient)
        learning_rate = self._learning_rate(count)
        rate = learning_rate / _share_seen(FIRST_DECAY, count)
        root = jax.lax.rsqrt(_share_seen(SECOND_DECAY, count))
        if self.weight_decay:
            parameters = jax.tree.map(lambda p: p - learning_rate * self.weight_decay * p, parameters)
        moved = jax.tree.map(lambda p, m, v: p - rate * m / (root * jnp.sqrt(v) + EPSILON), parameters, first, second)
        return moved, Adam(first, second, count, self.learning_rate, self.warm_up, self.weight_decay)

    def _learning_rate(self, count: Int[Array, ""]) -> Float[Array, ""] | float:
        if not self.warm_up:
            return self.learning_rate
        return self.learning_rate * jnp.minimum(count.astype(jnp.float32) / self.warm_up, 1.0)


def follow(slow: Parameters, fast: Parameters, rate: float) -> Parameters:
    """`slow` moved towards `fast` by the share `rate` of the distance."""
    return jax.tree.map(lambda s, f: s + rate * (f - s), slow, fast)


def clipped(gradient: Parameters, most: float) -> Parameters:
    """The gradient, shortened to the length `most` where it is longer."""
    factor = jnp.minimum(1.0, most / jnp.maximum(norm(gradient), jnp.finfo(jnp.float32).tiny))
    return jax.tree.map(lambda g: g * factor, gradient)


def norm(tree: Any) -> Float[Array, ""]:
    """The Euclidean norm of all leaves together."""
    return jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)))


def _share_seen(decay: float, count: Int[Array, ""]) -> Float[Array, ""]:
    """1 - decay^count, without the cancellation that costs float32 its digits at the first steps."""
    return -jnp.expm1(count.astype(jnp.float32) * math.log(decay))
