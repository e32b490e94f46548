import dataclasses
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actionless.data import log as log_module
from actionless.data.convert import check_target, convert
from actionless.data.log import Log, Source
from actionless.data.read import read
from actionless.data.store import Store
from actionless.errors import ActionlessError

FILES = ["log.parquet", "log.npz"]
MINARI = [("minari:test/log-v0", storage) for storage in ("hdf5", "arrow", "parquet")]


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    monkeypatch.setenv("ACTIONLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def make_log(
    lengths=(3, 1, 2),
    terminal=(True, False, False),
    state_dtype=np.float32,
    reward_dtype=np.float64,
    names=("x", "v"),
    actions=False,
):
    """Episodes of random states of the given lengths; `terminal` says which of them end in a terminal state."""
    rng = np.random.default_rng(sum(lengths))
    episodes = [rng.normal(size=(length + 1, len(names))).astype(state_dtype) for length in lengths]
    ends = np.concatenate([np.arange(length) == length - 1 for length in lengths])
    return Log(
        states=np.concatenate([rows[:-1] for rows in episodes]),
        next_states=np.concatenate([rows[1:] for rows in episodes]),
        rewards=rng.normal(size=len(ends)).astype(reward_dtype),
        terminals=ends & np.repeat(terminal, lengths),
        ends=ends,
        state_names=tuple(names),
        source=Source("made", "test", ()),
        actions=rng.normal(size=(len(ends), 2)).astype(np.float32) if actions else None,
    )


def assert_same(read_back: Log, log: Log):
    for field in ("states", "next_states", "rewards", "terminals", "ends"):
        np.testing.assert_array_equal(getattr(read_back, field), getattr(log, field), strict=True)
    if log.actions is None:
        assert read_back.actions is None
    else:
        np.testing.assert_array_equal(read_back.actions, log.actions, strict=True)
    assert read_back.state_names == log.state_names
    assert read_back.fingerprint == log.fingerprint
    assert read_back.warnings == ()


def round_trip(log, out, storage="hdf5"):
    if out.startswith("minari:"):
        pytest.importorskip("minari")
    place = convert(log, out, overwrite=True, storage=storage)
    return read(place, with_actions=log.actions is not None)


@pytest.mark.parametrize(("out", "storage"), [*((file, "hdf5") for file in FILES), *MINARI])
@pytest.mark.parametrize("actions", [False, True])
@pytest.mark.parametrize("reward_dtype", [np.float32, np.float64])
@pytest.mark.parametrize("state_dtype", [np.float32, np.float64])
def test_reads_back_the_same(out, storage, state_dtype, reward_dtype, actions):
    log = make_log(state_dtype=state_dtype, reward_dtype=reward_dtype, actions=actions)
    assert_same(round_trip(log, out, storage), log)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    episodes=st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=5),
    row=st.integers(1, 40),
    out=st.sampled_from(FILES),
)
def test_any_episodes_read_back_the_same_in_blocks_of_any_size(monkeypatch, episodes, row, out):
    monkeypatch.setattr(log_module, "BLOCK_BYTES", row)
    lengths, terminal = zip(*episodes, strict=True)
    log = make_log(lengths, terminal)
    assert_same(round_trip(log, out), log)


@pytest.mark.parametrize("out", [*FILES, "minari:test/log-v0"])
def test_a_memory_mapped_log_is_written_like_any_other(out, tmp_path):
    log = make_log()
    store = Store(tmp_path / "mapped", 0)
    arrays = store.allocate(len(log), 2, None, log.states.dtype, log.rewards.dtype)
    for field in ("states", "next_states", "rewards", "terminals", "ends"):
        getattr(arrays, field)[:] = getattr(log, field)
    mapped = store.finish(arrays, log.state_names, log.source, ())
    assert mapped.memory_mapped
    assert_same(round_trip(mapped, out), log)


@pytest.mark.parametrize("out", [*FILES, "minari:test/log-v0"])
def test_actions_stay_out_of_the_file_unless_the_log_has_them(out):
    round_trip(make_log(), out)
    with pytest.raises(ActionlessError, match="action"):
        read(out, with_actions=True)


@pytest.mark.parametrize("out", [*FILES, "minari:test/log-v0"])
@pytest.mark.parametrize(
    "names",
    [
        ("episode", "time", "reward", "terminal"),
        ("_episode", "episode", "action_0", "_action_0"),
        ("joint[0]", "joint[1]", "j*", "a,b"),
        ('say "x"', "back\\slash", "température °C", "state_columns"),
        ("", " ", " x", "x"),
        ("*", "^.*$", "a\nb\tc", "\x7f\x01"),
    ],
)
def test_any_state_names(out, names):
    log = make_log(names=names, actions=True)
    read_back = round_trip(log, out)
    assert_same(dataclasses.replace(read_back, warnings=()), log)


