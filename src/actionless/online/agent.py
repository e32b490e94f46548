"""What every online agent is: a behaviour that acts, and a pure step from one agent to the next.

Agents see raw states. Continuous actions are in [-1, 1] whatever the environment's limits; factorised ones are the
index of a bin in each dimension. The environment translates both.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Real, Shaped

from actionless.errors import ActionlessError
from actionless.settings import Count, Derived, Fraction, NonNegative, Settings
from actionless.updates import Metrics

Act = Callable[[np.ndarray], np.ndarray]
"""From a batch of states to an agent's best action for each."""
if TYPE_CHECKING:
    Rows = Any
else:
    # NumPy's where a batch is drawn, JAX's where an agent learns from it: a checker of types cannot tell which.
    Rows = np.ndarray | Array
RETURNS = "returns"
"""The column of discounted rewards from a step to its episode's end, where an agent learns from those too."""


@dataclass(frozen=True)
class Spec:
    """What an agent must know of its environment."""

    state_dim: int
    action_dim: int
    bins: int | None
    """Choices in each action dimension; None where actions are continuous."""


@dataclass(frozen=True)
class AgentSettings(Settings, abc.ABC):
    """What the settings of every agent have; each agent has its own defaults."""

    hidden: tuple[Count, ...] = (256, 256)
    """Sizes of the hidden layers."""
    learning_rate: NonNegative = 3e-4
    """Step size of Adam."""
    discount: Fraction = 0.99
    """γ: the weight of a reward one step later."""
    n_step: Count = 1
    """Number of rewards that a target sums up before it bootstraps."""
    target_rate: Fraction = 5e-3
    """τ: share of each network that enters its target network at each update."""
    standardise: Derived[bool] = field(default=False, kw_only=True)
    """Whether the agent sees states in units of a log's spread."""

    @abc.abstractmethod
    def create(self, spec: Spec, key: PRNGKeyArray) -> "Agent":
        """An agent that has learnt nothing."""

    def with_layer_norm(self) -> "AgentSettings":
        """With LayerNorm in the critics, where the agent knows it; the same where it does not."""
        return self

    def for_policy(self) -> "AgentSettings":
        """What a saved policy is rebuilt from: settings of an agent that acts in the same way.

        Another class where this one belongs to a part that the agents do not know: policies load without it.
        """
        return self


@dataclass(frozen=True)
class LabelledSettings(AgentSettings, abc.ABC):
    """Settings of an agent that begins with a log of states and actions."""

    n_step: Derived[Count] = 1
    standardise: Derived[bool] = field(default=True, kw_only=True)


class Transitions(eqx.Module):
    """What an agent learns from.

    `rewards` are the discounted sum of the steps that `next_states` lies ahead, `discounts` what its value then
    counts for: γ to the power of those steps, 0 at a terminal. A time limit is none.
    """

    states: Float[Rows, "batch dim"]
    actions: Shaped[Rows, "batch actions"]
    rewards: Float[Rows, " batch"]
    next_states: Float[Rows, "batch dim"]
    discounts: Float[Rows, " batch"]
    extra: dict[str, Shaped[Rows, " batch"]] = eqx.field(default_factory=dict)
    """The replay's extra columns, by name: of the first of those steps."""


class Behaviour(eqx.Module):
    """The part of an agent that acts: small, so that handing it to a compiled function at every step is cheap."""

    @abc.abstractmethod
    def act(self, states: Float[Array, "batch dim"]) -> Shaped[Array, "batch actions"]:
        """The agent's best actions."""

    @abc.abstractmethod
    def explore(
        self, state: Float[Array, " dim"], memory: Any, key: PRNGKeyArray
    ) -> tuple[Shaped[Array, " actions"], Any]:
        """An action to learn from, and what exploration remembers (begun by `Agent.exploration`)."""


class Agent(eqx.Module):
    """Networks and optimiser state, and how to improve them."""

    spec: eqx.AbstractVar[Spec]

    @classmethod
    @abc.abstractmethod
    def create(cls, spec: Spec, config: Any, key: PRNGKeyArray) -> "Agent":
        """An agent that has learnt nothing. No two of its arrays share memory: a loop may donate it."""

    @property
    @abc.abstractmethod
    def behaviour(self) -> Behaviour:
        """What acts."""

    @abc.abstractmethod
    def exploration(self) -> Any:
        """What exploration remembers before the first step: a small tree of arrays, or `()`."""

    @abc.abstractmethod
    def update(self, batch: Transitions, key: PRNGKeyArray) -> tuple["Agent", Metrics]:
        """The agent after one update, and scalar metrics with `loss` among them."""

    def values(
        self,
        states: Float[Array, "batch dim"],  # noqa: ARG002
        actions: Shaped[Array, "batch actions"],  # noqa: ARG002
    ) -> Float[Array, " batch"]:
        """Q(s, a), cautiously, for agents that guidance may ask."""
        raise ActionlessError(f"{type(self).__name__} gives no values of actions: leave out --choice (choice=None)")


@dataclass(frozen=True)
class AgentView:
    """What guidance may ask an agent, in NumPy."""

    agent: Agent

    def act(self, states: Real[np.ndarray, "batch dim"]) -> Shaped[np.ndarray, "batch actions"]:
        """Its present best action for each state."""
        return best_actions(self.agent.behaviour, states)

    def values(
        self, states: Real[np.ndarray, "batch dim"], actions: Shaped[np.ndarray, "batch actions"]
    ) -> Float[np.ndarray, " batch"]:
        """What it thinks that actions are worth."""
        return np.asarray(_values(self.agent, states.astype(np.float32), actions))


def best_actions(behaviour: Behaviour, states: Real[np.ndarray, "batch dim"]) -> Shaped[np.ndarray, "batch actions"]:
    """What an agent does where nothing is to be learnt, in NumPy."""
    return np.asarray(_act(behaviour, states.astype(np.float32)))


@jax.jit
def _values(
    agent: Agent, states: Float[Array, "batch dim"], actions: Shaped[Array, "batch actions"]
) -> Float[Array, " batch"]:
    return agent.values(states, actions)


@jax.jit
def _act(behaviour: Behaviour, states: Float[Array, "batch dim"]) -> Shaped[Array, "batch actions"]:
    return behaviour.act(states)
