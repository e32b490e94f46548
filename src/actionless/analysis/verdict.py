"""Turn figures into a grade. Each grade follows from rules with thresholds, which are part of the verdict."""

from dataclasses import dataclass
from typing import Literal

from actionless.analysis.values import Values

Grade = Literal["overestimates", "no better than the majority", "ventures", "imitates", "improves"]

LEAST_SKILL = 0.05
"""Minimum share of the majority policy's mistakes that the policy must avoid."""
STANDARD_ERRORS = 2.0
"""Number of standard errors by which an advantage must exceed zero."""
OVERESTIMATION = 0.1
"""How far mean Q may exceed the 95th percentile of the observed returns, as a share of that percentile."""
LEAST_GAIN = 0.1
"""Minimum gain in Q over the log's own choices, summed over the horizon, in standard deviations of the returns."""
LEAST_REACHABLE = 0.9
"""How often proposals must be seen nearby, as a share of how often the observed Δs are."""

SENTENCES: dict[Grade, str] = {
    "overestimates": "Overestimates: its Q is higher than nearly all returns in the log. Do not trust its Q, nor "
    "proposals that depend on it.",
    "no better than the majority": "No better than the majority: always proposing each variable's most frequent Δs "
    "agrees with the log equally well.",
    "ventures": "Ventures: by its own Q it improves on the log's choices, but with moves that are too rare in the log "
    "from similar states. Untested.",
    "imitates": "Imitates: it proposes what the log's behaviour would do next; no figure here shows more than that.",
    "improves": "Improves on the log's own choices by its own Q, with moves that the log has seen. Only acting can "
    "show whether the improvement is real.",
}


@dataclass(frozen=True)
class Rule:
    """One comparison behind a verdict: it holds if the figure is above the threshold."""

    name: str
    says: str
    figure: float
    threshold: float

    @property
    def holds(self) -> bool:
        """False for a figure that is NaN."""
        return self.figure > self.threshold


@dataclass(frozen=True)
class Verdict:
    """A grade, the sentence that explains it, and the rules it follows from."""

    grade: Grade
    sentence: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Evidence:
    """The figures that the rules use."""

    skill: float
    """Share of the majority policy's mistakes that are avoided; 0 if it makes none."""
    advantage: float
    """Accuracy minus the majority policy's accuracy."""
    advantage_error: float
    """Its standard error."""
    proposed_reachable: float
    observed_reachable: float
    values: Values | None


def judge(evidence: Evidence) -> Verdict:
    """Apply all rules and derive the grade."""
    rules = _rules(evidence)
    grade = _grade({rule.name: rule.holds for rule in rules})
    return Verdict(grade, SENTENCES[grade], rules)


def _grade(holds: dict[str, bool]) -> Grade:
    """The worst grade that applies. Without values, the rules about values are missing and count as not held."""
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
        f"avoids more than {LEAST_SKILL:.0%} of the majority's mistakes",
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
        f"proposals are seen nearby more than {LEAST_REACHABLE:.0%} as often as observed Δs",
        evidence.proposed_reachable,
        LEAST_REACHABLE * evidence.observed_reachable,
    )
    if values is None:
        return majority, chance, near
    promise = Rule(
        "overestimates",
        "mean Q of the proposals exceeds the 95th percentile of the observed returns by more than "
        f"{OVERESTIMATION:.0%}",
        values.q_of_proposals,
        values.return_95th + OVERESTIMATION * abs(values.return_95th),
    )
    gain = Rule(
        "gains",
        "Q of the proposals exceeds Q of the observed Δs, summed over the horizon, by more than "
        f"{LEAST_GAIN:.0%} of the returns' standard deviation",
        values.gain * values.horizon,
        LEAST_GAIN * values.return_std,
    )
    order = Rule("ranks", "Q of the observed Δs ranks states as their returns do", values.rank_correlation, 0.0)
    return promise, majority, chance, gain, order, near
