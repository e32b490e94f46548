import gc
import io
import os
import pickle
import pickletools
from pathlib import Path

import numpy as np
import pytest

from actionless.data import factorised_dmc
from actionless.data.factorised_dmc import read_factorised
from actionless.data.options import ReadOptions
from actionless.data.store import Store
from actionless.errors import ActionlessError


def transitions(steps=6, dim=3, dtype=np.float64, limit=3):
    states = np.arange((steps + 1) * dim, dtype=dtype).reshape(-1, dim)
    return [
        (states[i].copy(), np.array([i % 3, 2]), i / 2, states[i + 1].copy(), i % limit == limit - 1)
        for i in range(steps)
    ]


def read_object(tmp_path, obj, protocol=4, with_actions=False):
    return read_bytes(tmp_path, pickle.dumps(obj, protocol=protocol), with_actions)


def read_bytes(tmp_path, data, with_actions=False, memory_limit=10**9):
    path = tmp_path / "cheetah-run-medium"
    path.write_bytes(data)
    return read_factorised(path, ReadOptions(with_actions=with_actions), Store(tmp_path / "cache", memory_limit))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reads_the_list_field_by_field(tmp_path, protocol, dtype):
    log = read_object(tmp_path, transitions(dtype=dtype), protocol)
    expected = np.arange(21, dtype=dtype).reshape(7, 3)
    np.testing.assert_array_equal(log.states, expected[:-1], strict=True)
    np.testing.assert_array_equal(log.next_states, expected[1:], strict=True)
    np.testing.assert_array_equal(log.rewards, np.arange(6) / 2, strict=True)
    assert log.state_names == ("s0", "s1", "s2")
    assert log.warnings == ()


def test_done_is_a_time_limit_not_a_terminal(tmp_path):
    log = read_object(tmp_path, transitions(steps=6, limit=3))
    assert log.ends.tolist() == [False, False, True, False, False, True]
    assert not log.terminals.any()


def test_actions_are_read_only_on_request(tmp_path):
    without = read_object(tmp_path, transitions())
    assert without.actions is None
    assert without.source.read == ("state", "reward", "next_state", "done")
    with_actions = read_object(tmp_path, transitions(), with_actions=True)
    assert with_actions.actions is not None
    assert with_actions.actions.tolist() == [[0, 2], [1, 2], [2, 2], [0, 2], [1, 2], [2, 2]]
    assert with_actions.source.read == ("state", "action", "reward", "next_state", "done")


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("number", [np.float32, np.float64, lambda x: np.array([x], np.float32), np.array])
def test_rewards_as_numpy_numbers_keep_their_precision(tmp_path, number, protocol):
    rows = [(s, a, number(r), n, np.bool_(d)) for s, a, r, n, d in transitions()]
    log = read_object(tmp_path, rows, protocol)
    np.testing.assert_array_equal(log.rewards, np.arange(6, dtype=rows[0][2].dtype) / 2, strict=True)
    assert log.ends.tolist() == [False, False, True] * 2


def test_module_paths_of_numpy_1_and_2_are_the_same(tmp_path):
    new = pickle.dumps(transitions(), protocol=2)
    assert b"numpy._core.multiarray" in new
    old = new.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    assert read_bytes(tmp_path, old).fingerprint == read_bytes(tmp_path, new).fingerprint


def test_big_endian_and_integer_arrays(tmp_path):
    log = read_object(tmp_path, transitions(dtype=np.dtype(">f8")))
    np.testing.assert_array_equal(log.states, np.arange(18.0).reshape(6, 3), strict=True)
    log = read_object(tmp_path, transitions(dtype=np.int32))
    np.testing.assert_array_equal(log.states, np.arange(18.0).reshape(6, 3), strict=True)


def test_unflagged_seams_become_ends_with_a_warning(tmp_path):
    rows = transitions(steps=6, limit=10)
    log = read_object(tmp_path, rows[:2] + rows[4:])
    assert log.ends.tolist() == [False, True, False, True]
    assert log.warnings[0].startswith("1 breaks without an episode-end flag")


def test_a_log_above_the_memory_limit_is_memory_mapped(tmp_path):
    data = pickle.dumps(transitions())
    mapped = read_bytes(tmp_path, data, memory_limit=0)
    assert mapped.memory_mapped
    assert mapped.fingerprint == read_bytes(tmp_path, data).fingerprint


