import json
import sys
import warnings

import numpy as np
import pytest

import actionless
from actionless.data.minari import minari_files, minari_root, read_minari
from actionless.data.options import ReadOptions
from actionless.data.store import Store
from actionless.errors import ActionlessError

minari = pytest.importorskip("minari")
spaces = pytest.importorskip("gymnasium").spaces
EpisodeBuffer = pytest.importorskip("minari.data_collector.episode_buffer").EpisodeBuffer

STORAGES = ["hdf5", "arrow", "parquet"]
BOX = spaces.Box(-np.inf, np.inf, (2,), np.float32)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    folder = tmp_path / "data [sets]*"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder


def episode(observations, terminated=False, truncated=False, **changes):
    """An episode as Minari's collector leaves it; the reward of step t is t + 0.5."""
    first = observations
    while isinstance(first, dict | tuple):
        first = next(iter(first.values() if isinstance(first, dict) else first))
    steps = len(first) - 1
    last = np.arange(steps) == steps - 1
    arrays = {
        "observations": observations,
        "actions": np.arange(steps * 2, dtype=np.float32).reshape(steps, 2),
        "rewards": np.arange(steps) + 0.5,
        "terminations": last & terminated,
        "truncations": last & truncated,
        "infos": {"secret": np.zeros((steps + 1, 1))},
    }
    return EpisodeBuffer(**(arrays | changes))


def write(episodes, storage="hdf5", observation_space=BOX, action_space=BOX, name="test/walk-v0"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari warns about missing metadata such as the author
        return minari.create_dataset_from_buffers(
            name,
            episodes,
            observation_space=observation_space,
            action_space=action_space,
            data_format=storage,
        )


def read(data="minari:test/walk-v0", memory_limit=10**9, **options):
    return read_minari(data, ReadOptions(**options), Store(minari_root() / ".cache", memory_limit))


def change_metadata(root, **changes):
    file = root / "test/walk-v0/data/metadata.json"
    about = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in about.items() if value is not None}))


def three_episodes(dtype=np.float32):
    rows = np.arange(16, dtype=dtype).reshape(8, 2)
    return [episode(rows[:3], terminated=True), episode(rows[3:5], truncated=True), episode(rows[5:8])]


@pytest.mark.parametrize("storage", STORAGES)
def test_episodes_become_transitions(storage):
    write(three_episodes(), storage)
    log = read()
    rows = np.arange(16, dtype=np.float32).reshape(8, 2)
    np.testing.assert_array_equal(log.states, rows[[0, 1, 3, 5, 6]], strict=True)
    np.testing.assert_array_equal(log.next_states, rows[[1, 2, 4, 6, 7]], strict=True)
    assert log.rewards.tolist() == [0.5, 1.5, 0.5, 0.5, 1.5]
    assert log.terminals.tolist() == [False, True, False, False, False]
    assert log.ends.tolist() == [False, True, True, False, True]
    assert log.state_names == ("s0", "s1")
    assert log.name == "test/walk-v0"
    assert log.source.format == f"minari {storage}"


@pytest.mark.parametrize("storage", STORAGES)
def test_actions_are_read_only_on_request(storage):
    write(three_episodes(), storage)
    without = read()
    assert without.actions is None
    assert without.source.read == ("observations", "rewards", "terminations", "truncations")
    with_actions = read(with_actions=True)
    assert with_actions.actions is not None
    assert with_actions.actions.tolist() == [[0, 1], [2, 3], [0, 1], [0, 1], [2, 3]]
    assert with_actions.source.read[-1] == "actions"


def test_the_file_needs_no_actions_when_none_are_read(root):
    import h5py

    write(three_episodes())
    with h5py.File(root / "test/walk-v0/data/main_data.hdf5", "a") as file:
        for group in file.values():
            del group["actions"]
    assert len(read()) == 5


def test_the_minari_package_is_not_needed(monkeypatch):
    write(three_episodes())
    expected = read().fingerprint
    for module in [name for name in sys.modules if name.split(".")[0] in ("minari", "gymnasium", "pyarrow")]:
        monkeypatch.setitem(sys.modules, module, None)
    assert read().fingerprint == expected


