import errno
import json
import logging
import os
import resource
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actionless.errors import ActionlessError
from actionless.runs.checkpoints import Checkpoints, NewerFormatError, NotFiniteError


def state(value):
    return {"weights": np.full(4, value, np.float32), "count": int(value)}


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints")


def save(checkpoints, *steps, score=None):
    for step in steps:
        checkpoints.save(state(step), step=step, logged=step - 1, seconds=step / 10, score=score)


def damage(path):
    (path / "arrays.safetensors").write_bytes(b"short")


def steps(checkpoints):
    return [int(path.name.removeprefix("step-")) for path in checkpoints.paths()]


def test_newest_is_what_was_saved_last(checkpoints):
    save(checkpoints, 1, 2)
    saved = checkpoints.newest(like=state(0))
    assert (saved.step, saved.logged, saved.seconds, saved.score) == (2, 1, 0.2, None)
    np.testing.assert_array_equal(saved.state["weights"], np.full(4, 2, np.float32))
    assert saved.state["count"] == 2


def test_none_before_the_first(checkpoints):
    assert checkpoints.newest(like=state(0)) is None


def test_newest_two_and_the_best_are_kept(checkpoints):
    for step, score in [(1, 0.1), (2, 0.9), (3, 0.5), (4, None), (5, 0.2)]:
        save(checkpoints, step, score=score)
    assert steps(checkpoints) == [2, 4, 5]


def test_all_from_a_step_on_are_kept(checkpoints):
    keeping = Checkpoints(checkpoints.directory, keep_from=3)
    for step, score in [(1, 0.9), (2, 0.1), (3, 0.2), (4, 0.3), (5, 0.1), (6, 0.2)]:
        save(keeping, step, score=score)
    assert steps(keeping) == [1, 3, 4, 5, 6]
    assert [keeping.load(path, state(0)).step for path in keeping.paths()] == steps(keeping)
    damage(keeping.paths()[1])
    with pytest.raises(ActionlessError, match=r"step-000000000003: the checkpoint is damaged .*: restore it"):
        keeping.load(keeping.paths()[1], state(0))


def test_damaged_best_gives_way_to_the_best_that_is_intact(checkpoints):
    for step, score in [(1, 0.9), (2, 0.5), (3, 0.1)]:
        save(checkpoints, step, score=score)
    damage(checkpoints.paths()[0])
    save(checkpoints, 4, 5, score=0.2)
    assert steps(checkpoints) == [2, 4, 5]


def test_damaged_checkpoint_is_none_of_the_newest_two(checkpoints):
    save(checkpoints, 1, 2)
    damage(checkpoints.paths()[1])
    save(checkpoints, 3)
    assert steps(checkpoints) == [1, 3]
    save(checkpoints, 4)
    assert steps(checkpoints) == [3, 4]


def test_last_good_passes_over_what_is_damaged(checkpoints):
    assert checkpoints.last_good() is None
    save(checkpoints, 1, 2)
    first, second = checkpoints.paths()
    assert checkpoints.last_good() == second
    damage(second)
    assert checkpoints.last_good() == first
    damage(first)
    assert checkpoints.last_good() is None


@pytest.mark.parametrize("part", ["arrays.safetensors", "state.json", "manifest.json"])
def test_truncated_part_falls_back_to_the_one_before(checkpoints, caplog, part):
    save(checkpoints, 1, 2)
    damaged = checkpoints.paths()[1] / part
    damaged.write_bytes(damaged.read_bytes()[:-3])
    with caplog.at_level(logging.WARNING):
        assert checkpoints.newest(like=state(0)).step == 1
    assert f"checkpoint {damaged.parent} is damaged" in caplog.text


