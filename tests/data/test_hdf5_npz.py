"""D4RL HDF5 in all its layouts, and npz: exact small files, and error messages for bad ones."""

import random
import zipfile

import h5py
import numpy as np
import pytest

import actionless
from actionless import ActionlessError

# Two episodes: three steps that end in a terminal, two steps cut by the time limit.
STATES = np.array([[0, 10], [1, 11], [2, 12], [5, 20], [6, 21]], np.float32)
NEXT = np.array([[1, 11], [2, 12], [3, 13], [6, 21], [7, 22]], np.float32)
REWARDS = np.array([1, 2, 4, 8, 16], np.float32)
TERMINALS = np.array([0, 0, 1, 0, 0], bool)
TIMEOUTS = np.array([0, 0, 0, 0, 1], bool)
ACTIONS = np.array([[0.1], [0.2], [0.3], [0.4], [0.5]], np.float32)


def d4rl_arrays(**changes):
    arrays = {
        "observations": STATES,
        "actions": ACTIONS,
        "rewards": REWARDS,
        "terminals": TERMINALS,
        "timeouts": TIMEOUTS,
        "next_observations": NEXT,
    }
    arrays.update(changes)
    return {key: value for key, value in arrays.items() if value is not None}


def write_hdf5(path, **changes):
    with h5py.File(path, "w") as file:
        for key, value in d4rl_arrays(**changes).items():
            file[key] = value
        file["infos/qpos"] = np.zeros((5, 3))
        file["metadata/algorithm"] = "SAC"
    return path


