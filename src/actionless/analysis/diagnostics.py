"""Evaluate a state policy on a log, without an environment: accuracy, calibration, values, reachability, verdict."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from actionless.analysis.calibration import ReliabilityBin, expected_calibration_error, reliability
from actionless.analysis.episode_subset import EpisodeSubset
from actionless.analysis.inspection import plain
from actionless.analysis.reachability import MOST_STATES, Reachability, reachability
from actionless.analysis.values import Values, measure_values
from actionless.analysis.verdict import Evidence, Verdict, judge
from actionless.data.log import Log
from actionless.data.options import ReadOptions
from actionless.data.read import read as read_log
from actionless.errors import ActionlessError
from actionless.offline.state_policy import StatePolicy
from actionless.runs.directory import Manifest
from actionless.training.batches import Split
from actionless.training.pretrain import read_again
from actionless.training.pretrain_settings import stored_settings

MOST_ROWS = 20_000
"""Transitions to measure at most, spread evenly over the episodes."""
LEAST_CLUSTERS = 10
"""With fewer episodes, the standard error is computed from this many groups of consecutive transitions."""


@dataclass(frozen=True)
class Agreement:
    """How well proposals agree with the observed Δs, for one variable or for all.

    `error` is the distance between proposed and observed Δs, summed over the variables of a transition. The majority
    policy always proposes each variable's most frequent Δs; the random policy proposes each Δs equally often.
    """

    name: str
    accuracy: float
    majority_accuracy: float
    random_accuracy: float
    error: float
    majority_error: float
    random_error: float
    calibration_error: float
    """Expected calibration error (ECE): mean distance between a proposal's probability and how often it happened."""
    disagreement: float
    """Mean share of ensemble members that propose something else."""
    seen_nearby: float
    """Share of proposals that happened in the log from a similar state."""


@dataclass(frozen=True)
class Ensemble:
    """Accuracy where all members agree and where they do not; None if there are no such proposals."""

    agreed_share: float
    """Share of proposals on which all members agree."""
    accuracy_agreed: float | None
    accuracy_contested: float | None


@dataclass(frozen=True)
class Basis:
    """The data behind the figures."""

    path: str
    fingerprint: str
    measured_on: str
    """Which episodes of the log."""
    compared_with: str
    """The episodes that provide the majority's choice and the neighbours."""
    episodes: int
    transitions: int
    measured: int
    """How many of these transitions were measured, spread evenly."""


@dataclass(frozen=True)
class Diagnosis:
    """The result of `evaluate` without an environment."""

    method: str
    log: Basis
    overall: Agreement
    dimensions: tuple[Agreement, ...]
    calibration: tuple[ReliabilityBin, ...]
    ensemble: Ensemble
    values: Values | None
    """None for methods that learn no values, and if no return is complete."""
    reachability: Reachability
    verdict: Verdict

    def to_dict(self) -> dict[str, Any]:
        """JSON values, with the main figures first; None for a figure that does not exist."""
        rules = [dataclasses.asdict(rule) | {"holds": rule.holds} for rule in self.verdict.rules]
        whole = dataclasses.asdict(self)
        whole["verdict"]["rules"] = rules
        return plain({"delta_accuracy": self.overall.accuracy, "delta_error": self.overall.error} | whole)


def diagnose(
    policy: StatePolicy,
    log: Log | EpisodeSubset,
    seen: Log | EpisodeSubset | None = None,
    *,
    discount: float | None = None,
) -> Diagnosis:
    """Measure a policy on a log.

    `seen` holds the episodes that the policy was trained on; the majority's choice and the neighbours of each state
    come from it. Default: `log` itself (a state is never its own neighbour). `discount` defaults to the run's own.
    """
    part = EpisodeSubset.whole(log) if isinstance(log, Log) else log
    reference = part if seen is None else EpisodeSubset.whole(seen) if isinstance(seen, Log) else seen
    _require_same_variables(policy, part.log)
    discretiser = policy.model.discretiser
    places = part.sample(MOST_ROWS)
    states = np.asarray(part.log.states[part.rows[places]])
    proposed = discretiser.index_of(policy.propose(states)).astype(np.int32)
    observed = part.deltas(discretiser, places).astype(np.int32)
    majority = reference.bin_counts(discretiser).argmax(axis=1)
    probability = policy.probabilities(states).max(axis=-1)
    disagreement = policy.disagreement(states)
    few = np.linspace(0, len(places) - 1, min(MOST_STATES, len(places))).astype(int)
    reach = reachability(discretiser, part, places[few], proposed[few], reference)

    right = proposed == observed
    dimensions = tuple(
        _agreement(
            name, proposed[:, i], observed[:, i], int(majority[i]), discretiser.bins, probability[:, i],
            disagreement[:, i], reach.proposed_by_variable[i],
        )
        for i, name in enumerate(policy.state_names)
    )  # fmt: skip
    curve = reliability(probability, right)
    overall = _overall(dimensions, expected_calibration_error(curve), reach.proposed)
    values = measure_values(policy, part, places, states, observed, discount)
    return Diagnosis(
        method=policy.method,
        log=Basis(
            path=part.log.source.path,
            fingerprint=part.log.fingerprint,
            measured_on=part.title,
            compared_with=reference.title,
            episodes=part.count,
            transitions=len(part.rows),
            measured=len(places),
        ),
        overall=overall,
        dimensions=dimensions,
        calibration=curve,
        ensemble=_ensemble(disagreement, right),
        values=values,
        reachability=reach,
        verdict=judge(_evidence(right, observed == majority, part.episodes[places], reach, values)),
    )


