"""SAC: a random policy that is paid for its entropy, at a temperature that is learnt too."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from actionless.networks import MLP
from actionless.online.agent import Agent, AgentSettings, Behaviour, Spec, Transitions
from actionless.online.critics import Critics, critic_loss
from actionless.optimise import Adam, polyak
from actionless.settings import Count, Fraction
from actionless.updates import Metrics

LOG_STD_RANGE = (-20.0, 2.0)

Worth = Callable[[Array, Array], Array]
"""From states and actions to what these are worth to the actor beside Q."""


@dataclass(frozen=True)
class SacConfig(AgentSettings, kind="sac"):
    """The usual settings of SAC, with the paper's sizes."""

    hidden: tuple[Count, ...] = (512, 512, 512)
    target_rate: Fraction = 1e-3
    """Share of the critics that enters the target critics at each update."""
    layer_norm: bool = False
    """Normalise the inputs of each ReLU of the critics. Guidance by relabel turns it on."""

    def with_layer_norm(self) -> "SacConfig":
        """With LayerNorm in the critics."""
        return dataclasses.replace(self, layer_norm=True)

    def create(self, spec: Spec, key: PRNGKeyArray) -> Agent:
        """An agent that has learnt nothing."""
        return Sac.create(spec, self, key)


class SacBehaviour(Behaviour):
    """A Gaussian squashed by tanh."""

    actor: MLP

    def act(self, states: Float[Array, "batch dim"]) -> Float[Array, "batch actions"]:
        """The squashed mean."""
        mean, _ = gaussian(self.actor, states)
        return jnp.tanh(mean)

    def explore(
        self, state: Float[Array, " dim"], memory: tuple[()], key: PRNGKeyArray
    ) -> tuple[Float[Array, " actions"], tuple[()]]:
        """An action drawn from the policy."""
        actions, _ = sample(self.actor, state[None], key)
        return actions[0], memory