def error_of(path, **options) -> str:
    with pytest.raises(ActionlessError) as caught:
        actionless.read(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_v2_layout(tmp_path):
    log = actionless.read(write_hdf5(tmp_path / "hopper_medium-v2.hdf5"))
    np.testing.assert_array_equal(log.states, STATES)
    np.testing.assert_array_equal(log.next_states, NEXT)
    np.testing.assert_array_equal(log.rewards, REWARDS)
    np.testing.assert_array_equal(log.terminals, TERMINALS)
    np.testing.assert_array_equal(log.ends, [0, 0, 1, 0, 1])
    assert log.states.dtype == np.float32
    assert log.name == "hopper_medium-v2"
    assert log.state_names == ("s0", "s1")
    assert log.source.read == ("observations", "next_observations", "rewards", "terminals", "timeouts")
    assert log.actions is None
    assert log.warnings == ()


def test_actions_only_on_request(tmp_path):
    path = write_hdf5(tmp_path / "log.hdf5")
    log = actionless.read(path, with_actions=True)
    np.testing.assert_array_equal(log.actions, ACTIONS)
    assert "actions" in log.source.read
    assert log.fingerprint != actionless.read(path).fingerprint


def test_without_next_observations_no_transition_crosses_an_episode(tmp_path):
    log = actionless.read(write_hdf5(tmp_path / "log.hdf5", next_observations=None))
    # Rows 2 and 4 are last of their episodes: 0→1, 1→2, 3→4 remain.
    np.testing.assert_array_equal(log.states, STATES[[0, 1, 3]])
    np.testing.assert_array_equal(log.next_states, STATES[[1, 2, 4]])
    np.testing.assert_array_equal(log.rewards, [1, 2, 8])
    np.testing.assert_array_equal(log.ends, [0, 1, 1])
    np.testing.assert_array_equal(log.terminals, [0, 1, 0])
    assert "last step of each of the 2 episodes was dropped" in log.warnings[0]


def test_v0_layout_counts_steps_to_the_time_limit(tmp_path):
    # No timeouts, no next states: the terminal at row 2, then every second step by the limit of 2.
    path = write_hdf5(tmp_path / "task.hdf5", next_observations=None, timeouts=None)
    log = actionless.read(path, episode_length=2)
    # Episodes by rows: [0, 1], [2], [3, 4].
    np.testing.assert_array_equal(log.states, STATES[[0, 3]])
    np.testing.assert_array_equal(log.next_states, STATES[[1, 4]])
    np.testing.assert_array_equal(log.terminals, [0, 0])


def test_v0_layout_knows_the_limit_of_the_mujoco_tasks(tmp_path):
    rows = 1500
    states = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    arrays = {
        "observations": states,
        "rewards": np.ones(rows, np.float32),
        "terminals": np.zeros(rows, bool),
        "next_observations": None,
        "timeouts": None,
        "actions": None,
    }
    log = actionless.read(write_hdf5(tmp_path / "walker2d_random.hdf5", **arrays))
    assert log.episode_lengths.tolist() == [999, 499]


def test_v0_layout_of_an_unknown_task(tmp_path):
    path = write_hdf5(tmp_path / "maze.hdf5", next_observations=None, timeouts=None)
    assert "--episode-length" in error_of(path)


def test_a_seam_without_a_flag_ends_an_episode(tmp_path):
    log = actionless.read(write_hdf5(tmp_path / "log.hdf5", terminals=np.zeros(5, bool)))
    np.testing.assert_array_equal(log.ends, [0, 0, 1, 0, 1])
    assert "1 breaks without an episode-end flag" in log.warnings[0]


def test_shuffled_rows_are_called_so(tmp_path):
    order = [3, 0, 4, 2, 1]
    path = write_hdf5(tmp_path / "log.hdf5", observations=STATES[order], next_observations=NEXT[order])
    assert "shuffled or sampled" in actionless.read(path).warnings[0]


def test_float64_and_column_rewards(tmp_path):
    path = write_hdf5(tmp_path / "log.hdf5", observations=STATES.astype(np.float64), rewards=REWARDS[:, None])
    log = actionless.read(path)
    assert log.states.dtype == np.float64
    np.testing.assert_array_equal(log.rewards, REWARDS)


def test_npz_with_names_or_with_d4rl_keys(tmp_path):
    ours = tmp_path / "ours.npz"
    np.savez(
        ours,
        states=STATES,
        next_states=NEXT,
        rewards=REWARDS,
        terminals=TERMINALS,
        ends=TERMINALS | TIMEOUTS,
        state_names=np.array(["height", "speed"]),
    )
    theirs = tmp_path / "theirs.npz"
    np.savez(theirs, **d4rl_arrays())
    log = actionless.read(ours)
    assert log.state_names == ("height", "speed")
    np.testing.assert_array_equal(log.ends, actionless.read(theirs).ends)
    assert actionless.read(theirs).fingerprint == actionless.read(write_hdf5(tmp_path / "a.hdf5")).fingerprint


def test_memory_mapped_equals_resident(tmp_path, monkeypatch):
    monkeypatch.setenv("ACTIONLESS_CACHE", str(tmp_path / "cache"))
    for changes in ({}, {"next_observations": None}):
        path = write_hdf5(tmp_path / f"log{len(changes)}.hdf5", **changes)
        resident = actionless.read(path)
        mapped = actionless.read(path, memory_limit_gb=0.0)
        again = actionless.read(path, memory_limit_gb=0.0)
        assert mapped.memory_mapped
        assert again.memory_mapped
        assert not resident.memory_mapped
        for log in (mapped, again):
            np.testing.assert_array_equal(log.next_states, resident.next_states)
            assert log.fingerprint == resident.fingerprint
            assert log.warnings == resident.warnings


def test_a_changed_file_is_not_served_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ACTIONLESS_CACHE", str(tmp_path / "cache"))
    path = write_hdf5(tmp_path / "log.hdf5")
    first = actionless.read(path, memory_limit_gb=0.0)
    write_hdf5(path, rewards=REWARDS + 1)
    assert actionless.read(path, memory_limit_gb=0.0).fingerprint != first.fingerprint


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"observations": None}, ["no key 'states' or 'observations'", "next_observations"]),
        ({"rewards": None}, ["no key 'rewards'"]),
        ({"terminals": None}, ["no key 'terminals'"]),
        ({"rewards": REWARDS[:3]}, ["'rewards'", "5 rows"]),
        ({"rewards": np.ones((5, 2), np.float32)}, ["'rewards'", "(5, 2)"]),
        ({"next_observations": NEXT[:, :1]}, ["'next_observations'", "(5, 1)", "(5, 2)"]),
        ({"observations": STATES[:, 0]}, ["'observations'", "(5,)"]),
        ({"rewards": np.array([b"a"] * 5)}, ["'rewards'", "not numeric"]),
        ({"rewards": np.array([1, np.nan, 2, np.inf, 3], np.float32)}, ["'rewards' at row 1", "nan", "2 such values"]),
        (
            {"observations": np.where(STATES == 12, np.inf, STATES)},
            ["'observations' at row 2", "column 1", "inf; fill in"],
        ),
        ({"observations": h5py.Empty("f4")}, ["'observations' is empty"]),
        ({"rewards": h5py.Empty("f4")}, ["'rewards' is empty"]),
        ({"terminals": np.array([0, 2, 1, 0, 0])}, ["'terminals' at row 1", "is 2;", "true or false, or 1 or 0"]),
        ({"terminals": np.array([0, 0, np.nan, 0, 0])}, ["'terminals' at row 2 (counting from 0) is nan;"]),
        ({"timeouts": np.array([0, 0, 0, 0, 0.5])}, ["'timeouts' at row 4 (counting from 0) is 0.5;"]),
        (
            {"timeouts": np.array([0, -1, 0, 0, 0]), "next_observations": None},
            ["'timeouts' at row 1 (counting from 0) is -1;"],
        ),
        ({"state_names": np.array([b"x", b"\xff"])}, ["'state_names' is not UTF-8"]),
    ],
)
def test_bad_arrays(tmp_path, changes, words):
    message = error_of(write_hdf5(tmp_path / "log.hdf5", **changes))
    assert message.startswith(str(tmp_path / "log.hdf5"))
    for word in words:
        assert word in message