def diagnose_run(
    run: str | Path, data: str | Path | Sequence[str | Path] | None = None, read: ReadOptions | None = None
) -> Diagnosis:
    """Measure a run's policy on the episodes of its log that it was not trained on, or on another log."""
    policy = StatePolicy.load(run)
    if data is not None:
        log = read_log(data, read)
        known = policy.provenance.get("data", {}).get("fingerprint") == log.fingerprint
        return diagnose(
            policy, EpisodeSubset(log, np.arange(len(log)), "the log it was trained on, whole") if known else log
        )
    manifest = manifest_of(policy, run)
    if manifest.data["origin"] is None:
        raise ActionlessError(
            f"{run}: its log was passed in from Python, so it cannot be read again: give a log with --data, or call "
            "diagnose(policy, log)"
        )
    log = read_again(Path(run), manifest)
    settings = stored_settings(run, manifest)
    split = Split.by_episode(log, settings.loop.held_out, manifest.seed)
    if len(split.held_out) == 0:
        return diagnose(policy, EpisodeSubset(log, split.training, "training data: nothing was held out"))
    return diagnose(
        policy,
        EpisodeSubset(log, split.held_out, "held-out episodes"),
        EpisodeSubset(log, split.training, "the episodes trained on"),
    )


def manifest_of(policy: StatePolicy, run: str | Path) -> Manifest:
    """The manifest of the run that made the policy."""
    try:
        return Manifest(**policy.provenance)
    except TypeError:
        raise ActionlessError(
            f"{run}: its policy does not say which log it was trained on; give the data on the command line"
        ) from None


def _agreement(
    name: str,
    proposed: Int[np.ndarray, " rows"],
    observed: Int[np.ndarray, " rows"],
    majority: int,
    bins: int,
    probability: Float[np.ndarray, " rows"],
    disagreement: Float[np.ndarray, " rows"],
    seen_nearby: float,
) -> Agreement:
    """Agreement of one variable. The figures of the random policy are exact expectations."""
    return Agreement(
        name=name,
        accuracy=float((proposed == observed).mean()),
        majority_accuracy=float((observed == majority).mean()),
        random_accuracy=1 / bins,
        error=float(np.abs(proposed - observed).mean()),
        majority_error=float(np.abs(majority - observed).mean()),
        random_error=float(np.abs(np.arange(bins)[:, None] - observed).mean()),
        calibration_error=expected_calibration_error(reliability(probability, proposed == observed)),
        disagreement=float(disagreement.mean()),
        seen_nearby=seen_nearby,
    )


def _overall(dimensions: Sequence[Agreement], calibration_error: float, seen_nearby: float) -> Agreement:
    def mean(figure: str) -> float:
        return float(np.mean([getattr(d, figure) for d in dimensions]))

    def total(figure: str) -> float:
        return float(np.sum([getattr(d, figure) for d in dimensions]))

    return Agreement(
        name="all variables",
        accuracy=mean("accuracy"),
        majority_accuracy=mean("majority_accuracy"),
        random_accuracy=mean("random_accuracy"),
        error=total("error"),
        majority_error=total("majority_error"),
        random_error=total("random_error"),
        calibration_error=calibration_error,
        disagreement=mean("disagreement"),
        seen_nearby=seen_nearby,
    )


def _ensemble(disagreement: Float[np.ndarray, "rows dim"], right: Bool[np.ndarray, "rows dim"]) -> Ensemble:
    agreed = disagreement == 0
    return Ensemble(
        agreed_share=float(agreed.mean()),
        accuracy_agreed=float(right[agreed].mean()) if agreed.any() else None,
        accuracy_contested=float(right[~agreed].mean()) if not agreed.all() else None,
    )


def _evidence(
    right: Bool[np.ndarray, "rows dim"],
    majority_right: Bool[np.ndarray, "rows dim"],
    episodes: Int[np.ndarray, " rows"],
    reach: Reachability,
    values: Values | None,
) -> Evidence:
    advantage = right.mean(axis=1) - majority_right.mean(axis=1)
    mistakes = 1 - majority_right.mean()
    return Evidence(
        skill=float(advantage.mean() / mistakes) if mistakes > 0 else 0.0,
        advantage=float(advantage.mean()),
        advantage_error=clustered_error(advantage, episodes),
        proposed_reachable=reach.proposed,
        observed_reachable=reach.observed,
        values=values,
    )


def clustered_error(figure: Float[np.ndarray, " rows"], episodes: Int[np.ndarray, " rows"]) -> float:
    """Standard error of the mean over steps, which are not independent: clustered by episode.

    With few episodes, the clusters are groups of consecutive steps. Infinite for a single row.
    """
    _, cluster, sizes = np.unique(episodes, return_inverse=True, return_counts=True)
    if len(sizes) < LEAST_CLUSTERS:
        cluster = np.arange(len(figure)) * LEAST_CLUSTERS // max(LEAST_CLUSTERS, len(figure))
    sums = np.bincount(cluster, weights=figure - figure.mean())
    if len(sums) == 1:
        return math.inf
    return float(np.sqrt(len(sums) / (len(sums) - 1) * np.square(sums).sum()) / len(figure))


def _require_same_variables(policy: StatePolicy, log: Log) -> None:
    if log.state_names == policy.state_names:
        return
    missing = [name for name in policy.state_names if name not in log.state_names]
    found = ", ".join(log.state_names[:20]) + (", …" if log.state_dim > 20 else "")
    what = f"no variable '{missing[0]}'" if missing else "other variables, or another order"
    raise ActionlessError(
        f"{log.source.path}: {what}; the policy was trained on {', '.join(policy.state_names)}, the log has {found}"
    )
