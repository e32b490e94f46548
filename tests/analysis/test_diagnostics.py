import dataclasses
import json
import math

import numpy as np
import pytest
from hand_made import constant_policy, policy_with_probabilities, tiny_log

from actionless.analysis import diagnostics
from actionless.analysis.diagnostics import clustered_error, diagnose
from actionless.analysis.episode_subset import EpisodeSubset
from actionless.errors import ActionlessError

UP_SAME = policy_with_probabilities(x=[0.125, 0.125, 0.75], y=[0.075, 0.85, 0.075])


class TestAgreement:
    """x went up, up, up, down, up; y stayed the same."""

    def test_of_each_variable(self):
        x, y = diagnose(UP_SAME, tiny_log()).dimensions
        assert (x.name, y.name) == ("x", "y")
        assert x.accuracy == x.majority_accuracy == pytest.approx(4 / 5)
        assert x.error == x.majority_error == pytest.approx(2 / 5)
        # Down, same and up are 2, 1 and 0 away from up, and as far on average from down.
        assert x.random_error == pytest.approx(1)
        assert y.accuracy == y.majority_accuracy == 1
        assert y.random_error == pytest.approx(2 / 3)
        assert x.random_accuracy == y.random_accuracy == pytest.approx(1 / 3)

    def test_overall(self):
        overall = diagnose(UP_SAME, tiny_log()).overall
        assert overall.accuracy == pytest.approx(9 / 10)
        assert overall.error == pytest.approx(2 / 5)
        assert overall.random_error == pytest.approx(5 / 3)

    def test_the_majority_is_that_of_what_was_seen(self):
        log = tiny_log()
        second = EpisodeSubset(log, np.array([3, 4]), "the second episode")
        first = EpisodeSubset(log, np.array([0, 1, 2]), "the first")
        measured = diagnose(UP_SAME, second, first)
        assert measured.dimensions[0].majority_accuracy == pytest.approx(1 / 2)
        assert (measured.log.measured_on, measured.log.compared_with) == ("the second episode", "the first")
        assert (measured.log.episodes, measured.log.transitions) == (1, 2)

    def test_a_constant_log_leaves_nothing_to_beat(self):
        log = tiny_log()
        still = dataclasses.replace(log, states=log.next_states * 0, next_states=log.next_states * 0)
        policy = policy_with_probabilities(x=[0.1, 0.8, 0.1], y=[0.1, 0.8, 0.1])
        measured = diagnose(policy, still)
        assert measured.overall.majority_accuracy == measured.overall.accuracy == 1
        assert measured.verdict.grade == "no better than the majority"


def test_calibration():
    measured = diagnose(UP_SAME, tiny_log())
    x, y = measured.dimensions
    assert x.calibration_error == pytest.approx(0.8 - 0.75, abs=1e-6)
    assert y.calibration_error == pytest.approx(1 - 0.85, abs=1e-6)
    assert measured.overall.calibration_error == pytest.approx((0.05 + 0.15) / 2, abs=1e-6)
    assert [(b.low, b.count, b.accuracy) for b in measured.calibration] == [(0.7, 5, 0.8), (0.8, 5, 1.0)]


def test_members_that_disagree():
    # Both say `same` for y; the mean says up for x, against the second member.
    policy = constant_policy(([0, 0, 3], [0, 1, 0]), ([1, 0, 0], [0, 1, 0]))
    measured = diagnose(policy, tiny_log())
    assert [d.disagreement for d in measured.dimensions] == pytest.approx([0.5, 0.0])
    assert measured.ensemble.agreed_share == pytest.approx(0.5)
    assert measured.ensemble.accuracy_agreed == 1
    assert measured.ensemble.accuracy_contested == pytest.approx(4 / 5)


def test_members_that_all_agree():
    assert diagnose(UP_SAME, tiny_log()).ensemble.accuracy_contested is None


def test_a_large_log_is_measured_on_an_even_sample(monkeypatch):
    monkeypatch.setattr("actionless.analysis.diagnostics.MOST_ROWS", 3)
    measured = diagnose(UP_SAME, tiny_log())
    assert (measured.log.measured, measured.log.transitions) == (3, 5)
    assert measured.dimensions[0].accuracy == 1  # rows 0, 2 and 4


class TestStandardError:
    # Mean 1/4; residuals of the two clusters add up to 1/2 and -1/2: sqrt(2 · (1/4 + 1/4)) / 4.
    figure = np.array([1.0, 0.0, 0.0, 0.0])

    def test_over_episodes(self, monkeypatch):
        monkeypatch.setattr(diagnostics, "LEAST_CLUSTERS", 2)
        assert clustered_error(self.figure, np.array([7, 7, 9, 9])) == pytest.approx(1 / 4)

    def test_over_stretches_of_too_few_episodes(self, monkeypatch):
        monkeypatch.setattr(diagnostics, "LEAST_CLUSTERS", 2)
        assert clustered_error(self.figure, np.array([7, 7, 7, 7])) == pytest.approx(1 / 4)

    def test_fewer_rows_than_stretches(self):
        # Each row by itself: sqrt(4/3 · (9/16 + 3/16)) / 4.
        assert clustered_error(self.figure, np.array([7, 7, 9, 9])) == pytest.approx(1 / 4)

    def test_of_one_row(self):
        assert clustered_error(self.figure[:1], np.array([7])) == math.inf


def test_as_json():
    policy = constant_policy(([0, 0, 6], [0, 2, 0]), head="utilities")
    plain = diagnose(policy, tiny_log(), discount=0.5).to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["delta_accuracy"] == pytest.approx(0.9)
    assert plain["delta_error"] == pytest.approx(0.4)
    assert plain["values"]["rank_correlation"] is None  # this Q never varies
    assert {"name", "says", "figure", "threshold", "holds"} == set(plain["verdict"]["rules"][0])


class TestOtherVariables:
    def test_missing(self):
        log = dataclasses.replace(tiny_log(), state_names=("x", "z"))
        with pytest.raises(ActionlessError, match=r"tiny.npz: no variable 'y'; .* trained on x, y, the log has x, z"):
            diagnose(UP_SAME, log)

    def test_in_another_order(self):
        log = dataclasses.replace(tiny_log(), state_names=("y", "x"))
        with pytest.raises(ActionlessError, match="other variables, or another order"):
            diagnose(UP_SAME, log)
