"""What every offline learner is: a pure step from one learner to the next."""

import abc
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
from jaxtyping import Array, Float, Int, PRNGKeyArray

from actionless.updates import Metrics

Head = Literal["utilities", "logits", "next_state", "difference", "action", "plan"]


@dataclass(frozen=True)
class Spec:
    """What a learner must know of its log; `action_dim` only where actions were read on request."""

    state_dim: int
    bins: int
    action_dim: int | None = None
    longest_episode: int = 1


class Batch(eqx.Module):
    """Transitions of a log, ready to learn from.

    States are normalised, `masks` are 0 where the backup stops and 1 elsewhere, `deltas` are bin indices.
    """

    states: Float[Array, "batch dim"]
    next_states: Float[Array, "batch dim"]
    rewards: Float[Array, " batch"]
    masks: Float[Array, " batch"]
    deltas: Int[Array, "batch dim"]
    actions: Float[Array, "batch actions"] | None = None
    to_go: Float[Array, " batch"] | None = None
    """Rewards from here to the end of the recording of the episode, for learners that look at steps in a row."""
    times: Int[Array, " batch"] | None = None
    """The number of the step in its episode, for the same."""


class OfflineLearner(eqx.Module):
    """Networks and optimiser state, and how to improve them."""

    network: eqx.AbstractVar[Any]
    """An `Ensemble`, unless the learner looks at steps in a row."""
    spec: eqx.AbstractVar[Spec]

    @classmethod
    @abc.abstractmethod
    def create(cls, spec: Spec, config: Any, key: PRNGKeyArray) -> "OfflineLearner":
        """A learner that has learnt nothing. No two of its arrays share memory: a loop may donate it."""

    @abc.abstractmethod
    def update(self, batch: Batch, key: PRNGKeyArray) -> tuple["OfflineLearner", Metrics]:
        """The learner after one gradient step, and scalar metrics with `loss` among them."""

    @property
    @abc.abstractmethod
    def head(self) -> Head:
        """What the network's outputs mean."""

    @property
    @abc.abstractmethod
    def temperature(self) -> float:
        """Utilities or logits are divided by it before the softmax that gives probabilities."""

    @property
    @abc.abstractmethod
    def value_scale(self) -> float:
        """Utilities are multiplied by it to be returns in the log's own rewards."""


def by_bin(outputs: Float[Array, "members batch outputs"], spec: Spec) -> Float[Array, "members batch bins dim"]:
    """A network's outputs, one per bin and dimension.

    Bins come before dimensions: a reduction over three bins then runs along whole rows.
    """
    return outputs.reshape(*outputs.shape[:2], spec.bins, spec.state_dim)
