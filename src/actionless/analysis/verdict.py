"""From figures to words: each grade follows from rules with numbers, which are part of the verdict."""

from dataclasses import dataclass
from typing import Literal

from actionless.analysis.values import Values

Grade = Literal["overestimates", "no better than the majority", "ventures", "imitates", "improves"]

LEAST_SKILL = 0.05
"""Share of the majority's mistakes that must be avoided."""
STANDARD_ERRORS = 2.0
"""By how many standard errors an advantage must exceed zero."""
OVERESTIMATION = 0.1
"""How far mean Q may lie above the 95th percentile of the observed returns, as a share of its size."""
LEAST_GAIN = 0.1
"""Gain in Q over the log's own choices, step after step, in standard deviations of the observed returns."""
LEAST_REACHABLE = 0.9
"""How often proposals must be seen nearby, as a share of how often what happened is."""

SENTENCES: dict[Grade, str] = {
    "overestimates": "Overestimates: it promises more than nearly any state of the log ever brought. Do not trust its "
    "Q, nor proposals that rest on it.",
    "no better than the majority": "No better than the majority: always proposing each variable's most frequent Δs "
    "agrees with the log as well.",
    "ventures": "Ventures: by its own Q it improves on the log's choices, but with moves that the log has too rarely "
    "seen from such states. Untested.",
    "imitates": "Imitates: it proposes what the log's behaviour would do next, and no figure here shows more.",
    "improves": "Improves on the log's own choices by its own Q, within what the log has seen. Whether the "
    "improvement is real only acting can show.",
}


@dataclass(frozen=True)
class Rule:
    """One comparison behind a verdict: it holds where the figure is above the threshold."""

    name: str
    says: str
    figure: float
    threshold: float

    @property
    def holds(self) -> bool:
        """A figure that is NaN holds nothing."""
        return self.figure > self.threshold


@dataclass(frozen=True)
class Verdict:
    """What the figures allow to be said, and no more."""

    grade: Grade
    sentence: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Evidence:
    """The figures that the rules look at."""

    skill: float
    """Share of the majority's mistakes that are avoided; 0 where it makes none."""
    advantage: float
    """Accuracy above the majority's."""
    advantage_error: float
    """Its standard error."""
    proposed_reachable: float
    observed_reachable: float
    values: Values | None


def judge(evidence: Evidence) -> Verdict:
    """The grade that the rules give, with all of them."""
    rules = _rules(evidence)
    grade = _grade({rule.name: rule.holds for rule in rules})
    return Verdict(grade, SENTENCES[grade], rules)


def _grade(holds: dict[str, bool]) -> Grade:
    """Worst news first. Rules on values are missing where there are none: nothing is held against or for them."""
    if holds.get("overestimates", False):
        return "overestimates"
    if not (holds["beats the majority"] and holds["beyond chance"]):
        return "no better than the majority"
    if not (holds.get("gains", False) and holds.get("ranks", False)):
        return "imitates"
    return "improves" if holds["stays near"] else "ventures"


def _rules(evidence: Evidence) -> tuple[Rule, ...]:
    values = evidence.values
    majority = Rule(
        "beats the majority",
        f"of the majority's mistakes, more than {LEAST_SKILL:.0%} are avoided",
        evidence.skill,
        LEAST_SKILL,
    )
    chance = Rule(
        "beyond chance",
        f"accuracy exceeds the majority's by more than {STANDARD_ERRORS:g} standard errors",
        evidence.advantage,
        STANDARD_ERRORS * evidence.advantage_error,
    )
    near = Rule(
        "stays near",
        f"proposals are seen nearby more than {LEAST_REACHABLE:.0%} as often as what happened",
        evidence.proposed_reachable,
        LEAST_REACHABLE * evidence.observed_reachable,
    )
    if values is None:
        return majority, chance, near
    promise = Rule(
        "overestimates",
        "mean Q of the proposals exceeds the 95th percentile of the observed returns by more than "
        f"{OVERESTIMATION:.0%} of its size",
        values.q_of_proposals,
        values.return_95th + OVERESTIMATION * abs(values.return_95th),
    )
    gain = Rule(
        "gains",
        "Q of the proposals exceeds Q of what happened, summed over the horizon, by more than "
        f"{LEAST_GAIN:.0%} of the returns' standard deviation",
        values.gain * values.horizon,
        LEAST_GAIN * values.return_std,
    )
    order = Rule("ranks", "Q of what happened ranks states as their returns do", values.rank_correlation, 0.0)
    return promise, majority, chance, gain, order, near
