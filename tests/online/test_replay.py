from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_agents import leaves_equal

from actionless.online.agent import Spec
from actionless.online.replay import Column, Replay
from actionless.trees import pack, unpack

SPEC = Spec(1, 1, None)
RUNNING, TERMINATED, CUT = "running", "terminated", "cut"


def filled(capacity, kinds, spec=SPEC):
    """Step t goes from state t to t + 0.5 by action t / 100, for a reward of t + 1."""
    replay = Replay.create(capacity, spec)
    for t, kind in enumerate(kinds):
        add(replay, t, kind)
    return replay


def add(replay, t, kind=RUNNING):
    state, next_state = np.array([t], np.float64), np.array([t + 0.5])
    replay.add(state, np.array([t / 100]), t + 1.0, next_state, kind == TERMINATED, kind != RUNNING)


def sampled(replay, slots, n_step, discount):
    batch = replay.sample(np.array(slots), n_step, discount)
    return [np.asarray(column).ravel().tolist() for column in (batch.rewards, batch.next_states, batch.discounts)]


def test_it_grows_to_its_capacity_and_then_forgets_the_oldest():
    replay = Replay.create(3, SPEC)
    lengths = []
    for t in range(5):
        add(replay, t)
        lengths.append(len(replay))
    assert lengths == [1, 2, 3, 3, 3]
    assert replay.states.ravel().tolist() == [3, 4, 2]


def test_one_step():
    replay = filled(4, [RUNNING, TERMINATED, CUT])
    batch = replay.sample(np.array([0, 1, 2, 0]), 1, 0.5)
    assert np.asarray(batch.states).ravel().tolist() == [0, 1, 2, 0]
    np.testing.assert_array_equal(np.asarray(batch.actions).ravel(), np.float32([0, 0.01, 0.02, 0]))
    assert np.asarray(batch.rewards).tolist() == [1, 2, 3, 1]
    assert np.asarray(batch.next_states).ravel().tolist() == [0.5, 1.5, 2.5, 0.5]
    assert np.asarray(batch.discounts).tolist() == [0.5, 0, 0.5, 0.5]


def test_three_steps_end_with_the_task():
    replay = filled(9, [RUNNING, RUNNING, RUNNING, TERMINATED, RUNNING])
    rewards, next_states, discounts = sampled(replay, [0, 1, 2, 3], 3, 0.5)
    assert rewards == [1 + 2 / 2 + 3 / 4, 2 + 3 / 2 + 4 / 4, 3 + 4 / 2, 4]
    assert next_states == [2.5, 3.5, 3.5, 3.5]
    assert discounts == [1 / 8, 0, 0, 0]


def test_at_a_time_limit_the_value_of_the_state_reached_counts():
    replay = filled(9, [RUNNING, RUNNING, CUT, RUNNING, RUNNING])
    rewards, next_states, discounts = sampled(replay, [0, 1, 2], 3, 0.5)
    assert rewards == [1 + 2 / 2 + 3 / 4, 2 + 3 / 2, 3]
    assert next_states == [2.5, 2.5, 2.5]
    assert discounts == [1 / 8, 1 / 4, 1 / 2]


def test_the_seam_between_newest_and_oldest_is_never_crossed():
    # Slots hold steps 4, 5, 2, 3: going on from slot 3 is right, from slot 1 it is not.
    replay = filled(4, [RUNNING] * 6)
    rewards, next_states, discounts = sampled(replay, [2, 3, 0, 1], 3, 0.5)
    assert rewards == [3 + 4 / 2 + 5 / 4, 4 + 5 / 2 + 6 / 4, 5 + 6 / 2, 6]
    assert next_states == [4.5, 5.5, 5.5, 5.5]
    assert discounts == [1 / 8, 1 / 8, 1 / 4, 1 / 2]


