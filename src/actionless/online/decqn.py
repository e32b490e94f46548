"""DecQN_N: an ensemble of decoupled Q-networks over factorised actions.

U_j^e(s, k) is member e's utility of bin k in action dimension j, and Q^e(s, a) the mean over j of U_j^e(s, a_j),
so the best joint action is the best bin of each dimension.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from actionless.errors import ActionlessError
from actionless.networks import Ensemble, q_values
from actionless.online.agent import Agent, AgentSettings, Behaviour, Spec, Transitions
from actionless.optimise import Adam, polyak
from actionless.settings import Count, Fraction, NonNegative
from actionless.updates import Metrics


@dataclass(frozen=True)
class DecqnConfig(AgentSettings, kind="decqn"):
    """The paper's settings."""

    ensemble: Count = 5
    """Number of networks."""
    hidden: tuple[Count, ...] = (512, 512, 512)
    learning_rate: NonNegative = 5e-4
    n_step: Count = 3
    target_rate: Fraction = 1e-3
    """Share of the online network that enters the target network at each update."""
    epsilon: Fraction = 1.0
    """Probability of a random joint action, at first."""
    epsilon_decay: Fraction = 0.999
    """What ε is multiplied by after each random action."""
    epsilon_floor: Fraction = 0.05
    """ε never falls below this."""

    def create(self, spec: Spec, key: PRNGKeyArray) -> Agent:
        """An agent that has learnt nothing."""
        return Decqn.create(spec, self, key)


class DecqnBehaviour(Behaviour):
    """Greedy for the ensemble's mean; ε-greedy for one member to explore."""

    network: Ensemble
    spec: Spec = eqx.field(static=True)
    config: DecqnConfig = eqx.field(static=True)

    def act(self, states: Float[Array, "batch dim"]) -> Int[Array, "batch actions"]:
        """The best bins by the mean over members."""
        return greedy(utilities(self.network, states, self.spec).mean(axis=0))

    def explore(
        self, state: Float[Array, " dim"], memory: Float[Array, ""], key: PRNGKeyArray
    ) -> tuple[Int[Array, " actions"], Float[Array, ""]]:
        """A random joint action with probability ε, else the best for a random member; and the next ε."""
        epsilon = memory
        coin_key, action_key, member_key = jax.random.split(key, 3)
        is_random = jax.random.uniform(coin_key) < epsilon
        member = jax.random.randint(member_key, (), 0, self.config.ensemble)
        network = jax.tree.map(lambda weights: weights[member][None], self.network)
        values = utilities(network, state[None], self.spec)[0]
        _, bins, dimensions = values.shape
        random = jax.random.randint(action_key, (dimensions,), 0, bins, jnp.int32)
        decayed = jnp.maximum(epsilon * self.config.epsilon_decay, self.config.epsilon_floor)
        return jnp.where(is_random, random, greedy(values)[0]), jnp.where(is_random, decayed, epsilon)


class Decqn(Agent):
    """Online and target ensembles."""

    network: Ensemble
    target_network: Ensemble
    optimiser: Adam
    spec: Spec = eqx.field(static=True)
    config: DecqnConfig = eqx.field(static=True)

    @classmethod
    def create(cls, spec: Spec, config: DecqnConfig, key: PRNGKeyArray) -> "Decqn":
        """An agent that has learnt nothing; its target network begins equal to the online one."""
        if spec.bins is None:
            raise ActionlessError("decqn needs discrete actions, and these are continuous: give a number of bins")
        sizes = (spec.state_dim, *config.hidden, spec.bins * spec.action_dim)
        network = Ensemble.create(config.ensemble, sizes, key)
        return cls(
            network=network,
            target_network=jax.tree.map(jnp.copy, network),
            optimiser=Adam.create(network, config.learning_rate),
            spec=spec,
            config=config,
        )

    @property
    def behaviour(self) -> DecqnBehaviour:
        """The online ensemble."""
        return DecqnBehaviour(self.network, self.spec, self.config)

    def exploration(self) -> Float[Array, ""]:
        """ε at first."""
        return jnp.asarray(self.config.epsilon, jnp.float32)

    def values(self, states: Float[Array, "batch dim"], actions: Int[Array, "batch actions"]) -> Float[Array, " batch"]:
        """Of the members together."""
        return q_values(utilities(self.network, states, self.spec), actions).mean(axis=0)

    def td_target(self, batch: Transitions) -> Float[Array, " batch"]:
        """y = r + γ^n · the mean over j of max_k Ū_j(s', k), with Ū the mean of the target members."""
        mean = utilities(self.target_network, batch.next_states, self.spec).mean(axis=0)
        return batch.rewards + batch.discounts * mean.max(axis=1).mean(axis=1)

    def loss(
        self, network: Ensemble, batch: Transitions, target: Float[Array, " batch"]
    ) -> tuple[Float[Array, ""], Metrics]:
        """Huber TD error of every member against the shared target."""
        q = q_values(utilities(network, batch.states, self.spec), batch.actions)
        loss = optax.huber_loss(q - target[None]).mean()
        return loss, {"loss": loss, "q_mean": q.mean()}

    def update(self, batch: Transitions, key: PRNGKeyArray) -> tuple["Decqn", Metrics]:  # noqa: ARG002
        """One step of Adam, then the target network follows."""
        target = self.td_target(batch)
        gradient, metrics = eqx.filter_grad(self.loss, has_aux=True)(self.network, batch, target)
        network, optimiser = self.optimiser.step(self.network, gradient)
        agent = Decqn(
            network=network,
            target_network=polyak(self.target_network, network, self.config.target_rate),
            optimiser=optimiser,
            spec=self.spec,
            config=self.config,
        )
        return agent, metrics


def utilities(
    network: Ensemble, states: Float[Array, "batch dim"], spec: Spec
) -> Float[Array, "members batch bins actions"]:
    """U_j^e(s, k)."""
    outputs = network(states)
    return outputs.reshape(*outputs.shape[:2], outputs.shape[2] // spec.action_dim, spec.action_dim)


def greedy(utilities: Float[Array, "batch bins actions"]) -> Int[Array, "batch actions"]:
    """The best bin of each dimension."""
    return utilities.argmax(axis=1).astype(jnp.int32)
