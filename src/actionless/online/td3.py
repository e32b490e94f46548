"""TD3: a deterministic policy, twin critics, a smoothed target, and a policy that moves later than its critics."""

import dataclasses
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from actionless.networks import MLP
from actionless.online.agent import Agent, AgentSettings, Behaviour, Spec, Transitions
from actionless.online.critics import Critics, critic_loss
from actionless.optimise import Adam, polyak
from actionless.settings import Count, Fraction, NonNegative
from actionless.updates import Metrics


@dataclass(frozen=True)
class Td3Config(AgentSettings, kind="td3"):
    """The paper's settings; exploration noise, which it does not state, is the usual one."""

    hidden: tuple[Count, ...] = (512, 512, 512)
    learning_rate: NonNegative = 5e-4
    target_rate: Fraction = 1e-3
    """τ: share of each network that enters its target network when that is updated."""
    policy_noise: NonNegative = 0.2
    """Standard deviation of the noise on the target's actions."""
    policy_noise_limit: NonNegative = 0.5
    """The noise on the target's actions is clipped to ± this."""
    policy_delay: Count = 2
    """Number of critic updates for each update of the policy and the target networks."""
    exploration_noise: NonNegative = 0.1
    """Standard deviation of the noise that is added to the agent's actions."""
    layer_norm: bool = False
    """Normalise the inputs of each ReLU of the critics. Guidance by relabel turns it on."""

    def with_layer_norm(self) -> "Td3Config":
        """With LayerNorm in the critics."""
        return dataclasses.replace(self, layer_norm=True)

    def create(self, spec: Spec, key: PRNGKeyArray) -> Agent:
        """An agent that has learnt nothing."""
        return Td3.create(spec, self, key)


class Td3Behaviour(Behaviour):
    """π(s), with noise to explore."""

    actor: MLP
    exploration_noise: float = eqx.field(static=True)

    def act(self, states: Float[Array, "batch dim"]) -> Float[Array, "batch actions"]:
        """π(s)."""
        return policy(self.actor, states)

    def explore(
        self, state: Float[Array, " dim"], memory: tuple[()], key: PRNGKeyArray
    ) -> tuple[Float[Array, " actions"], tuple[()]]:
        """π(s) and Gaussian noise, within the limits of actions."""
        action = self.act(state[None])[0]
        noise = self.exploration_noise * jax.random.normal(key, action.shape)
        return jnp.clip(action + noise, -1, 1), memory


class Delayed(eqx.Module):
    """What moves at every `policy_delay`-th update only."""

    actor: MLP
    optimiser: Adam
    target_actor: MLP
    target_critics: Critics
    actor_loss: Float[Array, ""]
    """As it was when the actor last moved."""


class Td3(Agent):
    """Critics that move at every update, and all that follows them."""

    critics: Critics
    optimiser: Adam
    delayed: Delayed
    spec: Spec = eqx.field(static=True)
    config: Td3Config = eqx.field(static=True)

    @classmethod
    def create(cls, spec: Spec, config: Td3Config, key: PRNGKeyArray) -> "Td3":
        """An agent that has learnt nothing; target networks begin equal to their own."""
        actor_key, critics_key = jax.random.split(key)
        actor = MLP.create((spec.state_dim, *config.hidden, spec.action_dim), actor_key)
        critics = Critics.create(spec, config.hidden, critics_key, layer_norm=config.layer_norm)
        delayed = Delayed(
            actor=actor,
            optimiser=Adam.create(actor, config.learning_rate),
            target_actor=jax.tree.map(jnp.copy, actor),
            target_critics=jax.tree.map(jnp.copy, critics),
            actor_loss=jnp.zeros(()),
        )
        return cls(
            critics=critics,
            optimiser=Adam.create(critics, config.learning_rate),
            delayed=delayed,
            spec=spec,
            config=config,
        )

    @property
    def behaviour(self) -> Td3Behaviour:
        """The policy, with its noise."""
        return Td3Behaviour(self.delayed.actor, self.config.exploration_noise)

    def exploration(self) -> tuple[()]:
        """Nothing: each step's noise is its own."""
        return ()

    def values(
        self, states: Float[Array, "batch dim"], actions: Float[Array, "batch actions"]
    ) -> Float[Array, " batch"]:
        """The smaller of both critics'."""
        return self.critics(states, actions).min(axis=0)

    def td_target(self, batch: Transitions, key: PRNGKeyArray) -> Float[Array, " batch"]:
        """y = r + γ min_i Q̄_i(s', π̄(s') + clipped noise)."""
        limit = self.config.policy_noise_limit
        noise = jnp.clip(self.config.policy_noise * jax.random.normal(key, batch.actions.shape), -limit, limit)
        actions = jnp.clip(policy(self.delayed.target_actor, batch.next_states) + noise, -1, 1)
        value = self.delayed.target_critics(batch.next_states, actions).min(axis=0)
        return batch.rewards + batch.discounts * value

    def actor_loss(self, actor: MLP, critics: Critics, states: Float[Array, "batch dim"]) -> Float[Array, ""]:
        """−Q_1(s, π(s)): one critic is enough to climb."""
        return -critics.first(states, policy(actor, states)).mean()

    def improve(self, critics: Critics, states: Float[Array, "batch dim"]) -> Delayed:
        """One step of the policy, then both target networks follow."""
        old = self.delayed
        loss, gradient = eqx.filter_value_and_grad(self.actor_loss)(old.actor, critics, states)
        actor, optimiser = old.optimiser.step(old.actor, gradient)
        return Delayed(
            actor=actor,
            optimiser=optimiser,
            target_actor=polyak(old.target_actor, actor, self.config.target_rate),
            target_critics=polyak(old.target_critics, critics, self.config.target_rate),
            actor_loss=loss,
        )

    def update(self, batch: Transitions, key: PRNGKeyArray) -> tuple["Td3", Metrics]:
        """One step of the critics; at every `policy_delay`-th, of the rest."""
        target = self.td_target(batch, key)
        gradient, metrics = eqx.filter_grad(critic_loss, has_aux=True)(self.critics, batch, target)
        critics, optimiser = self.optimiser.step(self.critics, gradient)
        due = optimiser.count % self.config.policy_delay == 0
        delayed = jax.lax.cond(due, lambda: self.improve(critics, batch.states), lambda: self.delayed)
        agent = Td3(critics=critics, optimiser=optimiser, delayed=delayed, spec=self.spec, config=self.config)
        return agent, metrics | {"actor_loss": delayed.actor_loss}


def policy(actor: MLP, states: Float[Array, "batch dim"]) -> Float[Array, "batch actions"]:
    """π(s), squashed into [-1, 1]."""
    return jnp.tanh(actor(states))
