import dataclasses
import math

import pytest

from actionless.analysis.values import Values
from actionless.analysis.verdict import SENTENCES, Evidence, judge

VALUES = Values(
    discount=0.99,
    horizon=100.0,
    states=1000,
    data_return=100.0,
    return_std=50.0,
    return_95th=200.0,
    q_of_data=100.0,
    q_of_proposals=101.0,
    gain=1.0,
    overestimation=1.0,
    rank_correlation=0.5,
)
GOOD = Evidence(
    skill=0.5, advantage=0.2, advantage_error=0.01, proposed_reachable=0.8, observed_reachable=0.8, values=VALUES
)


def grade(values=None, **evidence):
    changed = {} if values is None else {"values": dataclasses.replace(VALUES, **values)}
    return judge(dataclasses.replace(GOOD, **evidence, **changed)).grade


def test_all_is_well():
    assert grade() == "improves"


@pytest.mark.parametrize(("q", "verdict"), [(221.0, "overestimates"), (219.0, "improves")])
def test_q_may_exceed_the_best_returns_by_a_tenth(q, verdict):
    assert grade({"q_of_proposals": q}) == verdict


def test_the_tenth_is_upward_where_returns_are_negative():
    assert grade({"return_95th": -100.0, "q_of_proposals": -89.0}) == "overestimates"
    assert grade({"return_95th": -100.0, "q_of_proposals": -91.0}) == "improves"


def test_overestimation_outweighs_everything():
    assert grade({"q_of_proposals": 1e6}, skill=0.0) == "overestimates"


def test_the_majority_must_be_beaten_clearly():
    assert grade(skill=0.05) == "no better than the majority"
    assert grade(skill=0.06, advantage=0.019) == "no better than the majority"
    assert grade(skill=0.06, advantage=0.021) == "improves"
    assert grade(advantage_error=math.inf) == "no better than the majority"


def test_without_values_it_imitates():
    assert judge(dataclasses.replace(GOOD, values=None)).grade == "imitates"


def test_a_gain_must_count():
    # Over a horizon of 100 steps, against a tenth of the returns' spread of 50.
    assert grade({"gain": 0.049}) == "imitates"
    assert grade({"gain": 0.051}) == "improves"


@pytest.mark.parametrize("correlation", [-0.1, 0.0, math.nan])
def test_values_that_do_not_rank_states_prove_nothing(correlation):
    assert grade({"rank_correlation": correlation}) == "imitates"


def test_proposals_must_have_been_seen_nearby():
    assert grade(proposed_reachable=0.71) == "ventures"
    assert grade(proposed_reachable=0.73) == "improves"


def test_the_numbers_stand_behind_the_words():
    verdict = judge(GOOD)
    assert verdict.sentence == SENTENCES["improves"]
    rules = {rule.name: (rule.figure, rule.threshold, rule.holds) for rule in verdict.rules}
    assert rules["overestimates"] == (101.0, pytest.approx(220.0), False)
    assert rules["beats the majority"] == (0.5, 0.05, True)
    assert rules["beyond chance"] == (0.2, 0.02, True)
    assert rules["gains"] == (pytest.approx(100.0), pytest.approx(5.0), True)
    assert rules["ranks"] == (0.5, 0.0, True)
    assert rules["stays near"] == (0.8, pytest.approx(0.72), True)
