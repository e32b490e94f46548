"""What guidance did, in words: one sentence for whatever a user should know of a group of runs."""

from dataclasses import dataclass

import numpy as np

from actionless.guidance import kinds
from actionless.reporting.groups import Group, Section


@dataclass(frozen=True)
class _Means:
    """Of the metrics of a group: each run's mean, then the mean of the runs."""

    group: Group

    def __call__(self, metric: str) -> float | None:
        curves = [record.metrics[metric] for record in self.group.records if metric in record.metrics]
        return float(np.mean([curve.values.mean() for curve in curves])) if curves else None


def diagnosis(section: Section) -> list[str]:
    """The sentences of a section, each with the group it speaks of."""
    return [f"{group.label}: {said}" for group in section.groups for said in kinds.sentences(_Means(group))]
