import errno
import json
import os
import sys
import types

import pytest
from toy_run import new_run

from actionless.errors import ActionlessError
from actionless.runs.sinks import Journal, JsonLines, last_row, last_values, read_rows


class FullOnClose:
    """A file whose file system says only when it is closed that the disk is full."""

    def __init__(self, file):
        self.fileno = file.fileno

    def close(self):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def write(path, *steps):
    file = JsonLines(path, step=0)
    for step in steps:
        file.log(step, {"loss": step / 10})
    file.close()


def test_rows_are_appended_with_their_step(tmp_path):
    write(tmp_path / "metrics.jsonl", 1, 2)
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1, "loss": 0.1}\n{"step": 2, "loss": 0.2}\n'


def test_row_is_on_file_at_once(tmp_path):
    file = JsonLines(tmp_path / "metrics.jsonl", step=0)
    file.log(1, {"loss": 0.5})
    assert list(read_rows(tmp_path / "metrics.jsonl")) == [{"step": 1, "loss": 0.5}]
    file.close()


def test_rows_beyond_the_checkpoint_are_cut_off(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, 1, 2, 3)
    JsonLines(path, step=2).close()
    assert [row["step"] for row in read_rows(path)] == [1, 2]


@pytest.mark.parametrize("cut", range(1, 25))
def test_half_written_row_is_dropped(tmp_path, cut):
    path = tmp_path / "metrics.jsonl"
    write(path, 1, 2)
    path.write_bytes(path.read_bytes()[:-cut])
    file = JsonLines(path, step=1)
    file.log(2, {"loss": 0.2})
    file.close()
    assert path.read_text() == '{"step": 1, "loss": 0.1}\n{"step": 2, "loss": 0.2}\n'


def test_lost_rows_are_named(tmp_path, caplog):
    path = tmp_path / "metrics.jsonl"
    write(path, 1, 2)
    JsonLines(path, step=5).close()
    assert "metrics.jsonl ends at step 2, the checkpoint is of step 5" in caplog.text


@pytest.mark.parametrize("act", [JsonLines.sync, JsonLines.close])
def test_disk_that_is_full_only_when_flushed_is_one_line(tmp_path, monkeypatch, act):
    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = JsonLines(tmp_path / "metrics.jsonl", step=0)
    file.log(1, {"loss": 0.5})
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        patched.setattr(file, "_file", FullOnClose(file._file))
        message = r"metrics\.jsonl: No space left on device; what was saved is safe: make room, then `actionless resume"
        with pytest.raises(ActionlessError, match=message):
            act(file)
    file.close()
    assert list(read_rows(tmp_path / "metrics.jsonl")) == [{"step": 1, "loss": 0.5}]


def test_every_sink_is_closed_though_one_fails(tmp_path, monkeypatch):
    with new_run(tmp_path / "run") as run:
        journal = Journal(run, 0, ())
        metrics, timing = journal._metrics._file, journal._timing._file
        monkeypatch.setattr(journal._timing, "_file", FullOnClose(timing))
        with pytest.raises(ActionlessError, match=r"timing\.jsonl: No space left on device"):
            journal.close()
    assert metrics.closed
    timing.close()


def test_nan_is_no_json(tmp_path):
    file = JsonLines(tmp_path / "metrics.jsonl", step=0)
    with pytest.raises(ValueError, match="not JSON compliant"):
        file.log(1, {"loss": float("nan")})
    file.close()


def test_last_values_reach_back_to_metrics_measured_seldom(tmp_path):
    path = tmp_path / "metrics.jsonl"
    rows = [{"step": 1, "loss": 3.0, "eval/return": 9.0}, {"step": 2, "loss": 2.0}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert last_values(path) == {"loss": 2.0, "eval/return": 9.0}


@pytest.mark.parametrize(("content", "expected"), [("", None), ('{"st', None), ('{"step": 1}\n{"step": 2}\n{"st', 2)])
def test_last_row_is_the_newest_whole_one(tmp_path, content, expected):
    (tmp_path / "metrics.jsonl").write_text(content)
    row = last_row(tmp_path / "metrics.jsonl")
    assert row == (None if expected is None else {"step": expected})


def test_last_row_of_a_long_file_is_read_from_its_end(tmp_path):
    assert last_row(tmp_path / "metrics.jsonl") is None
    write(tmp_path / "metrics.jsonl", *range(5000))
    assert last_row(tmp_path / "metrics.jsonl") == {"step": 4999, "loss": 499.9}


def test_clock_is_kept_apart(tmp_path):
    with new_run(tmp_path / "run") as run:
        journal = Journal(run, 0, ())
        journal.log(1, {"loss": 0.5}, {"seconds": 2.0})
        journal.close()
    assert list(read_rows(tmp_path / "run" / "metrics.jsonl")) == [{"step": 1, "loss": 0.5}]
    assert list(read_rows(tmp_path / "run" / "timing.jsonl")) == [{"step": 1, "seconds": 2.0}]


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_missing_extra_is_named_with_its_command(tmp_path, monkeypatch, name):
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    with (
        new_run(tmp_path / "run") as run,
        pytest.raises(ActionlessError, match=rf"'{name}', which is not installed: pip install 'actionless\[{name}\]'"),
    ):
        Journal(run, 0, (name,))


def test_tensorboard_events_can_be_read_back(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with new_run(tmp_path / "run") as run:
        for start in (0, 1):  # The second journal is that of a resumed run: step 2 comes again.
            journal = Journal(run, start, ("tensorboard",))
            for step in range(start + 1, 3):
                journal.log(step, {"loss": step / 4}, {"seconds": 1.0})
            journal.close()
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 0.25), (2, 0.5)]
    assert events.Tags()["scalars"] == ["loss", "seconds"]


def test_wandb_run_is_resumed(tmp_path, monkeypatch):
    calls = []

    class FakeRun:
        def log(self, metrics, step):
            calls.append((step, metrics))

        def finish(self):
            calls.append("finish")

    identities = []
    fake = types.ModuleType("wandb")
    fake.init = lambda **options: identities.append(options["id"]) or FakeRun()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setattr("importlib.util.find_spec", lambda module: True)
    with new_run(tmp_path / "run") as run:
        for step in (1, 2):
            journal = Journal(run, step - 1, ("wandb",))
            journal.log(step, {"loss": 0.5}, {"seconds": 1.0})
            journal.close()
    assert identities[0] == identities[1]
    assert calls == [(1, {"loss": 0.5, "seconds": 1.0}), "finish", (2, {"loss": 0.5, "seconds": 1.0}), "finish"]
