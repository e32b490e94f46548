"""Memory or cache: the limit decides, no partial files stay, and disk problems are reported."""

import resource
import shutil
import subprocess
import sys
from collections import namedtuple

import numpy as np
import pytest

import actionless
from actionless import ActionlessError
from actionless.data import store
from actionless.data.log import Source

ROWS = np.arange(12.0).reshape(6, 2)


@pytest.fixture
def log_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ACTIONLESS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "log.npz"
    np.savez(path, states=ROWS[:-1], next_states=ROWS[1:], rewards=np.ones(5), terminals=np.zeros(5, bool))
    return path


def test_the_limit_decides(log_file):
    size = 2 * 5 * 2 * 8 + 5 * 8 + 2 * 5
    assert not actionless.read(log_file, memory_limit_gb=size / 1e9).memory_mapped
    assert actionless.read(log_file, memory_limit_gb=(size - 1) / 1e9).memory_mapped


def test_cached_arrays_cannot_be_written(log_file):
    log = actionless.read(log_file, memory_limit_gb=0.0)
    with pytest.raises(ValueError, match="read-only"):
        log.states[0, 0] = 1.0


def test_with_and_without_actions_are_cached_apart(log_file):
    arrays = dict(np.load(log_file))
    np.savez(log_file, actions=np.zeros((5, 1)), **arrays)
    assert actionless.read(log_file, memory_limit_gb=0.0).actions is None
    assert actionless.read(log_file, memory_limit_gb=0.0, with_actions=True).actions is not None
    assert actionless.read(log_file, memory_limit_gb=0.0).actions is None


def test_a_failed_read_leaves_nothing(log_file, tmp_path):
    arrays = dict(np.load(log_file))
    arrays["rewards"][2] = np.nan
    np.savez(log_file, **arrays)
    with pytest.raises(ActionlessError, match="'rewards' at row 2"):
        actionless.read(log_file, memory_limit_gb=0.0)
    assert list((tmp_path / "cache").rglob("*.npy")) == []


@pytest.mark.parametrize("damage", ["truncate", "remove", "garble"])
def test_a_damaged_cache_is_made_again(log_file, tmp_path, damage):
    whole = actionless.read(log_file, memory_limit_gb=0.0)
    (states,) = (tmp_path / "cache").rglob("states.npy")
    if damage == "truncate":
        states.write_bytes(states.read_bytes()[:90])
    elif damage == "remove":
        states.unlink()
    else:
        states.with_name("log.json").write_text("{")
    again = actionless.read(log_file, memory_limit_gb=0.0)
    assert again.memory_mapped
    assert again.fingerprint == whole.fingerprint
    np.testing.assert_array_equal(again.states, ROWS[:-1])


def test_two_readers_of_one_file_do_not_meet(log_file, tmp_path):
    """Both find the cache empty, fill files of their own and finish one after the other."""
    folder = store.cache_folder([log_file], "")
    readers = [store.Store(folder, memory_limit=0) for _ in range(2)]
    filled = []
    for value, reader in enumerate(readers):
        filled.append(reader.allocate(3, 2, None, np.dtype(float), np.dtype(float)))
        for array in (filled[-1].states, filled[-1].next_states, filled[-1].rewards):
            array[:] = value
        filled[-1].ends[-1] = True
    source = Source(str(log_file), "npz", ("states",))
    logs = [reader.finish(arrays, ("a", "b"), source, ()) for reader, arrays in zip(readers, filled, strict=True)]
    assert [log.states[0, 0] for log in logs] == [0, 1]
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    cached = store.Store(folder, memory_limit=0).cached()
    assert cached is not None
    assert cached.fingerprint == logs[1].fingerprint


def test_a_log_that_fits_is_read_into_memory_although_it_is_cached(log_file):
    assert actionless.read(log_file, memory_limit_gb=0.0).memory_mapped
    assert not actionless.read(log_file).memory_mapped


def test_too_small_a_disk(log_file, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(100, 90, 10))
    with pytest.raises(ActionlessError, match="set ACTIONLESS_CACHE to a folder on a larger disk"):
        actionless.read(log_file, memory_limit_gb=0.0)


def test_cache_that_cannot_be_written(log_file, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ACTIONLESS_CACHE", str(tmp_path / "file"))
    with pytest.raises(ActionlessError, match="cannot write the cache"):
        actionless.read(log_file, memory_limit_gb=0.0)


def test_the_default_limit_heeds_the_process(monkeypatch):
    unlimited = store.default_memory_limit()
    limit = 8 * 2**30
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (limit, limit))
    assert 0 < store.default_memory_limit() < min(unlimited, limit // 2)


@pytest.mark.slow
def test_a_file_several_times_the_memory_limit():
    """The benchmark reads, inspects and samples under RLIMIT_DATA, and checks what it sampled."""
    command = [sys.executable, "-m", "benchmarks.larger_than_memory"]
    assert subprocess.run(command, check=False, timeout=600).returncode == 0
