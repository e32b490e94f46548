"""Rows to transitions: computed by hand, and no transition crosses from one episode to another."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from actionless.data.row_pairs import RowPairs
from actionless.data.store import LogArrays


def arrays(transitions: int) -> LogArrays:
    flags = np.zeros(transitions, bool)
    return LogArrays(
        np.zeros((transitions, 1)), np.zeros(transitions), np.zeros((transitions, 1)), flags.copy(), flags.copy()
    )


def test_hand_worked():
    #         episode A: rows 0 1 2, B: row 3 alone, C: rows 4 5
    last = np.array([0, 0, 1, 1, 0, 1], bool)
    pairs = RowPairs.of(last)
    assert pairs.leaves.tolist() == [0, 1, -1, -1, 2, -1]
    assert pairs.arrives.tolist() == [-1, 0, 1, -1, -1, 2]
    assert (pairs.transitions, pairs.single_rows) == (3, 1)
    filled = arrays(3)
    pairs.place_states(filled, slice(None), np.arange(6.0)[:, None])
    assert filled.states[:, 0].tolist() == [0, 1, 4]
    assert filled.next_states[:, 0].tolist() == [1, 2, 5]


def test_terminal_flag_on_the_last_row_or_the_one_before():
    last = np.array([0, 0, 1, 0, 1], bool)
    for flagged in (1, 2):
        filled = arrays(3)
        terminal = np.arange(5) == flagged
        RowPairs.of(last).flag_ends(filled, last, terminal)
        assert filled.ends.tolist() == [False, True, True]
        assert filled.terminals.tolist() == [False, True, False]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_no_transition_crosses_a_border(lengths):
    episode = np.repeat(np.arange(len(lengths)), lengths)
    last = np.append(episode[1:] != episode[:-1], True)
    pairs = RowPairs.of(last)
    assert pairs.transitions == sum(length - 1 for length in lengths)
    filled = arrays(pairs.transitions)
    rows = np.stack([episode.astype(float)], axis=1)
    pairs.place_states(filled, slice(None), rows)
    np.testing.assert_array_equal(filled.states, filled.next_states)
