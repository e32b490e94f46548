import json

import numpy as np
import pytest

from actionless.errors import ActionlessError
from actionless.online.action_translation import (
    Choice,
    Choices,
    Levels,
    Limits,
    Translation,
    normalised_actions,
)
from actionless.settings import from_json, to_json

# The translation, three normalised actions, and the environment's actions, computed by hand.
CASES = {
    "limits": (
        Limits(np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32)),
        np.array([[-1.0, -1.0], [0.5, 0.0], [1.0, 1.0]], np.float32),
        np.array([[-2.0, 0.0], [1.0, 0.5], [2.0, 1.0]], np.float32),
    ),
    "levels": (
        Levels(np.array([[-2.0, 0.0, 2.0], [0.0, 0.5, 1.0]])),
        np.array([[0, 2], [1, 1], [2, 0]], np.int32),
        np.array([[-2.0, 1.0], [0.0, 0.5], [2.0, 0.0]]),
    ),
    "choices": (Choices(np.array([0, 10])), np.array([[2, 1], [0, 0], [1, 2]]), np.array([[2, 11], [0, 10], [1, 12]])),
    "choice": (Choice(-1), np.array([[3], [0], [1]], np.int32), np.array([2, -1, 0])),
}


@pytest.mark.parametrize("kind", CASES)
def test_one_action_or_a_batch_before_and_after_being_stored(kind):
    translation, actions, expected = CASES[kind]
    stored = json.loads(json.dumps(to_json(translation)))
    assert stored["kind"] == kind
    for either in (translation, from_json(Translation, stored, "policy.json")):
        together = either(actions)
        np.testing.assert_array_equal(together, expected)
        assert together.dtype == expected.dtype
        for action, alone in zip(actions, expected, strict=True):
            np.testing.assert_array_equal(either(action), alone)


def test_limits_are_stored_to_the_last_bit():
    low = np.float32([0.1, -1 / 3])
    stored = from_json(Translation, json.loads(json.dumps(to_json(Limits(low, -low)))), "policy.json")
    assert isinstance(stored, Limits)
    assert stored.low.tobytes() == low.tobytes()


class TestBack:
    def test_are_scaled_from_the_limits(self):
        actions = np.array([[-2.0, 1.0], [0.0, 0.5], [1.0, 0.25]])
        np.testing.assert_allclose(normalised_actions(CASES["limits"][0], actions), [[-1, 1], [0, 0], [0.5, -0.5]])

    def test_beyond_the_limits_are_clipped_as_the_environment_does(self):
        np.testing.assert_array_equal(normalised_actions(CASES["limits"][0], np.array([[-3.0, 9.0]])), [[-1, 1]])

    def test_in_a_dimension_without_room(self):
        still = Limits(np.array([1.0]), np.array([1.0]))
        np.testing.assert_array_equal(normalised_actions(still, np.array([[1.0]])), [[0]])

    def test_that_choose_are_counted_from_zero(self):
        choices = np.array([[1.0, 4.0]])
        assert normalised_actions(Choices(np.array([1, 3])), choices).tolist() == [[0, 1]]
        assert normalised_actions(Choice(1), np.array([[3.0]])).tolist() == [[2]]

    def test_of_factorised_logs_are_indices_already(self):
        assert normalised_actions(Levels(np.zeros((2, 3))), np.array([[0.0, 2.0]])).tolist() == [[0, 2]]


@pytest.mark.parametrize("limit", [[1.0], {"values": [1.0]}, {"dtype": "float12", "values": [1.0]}])
def test_a_damaged_array_is_named(limit):
    with pytest.raises(ActionlessError, match=r"policy\.json: .* stands where an array should be: restore the file"):
        from_json(Translation, {"kind": "limits", "low": limit, "high": limit}, "policy.json")


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        (
            {
                "kind": "limits",
                "low": {"dtype": "float32", "values": [-2.0, 0.0]},
                "high": {"dtype": "float32", "values": [2.0, 1.0]},
            },
            "limits",
        ),
        ({"kind": "levels", "levels": {"dtype": "float64", "values": [[-2.0, 0.0, 2.0], [0.0, 0.5, 1.0]]}}, "levels"),
        ({"kind": "choices", "start": {"dtype": "int64", "values": [0, 10]}}, "choices"),
        ({"kind": "choice", "start": -1}, "choice"),
    ],
)
def test_what_version_0_1_0_wrote_is_what_is_written(written, kind):
    translation, actions, expected = CASES[kind]
    assert to_json(translation) == written
    np.testing.assert_array_equal(from_json(Translation, written, "policy.json")(actions), expected)
