"""Statistics of a few runs: means, interquartile means and confidence intervals.

Scores are a matrix of runs × tasks; each task has its own runs. Intervals are percentiles of a stratified bootstrap:
it resamples the runs of each task but never the tasks, so it describes other seeds on the same tasks. Rules, ties and
rounding are the same as in rliable; a test compares the two. ("Task" is rliable's word for an environment.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int, Real

from actionless.errors import ActionlessError

Aggregate = Literal["mean", "median", "iqm"]
Value = Float[np.ndarray, "..."] | float
"""A number, or one number per step if scores are curves."""

RESAMPLES = 50_000
_MOST_NUMBERS = 4_000_000  # resampled at once: 32 MB for any number of runs, tasks and steps


@dataclass(frozen=True)
class Estimate:
    """A value and its confidence interval."""

    value: Value
    low: Value
    high: Value


def mean_and_error(scores: Real[np.ndarray, "runs *rest"]) -> tuple[Value, Value]:
    """Mean over the runs and its standard error, which is NaN for a single run."""
    scores = _checked(scores)
    runs = len(scores)
    mean = scores.mean(axis=0)
    if runs == 1:
        return mean, mean * np.nan
    return mean, scores.std(axis=0, ddof=1) / np.sqrt(runs)


def aggregate(
    scores: Real[np.ndarray, "runs tasks *steps"],
    how: Aggregate = "iqm",
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """One number for all runs of all tasks, with its confidence interval; for learning curves, one for each step.

    `mean` and `median` are taken over the tasks' means; `iqm` is the mean of the middle half of all runs of all tasks.
    """
    scores = _checked(scores)
    _check_interval(confidence, resamples)
    function = _AGGREGATES[how]
    runs, tasks = scores.shape[:2]
    rng = np.random.default_rng(seed)
    drawn = []
    for count in _blocks(resamples, scores.size):
        # Whole curves are resampled.
        chosen = rng.integers(runs, size=(count, runs, tasks))
        drawn.append(function(scores[chosen, np.arange(tasks)]))
    return _estimate(function(scores[None])[0], np.concatenate(drawn), confidence)


def mean_over_episodes(
    returns: Real[np.ndarray, "runs episodes"],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """The mean over runs and their episodes; its interval is of other runs, and of other episodes of each.

    Runs are resampled, and within each run that is drawn its episodes (a nested bootstrap). Of a single run the
    interval describes other episodes of that run alone.
    """
    returns = _checked(returns)
    _check_interval(confidence, resamples)
    runs, episodes = returns.shape
    rng = np.random.default_rng(seed)
    drawn = []
    for count in _blocks(resamples, returns.size):
        run = rng.integers(runs, size=(count, runs, 1))
        episode = rng.integers(episodes, size=(count, runs, episodes))
        drawn.append(returns[run, episode].mean(axis=(1, 2)))
    return _estimate(returns.mean(), np.concatenate(drawn), confidence)


def probability_of_improvement(
    scores: Real[np.ndarray, "runs tasks"],
    others: Real[np.ndarray, "other_runs _"],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """Probability that a run beats one of `others` on the same task, averaged over tasks; a tie counts half."""
    scores, others = _checked(scores), _checked(others)
    _check_interval(confidence, resamples)
    tasks = scores.shape[1]
    if others.shape[1] != tasks:
        raise ActionlessError(f"scores of {tasks} tasks and of {others.shape[1]} tasks: compare on the same tasks")
    left, right = scores.T[:, :, None], others.T[:, None, :]
    wins = (left > right) + 0.5 * (left == right)  # tasks × runs × other runs
    rng = np.random.default_rng(seed)
    drawn = []
    for count in _blocks(resamples, scores.size + others.size):
        # Only the number of times each run is drawn matters.
        times = _times_drawn(rng, len(scores), (count, tasks))
        times_other = _times_drawn(rng, len(others), (count, tasks))
        won = np.einsum("bti,tij->btj", times, wins, optimize=True) * times_other
        drawn.append(won.sum(axis=(1, 2)) / wins.size)
    return _estimate(wins.mean(axis=(1, 2)).mean(), np.concatenate(drawn), confidence)


def values_at(
    steps: Int[np.ndarray, " steps"], measured_at: Int[np.ndarray, " rows"], values: Real[np.ndarray, " rows"]
) -> Real[np.ndarray, " steps"]:
    """A run's value at given steps: the last one measured up to each step, so that runs can be averaged."""
    if (np.diff(measured_at) <= 0).any():
        raise ActionlessError("the steps of a run must increase: sort its rows and keep one row per step")
    row = np.searchsorted(measured_at, steps, side="right") - 1
    if len(measured_at) == 0 or (row < 0).any() or (steps > measured_at[-1]).any():
        measured = f"from step {measured_at[0]:,} to {measured_at[-1]:,}" if len(measured_at) else "at no step"
        raise ActionlessError(
            f"a run measured {measured} does not cover the steps from {steps.min():,} to {steps.max():,}: "
            "ask for steps that every run has reached"
        )
    return values[row]


# Each function maps resamples × runs × tasks × steps to resamples × steps.


def _mean(scores: np.ndarray) -> np.ndarray:
    return scores.mean(axis=1).mean(axis=1)


def _median(scores: np.ndarray) -> np.ndarray:
    return np.median(scores.mean(axis=1), axis=1)


def _interquartile_mean(scores: np.ndarray) -> np.ndarray:
    resamples, runs, tasks, *steps = scores.shape
    pooled = np.sort(scores.reshape(resamples, runs * tasks, *steps), axis=1)
    cut = runs * tasks // 4
    return pooled[:, cut : runs * tasks - cut].mean(axis=1)


_AGGREGATES: dict[Aggregate, Callable[[np.ndarray], np.ndarray]] = {
    "mean": _mean,
    "median": _median,
    "iqm": _interquartile_mean,
}


def _blocks(resamples: int, numbers: int) -> list[int]:
    """Sizes of the blocks of resamples, so that each block has at most `_MOST_NUMBERS` numbers."""
    most = max(1, _MOST_NUMBERS // numbers)
    return [min(most, resamples - start) for start in range(0, resamples, most)]


def _times_drawn(rng: np.random.Generator, runs: int, shape: tuple[int, ...]) -> np.ndarray:
    return rng.multinomial(runs, np.full(runs, 1 / runs), size=shape).astype(np.float64)


def _estimate(value: Value, drawn: Float[np.ndarray, "resamples *steps"], confidence: float) -> Estimate:
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    return Estimate(value, low, high)


def _checked(scores: np.ndarray) -> Float[np.ndarray, "..."]:
    if scores.size == 0:
        raise ActionlessError(f"scores of shape {scores.shape}: give at least one run with at least one score")
    if not np.isfinite(scores).all():
        place = np.argwhere(~np.isfinite(scores))[0].tolist()
        raise ActionlessError(
            f"scores: {scores[tuple(place)]} at index {place} (run first); leave out the run, or find out why it failed"
        )
    return scores.astype(np.float64)


def _check_interval(confidence: float, resamples: int) -> None:
    if not 0 < confidence < 1:
        raise ActionlessError(f"confidence={confidence}: choose a number between 0 and 1, such as 0.95")
    if resamples < 1:
        raise ActionlessError(f"resamples={resamples}: choose at least 1, or {RESAMPLES:,} for a table")