def test_parquet_has_one_row_per_state():
    log = make_log(lengths=(2, 1), terminal=(True, False), actions=True)
    convert(log, "log.parquet")
    assert log.actions is not None
    expected = pl.DataFrame(
        {
            "episode": [0, 0, 0, 1, 1],
            "time": [0, 1, 2, 0, 1],
            "x": [*log.states[:2, 0], log.next_states[1, 0], log.states[2, 0], log.next_states[2, 0]],
            "v": [*log.states[:2, 1], log.next_states[1, 1], log.states[2, 1], log.next_states[2, 1]],
            "reward": [*log.rewards[:2], None, log.rewards[2], None],
            "terminal": [False, False, True, False, False],
            "action_0": [*log.actions[:2, 0], None, log.actions[2, 0], None],
            "action_1": [*log.actions[:2, 1], None, log.actions[2, 1], None],
        },
        schema_overrides=dict.fromkeys(("x", "v", "action_0", "action_1"), pl.Float32),
    )
    assert pl.read_parquet("log.parquet").equals(expected, null_equal=True)
    assert pl.read_parquet("log.parquet").schema == expected.schema


def test_the_toml_names_the_columns_and_steps_aside_for_states(tmp_path):
    convert(make_log(names=("time", "_time", "reward")), "log.parquet")
    assert tomllib.loads((tmp_path / "log.toml").read_text()) == {
        "state_columns": ["time", "_time", "reward"],
        "reward_column": "_reward",
        "episode_column": "episode",
        "time_column": "__time",
        "terminal_column": "terminal",
        "reward_at": "leaving",
    }


def test_npz_opens_without_pickle():
    log = make_log()
    convert(log, "log.npz")
    with np.load("log.npz", allow_pickle=False) as file:
        assert set(file.files) == {"states", "next_states", "rewards", "terminals", "ends", "state_names"}
        assert file["state_names"].tolist() == ["x", "v"]


@pytest.mark.parametrize("storage", ["hdf5", "arrow", "parquet"])
def test_minari_itself_reads_the_data_set(storage):
    minari = pytest.importorskip("minari")
    log = make_log()
    assert convert(log, "minari:test/log-v0", storage=storage) == "minari:test/log-v0"
    dataset = minari.load_dataset("test/log-v0")
    assert (dataset.total_episodes, dataset.total_steps) == (3, 6)
    assert dataset.storage.metadata["action_free"] is True
    for episode, rows in zip(dataset.iterate_episodes(), log.episodes(), strict=True):
        np.testing.assert_array_equal(episode.observations[:-1], log.states[rows], strict=True)
        np.testing.assert_array_equal(episode.observations[1:], log.next_states[rows], strict=True)
        np.testing.assert_array_equal(episode.rewards, log.rewards[rows], strict=True)
        np.testing.assert_array_equal(episode.terminations, log.terminals[rows], strict=True)
        np.testing.assert_array_equal(episode.terminations | episode.truncations, log.ends[rows], strict=True)
        assert not np.any(episode.actions)
    assert list(minari.list_local_datasets()) == ["test/log-v0"]
    assert minari.namespace.list_local_namespaces() == ["test"]


@pytest.mark.parametrize("storage", ["arrow", "parquet"])
def test_episodes_that_minari_would_cut_short_are_refused(storage):
    minari = pytest.importorskip("minari")
    convert(make_log(lengths=(32_767,), terminal=(False,)), "minari:fits-v0", storage=storage)
    assert len(minari.load_dataset("fits-v0")[0].rewards) == 32_767
    with pytest.raises(ActionlessError, match=r"an episode has 32,768 steps.*first 32,767.*use --storage hdf5"):
        convert(make_log(lengths=(32_768,), terminal=(False,)), "minari:long-v0", storage=storage)


class DiskFullError(OSError):
    def __init__(self):
        super().__init__(28, "No space left on device")


