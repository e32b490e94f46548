"""SAC with an extra critic for AF-Guide's reward.

The guiding reward has a critic of its own with discount 0: what a plan is worth lies in the next state alone.
"""

import dataclasses
from dataclasses import dataclass

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from actionless.online.agent import Agent, Spec, Transitions
from actionless.online.critics import Critics, critic_loss
from actionless.online.sac import Sac, SacBehaviour, SacConfig
from actionless.optimise import Adam
from actionless.settings import NonNegative
from actionless.updates import Metrics

GUIDING = "guiding"
"""The column of the guiding reward."""


@dataclass(frozen=True)
class GuidedSacConfig(SacConfig, kind="guided-sac"):
    """SAC's settings, and how much the plan counts."""

    guide_weight: NonNegative = 3.0
    """What a unit of the guiding reward is worth in the environment's own return."""

    def create(self, spec: Spec, key: PRNGKeyArray) -> Agent:
        """An agent that has learnt nothing."""
        return GuidedSac.create(spec, self, key)

    def for_policy(self) -> SacConfig:
        """SAC's own: the extra critic changes what is learnt, not how it acts."""
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(SacConfig)}
        return SacConfig(**own)


class GuidedSac(Agent):
    """SAC, and a critic of the guiding reward."""

    sac: Sac
    guiding_critic: Critics
    guiding_optimiser: Adam
    spec: Spec = eqx.field(static=True)
    config: GuidedSacConfig = eqx.field(static=True)

    @classmethod
    def create(cls, spec: Spec, config: GuidedSacConfig, key: PRNGKeyArray) -> "GuidedSac":
        """An agent that has learnt nothing."""
        sac_key, guiding_key = jax.random.split(key)
        critic = Critics.create(spec, config.hidden, guiding_key, count=1)
        return cls(
            sac=Sac.create(spec, config, sac_key),
            guiding_critic=critic,
            guiding_optimiser=Adam.create(critic, config.learning_rate),
            spec=spec,
            config=config,
        )

    @property
    def behaviour(self) -> SacBehaviour:
        """SAC's."""
        return self.sac.behaviour

    def exploration(self) -> tuple[()]:
        """SAC's."""
        return self.sac.exploration()

    def values(
        self, states: Float[Array, "batch dim"], actions: Float[Array, "batch actions"]
    ) -> Float[Array, " batch"]:
        """SAC's: the plan is not among them."""
        return self.sac.values(states, actions)

    def update(self, batch: Transitions, key: PRNGKeyArray) -> tuple["GuidedSac", Metrics]:
        """One step of the guiding critic, then SAC's, whose actor values actions by both."""
        target = batch.extra[GUIDING]
        gradient, guiding = eqx.filter_grad(critic_loss, has_aux=True)(self.guiding_critic, batch, target)
        critic, optimiser = self.guiding_optimiser.step(self.guiding_critic, gradient)

        def worth(states: Float[Array, "batch dim"], actions: Float[Array, "batch actions"]) -> Float[Array, " batch"]:
            return self.config.guide_weight * critic(states, actions)[0]

        sac, metrics = self.sac.update(batch, key, worth)
        agent = GuidedSac(
            sac=sac, guiding_critic=critic, guiding_optimiser=optimiser, spec=self.spec, config=self.config
        )
        return agent, metrics | {"guiding_loss": guiding["loss"], "guiding_q": guiding["q_mean"]}
