"""What every offline learner is: a pure step from one learner to the next, and what it says of itself.

A config says what the loop must know before there is a learner (`declares`), and how it follows from a log
(`for_log`). The learner says how it is measured and which policy it gives. The loop knows none by name.
"""

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from actionless.data.log import Log, observed_returns
from actionless.discretise import Discretiser
from actionless.settings import Settings
from actionless.updates import Metrics

Output = Literal["state policy", "values", "plans", "action policy"]
"""A state policy proposes Δs, values are returns to expect, plans are next states, an action policy gives actions."""

Column = Callable[[Log], Shaped[np.ndarray, " rows"]]
"""A number for each row of a log."""

Watch = Callable[[int, Mapping[str, float]], None]
"""Looks at each row of metrics as it is written: the step and the metrics."""


@dataclass(frozen=True)
class Declaration:
    """What the loop must know of a learner."""

    gives: tuple[Output, ...] = ("state policy",)
    window: int = 1
    """Rows of the log, one after the other, that make up one sample. Each is drawn by its last row."""
    needs_actions: bool = False
    """A learner that does not is refused a log that was read with its actions."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """What a batch must hold besides transitions: `batch.extra[name]`."""
    discount: float | None = None
    """γ of the values that it learns. None: it learns none."""
    score: str = "accuracy"
    """Which of the metrics that `measure` gives chooses the best checkpoint."""
    lower_is_better: bool = False
    shown: tuple[str, ...] = ("accuracy", "error")
    """Those of them that are shown while a run works."""


class Returns(NamedTuple):
    """Discounted returns of a log from some of its states on."""

    mean: float
    spread: float
    """Their standard deviation."""

    @classmethod
    def of(cls, log: Log, rows: Int[np.ndarray, " rows"], discount: float) -> "Returns":
        """Of the rows whose return is complete, if there are any: a cut episode would make every Q look too high."""
        returns, complete = observed_returns(log, rows, discount)
        counted = returns[complete] if complete.any() else returns
        return cls(float(counted.mean()), float(counted.std()))


@dataclass(frozen=True, eq=False)
class LogFacts:
    """What settings may follow from."""

    name: str
    episode_returns: Float[np.ndarray, " episodes"]
    returns: Callable[[float], Returns] | None = None
    """Discounted returns from all states on, for a discount. None: not known."""

    @classmethod
    def of(cls, log: Log) -> "LogFacts":
        """Of a log that has been read."""
        return cls(log.name, log.episode_returns, lambda discount: Returns.of(log, np.arange(len(log)), discount))


class LearnerConfig(Settings):
    """Settings of a learner."""

    set_by_log: ClassVar[tuple[str, ...]] = ()
    """The settings that `for_log` chooses."""

    @property
    def declares(self) -> Declaration:
        """What the loop must know of a learner with these settings."""
        return Declaration()

    def for_log(self, log: LogFacts) -> "LearnerConfig":  # noqa: ARG002 (for those that override it)
        """The same settings with those that follow from the log."""
        return self

    def watch(self, returns: Returns | None) -> Watch | None:  # noqa: ARG002 (for those that override it)
        """Called once, before the first update: warn the user of what can be known then, and look on if needed."""
        return None


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
    extra: dict[str, Shaped[Array, " batch"]] = eqx.field(default_factory=dict)
    """The columns that the learner declares."""


class PolicyLabel(NamedTuple):
    """What a policy is called and where it came from."""

    method: str
    state_names: tuple[str, ...]
    provenance: Mapping[str, Any] = {}
    """As JSON: the log's fingerprint and what was read, config, versions."""


@runtime_checkable
class Policy(Protocol):
    """What pre-training gives: can be saved, and loads without its log. policies.py has the kinds."""

    kind: ClassVar[str]
    """What policy.json calls it."""
    does: ClassVar[str]
    """In words, after the name of its method: "proposes Δs"."""

    @property
    def method(self) -> str:
        """The name that its learner has in the table of methods."""
        ...

    @property
    def state_names(self) -> tuple[str, ...]:
        """Of the log's variables, in its order."""
        ...

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Where it came from, as JSON."""
        ...

    def save(self, directory: str | Path) -> None:
        """Write it so that it loads without the log."""
        ...

    @classmethod
    def load(cls, directory: str | Path) -> "Policy":
        """What was saved there, or what a run directory holds."""
        ...


class OfflineLearner(eqx.Module):
    """Networks and optimiser state, and how to improve them."""

    network: eqx.AbstractVar[Any]
    """An `Ensemble`, or a network of the learner's own."""
    spec: eqx.AbstractVar[Spec]

    @classmethod
    @abc.abstractmethod
    def create(cls, spec: Spec, config: Any, key: PRNGKeyArray) -> "OfflineLearner":
        """A learner that has learnt nothing. No two of its arrays share memory: a loop may donate it."""

    @abc.abstractmethod
    def update(self, batch: Batch, key: PRNGKeyArray) -> tuple["OfflineLearner", Metrics]:
        """The learner after one gradient step, and scalar metrics with `loss` among them."""

    @abc.abstractmethod
    def measure(self, data: Batch, discretiser: Discretiser, returns: Returns | None) -> dict[str, float]:
        """What it is worth on rows that it has not seen, with its declared score among the metrics.

        A name without `/` becomes `heldout/NAME`, or `train/NAME` where nothing is held out. `returns` are those of
        the log for the declared discount.
        """

    @abc.abstractmethod
    def policy(self, discretiser: Discretiser, label: PolicyLabel) -> Policy:
        """What it has learnt so far."""


def by_bin(outputs: Float[Array, "members batch outputs"], spec: Spec) -> Float[Array, "members batch bins dim"]:
    """A network's outputs, one per bin and dimension.

    Bins come before dimensions: a reduction over three bins then runs along whole rows.
    """
    return outputs.reshape(*outputs.shape[:2], spec.bins, spec.state_dim)