@pytest.mark.parametrize("part", ["arrays.safetensors", "state.json", "manifest.json"])
def test_missing_part_falls_back_to_the_one_before(checkpoints, part):
    save(checkpoints, 1, 2)
    (checkpoints.paths()[1] / part).unlink()
    assert checkpoints.newest(like=state(0)).step == 1


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_of_the_content_is_found(tmp_path, data):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    save(checkpoints, 1, 2)
    part = data.draw(st.sampled_from(["arrays.safetensors", "state.json"]))
    file = checkpoints.paths()[1] / part
    content = bytearray(file.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    file.write_bytes(content)
    assert checkpoints.newest(like=state(0)).step == 1


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_manifest_never_passes_other_content(tmp_path, data):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    save(checkpoints, 1, 2)
    file = checkpoints.paths()[1] / "manifest.json"
    content = bytearray(file.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    file.write_bytes(content)
    try:
        saved = checkpoints.newest(like=state(0))
    except NewerFormatError:  # where the digit of the format is what changed
        return
    np.testing.assert_array_equal(saved.state["weights"], np.full(4, saved.step, np.float32))


def test_names_of_older_versions_are_translated(checkpoints):
    save(checkpoints, 1)
    like = {("today" if name == "weights" else name): part for name, part in state(0).items()}
    with pytest.raises(ActionlessError, match=r"\['(today|weights)'\]' does not fit"):
        checkpoints.newest(like=like)
    saved = checkpoints.newest(like=like, old_names={r"^\['weights'\]": "['today']"})
    np.testing.assert_array_equal(saved.state["today"], np.full(4, 1, np.float32))


def set_format(path, version):
    manifest = path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": version}))


def test_newer_format_is_refused_by_its_version(checkpoints):
    save(checkpoints, 1, 2)
    set_format(checkpoints.paths()[1], 99)
    message = r"step-000000000002: a checkpoint of format 99, but this version of actionless reads 1; resume with"
    with pytest.raises(ActionlessError, match=message):
        checkpoints.newest(like=state(0))
    assert steps(checkpoints) == [1, 2]


def test_newer_format_is_never_deleted(checkpoints):
    save(checkpoints, 1, 2, 9)
    set_format(checkpoints.paths()[0], 99)
    set_format(checkpoints.paths()[1], 99)
    save(checkpoints, 3, 4, 5)
    assert steps(checkpoints) == [2, 4, 5, 9]


@pytest.mark.parametrize("version", [0, -1, "1", None, 1.5])
def test_format_that_never_existed_is_damage(checkpoints, caplog, version):
    save(checkpoints, 1, 2)
    set_format(checkpoints.paths()[1], version)
    assert checkpoints.newest(like=state(0)).step == 1
    assert f"manifest.json: unknown format {version!r}" in caplog.text


@pytest.mark.parametrize("part", ["arrays.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_unreadable_part_falls_back_to_the_one_before(checkpoints, monkeypatch, caplog, part, number):
    save(checkpoints, 1, 2)
    refused, opened = checkpoints.paths()[1] / part, Path.open

    def refusing(path, *arguments, **options):
        if path == refused:
            raise OSError(number, os.strerror(number), str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refusing)
    assert checkpoints.newest(like=state(0)).step == 1
    assert f"step-000000000002 is damaged ({part}: {os.strerror(number)}): using the one before it" in caplog.text
    assert checkpoints.last_good() == checkpoints.paths()[0]


def test_no_intact_checkpoint_is_an_error(checkpoints):
    save(checkpoints, 1, 2)
    for path in checkpoints.paths():
        (path / "state.json").write_text("{}")
    with pytest.raises(
        ActionlessError, match=r"checkpoints: no checkpoint is intact \(state\.json does not match .* --overwrite"
    ):
        checkpoints.newest(like=state(0))


def test_damaged_checkpoints_do_not_outlive_the_resumed_run(checkpoints):
    save(checkpoints, 1, 2, 3)
    (checkpoints.paths()[1] / "state.json").write_text('{"score": 9.0}')
    save(checkpoints, 2)
    assert steps(checkpoints) == [2]
    assert checkpoints.newest(like=state(0)).state["count"] == 2


def test_saving_holds_no_second_copy_of_the_arrays(checkpoints):
    replay = {"replay": np.zeros(2**24, np.float32)}
    tracemalloc.start()
    checkpoints.save(replay, step=1, logged=1, seconds=0.0, score=None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < replay["replay"].nbytes / 4


def test_full_disk_while_arrays_are_written(checkpoints):
    save(checkpoints, 1)
    limit, ceiling = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, ceiling))
    try:
        with pytest.raises(ActionlessError, match=r"step-000000000002: File too large; what was saved is safe"):
            checkpoints.save({"replay": np.zeros(10_000)}, step=2, logged=2, seconds=0.0, score=None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, ceiling))
    assert [path.name for path in checkpoints.directory.iterdir()] == ["step-000000000001"]


def test_other_shapes_are_an_error_and_no_fallback(checkpoints):
    save(checkpoints, 1)
    with pytest.raises(ActionlessError, match=r"step-000000000001: '\['weights'\]' does not fit"):
        checkpoints.newest(like={"weights": np.zeros(5, np.float32), "count": 0})


def test_state_that_is_not_finite_is_never_saved(checkpoints):
    save(checkpoints, 1)
    with pytest.raises(NotFiniteError, match="weights"):
        checkpoints.save({**state(2), "weights": np.array([np.nan])}, step=2, logged=2, seconds=0.0, score=None)
    assert steps(checkpoints) == [1]


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_full_disk_keeps_what_was_saved(checkpoints, monkeypatch, fails_at):
    save(checkpoints, 1, 2)
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ActionlessError, match=r"step-000000000003: No space left on device; what was saved is safe"):
        save(checkpoints, 3)
    assert [path.name for path in sorted(checkpoints.directory.iterdir())] == ["step-000000000001", "step-000000000002"]
    assert checkpoints.newest(like=state(0)).step == 2


def test_half_written_checkpoint_of_a_killed_process_is_ignored_and_cleared(checkpoints):
    save(checkpoints, 1)
    leftover = checkpoints.directory / ".step-000000000002.writing"
    leftover.mkdir()
    (leftover / "arrays.safetensors").write_bytes(b"half")
    assert checkpoints.newest(like=state(0)).step == 1
    save(checkpoints, 2)
    assert not leftover.exists()


def test_nothing_is_pickled(checkpoints):
    save(checkpoints, 1)
    names = {path.name for path in Path(checkpoints.paths()[0]).iterdir()}
    assert names == {"arrays.safetensors", "manifest.json", "state.json"}