@pytest.mark.parametrize("place", ["test/walk-v0", "test/walk-v0/data"])
def test_the_folder_of_a_data_set_reads_like_its_id(root, place):
    write(three_episodes())
    log = read(root / place)
    assert log.fingerprint == read().fingerprint
    assert log.source.path == str(root / "test/walk-v0")


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("reward_dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_keep_their_precision(storage, dtype, reward_dtype):
    rows = np.full((3, 2), 1 / 3, dtype)
    space = spaces.Box(-np.inf, np.inf, (2,), dtype)
    write([episode(rows, rewards=np.full(2, 1 / 7, reward_dtype))], storage, space)
    log = read()
    np.testing.assert_array_equal(log.next_states, rows[1:], strict=True)
    np.testing.assert_array_equal(log.rewards, np.full(2, 1 / 7, reward_dtype), strict=True)


def test_episodes_of_different_precision_are_read_at_the_higher():
    write([episode(np.full((2, 2), 1 / 3, dtype)) for dtype in (np.float32, np.float64)])
    log = read()
    np.testing.assert_array_equal(log.states[:, 0], [np.float64(np.float32(1 / 3)), 1 / 3], strict=True)


@pytest.mark.parametrize("storage", STORAGES)
def test_dict_and_tuple_observations_are_flattened_leaf_by_leaf(storage):
    space = spaces.Dict(
        {
            "goal": spaces.Box(-9, 9, (1,), np.float64),
            "arm": spaces.Dict({"angle": spaces.Box(-9, 9, (2, 2), np.float64)}),
            "feet": spaces.Tuple([spaces.Box(-9, 9, (), np.float32), spaces.Box(-9, 9, (1,), np.int32)]),
        }
    )
    observations = {
        "goal": np.array([[1.0], [2]]),
        "arm": {"angle": np.array([[[3.0, 4], [5, 6]], [[7, 8], [9, 1]]])},
        "feet": (np.array([0.5, 1.5], np.float32), np.array([[2], [3]], np.int32)),
    }
    write([episode(observations)], storage, space)
    log = read()
    by_name = dict(zip(log.state_names, np.stack([log.states[0], log.next_states[0]], axis=1).tolist(), strict=True))
    assert by_name == {
        "goal_0": [1, 2],
        "arm/angle_0": [3, 7],
        "arm/angle_1": [4, 8],
        "arm/angle_2": [5, 9],
        "arm/angle_3": [6, 1],
        "feet/0_0": [0.5, 1.5],
        "feet/1_0": [2, 3],
    }
    assert set(log.source.read) == {
        *("observations/goal", "observations/arm/angle", "observations/feet/0", "observations/feet/1"),
        *("rewards", "terminations", "truncations"),
    }


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    ("space", "actions", "expected"),
    [
        (spaces.Discrete(3), np.array([2, 1]), [[2], [1]]),
        (spaces.MultiDiscrete([3, 3]), np.array([[2, 1], [0, 2]]), [[2, 1], [0, 2]]),
    ],
)
def test_discrete_actions(storage, space, actions, expected):
    write([episode(np.zeros((3, 2), np.float32), actions=actions)], storage, action_space=space)
    log = read(with_actions=True)
    assert log.actions is not None
    assert log.actions.tolist() == expected


@pytest.mark.parametrize("storage", ["arrow", "parquet"])
def test_long_episodes_are_read_whole(storage):
    """Minari 0.5.4 itself returns the first 32,767 steps, twice over."""
    rows = np.arange(80_002, dtype=np.float32).reshape(-1, 2)
    write([episode(rows), episode(-rows)], storage)
    log = read()
    np.testing.assert_array_equal(log.next_states, np.concatenate([rows[1:], -rows[1:]]))
    assert log.episode_lengths.tolist() == [40_000, 40_000]


def test_a_flag_within_an_episode_ends_it_there():
    write([episode(np.zeros((4, 2), np.float32), terminations=[True, False, False], truncations=[False, True, False])])
    log = read()
    assert log.terminals.tolist() == [True, False, False]
    assert log.ends.tolist() == [True, True, True]


def without_a_step():
    return episode(np.ones((1, 2), np.float32), actions=np.zeros(0, int))


def test_an_episode_without_a_step_is_left_out_with_a_warning():
    one_step = episode(np.zeros((2, 2), np.float32), actions=np.zeros(1, int))
    write([without_a_step(), one_step, without_a_step()], "arrow", action_space=spaces.Discrete(1))
    log = read()
    assert log.states.tolist() == [[0, 0]]
    assert log.ends.tolist() == [True]
    assert log.warnings == ("2 episodes have no steps; left out",)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_log_above_the_memory_limit_is_memory_mapped(storage):
    write(three_episodes(), storage)
    mapped = read(memory_limit=0)
    assert mapped.memory_mapped
    assert mapped.fingerprint == read().fingerprint


