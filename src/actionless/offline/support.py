"""What a log supports: how far a state lies off it, what its steps pay, and what its states are worth at least.

Values that were learnt from a log are unreliable elsewhere, and often rise just where an agent falls. The distance is
reliable there: a network was shown states of the log that had been pushed away, and learnt by how much. The reward of a
step is compared with the environment's: this detects a log of another environment.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from actionless.networks import Ensemble
from actionless.offline.learner import Batch
from actionless.optimise import Adam, polyak
from actionless.updates import Metrics

EVERY = 4
"""Every fourth row of a batch is learnt from, which is enough: distances and rewards are easier than values."""
PUSHES = (0.02, 5.0)
"""States are pushed by noise of a size between these, in standard deviations of each variable, evenly by order."""
UNTOUCHED = 8
"""Every eighth state stays where it is."""
RATE = 0.01
"""How fast moving averages follow."""


class Support(eqx.Module):
    """What a policy keeps of it. All states are normalised."""

    distances: Ensemble
    rewards: Ensemble
    lowest_value: Float[Array, ""]
    """The smallest value in a batch of the log, as a moving average."""
    ends: Float[Array, ""]
    """1 where an episode of the log ended in a terminal, 0 where none ever did."""

    def distance(self, z: Float[Array, "batch dim"]) -> Float[Array, " batch"]:
        """How far states lie off the log, in standard deviations of each variable; never negative."""
        return jax.nn.softplus(self.distances(z)[0, :, 0])

    def reward(self, z: Float[Array, "batch dim"], next_z: Float[Array, "batch dim"]) -> Float[Array, " batch"]:
        """What the log pays for steps, in units of its own spread."""
        return self.rewards(jnp.concatenate([z, next_z], axis=1))[0, :, 0]

    @property
    def floor(self) -> Float[Array, ""]:
        """What nothing is worth less than: the log's lowest value, or that of an episode's end, which is 0."""
        return jnp.minimum(self.lowest_value, jnp.zeros_like(self.lowest_value))


class Scale(NamedTuple):
    """Moving averages of rewards and of their squares."""

    mean: Float[Array, ""]
    square: Float[Array, ""]


class SupportLearner(eqx.Module):
    """Learns beside the values, from the same batches."""

    support: Support
    scale: Scale
    optimiser: Adam

    @classmethod
    def create(
        cls, state_dim: int, hidden: tuple[int, ...], learning_rate: float, key: PRNGKeyArray
    ) -> "SupportLearner":
        """One that has seen nothing."""
        distance_key, reward_key = jax.random.split(key)
        support = Support(
            distances=Ensemble.create(1, (state_dim, *hidden, 1), distance_key),
            rewards=Ensemble.create(1, (2 * state_dim, *hidden, 1), reward_key),
            lowest_value=jnp.zeros(()),
            ends=jnp.zeros(()),
        )
        scale = Scale(jnp.zeros(()), jnp.ones(()))
        return cls(support, scale, Adam.create((support.distances, support.rewards), learning_rate))

    def update(
        self, batch: Batch, values: Float[Array, " batch"], key: PRNGKeyArray
    ) -> tuple["SupportLearner", Metrics]:
        """One step of Adam, on some of a batch whose values are known."""
        states, next_states, rewards = (rows[::EVERY] for rows in (batch.states, batch.next_states, batch.rewards))
        pushed, far = push(states, key)
        scale = Scale(
            polyak(self.scale.mean, batch.rewards.mean(), RATE),
            polyak(self.scale.square, jnp.square(batch.rewards).mean(), RATE),
        )
        spread = jnp.sqrt(jnp.maximum(scale.square - jnp.square(scale.mean), 0.0))
        paid = (rewards - scale.mean) / jnp.maximum(spread, 1e-6)

        def loss(networks: tuple[Ensemble, Ensemble]) -> tuple[Float[Array, ""], Metrics]:
            support = Support(*networks, self.support.lowest_value, self.support.ends)
            distance_loss = jnp.square(support.distance(pushed) - far).mean()
            # Absolute: rare large rewards must not hide all others.
            reward_loss = jnp.abs(support.reward(states, next_states) - paid).mean()
            return distance_loss + reward_loss, {"distance_loss": distance_loss, "reward_loss": reward_loss}

        networks = (self.support.distances, self.support.rewards)
        gradient, metrics = eqx.filter_grad(loss, has_aux=True)(networks)
        networks, optimiser = self.optimiser.step(networks, gradient)
        lowest = polyak(self.support.lowest_value, jax.lax.stop_gradient(values.min()), RATE)
        ends = jnp.maximum(self.support.ends, (batch.masks == 0).any().astype(jnp.float32))
        return SupportLearner(Support(*networks, lowest, ends), scale, optimiser), metrics


def push(
    states: Float[Array, "batch dim"], key: PRNGKeyArray
) -> tuple[Float[Array, "batch dim"], Float[Array, " batch"]]:
    """States moved away in random directions, and by how much: the root of the mean square over variables."""
    size_key, direction_key = jax.random.split(key)
    low, high = PUSHES
    size = low * (high / low) ** jax.random.uniform(size_key, (len(states), 1))
    size = jnp.where((jnp.arange(len(states)) % UNTOUCHED == 0)[:, None], 0.0, size)
    noise = size * jax.random.normal(direction_key, states.shape)
    return states + noise, jnp.sqrt(jnp.square(noise).mean(axis=1))