class Reduce:
    """Pickles as a call of `function` with `args`, and with `state` to build it from."""

    def __init__(self, function, *args, state=None):
        self.call = (function, args) if state is None else (function, args, state)

    def __reduce__(self):
        return self.call


def forbidden(witness: Path):
    """Objects whose unpickling would write `witness`, or run some other code."""
    command = f"touch {witness}"
    return {
        "os.system": Reduce(os.system, command),
        "eval": Reduce(eval, f"open({str(witness)!r}, 'w')"),
        "class": Reduce(Path, "x"),
        "attribute": Reduce(getattr, "text", "upper"),
        "fromstring": Reduce(np.fromfile, "x"),
        "build": Reduce(type, "X", (), {}, state={"__reduce__": os.system}),
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("attack", list(forbidden(Path("x"))))
@pytest.mark.parametrize("place", ["top", "reward", "state"])
def test_hostile_pickles_run_nothing(tmp_path, attack, place, protocol):
    witness = tmp_path / "witness"
    hostile = forbidden(witness)[attack]
    row = transitions(steps=1)[0]
    inside_array = np.array([hostile, 1], dtype=object)
    top = {"top": hostile, "reward": [(*row[:2], hostile, *row[3:])], "state": [(inside_array, *row[1:])]}[place]
    with pytest.raises(ActionlessError, match="refused to unpickle: it ") as caught:
        read_object(tmp_path, top, protocol)
    assert "\n" not in str(caught.value)
    assert not witness.exists()


def test_the_attacks_would_work_on_pickle_itself(tmp_path):
    witness = tmp_path / "witness"
    pickle.loads(pickle.dumps(forbidden(witness)["os.system"]))
    assert witness.exists()


def program(*opcodes: bytes) -> bytes:
    data = b"\x80\x04" + b"".join(opcodes) + b"."
    pickletools.dis(data, out=io.StringIO())  # a well-formed program, so that the refusal is ours
    return data


def text(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


def test_names_put_together_on_the_stack_are_refused(tmp_path):
    data = program(text("os"), text("system"), b"\x93", text("true"), b"\x85", b"R")
    with pytest.raises(ActionlessError, match=r"it asks for 'os\.system'"):
        read_bytes(tmp_path, data)


def test_names_with_control_characters_stay_on_one_line(tmp_path):
    with pytest.raises(ActionlessError, match=r"it asks for 'a\\nb\.\\x1b\[2J'"):
        read_bytes(tmp_path, program(text("a\nb"), text("\x1b[2J"), b"\x93"))


def test_dotted_names_reach_nothing_through_what_is_admitted(tmp_path):
    with pytest.raises(ActionlessError, match="it asks for"):
        read_bytes(tmp_path, program(text("numpy"), text("dtype.__init__.__globals__"), b"\x93"))


@pytest.mark.parametrize("name", sorted(factorised_dmc._ADMITTED))
@pytest.mark.parametrize("attribute", ["__call__", "__class__", "__dict__", "__defaults__"])
def test_a_pickle_cannot_change_what_it_may_call(tmp_path, name, attribute):
    change = b"N}" + text(attribute) + text("x") + b"s\x86b"
    with pytest.raises(ActionlessError, match="damaged"):
        read_bytes(tmp_path, program(text(name[0]), text(name[1]), b"\x93", change))
    assert read_object(tmp_path, transitions()).states.shape == (6, 3)


@pytest.mark.parametrize(
    "array", [np.array([None]), np.array(["a"]), np.array([b"a"]), np.zeros(2, "f8,f8"), np.zeros(2, complex)]
)
def test_arrays_of_anything_but_numbers_are_refused(tmp_path, array):
    row = transitions(steps=1)[0]
    with pytest.raises(ActionlessError, match="refused to unpickle: it holds an array of"):
        read_object(tmp_path, [(array, *row[1:])])


@pytest.mark.parametrize(
    "state",
    [
        (1, (4,), "f8", False, bytes(32)),
        (1, (10**9,), "dtype", False, bytes(32)),
        (1, (-4,), "dtype", False, bytes(32)),
        (1, [4], "dtype", False, bytes(32)),
        (1, (4,), "dtype", False, [0] * 32),
        (1, (2, 2), "dtype", True, bytes(32)),
        (1, (0,), "dtype", False, b""),
    ],
)
def test_arrays_whose_parts_do_not_fit_together_are_refused(tmp_path, state):
    state = tuple(np.dtype("f8") if part == "dtype" else part for part in state)
    array = Reduce(np.zeros(1).__reduce__()[0], np.ndarray, (0,), b"b", state=state)
    row = transitions(steps=1)[0]
    with pytest.raises(ActionlessError, match=r"transition 0 .*: the state is not a NumPy array of numbers"):
        read_object(tmp_path, [(array, *row[1:])])


def test_array_that_was_never_given_its_data(tmp_path):
    array = Reduce(np.zeros(1).__reduce__()[0], np.ndarray, (0,), b"b")
    with pytest.raises(ActionlessError, match="not a NumPy array of numbers"):
        read_object(tmp_path, [(array, *transitions(steps=1)[0][1:])])


@pytest.mark.parametrize("protocol", [2, 5])
def test_truncated_anywhere(tmp_path, protocol):
    data = pickle.dumps(transitions(steps=2), protocol=protocol)
    for stop in range(1, len(data), 7):
        with pytest.raises(ActionlessError, match="cheetah-run-medium: a damaged or truncated pickle"):
            read_bytes(tmp_path, data[:stop])


def test_garbage_collection_is_on_again_after_a_failure(tmp_path):
    with pytest.raises(ActionlessError):
        read_bytes(tmp_path, b"\x80\x04")
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"states": 1}, r"a pickled dict, not a list of \(state, action, reward, next_state, done\)"),
        (np.zeros(3), "a pickled NumPy array, not a list"),
        ([], "no complete transition"),
        ([1.0], r"transition 0 \(counting from 0\) is a float, not \(state"),
        ([*transitions(), (1, 2, 3)], r"transition 6 \(counting from 0\) is a tuple of 3, not \(state"),
    ],
)
def test_a_pickle_of_something_else(tmp_path, obj, message):
    with pytest.raises(ActionlessError, match=message):
        read_object(tmp_path, obj)


