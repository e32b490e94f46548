"""The schema: episodes, returns, fingerprint."""

import dataclasses

import numpy as np

from actionless.data.log import Log, Source, returns_to_go


def make_log(**changes) -> Log:
    fields = {
        "states": np.array([[0.0], [1.0], [5.0]]),
        "next_states": np.array([[1.0], [2.0], [6.0]]),
        "rewards": np.array([1.0, 2.0, 4.0]),
        "terminals": np.array([False, True, False]),
        "ends": np.array([False, True, True]),
        "state_names": ("x",),
        "source": Source("folder/a.b.npz", "npz", ("states",)),
    }
    return Log(**{**fields, **changes})


def test_episodes():
    log = make_log()
    assert list(log.episodes()) == [slice(0, 2), slice(2, 3)]
    assert log.episode_lengths.tolist() == [2, 1]
    assert log.episode_returns.tolist() == [3.0, 4.0]
    assert len(log) == 3
    assert log.state_dim == 1


def test_name():
    assert make_log().name == "a.b"
    assert make_log(source=Source("minari:mujoco/hopper/medium-v0", "minari", ())).name == "mujoco/hopper/medium-v0"


def test_fingerprint_is_of_the_content():
    log = make_log()
    assert log.fingerprint == make_log(source=Source("elsewhere.hdf5", "hdf5", ())).fingerprint
    changed = {
        "states": log.states + 1,
        "next_states": log.next_states + 1,
        "rewards": log.rewards + 1,
        "terminals": ~log.terminals,
        "ends": ~log.ends,
        "state_names": ("y",),
        "actions": np.zeros((3, 1)),
    }
    others = {dataclasses.replace(log, **{name: value}).fingerprint for name, value in changed.items()}
    assert len(others) == len(changed)
    assert log.fingerprint not in others


def test_fingerprint_tells_precisions_apart():
    log = make_log()
    assert make_log(states=log.states.astype(np.float32)).fingerprint != log.fingerprint


def test_returns_by_hand():
    rewards, ends = np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([False, False, True, False, True])
    np.testing.assert_array_equal(returns_to_go(rewards, ends, 0.5), [3.0, 4.0, 4.0, 16.0, 16.0])
