"""Advantage-weighted regression: a policy imitates what turned out better than expected. IQL and AWAC share it."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from actionless.networks import MLP
from actionless.online.agent import Behaviour, Spec, Transitions

LOG_STD_RANGE = (-5.0, 2.0)


class GaussianPolicy(eqx.Module):
    """A mean within [-1, 1] and a spread that is the same in every state.

    Not squashed as SAC's: actions of a log lie on the limits too, where a squashed density has no value.
    """

    network: MLP
    log_std: Float[Array, " actions"]

    @classmethod
    def create(cls, spec: Spec, hidden: tuple[int, ...], key: PRNGKeyArray) -> "GaussianPolicy":
        """A policy that has learnt nothing, with spread 1."""
        return cls(MLP.create((spec.state_dim, *hidden, spec.action_dim), key), jnp.zeros(spec.action_dim))

    def mean(self, states: Float[Array, "batch dim"]) -> Float[Array, "batch actions"]:
        """The likeliest actions."""
        return jnp.tanh(self.network(states))

    def sample(self, states: Float[Array, "batch dim"], key: PRNGKeyArray) -> Float[Array, "batch actions"]:
        """Actions drawn, within their limits."""
        mean = self.mean(states)
        return jnp.clip(mean + jnp.exp(self._log_std)[None] * jax.random.normal(key, mean.shape), -1, 1)

    def log_probability(
        self, states: Float[Array, "batch dim"], actions: Float[Array, "batch actions"]
    ) -> Float[Array, " batch"]:
        """log π(a|s)."""
        distance = (actions - self.mean(states)) / jnp.exp(self._log_std)[None]
        return (-0.5 * jnp.square(distance) - self._log_std[None] - 0.5 * math.log(2 * math.pi)).sum(axis=1)

    @property
    def _log_std(self) -> Float[Array, " actions"]:
        return jnp.clip(self.log_std, *LOG_STD_RANGE)


class GaussianBehaviour(Behaviour):
    """The policy's mean; to explore, its draws."""

    policy: GaussianPolicy

    def act(self, states: Float[Array, "batch dim"]) -> Float[Array, "batch actions"]:
        """The mean."""
        return self.policy.mean(states)

    def explore(
        self, state: Float[Array, " dim"], memory: tuple[()], key: PRNGKeyArray
    ) -> tuple[Float[Array, " actions"], tuple[()]]:
        """An action drawn from the policy."""
        return self.policy.sample(state[None], key)[0], memory


def advantage_weights(
    advantages: Float[Array, " batch"], inverse_temperature: float, most: float
) -> Float[Array, " batch"]:
    """e^(inverse temperature · A), and no more than `most`: one lucky step must not be all that is imitated."""
    return jnp.minimum(jnp.exp(inverse_temperature * advantages), most)


def regression_loss(policy: GaussianPolicy, batch: Transitions, weights: Float[Array, " batch"]) -> Float[Array, ""]:
    """−weight · log π(a|s) of the batch's own actions."""
    return -(weights * policy.log_probability(batch.states, batch.actions)).mean()