def test_the_cache_tells_data_sets_apart_and_notices_a_change(root, monkeypatch):
    monkeypatch.setenv("ACTIONLESS_CACHE", str(root / ".cache"))
    rows = np.zeros((3, 2), np.float32)
    for name, value in (("test/zero-v0", 0), ("test/one-v0", 1)):
        write([episode(rows + value)], name=name)
    logs = [actionless.read(f"minari:test/{name}-v0", memory_limit_gb=0.0) for name in ("zero", "one")]
    assert [log.states[0, 0] for log in logs] == [0, 1]
    with monkeypatch.context() as patch:
        patch.setattr("actionless.data.minari.read_minari", None)  # the second read uses the cache
        assert actionless.read("minari:test/one-v0", memory_limit_gb=0.0).states[0, 0] == 1
    minari.load_dataset("test/one-v0").update_dataset_from_buffer([episode(rows + 2)])
    assert actionless.read("minari:test/one-v0", memory_limit_gb=0.0).states[:, 0].tolist() == [1, 1, 2, 2]


def test_stored_state_names(root):
    write(three_episodes())
    change_metadata(root, state_names=["hip", "knee"])
    assert read().state_names == ("hip", "knee")
    change_metadata(root, state_names=["hip", "hip"])
    with pytest.raises(ActionlessError, match=r"metadata\.json: 'state_names' must be 2 different names"):
        read()


def test_files_of_a_data_set(root):
    write(three_episodes())
    folder = root / "test/walk-v0/data"
    assert minari_files("minari:test/walk-v0") == [folder / "main_data.hdf5", folder / "metadata.json"]
    assert minari_files(root / "test/walk-v0") == minari_files("minari:test/walk-v0")


def test_data_set_that_is_not_there(monkeypatch, root):
    message = f"minari:test/gone-v0: not found in {root}; get it with: minari download test/gone-v0"
    with pytest.raises(ActionlessError) as caught:
        read("minari:test/gone-v0")
    assert str(caught.value) == message
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ActionlessError, match=r"get it with: pip install 'actionless\[minari\]', then minari download"):
        read("minari:test/gone-v0")


@pytest.mark.parametrize(
    ("space", "observations", "message"),
    [
        (spaces.Discrete(4), np.zeros(3, int), "'observations' is a Discrete space, which is not supported"),
        (
            spaces.Box(0, 255, (32, 32, 3), np.uint8),
            np.zeros((3, 32, 32, 3), np.uint8),
            "'observations' contains images, which are not supported",
        ),
        (
            spaces.Dict({"word": spaces.Text(4)}),
            {"word": ["a", "b", "c"]},
            "'observations/word' is a Text space, which is not supported",
        ),
    ],
)
def test_unsupported_spaces(space, observations, message):
    write([episode(observations)], observation_space=space)
    with pytest.raises(ActionlessError, match=message):
        read()


def test_actions_of_an_action_free_data_set(root):
    write(three_episodes())
    change_metadata(root, action_free=True)
    assert len(read()) == 5
    with pytest.raises(ActionlessError, match=r"has no actions .*: give a log with actions, or learn"):
        read(with_actions=True)


@pytest.mark.parametrize("storage", STORAGES)
def test_bad_values_are_named_with_their_place(storage):
    episodes = three_episodes()
    episodes[1].observations[1, 1] = np.nan
    episodes[2].observations[0, 0] = np.inf
    write(episodes, storage)
    with pytest.raises(ActionlessError, match="'s1' of episode 1, step 1 is nan, the first of 2 such values"):
        read()
    episodes = three_episodes()
    episodes[2].rewards[1] = -np.inf
    write(episodes, storage, name="test/reward-v0")
    with pytest.raises(ActionlessError, match="the reward of episode 2, step 1 is -inf;"):
        read("minari:test/reward-v0")


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("value", [1e300, np.nan])
def test_bad_actions_are_named_with_their_place(storage, value):
    actions = np.zeros((2, 2))
    actions[1, 0] = value
    space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    write([episode(np.zeros((3, 2), np.float32), actions=actions)], storage, action_space=space)
    assert len(read()) == 2
    with pytest.raises(ActionlessError, match=r"action value 0 of episode 0, step 1 is (inf|nan); fill in"):
        read(with_actions=True)


def test_flags_that_are_none():
    rows = np.zeros((3, 2), np.float32)
    write([episode(rows), episode(rows, truncations=np.array([0.0, 0.5]))])
    with pytest.raises(ActionlessError, match=r"'truncations' of episode 1, step 1 is 0\.5; an episode-end flag must"):
        read()


