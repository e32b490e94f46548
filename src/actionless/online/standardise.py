"""An agent that sees states in units of a log's spread, whichever agent it is."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from actionless.discretise import Normaliser
from actionless.online.agent import Agent, AgentSettings, Behaviour, Spec, Transitions
from actionless.updates import Metrics


class Standardiser(eqx.Module):
    """z-scores as arrays of an agent: they are saved with it, and loaded."""

    mean: Float[Array, " dim"]
    scale: Float[Array, " dim"]

    @classmethod
    def neutral(cls, dim: int) -> "Standardiser":
        """States as they are."""
        return cls(jnp.zeros(dim), jnp.ones(dim))

    @classmethod
    def of(cls, normaliser: Normaliser) -> "Standardiser":
        """In the precision of agents."""
        return cls(jnp.array(normaliser.mean, jnp.float32), jnp.array(normaliser.scale, jnp.float32))

    def __call__(self, states: Float[Array, "batch dim"]) -> Float[Array, "batch dim"]:
        """In units of the log's spread."""
        return (states - self.mean[None]) / self.scale[None]


def standardised_by(normaliser: Normaliser, agent: Agent) -> Agent:
    """An agent that sees states in these units."""
    assert isinstance(agent, Standardised)
    return eqx.tree_at(lambda agent: agent.states, agent, Standardiser.of(normaliser))


class StandardisedBehaviour(Behaviour):
    """A behaviour that was learnt on z-scores, for raw states."""

    states: Standardiser
    behaviour: Behaviour

    def act(self, states: Float[Array, "batch dim"]) -> Shaped[Array, "batch actions"]:
        """The best actions."""
        return self.behaviour.act(self.states(states))

    def explore(
        self, state: Float[Array, " dim"], memory: Any, key: PRNGKeyArray
    ) -> tuple[Shaped[Array, " actions"], Any]:
        """An action to learn from."""
        return self.behaviour.explore(self.states(state[None])[0], memory, key)


class Standardised(Agent):
    """An agent that is given z-scores of raw states."""

    states: Standardiser
    agent: Agent
    spec: Spec = eqx.field(static=True)

    @classmethod
    def create(cls, spec: Spec, config: AgentSettings, key: PRNGKeyArray) -> "Standardised":
        """Around a new agent with these settings. States stay as they are until a log's statistics are known."""
        return cls(states=Standardiser.neutral(spec.state_dim), agent=config.create(spec, key), spec=spec)

    @property
    def behaviour(self) -> StandardisedBehaviour:
        """What acts, and turns raw states into z-scores first."""
        return StandardisedBehaviour(self.states, self.agent.behaviour)

    def exploration(self) -> Any:
        """What the inner agent's exploration remembers at first."""
        return self.agent.exploration()

    def values(
        self, states: Float[Array, "batch dim"], actions: Shaped[Array, "batch actions"]
    ) -> Float[Array, " batch"]:
        """Q of the inner agent at the z-scores of these states."""
        return self.agent.values(self.states(states), actions)

    def update(self, batch: Transitions, key: PRNGKeyArray) -> tuple["Standardised", Metrics]:
        """One update of the inner agent, on z-scores."""
        seen = dataclasses.replace(batch, states=self.states(batch.states), next_states=self.states(batch.next_states))
        agent, metrics = self.agent.update(seen, key)
        return Standardised(states=self.states, agent=agent, spec=self.spec), metrics
