"""AWAC: critics of the policy's own actions, and a policy that imitates what was better than those."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from actionless.online.advantage import GaussianBehaviour, GaussianPolicy, advantage_weights, regression_loss
from actionless.online.agent import Agent, LabelledSettings, Spec, Transitions
from actionless.online.critics import Critics, critic_loss
from actionless.optimise import Adam, polyak
from actionless.settings import Count, Fraction, NonNegative, Positive
from actionless.updates import Metrics


@dataclass(frozen=True)
class AwacConfig(LabelledSettings, kind="awac"):
    """The usual settings for locomotion."""

    hidden: tuple[Count, ...] = (256, 256, 256)
    target_rate: Fraction = 5e-3
    """Share of the critics that enters the target critics at each update."""
    inverse_temperature: NonNegative = 3.0
    """1/λ: the imitation weight of an action is exp(advantage / λ)."""
    most_weight: Positive = 100.0
    """Largest imitation weight."""

    def create(self, spec: Spec, key: PRNGKeyArray) -> Agent:
        """An agent that has learnt nothing."""
        return Awac.create(spec, self, key)


class Awac(Agent):
    """Policy and critics."""

    policy: GaussianPolicy
    critics: Critics
    target_critics: Critics
    policy_optimiser: Adam
    critic_optimiser: Adam
    spec: Spec = eqx.field(static=True)
    config: AwacConfig = eqx.field(static=True)

    @classmethod
    def create(cls, spec: Spec, config: AwacConfig, key: PRNGKeyArray) -> "Awac":
        """An agent that has learnt nothing."""
        policy_key, critics_key = jax.random.split(key)
        critics = Critics.create(spec, config.hidden, critics_key)
        policy = GaussianPolicy.create(spec, config.hidden, policy_key)
        return cls(
            policy=policy,
            critics=critics,
            target_critics=jax.tree.map(jnp.copy, critics),
            policy_optimiser=Adam.create(policy, config.learning_rate),
            critic_optimiser=Adam.create(critics, config.learning_rate),
            spec=spec,
            config=config,
        )

    @property
    def behaviour(self) -> GaussianBehaviour:
        """Acts with the policy's mean; explores by its draws."""
        return GaussianBehaviour(self.policy)

    def exploration(self) -> tuple[()]:
        """Nothing: the policy is random by itself."""
        return ()

    def td_target(self, batch: Transitions, key: PRNGKeyArray) -> Float[Array, " batch"]:
        """y = r + γ min_i Q̄_i(s', a'), with a' ~ π(s')."""
        actions = self.policy.sample(batch.next_states, key)
        return batch.rewards + batch.discounts * self.target_critics(batch.next_states, actions).min(axis=0)

    def advantages(self, critics: Critics, batch: Transitions, key: PRNGKeyArray) -> Float[Array, " batch"]:
        """min_i Q_i(s, a) − min_i Q_i(s, π), with π ~ π(s): what was done beside what the policy would do."""
        own = self.policy.sample(batch.states, key)
        return critics(batch.states, batch.actions).min(axis=0) - critics(batch.states, own).min(axis=0)

    def update(self, batch: Transitions, key: PRNGKeyArray) -> tuple["Awac", Metrics]:
        """One step of the critics, one of the policy, then the target critics follow."""
        target_key, advantage_key = jax.random.split(key)
        gradient, metrics = eqx.filter_grad(critic_loss, has_aux=True)(
            self.critics, batch, self.td_target(batch, target_key)
        )
        critics, critic_optimiser = self.critic_optimiser.step(self.critics, gradient)

        advantages = self.advantages(critics, batch, advantage_key)
        weights = advantage_weights(advantages, self.config.inverse_temperature, self.config.most_weight)
        actor_loss, gradient = eqx.filter_value_and_grad(regression_loss)(self.policy, batch, weights)
        policy, policy_optimiser = self.policy_optimiser.step(self.policy, gradient)
        agent = Awac(
            policy=policy,
            critics=critics,
            target_critics=polyak(self.target_critics, critics, self.config.target_rate),
            policy_optimiser=policy_optimiser,
            critic_optimiser=critic_optimiser,
            spec=self.spec,
            config=self.config,
        )
        return agent, metrics | {"actor_loss": actor_loss, "weight_mean": weights.mean()}
