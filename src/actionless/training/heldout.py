"""The rows that a learner is measured on, without an environment: of episodes that it has not seen."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from actionless.data.log import Log
from actionless.discretise import Discretiser
from actionless.offline.learner import Batch, Declaration, OfflineLearner, Returns
from actionless.training.batches import Preparation, Split, with_those_before

MOST_ROWS = 8192
"""Rows measured on, taken evenly from all that are held out: enough for the second digit of an accuracy."""

MOST_WINDOWS = 512
"""The same for learners that look at steps in a row, each of which costs as much as a row."""

_NAMES = ("heldout", "train")


@dataclass(frozen=True)
class HeldOut:
    """The rows measured on; of the training data where nothing is held out."""

    name: str
    data: Batch
    discretiser: Discretiser
    returns: Returns | None
    """Of the log from such states on, for learners of values."""

    @classmethod
    def of(cls, preparation: Preparation, split: Split, declared: Declaration) -> "HeldOut":
        """Choose the rows, with those before them that belong to their window; measure the log's own returns."""
        held_out = len(split.held_out) > 0
        candidates = split.held_out if held_out else split.training
        most = min(len(candidates), MOST_ROWS if declared.window == 1 else MOST_WINDOWS)
        last = np.linspace(0, len(candidates) - 1, most).astype(int)
        rows = candidates[with_those_before(last, declared.window)]
        return cls(
            name=_NAMES[0] if held_out else _NAMES[1],
            data=preparation.many_rows(rows).on_device(),
            discretiser=preparation.discretiser,
            returns=_returns(preparation.log, candidates, declared.discount),
        )

    def measure(self, learner: OfflineLearner) -> dict[str, float]:
        """What the learner measures, by the names that metrics.jsonl has."""
        metrics = learner.measure(self.data, self.discretiser, self.returns)
        return {self.full_name(name): value for name, value in metrics.items()}

    def full_name(self, metric: str) -> str:
        """A name without `/` says what was measured, and needs to say on which rows."""
        return metric if "/" in metric else f"{self.name}/{metric}"


def possible_names(metrics: Sequence[str]) -> tuple[str, ...]:
    """Every name that these metrics may have in metrics.jsonl."""
    own = [f"{name}/{metric}" for name in _NAMES for metric in metrics if "/" not in metric]
    return (*own, *(metric for metric in metrics if "/" in metric))


def _returns(log: Log, rows: Int[np.ndarray, " rows"], discount: float | None) -> Returns | None:
    if discount is None:
        return None
    return Returns.of(log, rows, discount)
