"""Optax's Adam as an immutable module, and the Polyak average that a target network is."""

import dataclasses
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

Parameters = TypeVar("Parameters", bound=Any)


class Adam(eqx.Module):
    """Adam's moments for one set of parameters, with its usual decays.

    The moments are fields of their own, not one of Optax's states: their names are those of the arrays in a
    checkpoint, and no version of Optax may change them.
    """

    first: Any
    second: Any
    count: Int[Array, ""]
    learning_rate: float = eqx.field(static=True)
    warm_up: int = eqx.field(static=True, default=0)
    """Steps over which the learning rate rises linearly from 0."""
    decay: int = eqx.field(static=True, default=0)
    """Steps over which it falls to 0 along half a cosine; 0: it does not fall."""
    weight_decay: float = eqx.field(static=True, default=0.0)
    """Share of each parameter that a step takes away, times the learning rate (AdamW)."""
    max_grad_norm: float | None = eqx.field(static=True, default=None)
    """Gradients whose global norm is larger are scaled down to it."""

    @classmethod
    def create(
        cls,
        parameters: Any,
        learning_rate: float,
        *,
        warm_up: int = 0,
        decay: int = 0,
        weight_decay: float = 0.0,
        max_grad_norm: float | None = None,
    ) -> "Adam":
        """Moments at zero, for parameters of this shape."""
        first, second = (jax.tree.map(jnp.zeros_like, parameters) for _ in range(2))
        count = jnp.zeros((), jnp.int32)
        return cls(first, second, count, learning_rate, warm_up, decay, weight_decay, max_grad_norm)

    def step(self, parameters: Parameters, gradient: Parameters) -> tuple[Parameters, "Adam"]:
        """The parameters after one step, and the optimiser that takes the next."""
        updates: Any = gradient
        if self.max_grad_norm is not None:
            updates = _applied(optax.clip_by_global_norm(self.max_grad_norm), updates)
        moments: Any = optax.ScaleByAdamState(self.count, self.first, self.second)
        # Optax computes 0.9**count with an integer count, which strict promotion forbids.
        with jax.numpy_dtype_promotion("standard"):
            updates, moments = optax.scale_by_adam().update(updates, moments)
        if self.weight_decay:
            updates = _applied(optax.add_decayed_weights(self.weight_decay), updates, parameters)
        updates = _applied(optax.scale_by_learning_rate(self._learning_rate(moments.count)), updates)
        moved: Any = optax.apply_updates(parameters, updates)
        return moved, dataclasses.replace(self, first=moments.mu, second=moments.nu, count=moments.count)

    def _learning_rate(self, count: Int[Array, ""]) -> Float[Array, ""] | float:
        rate: Any = self.learning_rate
        if self.warm_up:
            rate = optax.linear_schedule(0.0, self.learning_rate, self.warm_up)(count)
        if self.decay:
            rate = rate * optax.cosine_decay_schedule(1.0, self.decay)(count.astype(jnp.float32))
        return rate


def polyak(slow: Parameters, fast: Parameters, rate: float) -> Parameters:
    """`slow` moved towards `fast` by the share `rate` of the distance."""
    average: Any = optax.incremental_update(fast, slow, rate)
    return average


def _applied(transformation: optax.GradientTransformation, updates: Any, parameters: Any = None) -> Any:
    """For transformations without a state."""
    return transformation.update(updates, optax.EmptyState(), parameters)[0]