@pytest.mark.parametrize("next_observations", [NEXT, None])
def test_an_action_beyond_float32(tmp_path, next_observations):
    actions = ACTIONS.astype(np.float64)
    actions[3] = -1e300
    path = write_hdf5(tmp_path / "log.hdf5", actions=actions, next_observations=next_observations)
    assert "'actions' at row 3 (counting from 0), column 0 is -inf" in error_of(path, with_actions=True)
    assert actionless.read(path).actions is None


def test_flags_as_numbers(tmp_path):
    path = write_hdf5(tmp_path / "log.hdf5", terminals=TERMINALS.astype(float), timeouts=TIMEOUTS.astype(int))
    np.testing.assert_array_equal(actionless.read(path).terminals, TERMINALS)
    np.testing.assert_array_equal(actionless.read(path).ends, [0, 0, 1, 0, 1])


def test_nan_in_next_states_and_in_rows_without_them(tmp_path):
    bad = STATES.copy()
    bad[4, 0] = np.nan
    assert "row 4" in error_of(write_hdf5(tmp_path / "a.hdf5", next_observations=bad))
    assert "row 4" in error_of(write_hdf5(tmp_path / "b.hdf5", next_observations=None, observations=bad))


def test_no_complete_transition(tmp_path):
    path = write_hdf5(tmp_path / "log.hdf5", next_observations=None, terminals=np.ones(5, bool))
    assert "no complete transition" in error_of(path)


def test_truncated_hdf5(tmp_path):
    path = write_hdf5(tmp_path / "log.hdf5")
    path.write_bytes(path.read_bytes()[:3000])
    assert "damaged or truncated HDF5" in error_of(path)


def test_damaged_index_of_an_hdf5_file(tmp_path):
    path = write_hdf5(tmp_path / "log.hdf5")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"SNOD", b"SNOW"))
    assert "damaged or truncated HDF5" in error_of(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_with_damaged_bytes(tmp_path, save):
    path = tmp_path / "log.npz"
    save(path, **d4rl_arrays())
    content = path.read_bytes()
    rng = random.Random(0)
    refused = 0
    for _ in range(200):
        damaged = bytearray(content)
        start = rng.randrange(4, len(damaged) - 8)
        damaged[start : start + 8] = rng.randbytes(8)
        path.write_bytes(damaged)
        try:
            actionless.read(path)
        except ActionlessError as error:
            refused += 1
            assert "Python objects" not in str(error)
    assert refused > 100


def test_npz_of_something_else_than_arrays(tmp_path):
    path = tmp_path / "log.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("states", "1,2\n3,4\n")
    assert error_of(path) == f"{path}: 'states' is not a NumPy array; write the file with numpy.savez"


def test_truncated_npz(tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, **d4rl_arrays())
    path.write_bytes(path.read_bytes()[:500])
    assert "damaged or truncated npz" in error_of(path)


def test_npz_with_python_objects_is_not_unpickled(tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, **d4rl_arrays(rewards=np.array([{}] * 5, object)))
    assert "Python objects" in error_of(path)


def test_wrong_number_of_names(tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, **d4rl_arrays(state_names=np.array(["only one"])))
    assert "'state_names' has 1 names for 2" in error_of(path)
    np.savez(path, **d4rl_arrays(state_names=np.array(["same", "same"])))
    assert "'state_names' has 1 different names for 2" in error_of(path)
    np.savez(path, **d4rl_arrays(state_names=np.array("xy")))
    assert "'state_names' has 1 names for 2" in error_of(path)
