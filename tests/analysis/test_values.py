import dataclasses

import numpy as np
import pytest
from hand_made import constant_policy, policy_with_probabilities, tiny_log

from actionless.analysis.diagnostics import diagnose
from actionless.analysis.values import rank_correlation
from actionless.errors import ActionlessError


def values(policy, log=None, discount=0.5):
    return diagnose(policy, log or tiny_log(), discount=discount).values


def test_by_hand():
    # Only the first episode's returns are complete: 3, 4 and 4. It went up and stayed the same, as proposed.
    policy = constant_policy(([0, 0, 0.6], [0, 0.2, 0]), head="utilities", value_scale=10.0)
    measured = values(policy)
    assert measured.states == 3
    assert measured.data_return == pytest.approx(11 / 3)
    assert measured.return_std == pytest.approx(np.std([3, 4, 4]))
    assert measured.return_95th == pytest.approx(4)
    assert measured.q_of_data == measured.q_of_proposals == pytest.approx((6 + 2) / 2)
    assert measured.gain == 0
    assert measured.overestimation == pytest.approx(1 / 3)
    assert np.isnan(measured.rank_correlation)


def test_gain_over_what_happened():
    policy = constant_policy(([7, 0, 6], [0, 2, 0]), head="utilities")
    measured = values(policy)
    assert measured.q_of_proposals == pytest.approx((7 + 2) / 2)
    assert measured.gain == pytest.approx(1 / 2)


@pytest.mark.parametrize(("discount", "horizon"), [(0.5, 2.0), (0.9, 2.5), (1.0, 2.5)])
def test_horizon(discount, horizon):
    policy = constant_policy(([0, 0, 6], [0, 2, 0]), head="utilities")
    assert values(policy, discount=discount).horizon == pytest.approx(horizon)


def test_no_return_is_complete():
    log = tiny_log()
    policy = constant_policy(([0, 0, 6], [0, 2, 0]), head="utilities")
    assert values(policy, dataclasses.replace(log, terminals=np.zeros(5, bool))) is None


def test_a_method_without_values():
    assert values(policy_with_probabilities([0.1, 0.1, 0.8], [0.1, 0.8, 0.1])) is None


def test_the_discount_is_that_of_the_run():
    options = {"provenance": {"config": {"learner": {"discount": 0.25}}}}
    policy = constant_policy(([0, 0, 6], [0, 2, 0]), head="utilities", **options)
    assert values(policy, discount=None).discount == 0.25
    with pytest.raises(ActionlessError, match="does not say its discount"):
        values(dataclasses.replace(policy, provenance={}), discount=None)


def test_rank_correlation_by_hand():
    # Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: 4.5 / sqrt(4.5 · 5).
    x, y = np.array([1.0, 2.0, 2.0, 30.0]), np.array([-1.0, 0.0, 5.0, 6.0])
    assert rank_correlation(x, y) == pytest.approx(4.5 / np.sqrt(22.5))
    assert rank_correlation(x, -y) == pytest.approx(-4.5 / np.sqrt(22.5))
    assert np.isnan(rank_correlation(np.zeros(4), y))
