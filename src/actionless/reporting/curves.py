"""Average the curves of several seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from actionless.analysis.statistics import mean_and_error, values_at
from actionless.reporting.records import Curve

MOST_POINTS = 120
"""Points of a noisy curve at most: more would show noise instead of the trend, and make the page large."""


@dataclass(frozen=True)
class MeanCurve:
    """Mean of the seeds at the steps that all have reached, and its standard error (None for one seed)."""

    steps: Int[np.ndarray, " steps"]
    mean: Float[np.ndarray, " steps"]
    error: Float[np.ndarray, " steps"] | None


def mean_curve(curves: Sequence[Curve]) -> MeanCurve | None:
    """The mean of several curves; None if there is no step that all have reached."""
    steps = common_steps(curves)
    if len(steps) == 0:
        return None
    mean, error = mean_and_error(laid_over(curves, steps))
    return MeanCurve(steps, np.asarray(mean), None if len(curves) == 1 else np.asarray(error))


def common_steps(curves: Sequence[Curve]) -> Int[np.ndarray, " steps"]:
    """All measured steps in the range that every curve covers."""
    if not curves or any(len(curve.steps) == 0 for curve in curves):
        return np.zeros(0, int)
    steps = np.unique(np.concatenate([curve.steps for curve in curves]))
    begin, end = max(curve.steps[0] for curve in curves), min(curve.steps[-1] for curve in curves)
    return steps[(steps >= begin) & (steps <= end)]


def laid_over(curves: Sequence[Curve], steps: Int[np.ndarray, " steps"]) -> Float[np.ndarray, "curves steps"]:
    """The values of all curves at the same steps: the last one measured up to each step."""
    return np.stack([values_at(steps, curve.steps, curve.values) for curve in curves])


def thinned(curve: Curve, most: int = MOST_POINTS) -> Curve:
    """At most `most` points: means of neighbouring points, each at the last of their steps."""
    if len(curve.steps) <= most:
        return curve
    parts = np.array_split(np.arange(len(curve.steps)), most)
    return Curve(
        np.array([curve.steps[part[-1]] for part in parts]), np.array([curve.values[part].mean() for part in parts])
    )
