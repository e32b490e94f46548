import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_log import small_log

from actionless.discretise import Discretiser
from actionless.offline.afdt import AfdtConfig, recorded_returns, step_numbers
from actionless.training.batches import Draw, HostBatches, Preparation, ResidentBatches, Split, with_those_before


def prepared(log, **options):
    return Preparation(log, Discretiser.fit(log.states, log.next_states, **options))


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=30), share=st.floats(0, 0.99), seed=st.integers(0, 99))
def test_split_shares_no_episode_and_loses_no_row(lengths, share, seed):
    log = small_log(tuple(lengths))
    split = Split.by_episode(log, share, seed)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    training, held_out = set(episode[split.training]), set(episode[split.held_out])
    assert not training & held_out
    assert sorted([*split.training, *split.held_out]) == list(range(len(log)))
    assert len(training) >= 1
    assert len(held_out) == (0 if share == 0 else min(max(1, round(share * len(lengths))), len(lengths) - 1))


def test_split_is_decided_by_the_seed():
    log = small_log((5,) * 40)
    first, again, other = (Split.by_episode(log, 0.1, seed).held_out for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert first.tolist() != other.tolist()


def test_rows_are_normalised_and_discretised():
    log = small_log((3, 2))
    preparation = prepared(log, bins=2)
    rows = preparation.rows(np.array([4, 0]))
    z = (log.states - log.states.mean(axis=0)) / (log.states.std(axis=0) + 1e-3)
    np.testing.assert_allclose(rows.states, z[[4, 0]], rtol=1e-6)
    np.testing.assert_array_equal(rows.deltas, (log.next_states > log.states)[[4, 0]])
    np.testing.assert_array_equal(rows.rewards, log.rewards[[4, 0]].astype(np.float32))
    np.testing.assert_array_equal(rows.masks, [1.0, 1.0])
    np.testing.assert_array_equal(preparation.rows(np.array([2])).masks, [0.0])
    assert rows.actions is None
    assert preparation.row_bytes == sum(array[0].nbytes for array in jax.tree.leaves(rows))


def test_columns_of_the_planner_by_hand():
    log = small_log((3, 2))
    r = log.rewards
    np.testing.assert_allclose(recorded_returns(log), [r[0] + r[1] + r[2], r[1] + r[2], r[2], r[3] + r[4], r[4]])
    np.testing.assert_array_equal(step_numbers(log), [0, 1, 2, 0, 1])


def test_a_row_has_the_columns_that_a_learner_declares():
    log = small_log((3, 2))
    columns = {"twice": lambda log: 2 * log.rewards.astype(np.float32)}
    preparation = Preparation.of(log, Discretiser.fit(log.states, log.next_states), columns)
    rows = preparation.rows(np.array([4, 0]))
    np.testing.assert_array_equal(rows.extra["twice"], 2 * log.rewards.astype(np.float32)[[4, 0]])
    assert preparation.row_bytes == sum(array[0].nbytes for array in jax.tree.leaves(rows))


def test_rows_come_after_those_before_them():
    np.testing.assert_array_equal(with_those_before(np.array([4, 1]), 3), [2, 3, 4, 0, 0, 1])
    np.testing.assert_array_equal(with_those_before(np.array([4, 1]), 1), [4, 1])


def test_a_window_goes_on_from_row_to_row_within_an_episode():
    """Wherever it begins within the episode of its last row, the states follow each other."""
    log = small_log((9, 4, 30))
    preparation = Preparation.of(log, Discretiser.fit(log.states, log.next_states), AfdtConfig().declares.columns)
    split = Split.by_episode(log, 0.4, 0)
    draw = Draw(len(split.training), 50, 0, window=5)
    data = preparation.many_rows(split.training).on_device()
    resident, host = ResidentBatches(data, draw, 2), HostBatches(preparation, split.training, draw, 2)
    ours, theirs = resident.of(3, 2), host.of(3, 2)
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    assert preparation.row_bytes == sum(array[0].nbytes for array in jax.tree.leaves(ours))
    times = ours.extra["times"]
    for last in range(4, 500, 5):
        steps = min(int(times[last]), 4)
        for row in range(last - steps, last):
            np.testing.assert_array_equal(ours.next_states[row], ours.states[row + 1])
            assert times[row] + 1 == times[row + 1]
    assert (np.asarray(times[4::5]) < 4).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_has_the_same_bits_however_it_is_prepared(monkeypatch, dtype):
    log = small_log((7, 50, 20), dim=5, with_actions=True, dtype=dtype)
    preparation = prepared(log)
    chosen = np.random.default_rng(0).integers(0, len(log), 40)
    monkeypatch.setattr("actionless.data.log.BLOCK_BYTES", 8 * 35)
    for ways in (preparation.rows(chosen), preparation.many_rows(chosen), preparation.anywhere(chosen)):
        for row, place in enumerate(chosen):
            alone = preparation.rows(np.array([place]))
            for array, one in zip(jax.tree.leaves(ways), jax.tree.leaves(alone), strict=True):
                assert array[row].tobytes() == one[0].tobytes()


def test_draw_does_not_depend_on_how_updates_are_grouped():
    draw = Draw(rows=100, batch_size=8, seed=3)
    whole = draw.indices(0, 10)
    np.testing.assert_array_equal(whole, np.concatenate([draw.indices(0, 3), draw.indices(3, 1), draw.indices(4, 6)]))
    assert len(np.unique(whole.reshape(10, 8), axis=0)) == 10
    assert Draw(rows=100, batch_size=8, seed=4).indices(0, 10).tolist() != whole.tolist()


def test_every_row_is_drawn_as_often_as_any_other():
    counts = np.bincount(Draw(rows=10, batch_size=100, seed=0).indices(0, 1000), minlength=10)
    assert np.abs(counts - 10_000).max() < 500  # five standard deviations


def test_resident_and_host_batches_are_the_same_bits():
    log = small_log((20, 30, 25), with_actions=True)
    preparation, rows = prepared(log), np.flatnonzero(np.arange(len(log)) % 3)
    draw = Draw(len(rows), batch_size=16, seed=5)
    resident = ResidentBatches(preparation.many_rows(rows).on_device(), draw, capacity=4).of(7, 3)
    host = HostBatches(preparation, rows, draw, capacity=4).of(7, 3)
    for one, other in zip(jax.tree.leaves(resident), jax.tree.leaves(host), strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        assert np.asarray(one)[: 3 * 16].tobytes() == np.asarray(other)[: 3 * 16].tobytes()
