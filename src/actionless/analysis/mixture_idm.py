"""An inverse dynamics model that knows of several actions: a mixture density (Bishop 1994) in place of a regression.

Where the same Δs has several actions, a regression answers with one between them, which may cause another Δs. A mixture
of Gaussians keeps them apart, and the action is the centre of one of them.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Real

from actionless.guidance.idm import Examples, IdmBatch, IdmSpec
from actionless.networks import MLP
from actionless.optimise import Adam
from actionless.updates import Metrics

NARROWEST = 0.02
"""Least standard deviation of a component, of actions in [-1, 1]: a few equal actions must not become a spike."""
WIDEST = 1.0
START = 1.5
"""Centres begin at the hyperbolic tangent of numbers between ± this."""


class MixtureNetwork(eqx.Module):
    """p(a | s, Δs) as a mixture of Gaussians whose dimensions are independent within a component."""

    mlp: MLP
    spec: IdmSpec = eqx.field(static=True)
    components: int = eqx.field(static=True)

    @classmethod
    def create(cls, spec: IdmSpec, hidden: tuple[int, ...], components: int, key: PRNGKeyArray) -> "MixtureNetwork":
        """A network that takes a state and its Δs. Centres begin apart: equal components would stay equal."""
        network_key, centre_key = jax.random.split(key)
        centres = components * spec.action_dim
        mlp = MLP.create((2 * spec.state_dim, *hidden, components + 2 * centres), network_key)
        apart = jax.random.uniform(centre_key, (centres,), minval=-START, maxval=START)
        *biases, last = mlp.ensemble.biases
        last = last.at[0, 0, components : components + centres].add(apart)
        ensemble = dataclasses.replace(mlp.ensemble, biases=(*biases, last))
        return cls(MLP(ensemble), spec, components)

    def act(self, states: Float[Array, "batch dim"], deltas: Real[Array, "batch dim"]) -> Float[Array, "batch actions"]:
        """The centre of the component that is the densest at its centre: about the mixture's mode."""
        log_weights, centres, log_widths = self.mixture(states, deltas)
        densest = (log_weights - log_widths.sum(axis=2)).argmax(axis=1)
        return jnp.take_along_axis(centres, densest[:, None, None], axis=1)[:, 0]

    def error(self, examples: Examples) -> Float[Array, ""]:
        """-log p(a | s, Δs), the mean over a batch and over the dimensions of actions."""
        states, deltas, actions = map(jnp.asarray, examples)
        log_weights, centres, log_widths = self.mixture(states, deltas)
        away = (actions[:, None] - centres) * jnp.exp(-log_widths)
        log_densities = -(0.5 * jnp.square(away) + log_widths + 0.5 * np.log(2 * np.pi)).sum(axis=2)
        return -jax.nn.logsumexp(log_weights + log_densities, axis=1).mean() / self.spec.action_dim

    def mixture(
        self, states: Float[Array, "batch dim"], deltas: Real[Array, "batch dim"]
    ) -> tuple[
        Float[Array, "batch components"],
        Float[Array, "batch components actions"],
        Float[Array, "batch components actions"],
    ]:
        """Logarithms of the weights; centres; logarithms of the standard deviations."""
        aim = deltas.astype(states.dtype)
        if self.spec.delta_bins is not None:
            aim = aim * (2 / (self.spec.delta_bins - 1)) - 1
        outputs = self.mlp(jnp.concatenate([states, aim], axis=1))
        weights, centres, widths = jnp.split(
            outputs, [self.components, self.components * (1 + self.spec.action_dim)], axis=1
        )
        shape = (len(states), self.components, self.spec.action_dim)
        low, high = np.log(NARROWEST), np.log(WIDEST)
        log_widths = low + (high - low) * jax.nn.sigmoid(widths.reshape(shape))
        return jax.nn.log_softmax(weights, axis=1), jnp.tanh(centres.reshape(shape)), log_widths


class MixtureDynamics(eqx.Module):
    """The network and its optimiser."""

    network: MixtureNetwork
    optimiser: Adam

    def update(self, batch: IdmBatch, key: PRNGKeyArray) -> tuple["MixtureDynamics", Metrics]:  # noqa: ARG002
        """One step of Adam."""
        loss, gradient = eqx.filter_value_and_grad(lambda network: network.error(batch.online))(self.network)
        return MixtureDynamics(*self.optimiser.step(self.network, gradient)), {"idm/loss": loss}
