import numpy as np
import pytest
from test_state_policy import THREE_BINS, constant_policy, learnt

from actionless.discretise import Discretiser, Normaliser
from actionless.errors import ActionlessError
from actionless.offline.recommendation import bin_directions

# Two members; outputs are (down x, down y), (same x, same y), (up x, up y). Means: x (2, 1.5, 0), y (0, 1, 2).
UTILITIES = ((3.0, 0.0, 1.0, 1.0, 0.0, 5.0), (1.0, 0.0, 2.0, 1.0, 0.0, -1.0))
STATE = np.array([7.0, -7.0])


class TestByHand:
    def test_of_one_state(self):
        [advice] = constant_policy(UTILITIES, "utilities", value_scale=10.0).recommend(STATE).to_dicts()
        likely = [np.exp(best) / np.exp(all_).sum() for best, all_ in ((2, [2, 1.5, 0]), (2, [0, 1, 2]))]
        # Each variable contributes half of Q: 10 · (2 - 1.5) / 2 and 10 · (2 - 1) / 2 over `same`.
        assert advice == {
            "x": {"direction": -1, "probability": pytest.approx(likely[0]), "disagreement": 0.5, "gain": 2.5},
            "y": {"direction": 1, "probability": pytest.approx(likely[1]), "disagreement": 0.5, "gain": 5.0},
        }

    def test_gain_over_what_happened(self):
        policy = constant_policy(UTILITIES, "utilities", value_scale=10.0)
        # x went up (utility 0), y went up as proposed.
        recommendation = policy.recommend(STATE, STATE + 1)
        assert recommendation.gain_over_data == pytest.approx(np.array([10.0, 0.0]))

    def test_what_happened_must_be_finite(self):
        policy = constant_policy(UTILITIES, "utilities")
        with pytest.raises(ActionlessError, match="next states: variable 'y' is nan; give finite numbers"):
            policy.recommend(STATE, np.array([7.0, np.nan]))

    def test_gains_of_all_variables_add_up_to_that_of_q(self):
        policy = learnt("decqn")
        rng = np.random.default_rng(1)
        states, next_states = rng.normal(2, 3, (2, 40, 3))
        happened = policy.model.discretiser.delta(states, next_states)
        expected = policy.values(states) - policy.values(states, happened)
        total = policy.recommend(states, next_states).gain_over_data.sum(axis=-1)
        np.testing.assert_allclose(total, expected, rtol=1e-3, atol=1e-4)

    def test_methods_without_values_know_no_gain(self):
        recommendation = constant_policy(UTILITIES, "logits").recommend(STATE, STATE)
        assert recommendation.gain is None
        assert recommendation.gain_over_data is None
        assert set(recommendation.to_dicts()[0]["x"]) == {"direction", "probability", "disagreement"}


@pytest.mark.parametrize("method", ["oso-decqn", "bc-delta", "bc-next"])
def test_says_what_the_policy_says(method):
    policy, states = learnt(method), np.random.default_rng(1).normal(2, 3, (4, 10, 3))
    recommendation = policy.recommend(states)
    np.testing.assert_array_equal(recommendation.direction, policy.propose(states))
    np.testing.assert_allclose(recommendation.probability, policy.probabilities(states).max(axis=-1), rtol=1e-5)
    np.testing.assert_allclose(recommendation.disagreement, policy.disagreement(states), rtol=1e-5)
    assert len(recommendation.to_dicts()) == 40


class TestDirections:
    """Of bins that are not down, same, up."""

    @staticmethod
    def directions(edges, representatives):
        unit = Normaliser(np.zeros(1), np.ones(1))
        return bin_directions(Discretiser(unit, np.array([edges]), np.array([representatives]))).tolist()

    def test_two_bins_know_no_same(self):
        assert self.directions([0.0], [-0.3, 0.4]) == [[-1, 1]]

    def test_a_variable_that_never_rises_in_two_bins(self):
        assert self.directions([0.0], [0.0, 1.0]) == [[0, 1]]

    def test_the_bin_around_zero_is_same_whatever_its_mean(self):
        assert self.directions([-0.1, 0.1], [-1.0, 0.04, 1.0]) == [[-1, 0, 1]]

    def test_five_bins(self):
        assert self.directions([-2.0, -1.0, 1.0, 2.0], [-3.0, -1.5, 0.0, 1.5, 3.0]) == [[-1, -1, 0, 1, 1]]

    def test_no_threshold(self):
        assert self.directions([0.0, 0.0], [-1.0, 0.0, 1.0]) == [[-1, 0, 1]]


def test_two_bins_have_no_gain_over_same():
    bins = Discretiser(THREE_BINS.normaliser, np.zeros((2, 1)), np.tile([-1.0, 1.0], (2, 1)))
    policy = constant_policy(((1.0, 0.0, 0.0, 3.0),), "utilities", discretiser=bins)
    [advice] = policy.recommend(STATE).to_dicts()
    assert [(a["direction"], a["gain"]) for a in advice.values()] == [(-1, None), (1, None)]