@given(
    capacity=st.integers(1, 8),
    kinds=st.lists(st.sampled_from([RUNNING, RUNNING, RUNNING, TERMINATED, CUT]), min_size=1, max_size=20),
    n_step=st.integers(1, 5),
)
def test_every_sample_is_what_a_list_of_steps_gives(capacity, kinds, n_step):
    replay, discount = filled(capacity, kinds), 0.5
    kept = range(max(0, len(kinds) - capacity), len(kinds))
    assert len(replay) == len(kept)
    for start in kept:
        steps = [start]
        while len(steps) < n_step and kinds[steps[-1]] == RUNNING and steps[-1] + 1 < len(kinds):
            steps.append(steps[-1] + 1)
        reward = sum(discount**ahead * (step + 1) for ahead, step in enumerate(steps))
        left = 0.0 if kinds[steps[-1]] == TERMINATED else discount ** len(steps)
        assert sampled(replay, [start % capacity], n_step, discount) == [[reward], [steps[-1] + 0.5], [left]]


def test_last_actions_are_in_order_across_the_seam():
    replay = filled(4, [RUNNING] * 6)
    np.testing.assert_array_equal(replay.last_actions(3).ravel(), np.float32([0.03, 0.04, 0.05]))
    assert replay.last_actions(0).shape == (0, 1)
    with pytest.raises(ValueError, match="5 actions asked for, 4 held"):
        replay.last_actions(5)


def test_transitions_are_counted_from_the_oldest_across_the_seam():
    places = np.arange(3)
    replay = filled(4, [RUNNING] * 3)
    assert replay.states[replay.oldest_first(places)].ravel().tolist() == [0, 1, 2]
    replay = filled(4, [RUNNING] * 6)
    assert replay.states[replay.oldest_first(places)].ravel().tolist() == [2, 3, 4]


def test_bins_are_kept_as_integers():
    replay = Replay.create(2, Spec(1, 2, 3))
    replay.add(np.zeros(1), np.array([2, 1], np.int32), 0.0, np.zeros(1), False, False)
    batch = replay.sample(np.array([0]), 1, 0.9)
    assert batch.actions.dtype == np.int32
    assert batch.actions.tolist() == [[2, 1]]


def test_a_stored_replay_goes_on_as_before():
    replay = filled(4, [RUNNING] * 6)
    arrays, values = pack(replay)
    copies = {name: array.copy() for name, array in arrays.items()}
    stored = unpack(Replay.create(4, SPEC), copies, values, Path("replay"))
    for each in (replay, stored):
        add(each, 6, CUT)
    assert leaves_equal(replay, stored)
    assert stored.added == 7


def test_a_sample_does_not_change_when_its_slots_are_written_over():
    replay = filled(2, [RUNNING] * 2)
    batch = replay.sample(np.array([0, 1]), 1, 0.5)
    for t in range(2, 4):
        add(replay, t)
    assert np.asarray(batch.rewards).tolist() == [1, 2]
    assert np.asarray(batch.states).ravel().tolist() == [0, 1]


def test_extra_columns_hold_what_is_given_or_their_fill():
    replay = Replay.create(3, SPEC, {"height": Column(np.float64, -1.0), "kind": Column(np.int8)})
    for t, extra in enumerate([{"height": 0.5}, {}, {"kind": 2}, {"height": 7.0, "kind": 3}]):
        replay.add(np.array([float(t)]), np.zeros(1), 0.0, np.zeros(1), False, False, extra)
    assert replay.extra["height"].tolist() == [7.0, -1.0, -1.0]
    assert replay.extra["kind"].tolist() == [3, 0, 2]
    batch = replay.sample(np.array([0, 2]), 2, 0.9)  # of the first of the steps
    assert (batch.extra["height"].tolist(), batch.extra["kind"].tolist()) == ([7.0, -1.0], [3, 2])
    assert (batch.extra["height"].dtype, batch.extra["kind"].dtype) == (np.float64, np.int8)
    arrays, values = pack(replay)
    assert arrays.keys() >= {".extra['height']", ".extra['kind']"}
    like = Replay.create(3, SPEC, {"height": Column(np.float64), "kind": Column(np.int8)})
    assert leaves_equal(unpack(like, arrays, values, Path()), replay)


def test_extra_columns_of_the_newest_can_be_written_later():
    replay = Replay.create(3, SPEC, {"height": Column(np.float64, -1.0)})
    for t in range(4):
        add(replay, t)
    replay.set_newest({"height": np.array([2.0, 3.0])})
    assert replay.extra["height"].tolist() == [3.0, -1.0, 2.0]
    replay.set_newest({"height": np.arange(10.0, 15.0)})  # more than it holds: the newest are kept
    assert replay.extra["height"].tolist() == [14.0, 12.0, 13.0]
