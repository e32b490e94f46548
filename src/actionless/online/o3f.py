"""O3F: one objective offline and online, and optimism in nothing but the actions that are tried.

The objective is SAC's with the smallest of several critics, which distrusts what they disagree about.
"""

import dataclasses
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from actionless.networks import MLP
from actionless.online.agent import Agent, Behaviour, LabelledSettings, Spec, Transitions
from actionless.online.critics import Critics
from actionless.online.sac import Sac, SacBehaviour, SacConfig
from actionless.optimise import Adam
from actionless.settings import Count, Fraction, NonNegative
from actionless.updates import Metrics


@dataclass(frozen=True)
class O3fConfig(LabelledSettings, kind="o3f"):
    """Optimistic exploration works with any offline objective; we chose SAC with several critics."""

    target_rate: Fraction = 5e-3
    """Share of the critics that enters the target critics at each update."""
    ensemble: Count = 5
    """Number of critics, each with layer normalisation."""
    candidates: Count = 100
    """Number of actions of which exploration tries the one with the largest mean Q."""
    exploration_noise: NonNegative = 0.2
    """Standard deviation of the candidates around the policy's action."""

    def create(self, spec: Spec, key: PRNGKeyArray) -> Agent:
        """An agent that has learnt nothing."""
        return O3f.create(spec, self, key)


class O3fBehaviour(Behaviour):
    """SAC's best action; to explore, the neighbour of it that the critics together value most."""

    actor: MLP
    critics: Critics
    candidates: int = eqx.field(static=True)
    noise: float = eqx.field(static=True)

    def act(self, states: Float[Array, "batch dim"]) -> Float[Array, "batch actions"]:
        """The squashed mean."""
        return SacBehaviour(self.actor).act(states)

    def explore(
        self, state: Float[Array, " dim"], memory: tuple[()], key: PRNGKeyArray
    ) -> tuple[Float[Array, " actions"], tuple[()]]:
        """The best of the candidates a ~ N(π(s), noise²), within the limits of actions, by the mean of the critics."""
        states = jnp.broadcast_to(state, (self.candidates, len(state)))
        best = self.act(states)
        tried = jnp.clip(best + self.noise * jax.random.normal(key, best.shape), -1, 1)
        return tried[self.critics(states, tried).mean(axis=0).argmax()], memory


class O3f(Agent):
    """SAC with more critics."""

    sac: Sac
    spec: Spec = eqx.field(static=True)
    config: O3fConfig = eqx.field(static=True)

    @classmethod
    def create(cls, spec: Spec, config: O3fConfig, key: PRNGKeyArray) -> "O3f":
        """An agent that has learnt nothing."""
        sac_key, critics_key = jax.random.split(key)
        sizes = SacConfig(config.hidden, config.learning_rate, config.discount, config.n_step, config.target_rate)
        critics = Critics.create(spec, config.hidden, critics_key, count=config.ensemble, layer_norm=True)
        sac = dataclasses.replace(
            Sac.create(spec, sizes, sac_key),
            critics=critics,
            target_critics=jax.tree.map(jnp.copy, critics),
            critic_optimiser=Adam.create(critics, config.learning_rate),
        )
        return cls(sac=sac, spec=spec, config=config)

    @property
    def behaviour(self) -> O3fBehaviour:
        """The policy, and the critics that choose what is tried."""
        return O3fBehaviour(self.sac.actor, self.sac.critics, self.config.candidates, self.config.exploration_noise)

    def exploration(self) -> tuple[()]:
        """Nothing: each step's candidates are its own."""
        return ()

    def update(self, batch: Transitions, key: PRNGKeyArray) -> tuple["O3f", Metrics]:
        """One step of SAC, whose targets take the minimum of all critics."""
        sac, metrics = self.sac.update(batch, key)
        return O3f(sac=sac, spec=self.spec, config=self.config), metrics