def changed(index, field, value):
    rows = [list(row) for row in transitions()]
    rows[index][factorised_dmc.FIELDS.index(field)] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (changed(4, "state", np.zeros(2)), r"transition 4 .*: the state has shape \(2,\) and type float64, but the fi"),
        (changed(1, "next_state", np.zeros(3, np.float32)), "transition 1 .*: the next_state has .* float32, but"),
        (changed(2, "state", [1.0, 2.0]), "transition 2 .*: the state is not a NumPy array of numbers"),
        (changed(3, "reward", "much"), "transition 3 .*: the reward is a str, not a number"),
        (changed(3, "reward", np.zeros(2)), "transition 3 .*: the reward is a NumPy array, not a number"),
        (changed(3, "reward", 10**400), "a reward is too large"),
        (changed(5, "done", None), "transition 5 .*: the done is a NoneType, not a number"),
        (
            [(s, a, r, np.zeros(2), d) for s, a, r, _, d in transitions()],
            r"the states have shape \(3,\), the next states \(2,\)",
        ),
        (
            changed(2, "state", np.array([0, np.nan, np.inf])),
            "state of transition 2 .*, value 1, is nan, the first",
        ),
        (changed(2, "next_state", np.array([0, 0, -np.inf])), "next_state of transition 2 .*, value 2, is -inf;"),
        (changed(4, "reward", float("nan")), "reward of transition 4 .* is nan"),
        (changed(1, "done", 0.5), r"transition 1 .*: the done flag is 0\.5; an episode-end flag must be"),
        (changed(1, "done", float("nan")), "transition 1 .*: the done flag is nan;"),
    ],
)
def test_bad_values_are_named_with_their_place(tmp_path, rows, message):
    with pytest.raises(ActionlessError, match=message) as caught:
        read_object(tmp_path, rows)
    assert str(tmp_path) in str(caught.value)


def test_an_action_beyond_float32(tmp_path):
    rows = [(s, np.array([i, -1e300 if i == 2 else 0.0]), *rest) for i, (s, _, *rest) in enumerate(transitions())]
    with pytest.raises(ActionlessError, match=r"action of transition 2 .*, value 1, is -inf; fill in"):
        read_object(tmp_path, rows, with_actions=True)


def test_missing_file(tmp_path):
    with pytest.raises(ActionlessError, match=r"nothing: cannot be read \(No such file"):
        read_factorised(tmp_path / "nothing", ReadOptions(), Store(tmp_path / "cache", 10**9))
