"""Compare a policy's Q-values with the observed discounted returns of the log."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from actionless.analysis.episode_subset import EpisodeSubset
from actionless.data.log import observed_returns
from actionless.errors import ActionlessError
from actionless.offline.state_policy import StatePolicy


@dataclass(frozen=True)
class Values:
    """Q-values and observed returns, in units of the log's rewards, on states whose return is complete."""

    discount: float
    horizon: float
    """Steps over which a gain adds up: 1 / (1 − discount), or the mean episode length if that is smaller."""
    states: int
    data_return: float
    return_std: float
    return_95th: float
    q_of_data: float
    """Mean Q of the observed Δs."""
    q_of_proposals: float
    gain: float
    """`q_of_proposals` − `q_of_data`. Never negative, because the proposal has the highest Q."""
    overestimation: float
    """`q_of_proposals` − `data_return`."""
    rank_correlation: float
    """Spearman's rank correlation of Q of the observed Δs with the return; NaN if either is constant."""


def measure_values(
    policy: StatePolicy,
    part: EpisodeSubset,
    places: Int[np.ndarray, " sample"],
    states: Float[np.ndarray, "sample dim"],
    observed: Int[np.ndarray, "sample dim"],
    discount: float | None,
) -> Values | None:
    """Measure Q on the sampled states. None for methods that learn no values, and if no return is complete."""
    if policy.model.head != "utilities":
        return None
    discount = _discount_of(policy) if discount is None else discount
    returns, complete = observed_returns(part.log, part.rows, discount)
    returns, complete = returns[places], complete[places]
    if not complete.any():
        return None
    returns, states = returns[complete], states[complete]
    of_data = policy.values(states, policy.model.discretiser.labels(observed[complete])).astype(np.float64)
    of_proposals = policy.values(states).astype(np.float64)
    length = len(part.rows) / part.count
    return Values(
        discount=discount,
        horizon=length if discount == 1 else min(length, 1 / (1 - discount)),
        states=len(returns),
        data_return=float(returns.mean()),
        return_std=float(returns.std()),
        return_95th=float(np.quantile(returns, 0.95)),
        q_of_data=float(of_data.mean()),
        q_of_proposals=float(of_proposals.mean()),
        gain=float((of_proposals - of_data).mean()),
        overestimation=float(of_proposals.mean() - returns.mean()),
        rank_correlation=rank_correlation(of_data, returns),
    )


def rank_correlation(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> float:
    """Spearman's rank correlation; ties share their mean rank. NaN if either array is constant."""
    a, b = _ranks(x), _ranks(y)
    if a.std() == 0 or b.std() == 0:
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def _discount_of(policy: StatePolicy) -> float:
    try:
        return policy.provenance["config"]["learner"]["discount"]
    except KeyError:
        raise ActionlessError("the policy does not say its discount: give diagnose(..., discount=0.99)") from None


def _ranks(values: np.ndarray) -> Float[np.ndarray, " n"]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    return (last - (counts - 1) / 2)[inverse]
