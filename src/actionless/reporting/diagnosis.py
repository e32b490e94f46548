"""What guidance did, in words: one sentence for whatever a user should know of a group of runs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from actionless.reporting.groups import Group, Section

Mean = Callable[[str], float | None]
"""From a metric to its mean over the runs of a group; None where no run has it."""


@dataclass(frozen=True)
class _Means:
    """Of the metrics of a group: each run's mean, then the mean of the runs."""

    group: Group

    def __call__(self, metric: str) -> float | None:
        curves = [record.metrics[metric] for record in self.group.records if metric in record.metrics]
        return float(np.mean([curve.values.mean() for curve in curves])) if curves else None


def diagnosis(section: Section) -> list[str]:
    """The sentences of a section, each with the group it speaks of."""
    found = []
    for group in section.groups:
        mean = _Means(group)
        sentences = [sentence for rule in (_potential, _relabel, _switch) if (sentence := rule(mean)) is not None]
        found += [f"{group.label}: {sentence}" for sentence in sentences]
    return found


def _potential(mean: Mean) -> str | None:
    used, share, distance = mean("potential/used"), mean("potential/share"), mean("potential/distance")
    if share is None or distance is None:
        return None
    correlation = mean("potential/reward_correlation")
    if used is not None and used < 0.95:
        return (
            f"the potential was suspended for {1 - used:.0%} of the run, because steps near the log did not pay what "
            f"the log says (correlation {correlation or 0:.2f}). Is the log of this environment, with the same rewards?"
        )
    if distance > 1:
        return (
            f"the agent stayed far from the log ({distance:.1f} standard deviations of each variable), where the "
            "potential says little. A log with worse behaviour in it would help more."
        )
    return (
        f"{share:.0%} of the rewards that the agent learnt from, by size, came from the potential, at a distance of "
        f"{distance:.2f} from the log."
    )


def _relabel(mean: Mean) -> str | None:
    used, agreed, error = mean("relabel/used"), mean("relabel/agreed"), mean("relabel/error")
    if used is None or agreed is None or error is None:
        return None
    if used == 0:
        return (
            f"no row of the log was used: the models agreed on the actions of {agreed:.0%} of its rows. The agent has "
            "not seen what the log has seen; more steps, or the potential beside it, may help."
        )
    return (
        f"{used:.0%} of the rows in the batches were the log's, with actions that miss the agent's own by {error:.2f} "
        f"where both are known; the models agreed on {agreed:.0%} of the log."
    )


def _switch(mean: Mean) -> str | None:
    guided, own, share = mean("guide/reward"), mean("guide/own_reward"), mean("guided_share")
    if guided is None or own is None or share is None:
        return None
    compared = "more" if guided > own else "less"
    return f"guided steps, {share:.0%} of all, paid {compared} than the agent's own: {guided:.3g} against {own:.3g}."
