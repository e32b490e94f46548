import numpy as np
import pytest
from hand_made import BINS, tiny_log

from actionless.analysis import reachability as module
from actionless.analysis.episode_subset import EpisodeSubset
from actionless.analysis.reachability import nearest_neighbours, reachability

UP_SAME = np.tile([2, 1], (5, 1))


def test_nearest_neighbours():
    known = np.array([[0.0], [1.0], [3.0], [7.0]])
    none = np.full(2, -1)
    assert nearest_neighbours(np.array([[0.9], [6.0]]), known, 1, none).tolist() == [[1], [3]]
    both = nearest_neighbours(np.array([[0.9], [6.0]]), known, 2, none)
    assert np.sort(both, axis=1).tolist() == [[0, 1], [2, 3]]
    assert nearest_neighbours(known[:2], known, 1, np.array([0, 1])).tolist() == [[1], [0]]
    assert nearest_neighbours(known[:2], known, 9, np.array([0, 1])).shape == (2, 3)


def test_nearest_neighbours_agree_with_all_distances(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 7)
    rng = np.random.default_rng(0)
    states, known = rng.normal(size=(20, 3)), rng.normal(size=(50, 3))
    distances = np.square(states[:, None] - known[None]).sum(axis=2)
    found = nearest_neighbours(states, known, 5, np.full(20, -1))
    np.testing.assert_array_equal(np.sort(found), np.sort(distances.argsort(axis=1)[:, :5]))


def test_of_one_neighbour(monkeypatch):
    """States 0, 1, 2 have neighbours that go up; that of 5 is 4, which goes up; that of 4 is 5, which goes down."""
    monkeypatch.setattr(module, "NEIGHBOURS", 1)
    part = EpisodeSubset.whole(tiny_log())
    found = reachability(BINS, part, np.arange(5), UP_SAME, part)
    assert (found.neighbours, found.states, found.seen) == (1, 5, 5)
    assert found.proposed == pytest.approx(4 / 5)
    assert found.observed == pytest.approx(3 / 5)
    assert found.proposed_by_variable == pytest.approx((4 / 5, 1))


def test_all_variables_must_be_seen_together(monkeypatch):
    monkeypatch.setattr(module, "NEIGHBOURS", 1)
    part = EpisodeSubset.whole(tiny_log())
    found = reachability(BINS, part, np.arange(5), np.tile([2, 0], (5, 1)), part)
    assert found.proposed == 0
    assert found.proposed_by_variable == pytest.approx((4 / 5, 0))


def test_only_what_was_seen_counts():
    """The first episode never went down."""
    log = tiny_log()
    first, second = EpisodeSubset(log, np.arange(3), "first"), EpisodeSubset(log, np.arange(3, 5), "second")
    found = reachability(BINS, second, np.arange(2), np.array([[0, 1], [2, 1]]), first)
    assert (found.neighbours, found.seen) == (3, 3)
    assert found.proposed == pytest.approx(1 / 2)