class Sac(Agent):
    """Actor, critics and temperature."""

    actor: MLP
    critics: Critics
    target_critics: Critics
    log_temperature: Float[Array, ""]
    actor_optimiser: Adam
    critic_optimiser: Adam
    temperature_optimiser: Adam
    spec: Spec = eqx.field(static=True)
    config: SacConfig = eqx.field(static=True)

    @classmethod
    def create(cls, spec: Spec, config: SacConfig, key: PRNGKeyArray) -> "Sac":
        """An agent that has learnt nothing, at temperature 1."""
        actor_key, critics_key = jax.random.split(key)
        actor = MLP.create((spec.state_dim, *config.hidden, 2 * spec.action_dim), actor_key)
        critics = Critics.create(spec, config.hidden, critics_key, layer_norm=config.layer_norm)
        log_temperature = jnp.zeros(())
        return cls(
            actor=actor,
            critics=critics,
            target_critics=jax.tree.map(jnp.copy, critics),
            log_temperature=log_temperature,
            actor_optimiser=Adam.create(actor, config.learning_rate),
            critic_optimiser=Adam.create(critics, config.learning_rate),
            temperature_optimiser=Adam.create(log_temperature, config.learning_rate),
            spec=spec,
            config=config,
        )

    @property
    def behaviour(self) -> SacBehaviour:
        """Acts with the policy's mean; explores by its draws."""
        return SacBehaviour(self.actor)

    def exploration(self) -> tuple[()]:
        """Nothing: the policy is random by itself."""
        return ()

    @property
    def temperature(self) -> Float[Array, ""]:
        """What a nat of entropy is worth in reward."""
        return jnp.exp(self.log_temperature)

    def values(
        self, states: Float[Array, "batch dim"], actions: Float[Array, "batch actions"]
    ) -> Float[Array, " batch"]:
        """The smaller of both critics'."""
        return self.critics(states, actions).min(axis=0)

    def td_target(self, batch: Transitions, key: PRNGKeyArray) -> Float[Array, " batch"]:
        """y = r + γ (min_i Q̄_i(s', a') − temperature · log π(a'|s')), with a' ~ π(s')."""
        actions, log_probability = sample(self.actor, batch.next_states, key)
        value = self.target_critics(batch.next_states, actions).min(axis=0) - self.temperature * log_probability
        return batch.rewards + batch.discounts * value

    def actor_loss(
        self,
        actor: MLP,
        critics: Critics,
        states: Float[Array, "batch dim"],
        key: PRNGKeyArray,
        worth: Worth | None = None,
    ) -> tuple[Float[Array, ""], Metrics]:
        """E[temperature · log π(a|s) − min_i Q_i(s, a)], with a ~ π(s), less what an action is worth besides."""
        actions, log_probability = sample(actor, states, key)
        value = critics(states, actions).min(axis=0)
        if worth is not None:
            value = value + worth(states, actions)
        loss = (self.temperature * log_probability - value).mean()
        return loss, {"actor_loss": loss, "entropy": -log_probability.mean()}

    def temperature_loss(self, log_temperature: Float[Array, ""], entropy: Float[Array, ""]) -> Float[Array, ""]:
        """Falls with a lower temperature where entropy is above its target, with a higher one where it is below."""
        target = -float(self.spec.action_dim)
        return log_temperature * (entropy - target)

    def update(self, batch: Transitions, key: PRNGKeyArray, worth: Worth | None = None) -> tuple["Sac", Metrics]:
        """One step of the critics, the actor and the temperature, then the target critics follow."""
        target_key, actor_key = jax.random.split(key)
        target = self.td_target(batch, target_key)
        gradient, metrics = eqx.filter_grad(critic_loss, has_aux=True)(self.critics, batch, target)
        agent, actor_metrics = self.improved(gradient, batch.states, actor_key, worth)
        return agent, metrics | actor_metrics

    def improved(
        self,
        gradient: Critics,
        states: Float[Array, "batch dim"],
        key: PRNGKeyArray,
        worth: Worth | None = None,
    ) -> tuple["Sac", Metrics]:
        """After a step of the critics along their gradient, and what follows from it."""
        critics, critic_optimiser = self.critic_optimiser.step(self.critics, gradient)
        actor_gradient, metrics = eqx.filter_grad(self.actor_loss, has_aux=True)(
            self.actor, critics, states, key, worth
        )
        actor, actor_optimiser = self.actor_optimiser.step(self.actor, actor_gradient)

        slope = jax.grad(self.temperature_loss)(self.log_temperature, metrics["entropy"])
        log_temperature, temperature_optimiser = self.temperature_optimiser.step(self.log_temperature, slope)
        agent = Sac(
            actor=actor,
            critics=critics,
            target_critics=polyak(self.target_critics, critics, self.config.target_rate),
            log_temperature=log_temperature,
            actor_optimiser=actor_optimiser,
            critic_optimiser=critic_optimiser,
            temperature_optimiser=temperature_optimiser,
            spec=self.spec,
            config=self.config,
        )
        return agent, metrics | {"temperature": self.temperature}


def gaussian(
    actor: MLP, states: Float[Array, "batch dim"]
) -> tuple[Float[Array, "batch actions"], Float[Array, "batch actions"]]:
    """Mean and log standard deviation before squashing."""
    mean, log_std = jnp.split(actor(states), 2, axis=1)
    return mean, jnp.clip(log_std, *LOG_STD_RANGE)


def sample(
    actor: MLP, states: Float[Array, "batch dim"], key: PRNGKeyArray, count: int = 1
) -> tuple[Float[Array, "draws actions"], Float[Array, " draws"]]:
    """Actions a = tanh(u), u ~ N(mean, std²), and log π(a|s); `count` for each state, one state after the other."""
    mean, log_std = (jnp.repeat(rows, count, axis=0) for rows in gaussian(actor, states))
    noise = jax.random.normal(key, mean.shape)
    return squash(mean, log_std, noise)


def squash(
    mean: Float[Array, "batch actions"], log_std: Float[Array, "batch actions"], noise: Float[Array, "batch actions"]
) -> tuple[Float[Array, "batch actions"], Float[Array, " batch"]]:
    """a = tanh(mean + std · noise), and the logarithm of its density.

    log(1 − tanh²(u)) = 2 (log 2 − u − softplus(−2u)) is exact where tanh(u) has rounded to 1.
    """
    u = mean + jnp.exp(log_std) * noise
    log_normal = -0.5 * jnp.square(noise) - log_std - 0.5 * math.log(2 * math.pi)
    log_slope = 2 * (math.log(2) - u - jax.nn.softplus(-2 * u))
    return jnp.tanh(u), (log_normal - log_slope).sum(axis=1)