def all_files(folder):
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("out", [*FILES, "minari:test/log-v0", "minari:log-v0"])
def test_an_existing_target_is_replaced_only_on_request(out, tmp_path):
    first, second = make_log(lengths=(2,), terminal=(False,)), make_log(names=("p", "q", "r"))
    round_trip(first, out)
    before = all_files(tmp_path)
    with pytest.raises(ActionlessError, match="already exists; choose another name, or replace it with --overwrite"):
        convert(second, out)
    assert all_files(tmp_path) == before
    convert(second, out, overwrite=True)
    assert_same(read(out), second)
    assert all_files(tmp_path).keys() == before.keys()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_toml_of_another_table_is_never_overwritten(overwrite, tmp_path):
    (tmp_path / "log.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "log.toml").write_text('state_columns = "a"\nreward_column = "b"\n')
    before = all_files(tmp_path)
    message = (
        r"log\.toml: already exists and belongs to another table, because there is no log\.parquet; choose another name"
    )
    with pytest.raises(ActionlessError, match=message):
        convert(read("log.csv"), "log.parquet", overwrite=overwrite)
    assert all_files(tmp_path) == before
    assert read("log.csv").states.tolist() == [[1]]


@pytest.mark.parametrize("name", ["log.parquet", "log.toml", "log.npz"])
def test_a_link_that_leads_nowhere_is_something_there(name, tmp_path):
    link = tmp_path / name
    link.symlink_to(tmp_path / "unmounted" / name)
    with pytest.raises(ActionlessError, match=f"{name}: (already exists|already exists and belongs to another table)"):
        convert(make_log(), link.with_suffix(".parquet") if name == "log.toml" else link)
    assert link.is_symlink()


@pytest.mark.parametrize("error", [KeyboardInterrupt, DiskFullError])
def test_the_old_data_set_is_kept_until_the_new_one_stands(error, tmp_path, monkeypatch):
    pytest.importorskip("minari")
    log = make_log()
    convert(log, "minari:test/log-v0")
    before = all_files(tmp_path)

    def failing(*_):
        raise error

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises((KeyboardInterrupt, ActionlessError)):
        convert(make_log(names=("p", "q", "r")), "minari:test/log-v0", overwrite=True)
    assert all_files(tmp_path) == before
    assert_same(read("minari:test/log-v0"), log)


def test_a_linked_data_set_is_replaced_where_the_link_stands(tmp_path):
    pytest.importorskip("minari")
    convert(make_log(), "minari:elsewhere-v0")
    (tmp_path / "datasets" / "log-v0").symlink_to(tmp_path / "datasets" / "elsewhere-v0")
    second = make_log(names=("p", "q", "r"))
    convert(second, "minari:log-v0", overwrite=True)
    assert_same(read("minari:log-v0"), second)
    assert_same(read("minari:elsewhere-v0"), make_log())


@pytest.mark.parametrize("out", [*FILES, "minari:test/log-v0"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_half_written_stays(out, overwrite, tmp_path, monkeypatch):
    """The disk is full after the first block."""
    if overwrite:
        round_trip(make_log(), out)
    before = all_files(tmp_path)

    class Failing(Log):
        fails = False

        def __getattribute__(self, name):
            if name == "rewards" and Failing.fails:
                raise DiskFullError
            Failing.fails = Failing.fails or name == "rewards"
            return super().__getattribute__(name)

    if out.startswith("minari:"):
        pytest.importorskip("minari")
    log = make_log()
    failing = Failing(**{field.name: getattr(log, field.name) for field in dataclasses.fields(Log)})
    monkeypatch.setattr(log_module, "BLOCK_BYTES", 1)
    monkeypatch.setattr(np, "savez", lambda file, **arrays: (file.write(b"half"), failing.rewards, failing.rewards))
    with pytest.raises(ActionlessError, match=r"cannot be written .*No space left on device.*partial file was removed"):
        convert(failing, out, overwrite=overwrite)
    assert all_files(tmp_path) == before


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("log.csv", r"log\.csv: the output must be FILE\.parquet, FILE\.npz or minari:ID"),
        ("log", "the output must be FILE"),
        ("nowhere/log.npz", "the folder nowhere does not exist; create it first"),
        (f"{'x' * 300}.npz", r"cannot be written \(File name too long\); choose another name"),
        (f"{'x' * 300}.parquet", r"cannot be written \(File name too long\)"),
        ("minari:log", "minari:log: not a valid Minari id; write minari:NAME-v0"),
        ("minari:../log-v0", "not a valid Minari id"),
        ("minari:", "not a valid Minari id"),
    ],
)
def test_targets_that_cannot_be(out, message, tmp_path):
    if out.startswith("minari:"):
        pytest.importorskip("minari")
    for attempt in (lambda: convert(make_log(), out), lambda: check_target(out)):
        with pytest.raises(ActionlessError, match=message):
            attempt()
    assert all_files(tmp_path) == {}


@pytest.mark.parametrize("out", ["log.npz", "minari:log-v0"])
def test_a_folder_is_never_replaced(out, tmp_path):
    if out.startswith("minari:"):
        pytest.importorskip("minari")
    for folder in (tmp_path / "log.npz", tmp_path / "datasets" / "log-v0" / "other-v0"):
        folder.mkdir(parents=True)
        (folder / "precious").touch()
    with pytest.raises(ActionlessError, match="is an existing folder"):
        convert(make_log(), out, overwrite=True)
    assert len(all_files(tmp_path)) == 2


def test_minari_that_is_not_installed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ActionlessError, match=r"needs the package 'minari'.*pip install 'actionless\[minari\]'"):
        check_target("minari:log-v0")
