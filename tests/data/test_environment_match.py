"""Is a log of another environment with the same number of variables noticed?"""

import logging

import numpy as np
import pytest

from actionless.data.environment_match import unfamiliar, warn_if_unfamiliar
from actionless.data.log import Log, Source


@pytest.fixture
def log():
    """Height between 1 and 2, speed between 0 and 4, and a constant."""
    states = np.array([[1.0, 0.0, 7.0], [1.5, 4.0, 7.0], [2.0, 2.0, 7.0]])
    ends = np.array([False, False, True])
    names = ("height", "speed", "constant")
    return Log(states, np.zeros(3), states, ends, ends, names, Source("walker.npz", "npz", ()))


@pytest.mark.parametrize(
    "first",
    [
        [1.2, 3.0, 7.0],
        [0.5, 0.0, 7.0],  # half of the range below it
        [2.5, 6.0, 7.0],
        [1.5, 2.0, 9.0],  # another constant
    ],
)
def test_what_the_log_has_come_near_to_is_familiar(log, first):
    assert unfamiliar(log, np.array(first)) is None


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ([0.49, 2.0, 7.0], "height = 0.49, but its range in the log is 1 to 2"),
        ([1.5, 6.5, 7.0], "speed = 6.5, but its range in the log is 0 to 4"),
        ([0.0, 6.5, 7.0], "height = 0, but its range in the log is 1 to 2"),  # the further of the two, in ranges
    ],
)
def test_what_it_never_came_near_to_is_named(log, first, said, caplog):
    assert unfamiliar(log, np.array(first)) == said
    with caplog.at_level(logging.WARNING, "actionless"):
        warn_if_unfamiliar(log, np.array(first), "Cheetah-v5")
    assert caplog.messages == [
        f"walker.npz: this log may come from a different environment: Cheetah-v5 starts with {said}; "
        "check that they belong together"
    ]
