import errno
import json
import logging
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actionless.errors import ActionlessError
from actionless.runs.checkpoints import Checkpoints, NotFiniteError


def state(value):
    return {"weights": np.full(4, value, np.float32), "count": int(value)}


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints")


def save(checkpoints, *steps, score=None):
    for step in steps:
        checkpoints.save(state(step), step=step, logged=step - 1, seconds=step / 10, score=score)


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
    assert checkpoints.best(like=state(0)).step == 2


def test_best_without_scores_is_the_newest(checkpoints):
    save(checkpoints, 1, 2)
    assert checkpoints.best(like=state(0)).step == 2


def test_damaged_best_gives_way_to_the_newest(checkpoints, caplog):
    save(checkpoints, 1, score=0.9)
    save(checkpoints, 2, score=0.1)
    (checkpoints.paths()[0] / "arrays.safetensors").write_bytes(b"short")
    assert checkpoints.best(like=state(0)).step == 2
    assert "step-000000000001, the best, is damaged" in caplog.text


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
    saved = checkpoints.newest(like=state(0))
    np.testing.assert_array_equal(saved.state["weights"], np.full(4, saved.step, np.float32))


def test_unknown_format_is_passed_over_and_named(checkpoints, caplog):
    save(checkpoints, 1, 2)
    manifest = checkpoints.paths()[1] / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    assert checkpoints.newest(like=state(0)).step == 1
    assert "format 99 is unknown" in caplog.text


def test_no_intact_checkpoint_is_an_error(checkpoints):
    save(checkpoints, 1, 2)
    for path in checkpoints.paths():
        (path / "state.json").write_text("{}")
    with pytest.raises(ActionlessError, match=r"checkpoints: no checkpoint is intact; start .* --overwrite"):
        checkpoints.newest(like=state(0))


def test_damaged_checkpoints_do_not_outlive_the_resumed_run(checkpoints):
    save(checkpoints, 1, 2, 3)
    (checkpoints.paths()[1] / "state.json").write_text('{"score": 9.0}')
    save(checkpoints, 2)
    assert steps(checkpoints) == [2]
    assert checkpoints.newest(like=state(0)).state["count"] == 2


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
