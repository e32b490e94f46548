"""Cal-QL: SAC with a CQL penalty, calibrated by Monte-Carlo returns.

The penalty is a soft maximum of Q over all actions, minus Q of the data's own. Values far below the returns of the log
would have to be corrected as soon as the agent acts; the returns as a lower bound prevent that.
"""

import dataclasses
import math
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from actionless.online.agent import RETURNS, Agent, LabelledSettings, Spec, Transitions
from actionless.online.critics import Critics, critic_loss
from actionless.online.sac import Sac, SacBehaviour, SacConfig, sample
from actionless.optimise import Adam
from actionless.settings import Count, Fraction, NonNegative
from actionless.updates import Metrics


@dataclass(frozen=True)
class CalQlConfig(LabelledSettings, kind="cal-ql"):
    """The settings used for locomotion."""

    learning_rate: NonNegative = 3e-4
    """Step size of Adam for the critics."""
    policy_learning_rate: NonNegative = 3e-5
    """Step size of Adam for the policy and its temperature."""
    target_rate: Fraction = 5e-3
    """Share of the critics that enters the target critics at each update."""
    alpha: NonNegative = 10.0
    """Weight of the penalty."""
    actions: Count = 10
    """Actions drawn from each of three sources for the soft maximum of Q."""
    penalty_every: Count = 1
    """Measure the penalty on every n-th transition of a batch only: the same on average, in less time."""

    def create(self, spec: Spec, key: PRNGKeyArray) -> Agent:
        """An agent that has learnt nothing."""
        return CalQl.create(spec, self, key)


class CalQl(Agent):
    """SAC, with other critics' losses."""

    sac: Sac
    spec: Spec = eqx.field(static=True)
    config: CalQlConfig = eqx.field(static=True)

    @classmethod
    def create(cls, spec: Spec, config: CalQlConfig, key: PRNGKeyArray) -> "CalQl":
        """An agent that has learnt nothing."""
        sizes = SacConfig(config.hidden, config.learning_rate, config.discount, config.n_step, config.target_rate)
        sac = Sac.create(spec, sizes, key)
        sac = dataclasses.replace(
            sac,
            actor_optimiser=Adam.create(sac.actor, config.policy_learning_rate),
            temperature_optimiser=Adam.create(sac.log_temperature, config.policy_learning_rate),
        )
        return cls(sac=sac, spec=spec, config=config)

    @property
    def behaviour(self) -> SacBehaviour:
        """Acts with the policy's mean; explores by its draws."""
        return self.sac.behaviour

    def exploration(self) -> tuple[()]:
        """Nothing: the policy is random by itself."""
        return ()

    def td_target(self, batch: Transitions, key: PRNGKeyArray) -> Float[Array, " batch"]:
        """y = r + γ min_i Q̄_i(s', a'), with a' ~ π(s'): SAC's without the entropy, which no log has earned."""
        actions, _ = sample(self.sac.actor, batch.next_states, key)
        return batch.rewards + batch.discounts * self.sac.target_critics(batch.next_states, actions).min(axis=0)

    def penalty(
        self, critics: Critics, batch: Transitions, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """How far all actions are valued above the data's own; and how often the bound held."""
        random_key, own_key, next_key = jax.random.split(key, 3)
        count, dim = self.config.actions, self.spec.action_dim
        shape = (len(batch.rewards), count)
        own, own_log = sample(self.sac.actor, batch.states, own_key, count)
        later, later_log = sample(self.sac.actor, batch.next_states, next_key, count)
        anywhere = jax.random.uniform(random_key, own.shape, minval=-1.0, maxval=1.0)
        # One call: three with a third of the rows each take longer.
        states = jnp.tile(jnp.repeat(batch.states, count, axis=0), (3, 1))
        q = critics(states, jnp.concatenate([anywhere, own, later])).reshape(2, 3, *shape)
        q_anywhere, q_own, q_later = (q[:, source] for source in range(3))
        log_densities = [jnp.full(shape, -dim * math.log(2)), own_log.reshape(shape), later_log.reshape(shape)]
        bound = batch.extra[RETURNS][None, :, None]
        values = [q_anywhere, jnp.maximum(q_own, bound), jnp.maximum(q_later, bound)]
        highest = soft_maximum(values, log_densities)
        bounded = (q_own < bound).astype(jnp.float32).mean()
        return (highest - critics(batch.states, batch.actions)).mean(axis=1).sum(), bounded

    def loss(
        self, critics: Critics, batch: Transitions, target: Float[Array, " batch"], key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Metrics]:
        """The squared error against the target, and the penalty."""
        error, metrics = critic_loss(critics, batch, target)
        some = jax.tree.map(lambda rows: rows[:: self.config.penalty_every], batch)
        penalty, bounded = self.penalty(critics, some, key)
        loss = error + self.config.alpha * penalty
        return loss, metrics | {"loss": loss, "td_loss": error, "penalty": penalty, "bounded_share": bounded}

    def update(self, batch: Transitions, key: PRNGKeyArray) -> tuple["CalQl", Metrics]:
        """One step of the critics, then SAC's of everything else."""
        target_key, penalty_key, actor_key = jax.random.split(key, 3)
        target = self.td_target(batch, target_key)
        gradient, metrics = eqx.filter_grad(self.loss, has_aux=True)(self.sac.critics, batch, target, penalty_key)
        sac, actor_metrics = self.sac.improved(gradient, batch.states, actor_key)
        return CalQl(sac=sac, spec=self.spec, config=self.config), metrics | actor_metrics


def soft_maximum(
    values: list[Float[Array, "critics batch _"]], log_densities: list[Float[Array, "batch _"]]
) -> Float[Array, "critics batch"]:
    """log Σ e^Q / density over actions drawn from several sources: each counts for the actions it stands for."""
    corrected = [q - density[None] for q, density in zip(values, log_densities, strict=True)]
    return jax.nn.logsumexp(jnp.concatenate(corrected, axis=2), axis=2)
