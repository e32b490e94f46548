"""How far a state lies off the log: a network that was shown states of the log, pushed away by known distances.

Values that were learnt from a log are made up elsewhere, and often rise just where an agent falls. This distance does
not: it needs no value, and grows step by step as an agent leaves what the log has seen.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from actionless.networks import Ensemble
from actionless.optimise import Adam, polyak
from actionless.updates import Metrics

EVERY = 4
"""One of so many rows of a batch is pushed: a distance is easier to learn than values."""
PUSHES = (0.02, 5.0)
"""States are pushed by noise of a size between these, in standard deviations of each variable, evenly by order."""
LOWEST_RATE = 0.01
UNTOUCHED = 8
"""One of so many states stays where it is."""


class Support(eqx.Module):
    """A network of the distance, its optimiser, and the lowest values on the log."""

    network: Ensemble
    optimiser: Adam
    lowest: Float[Array, ""]
    """The smallest value in a batch, as a moving average."""

    @classmethod
    def create(cls, state_dim: int, hidden: tuple[int, ...], learning_rate: float, key: PRNGKeyArray) -> "Support":
        """One that has seen nothing."""
        network = Ensemble.create(1, (state_dim, *hidden, 1), key)
        return cls(network, Adam.create(network, learning_rate), jnp.zeros(()))

    def update(
        self, states: Float[Array, "batch dim"], values: Float[Array, " batch"], key: PRNGKeyArray
    ) -> tuple["Support", Metrics]:
        """One step of Adam on pushed states, whose values are known."""
        pushed, target = push(states[::EVERY], key)

        def loss(network: Ensemble) -> Float[Array, ""]:
            return jnp.square(distance(network, pushed) - target).mean()

        error, gradient = eqx.filter_value_and_grad(loss)(self.network)
        lowest = polyak(self.lowest, jax.lax.stop_gradient(values.min()), LOWEST_RATE)
        return Support(*self.optimiser.step(self.network, gradient), lowest), {"support_loss": error}


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


def distance(network: Ensemble, z: Float[Array, "batch dim"]) -> Float[Array, " batch"]:
    """How far normalised states lie off the log, in standard deviations of each variable; never negative."""
    return jax.nn.softplus(network(z)[0, :, 0])
