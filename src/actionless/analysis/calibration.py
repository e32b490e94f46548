"""Calibration: do proposals with a probability of 80% happen 80% of the time?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

BINS = 10


@dataclass(frozen=True)
class ReliabilityBin:
    """Proposals whose probability lies in one interval of width 0.1."""

    low: float
    high: float
    count: int
    probability: float
    """Their mean probability."""
    accuracy: float
    """How often they happened."""


def reliability(
    probability: Float[np.ndarray, "*batch"], right: Bool[np.ndarray, "*batch"]
) -> tuple[ReliabilityBin, ...]:
    """How often proposals happened, grouped by their probability; empty groups are left out."""
    probability, right = probability.reshape(-1).astype(np.float64), right.reshape(-1)
    tenth = np.minimum((probability * BINS).astype(int), BINS - 1)
    return tuple(
        ReliabilityBin(
            low=float(k / BINS),
            high=float((k + 1) / BINS),
            count=int((tenth == k).sum()),
            probability=float(probability[tenth == k].mean()),
            accuracy=float(right[tenth == k].mean()),
        )
        for k in np.unique(tenth).tolist()
    )


def expected_calibration_error(curve: Sequence[ReliabilityBin]) -> float:
    """The mean distance between probability and accuracy, each tenth weighted by what it holds."""
    return sum(b.count * abs(b.probability - b.accuracy) for b in curve) / sum(b.count for b in curve)