def test_arrays_that_do_not_fit_together():
    episodes = three_episodes()
    episodes[1] = episode(np.zeros((2, 2), np.float32), rewards=np.zeros(2))
    write(episodes)
    with pytest.raises(ActionlessError, match=r"episode 1: 'observations' has shape \(2, 2\), but with 2 .*\(3, 2\)"):
        read()


def test_observations_that_are_not_what_the_space_says(root):
    write(three_episodes())
    wide = json.dumps({"type": "Box", "dtype": "float32", "shape": [3], "low": [0], "high": [1]})
    change_metadata(root, observation_space=wide)
    with pytest.raises(ActionlessError, match=r"episode 0: 'observations' has shape \(3, 2\), but .* \(3, 3\)"):
        read()


def test_no_transition_at_all():
    write([without_a_step()], "arrow", action_space=spaces.Discrete(1))
    with pytest.raises(ActionlessError, match="no complete transition"):
        read()


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kept", [0, 0.5, 0.95])
def test_truncated_files(root, storage, kept):
    write([episode(np.random.default_rng(0).normal(size=(2000, 2)).astype(np.float32))], storage)
    file = next(file for file in minari_files("minari:test/walk-v0") if file.suffix == f".{storage}")
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(ActionlessError, match=r"damaged.*; fetch the data set again") as caught:
        read()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("storage", STORAGES)
def test_missing_files(root, storage):
    write(three_episodes(), storage)
    files = [file for file in minari_files("minari:test/walk-v0") if file.suffix == f".{storage}"]
    files[-1].unlink()
    message = "main_data.hdf5: missing" if storage == "hdf5" else "episode 2 is missing"
    with pytest.raises(ActionlessError, match=message):
        read()


def test_missing_episode_and_missing_key(root):
    import h5py

    write(three_episodes())
    with h5py.File(root / "test/walk-v0/data/main_data.hdf5", "a") as file:
        del file["episode_1/truncations"]
    with pytest.raises(ActionlessError, match=r"episode 1 is missing, incomplete or damaged .*truncations"):
        read()
    change_metadata(root, total_episodes=5)
    with h5py.File(root / "test/walk-v0/data/main_data.hdf5", "a") as file:
        file["episode_1/truncations"] = [True]
    with pytest.raises(ActionlessError, match="episode 3 is missing, incomplete or damaged"):
        read()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("observation_space", {}, "'observation_space' is not a valid Minari space"),
        ("observation_space", "{}", "'observation_space' is not a valid Minari space"),
        ("observation_space", "Box(2,)", "'observation_space' is not a valid Minari space"),
        ("observation_space", '{"type": "Box"}', r"a valid Minari space \(KeyError: 'shape'\); fetch"),
        ("observation_space", '{"type": "Box", "shape": ["2"]}', "a valid Minari space"),
        ("observation_space", '{"type": "Dict", "subspaces": [1]}', "a valid Minari space"),
        ("observation_space", '{"type": "Dict", "subspaces": {}}', "'observation_space' has no variable"),
        ("total_episodes", "two", "'total_episodes' is 'two', not a whole number; fetch"),
        ("total_episodes", 2.0, "'total_episodes' is 2.0, not a whole number"),
        ("state_names", 5, "'state_names' must be 2 different names"),
        ("state_names", [{}, {}], "'state_names' must be 2 different names"),
        ("state_names", "xy", "'state_names' must be 2 different names"),
    ],
)
def test_metadata_of_the_wrong_kind(root, key, value, message):
    write(three_episodes())
    change_metadata(root, **{key: value})
    with pytest.raises(ActionlessError, match=message) as caught:
        read()
    assert str(caught.value).startswith(f"{root / 'test/walk-v0/data/metadata.json'}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [0.5, None])
def test_keys_that_hold_no_array(root, content):
    import h5py

    write(three_episodes())
    with h5py.File(root / "test/walk-v0/data/main_data.hdf5", "a") as file:
        del file["episode_1/rewards"]
        if content is None:
            file.create_group("episode_1/rewards")
        else:
            file["episode_1/rewards"] = content
    with pytest.raises(ActionlessError, match=r"episode 1 is missing, incomplete or damaged .*rewards is not an array"):
        read()


def test_damaged_metadata(root):
    write(three_episodes())
    change_metadata(root, data_format="tape")
    with pytest.raises(ActionlessError, match="unknown storage 'tape'; supported are"):
        read()
    change_metadata(root, total_episodes=None)
    with pytest.raises(ActionlessError, match="no 'total_episodes'"):
        read()
    (root / "test/walk-v0/data/metadata.json").write_text("{")
    with pytest.raises(ActionlessError, match=r"metadata\.json: cannot be read \(Expecting property name"):
        read()
