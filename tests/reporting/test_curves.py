import numpy as np
import pytest

from actionless.reporting.curves import mean_curve, thinned
from actionless.reporting.records import Curve


def curve(steps, values):
    return Curve(np.array(steps), np.array(values, float))


def test_mean_and_standard_error_of_two_seeds():
    both = mean_curve([curve([10, 20], [1, 4]), curve([10, 20], [3, 4])])
    assert both.steps.tolist() == [10, 20]
    assert both.mean.tolist() == [2.0, 4.0]
    assert both.error == pytest.approx([1.0, 0.0])  # √2 / √2


def test_one_seed_has_no_interval():
    assert mean_curve([curve([10], [1])]).error is None


def test_the_mean_ends_where_the_first_seed_ends():
    both = mean_curve([curve([10, 20, 30], [1, 2, 3]), curve([15, 25], [5, 7])])
    assert both.steps.tolist() == [15, 20, 25]
    assert both.mean.tolist() == [3.0, 3.5, 4.5]  # the last value measured up to that step


def test_seeds_without_a_step_in_common_have_no_mean():
    assert mean_curve([curve([10], [1]), curve([20], [2])]) is None
    assert mean_curve([]) is None


def test_neighbours_are_averaged_where_there_are_too_many():
    few = thinned(curve([1, 2, 3, 4], [1, 3, 5, 9]), most=2)
    assert few.steps.tolist() == [2, 4]
    assert few.values.tolist() == [2.0, 7.0]
    assert thinned(few, most=2) is few
