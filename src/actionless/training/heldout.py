"""What a learner is worth on episodes it has not seen, measured without an environment."""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from actionless.data.log import Log, returns_to_go
from actionless.discretise import Discretiser
from actionless.offline.afdt import Afdt
from actionless.offline.learner import Batch, OfflineLearner
from actionless.offline.state_policy import PolicyModel
from actionless.training.prepared import Preparation, Split, with_those_before
from actionless.updates import Metrics

MOST_ROWS = 8192
"""Rows measured on, taken evenly from all that are held out: enough for the second digit of an accuracy."""

MOST_WINDOWS = 512
"""The same for learners that look at steps in a row, each of which costs as much as a row."""

HEADLINE = (
    *(f"{data}/{measure}" for data in ("heldout", "train") for measure in ("accuracy", "error", "action_error")),
    "q/mean",
    "q/data_return",
)
"""The figures to watch; no learner has them all."""

_NEGLIGIBLE = 0.05
"""A return is complete where what lies beyond the recording would weigh at most this much."""


@dataclass(frozen=True)
class HeldOut:
    """The rows measured on; of the training data where nothing is held out."""

    name: str
    data: Batch
    preparation: Preparation
    data_return: float | None
    """Mean discounted return of the log from such states on, for learners of values."""
    return_spread: float | None
    """The standard deviation of these returns."""

    @classmethod
    def of(cls, preparation: Preparation, split: Split, discount: float | None, context: int = 1) -> "HeldOut":
        """Choose the rows, with those before them that belong to their `context`; measure the log's own return."""
        held_out = len(split.held_out) > 0
        candidates = split.held_out if held_out else split.training
        most = min(len(candidates), MOST_ROWS if context == 1 else MOST_WINDOWS)
        rows = candidates[with_those_before(np.linspace(0, len(candidates) - 1, most).astype(int), context)]
        returns = None if discount is None else _complete_returns(preparation.log, candidates, discount)
        return cls(
            name="heldout" if held_out else "train",
            data=preparation.many_rows(rows).on_device(),
            preparation=preparation,
            data_return=None if returns is None else float(returns.mean()),
            return_spread=None if returns is None else float(returns.std()),
        )

    @property
    def score(self) -> str:
        """What tells the best checkpoint: how often Δs is proposed as it happened, or how far actions miss."""
        return f"{self.name}/{'action_error' if self.is_of_actions else 'accuracy'}"

    @property
    def is_of_actions(self) -> bool:
        """Whether actions are measured, and a lower score is the better one; they are read for nothing else."""
        return self.data.actions is not None

    def measure(self, learner: OfflineLearner) -> dict[str, float]:
        """Accuracy and error of the proposals; for learners of values, Q against the log's return."""
        if self.is_of_actions:
            return {f"{self.name}/action_error": float(_action_error(learner, self.data))}
        discretiser = self.preparation.discretiser
        if isinstance(learner, Afdt):
            return self._named(_plans(learner, discretiser, self.data))
        model = PolicyModel(learner.network, discretiser, learner.head, learner.temperature)
        metrics = self._named(_proposals(model, self.data))
        if self.data_return is None:
            return metrics
        q = {key: float(value) * learner.value_scale for key, value in _values(model, self.data).items()}
        over = q["q/mean"] - self.data_return
        return metrics | q | {"q/data_return": self.data_return, "q/overestimation": over}

    def _named(self, metrics: Metrics) -> dict[str, float]:
        return {f"{self.name}/{key}": float(value) for key, value in metrics.items()}


@eqx.filter_jit
def _proposals(model: PolicyModel, data: Batch) -> Metrics:
    return _compared(model.index(data.states), data.deltas)


@eqx.filter_jit
def _plans(learner: Afdt, discretiser: Discretiser, data: Batch) -> Metrics:
    """Of the planned changes, in the same bins, on the way to the return that the episode had."""
    last = data.deltas[learner.config.context - 1 :: learner.config.context]
    return _compared(discretiser.index(learner.planned(data)), last)


def _compared(proposed: Int[Array, "rows dim"], happened: Int[Array, "rows dim"]) -> Metrics:
    distance = jnp.abs(proposed.astype(jnp.int32) - happened.astype(jnp.int32))
    return {"accuracy": (distance == 0).mean(), "error": distance.sum(axis=1).astype(jnp.float32).mean()}


@eqx.filter_jit
def _values(model: PolicyModel, data: Batch) -> Metrics:
    values = model.best_value(data.states)
    return {"q/mean": values.mean(), "q/max": values.max()}


@eqx.filter_jit
def _action_error(learner: OfflineLearner, data: Batch) -> Float[Array, ""]:
    assert data.actions is not None
    return jnp.abs(learner.network(data.states).mean(axis=0) - data.actions).mean()


def observed_returns(
    log: Log, rows: Int[np.ndarray, " rows"], discount: float
) -> tuple[Float[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]:
    """Discounted return from each row of whole episodes on, and whether the recording has all of it that matters."""
    ends = np.asarray(log.ends[rows])
    returns = returns_to_go(log.rewards[rows], ends, discount)
    return returns, _is_complete(ends, np.asarray(log.terminals[rows]), discount)


def _complete_returns(log: Log, rows: Int[np.ndarray, " rows"], discount: float) -> Float[np.ndarray, " complete"]:
    """Of the rows whose return is complete, if there are any: a cut episode would make every Q look too high."""
    returns, complete = observed_returns(log, rows, discount)
    return returns[complete] if complete.any() else returns


def _is_complete(
    ends: Bool[np.ndarray, " rows"], terminals: Bool[np.ndarray, " rows"], discount: float
) -> Bool[np.ndarray, " rows"]:
    stops = np.flatnonzero(ends)
    last = stops[np.searchsorted(stops, np.arange(len(ends)))]
    left = last - np.arange(len(ends)) + 1
    return terminals[last] | (discount**left <= _NEGLIGIBLE)
