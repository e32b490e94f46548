"""Multilayer perceptrons with ReLU, alone or as an ensemble with stacked weights; Q values of factorised choices.

Weights and biases are initialised uniformly in ±1/√inputs, as in PyTorch's linear layers.
"""

import functools
from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray


class Ensemble(eqx.Module):
    """Independent networks of the same shape, with stacked weights: one matrix product computes all of them."""

    weights: tuple[Float[Array, "members _ _"], ...]
    biases: tuple[Float[Array, "members 1 _"], ...]
    layer_norm: bool = eqx.field(static=True, default=False)
    """Whether the inputs of each ReLU are normalised to mean 0 and standard deviation 1, row by row."""

    @classmethod
    def create(cls, members: int, sizes: Sequence[int], key: PRNGKeyArray, *, layer_norm: bool = False) -> "Ensemble":
        """`members` networks whose layers have `sizes`: inputs, hidden layers, outputs."""
        weights, biases = _initial(key, members, tuple(sizes))
        return cls(weights, biases, layer_norm)

    @property
    def members(self) -> int:
        """Number of networks."""
        return self.weights[0].shape[0]

    def __call__(self, inputs: Float[Array, "batch inputs"]) -> Float[Array, "members batch outputs"]:
        """The outputs of all members for the same inputs."""
        x = jnp.broadcast_to(inputs, (self.members, *inputs.shape))
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            x = x @ weight + bias
            x = jax.nn.relu(jax.nn.standardize(x, axis=2) if self.layer_norm else x)
        return x @ last[0] + last[1]


class MLP(eqx.Module):
    """A single network: an ensemble with one member."""

    ensemble: Ensemble

    @classmethod
    def create(cls, sizes: Sequence[int], key: PRNGKeyArray) -> "MLP":
        """A network whose layers have `sizes`: inputs, hidden layers, outputs."""
        return cls(Ensemble.create(1, sizes, key))

    def __call__(self, inputs: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
        """The output for each row of inputs."""
        return self.ensemble(inputs)[0]


def chosen(
    values: Float[Array, "*members batch bins dim"], choice: Int[Array, "batch dim"]
) -> Float[Array, "*members batch dim"]:
    """The value of the chosen bin in each dimension: of a state's change Δs, or of an action."""
    bins = jnp.arange(values.shape[-2], dtype=choice.dtype)
    picked = (choice[:, None] == bins[None, :, None]).astype(values.dtype)
    return (values * jnp.broadcast_to(picked, values.shape)).sum(axis=-2)


def q_values(
    u: Float[Array, "members batch bins dim"], choice: Int[Array, "batch dim"]
) -> Float[Array, "members batch"]:
    """Q^e: the mean over dimensions of the chosen bins' utilities (Equation 1)."""
    return chosen(u, choice).mean(axis=-1)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _initial(
    key: PRNGKeyArray, members: int, sizes: tuple[int, ...]
) -> tuple[tuple[Float[Array, "members _ _"], ...], tuple[Float[Array, "members 1 _"], ...]]:
    # One random draw for all layers: XLA takes seconds to compile one draw per layer.
    layers = list(pairwise(sizes))
    widths = [members * (inputs + 1) * outputs for inputs, outputs in layers]
    draw = jax.random.uniform(key, (sum(widths),), minval=-1.0, maxval=1.0)
    pieces = jnp.split(draw, np.cumsum(widths)[:-1])
    stacked = [
        piece.reshape(members, inputs + 1, outputs) * inputs**-0.5
        for piece, (inputs, outputs) in zip(pieces, layers, strict=True)
    ]
    return tuple(s[:, :-1] for s in stacked), tuple(s[:, -1:] for s in stacked)
