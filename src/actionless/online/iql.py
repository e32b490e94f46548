"""IQL: values of the better part of what was done, and a policy that imitates it.

No action outside the data is ever valued, offline or online.
"""

from dataclasses import dataclass
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from actionless.networks import MLP
from actionless.online.advantage import GaussianBehaviour, GaussianPolicy, advantage_weights, regression_loss
from actionless.online.agent import Agent, LabelledSettings, Spec, Transitions
from actionless.online.critics import Critics, critic_loss
from actionless.optimise import Adam, polyak
from actionless.settings import Bounds, Fraction, NonNegative, Positive
from actionless.updates import Metrics


@dataclass(frozen=True)
class IqlConfig(LabelledSettings, kind="iql"):
    """The settings published for locomotion."""

    target_rate: Fraction = 5e-3
    """Share of the critics that enters the target critics at each update."""
    expectile: Annotated[float, Bounds(0, 1, above=True, below=True)] = 0.7
    """0.5 is the value of the data's behaviour; larger values estimate the better behaviour in the data."""
    inverse_temperature: NonNegative = 3.0
    """β: the imitation weight of an action is exp(β · advantage)."""
    most_weight: Positive = 100.0
    """Largest imitation weight."""

    def create(self, spec: Spec, key: PRNGKeyArray) -> Agent:
        """An agent that has learnt nothing."""
        return Iql.create(spec, self, key)


class Iql(Agent):
    """Policy, critics and the value that stands in for the best action."""

    policy: GaussianPolicy
    critics: Critics
    target_critics: Critics
    value: MLP
    policy_optimiser: Adam
    critic_optimiser: Adam
    value_optimiser: Adam
    spec: Spec = eqx.field(static=True)
    config: IqlConfig = eqx.field(static=True)

    @classmethod
    def create(cls, spec: Spec, config: IqlConfig, key: PRNGKeyArray) -> "Iql":
        """An agent that has learnt nothing."""
        policy_key, critics_key, value_key = jax.random.split(key, 3)
        critics = Critics.create(spec, config.hidden, critics_key)
        policy = GaussianPolicy.create(spec, config.hidden, policy_key)
        value = MLP.create((spec.state_dim, *config.hidden, 1), value_key)
        return cls(
            policy=policy,
            critics=critics,
            target_critics=jax.tree.map(jnp.copy, critics),
            value=value,
            policy_optimiser=Adam.create(policy, config.learning_rate),
            critic_optimiser=Adam.create(critics, config.learning_rate),
            value_optimiser=Adam.create(value, config.learning_rate),
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

    def value_loss(
        self, value: MLP, batch: Transitions
    ) -> tuple[Float[Array, ""], tuple[Float[Array, " batch"], Metrics]]:
        """The expectile error of V(s) below min_i Q̄_i(s, a); and the advantages, which the policy is weighted by."""
        q = self.target_critics(batch.states, batch.actions).min(axis=0)
        v = value(batch.states)[:, 0]
        loss = expectile_loss(q - v, self.config.expectile).mean()
        return loss, (q - v, {"value_loss": loss, "v_mean": v.mean()})

    def td_target(self, batch: Transitions) -> Float[Array, " batch"]:
        """y = r + γ V(s')."""
        return batch.rewards + batch.discounts * self.value(batch.next_states)[:, 0]

    def update(self, batch: Transitions, key: PRNGKeyArray) -> tuple["Iql", Metrics]:  # noqa: ARG002 (nothing is drawn)
        """One step of value, critics and policy, each against the others as they were; then the targets follow."""
        gradient, (advantages, value_metrics) = eqx.filter_grad(self.value_loss, has_aux=True)(self.value, batch)
        value, value_optimiser = self.value_optimiser.step(self.value, gradient)

        gradient, metrics = eqx.filter_grad(critic_loss, has_aux=True)(self.critics, batch, self.td_target(batch))
        critics, critic_optimiser = self.critic_optimiser.step(self.critics, gradient)

        weights = advantage_weights(advantages, self.config.inverse_temperature, self.config.most_weight)
        actor_loss, gradient = eqx.filter_value_and_grad(regression_loss)(self.policy, batch, weights)
        policy, policy_optimiser = self.policy_optimiser.step(self.policy, gradient)
        agent = Iql(
            policy=policy,
            critics=critics,
            target_critics=polyak(self.target_critics, critics, self.config.target_rate),
            value=value,
            policy_optimiser=policy_optimiser,
            critic_optimiser=critic_optimiser,
            value_optimiser=value_optimiser,
            spec=self.spec,
            config=self.config,
        )
        return agent, metrics | value_metrics | {"actor_loss": actor_loss, "weight_mean": weights.mean()}


def expectile_loss(errors: Float[Array, " batch"], expectile: float) -> Float[Array, " batch"]:
    """|expectile − 1(error < 0)| · error²: falling short of a good outcome costs more than exceeding a bad one."""
    return jnp.where(errors < 0, 1 - expectile, expectile) * jnp.square(errors)
