import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from toy_run import RandomWalk, new_run, work

from actionless.errors import ActionlessError
from actionless.runs.checkpoints import Checkpoints, step_of
from actionless.runs.directory import Run
from actionless.runs.engine import drive
from actionless.runs.progress import ProgressDisplay
from actionless.runs.sinks import read_rows

SCRIPT = Path(__file__).with_name("toy_run.py")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "run"
    with new_run(path) as run:
        work(run, RandomWalk())
    return path


def final_state(path):
    return Checkpoints(path / "checkpoints").newest(like=RandomWalk().begin())


def assert_same_run(path, other):
    assert (path / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    ours, theirs = final_state(path), final_state(other)
    assert ours.step == theirs.step
    for name in ("weights", "replay", "moved"):
        np.testing.assert_array_equal(ours.state[name], theirs.state[name])
    assert (jax.random.key_data(ours.state["key"]) == jax.random.key_data(theirs.state["key"])).all()
    assert ours.state["generator"].normal() == theirs.state["generator"].normal()
    mine, yours = (json.loads((run / "result.json").read_text()) for run in (path, other))
    assert mine["final"] == yours["final"]


class Interrupted(RandomWalk):
    """Ctrl-C within the dispatch that ends at step 25."""

    def advance(self, state, step):
        if step == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return super().advance(state, step)


def start(path, pause, **options):
    command = [sys.executable, str(SCRIPT), str(path), str(pause)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **options})


def wait_for_rows(path, count, process):
    while process.poll() is None:
        if (path / "metrics.jsonl").exists() and len(list(read_rows(path / "metrics.jsonl"))) >= count:
            return
        time.sleep(0.01)


def test_undisturbed_run_leaves_its_record(undisturbed):
    rows = list(read_rows(undisturbed / "metrics.jsonl"))
    assert [row["step"] for row in rows] == list(range(5, 61, 5))
    assert rows[-1]["moved"] == 55
    timing = list(read_rows(undisturbed / "timing.jsonl"))
    assert [row["step"] for row in timing] == [row["step"] for row in rows]
    assert all(row["steps_per_second"] > 0 for row in timing)
    result = json.loads((undisturbed / "result.json").read_text())
    assert (result["verb"], result["steps"]) == ("toy", 60)
    assert result["seconds"] >= timing[-1]["seconds"]
    assert result["final"] == {name: rows[-1][name] for name in ("loss", "moved", "eval/height")}


def test_best_checkpoint_is_kept_beside_the_newest_two(undisturbed):
    heights = {
        row["step"]: row["eval/height"] for row in read_rows(undisturbed / "metrics.jsonl") if row["step"] % 10 == 0
    }
    best = max(heights, key=lambda step: heights[step])
    kept = [int(path.name.removeprefix("step-")) for path in Checkpoints(undisturbed / "checkpoints").paths()]
    assert kept == sorted({best, 50, 60})


def test_best_may_be_the_lowest(tmp_path):
    with new_run(tmp_path / "run") as run:
        work(run, RandomWalk(lower_is_better=True))
    rows = read_rows(tmp_path / "run" / "metrics.jsonl")
    heights = {row["step"]: row["eval/height"] for row in rows if "eval/height" in row}
    best = min(heights, key=lambda step: heights[step])
    kept = [int(path.name.removeprefix("step-")) for path in Checkpoints(tmp_path / "run" / "checkpoints").paths()]
    assert kept == sorted({best, 50, 60})
    assert best not in (50, 60)


def test_killed_at_random_moments_ends_the_same(tmp_path, undisturbed):
    path, moments = tmp_path / "run", random.Random(0)
    for kill in range(2):
        process = start(path, 0.05)
        wait_for_rows(path, 2 + 4 * kill, process)
        time.sleep(moments.uniform(0, 0.12))
        process.kill()
        process.communicate()
    assert not (path / "result.json").exists()
    process = start(path, 0)
    process.communicate()
    assert process.returncode == 0
    assert_same_run(path, undisturbed)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_stops_after_a_checkpoint(tmp_path, undisturbed, number, code):
    path = tmp_path / "run"
    process = start(path, 0.1)
    wait_for_rows(path, 1, process)
    process.send_signal(number)
    said = process.communicate()[1]
    last = list(read_rows(path / "metrics.jsonl"))[-1]["step"]
    assert process.returncode == code
    assert final_state(path).step == last
    assert f"stopped at step {last}; `actionless resume {path}` resumes it" in said
    assert "Traceback" not in said
    with Run.open(path) as run:
        work(run, RandomWalk())
    assert_same_run(path, undisturbed)


def test_stopped_between_two_rows_ends_the_same(tmp_path, caplog):
    with new_run(tmp_path / "undisturbed") as run:
        work(run, RandomWalk(silent=True))
    path = tmp_path / "run"
    with new_run(path) as run, pytest.raises(KeyboardInterrupt):
        work(run, Interrupted(silent=True))
    assert final_state(path).step == 25
    assert [row["step"] for row in read_rows(path / "metrics.jsonl")] == [10, 20]
    caplog.clear()
    with Run.open(path) as run:
        work(run, RandomWalk(silent=True))
    assert caplog.text == ""  # no row is taken for lost
    assert_same_run(path, tmp_path / "undisturbed")


def test_checkpoints_keep_their_distance_in_time(tmp_path):
    with new_run(tmp_path / "run") as run, pytest.raises(KeyboardInterrupt):
        drive(run, Interrupted(), checkpoint_every=10, checkpoint_seconds=3600.0)
    assert [path.name for path in Checkpoints(tmp_path / "run" / "checkpoints").paths()] == ["step-000000000025"]


def test_the_last_checkpoints_do_not_wait_for_the_clock(tmp_path):
    with new_run(tmp_path / "run") as run:
        drive(run, RandomWalk(steps=55), checkpoint_every=10, checkpoint_seconds=3600.0, last_checkpoints=3)
    kept = [step_of(path) for path in Checkpoints(tmp_path / "run" / "checkpoints").paths()]
    assert kept == [40, 50, 55]


def test_damaged_checkpoint_ends_the_same(tmp_path, undisturbed, caplog):
    path = tmp_path / "run"
    with new_run(path) as run, pytest.raises(ActionlessError, match="nan"):
        work(run, RandomWalk(nan_at=45))
    newest = Checkpoints(path / "checkpoints").paths()[-1]
    arrays = newest / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:100])
    with Run.open(path) as run:
        work(run, RandomWalk())
    assert f"checkpoint {newest} is damaged (arrays.safetensors does not match its checksum)" in caplog.text
    assert_same_run(path, undisturbed)


def test_nan_stops_the_run_with_the_step_and_the_last_good_checkpoint(tmp_path):
    path = tmp_path / "run"
    message = r"run: 'loss' is nan between steps 31 and 35; the last good checkpoint is .*/step-000000000030\."
    with new_run(path) as run, pytest.raises(ActionlessError, match=message):
        work(run, RandomWalk(nan_at=35))
    assert not (path / "result.json").exists()
    assert [row["step"] for row in read_rows(path / "metrics.jsonl")][-1] == 30
    assert final_state(path).step == 30


def test_nan_before_the_first_checkpoint(tmp_path):
    with new_run(tmp_path / "run") as run, pytest.raises(ActionlessError, match="no checkpoint was written before"):
        work(run, RandomWalk(nan_at=5))


def test_nan_names_no_damaged_checkpoint(tmp_path):
    class Damaging(RandomWalk):
        def advance(self, state, step):
            if step == 30:
                (run.path / "checkpoints" / "step-000000000030" / "state.json").write_text("{}")
            return super().advance(state, step)

    message = r"'loss' is nan between steps 31 and 35; the last good checkpoint is .*/step-000000000020\."
    with new_run(tmp_path / "run") as run, pytest.raises(ActionlessError, match=message):
        work(run, Damaging(nan_at=35))


def test_bad_state_behind_finite_metrics_is_not_saved(tmp_path):
    message = r"\['weights'\]' is not finite between steps 26 and 30; the last good checkpoint is .*000020"
    with new_run(tmp_path / "run") as run, pytest.raises(ActionlessError, match=message):
        work(run, RandomWalk(bad_weight_at=30))
    assert final_state(tmp_path / "run").step == 20


def test_full_disk_loses_nothing(tmp_path, undisturbed):
    path = tmp_path / "run"
    limit, ceiling = resource.getrlimit(resource.RLIMIT_FSIZE)
    with new_run(path) as run:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400, ceiling))
        try:
            with pytest.raises(ActionlessError, match=f"File too large; .* `actionless resume {path}`"):
                work(run, RandomWalk())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, ceiling))
    with Run.open(path) as run:
        work(run, RandomWalk())
    assert_same_run(path, undisturbed)


def test_disk_found_full_when_metrics_are_flushed_loses_nothing(tmp_path, undisturbed, monkeypatch):
    path, flush = tmp_path / "run", os.fsync

    def full(descriptor):
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == "metrics.jsonl" and final_state(path) is not None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(descriptor)

    with new_run(path) as run, monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        message = f"metrics.jsonl: No space left on device; what was saved is safe: .* `actionless resume {path}`"
        with pytest.raises(ActionlessError, match=message):
            work(run, RandomWalk())
    assert final_state(path).step == 10
    with Run.open(path) as run:
        work(run, RandomWalk())
    assert_same_run(path, undisturbed)


def test_plain_lines_without_a_terminal(tmp_path, capfd):
    with new_run(tmp_path / "walk") as run:
        work(run, RandomWalk())
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("walk 5/60  starting  loss ")
    assert lines[1].startswith("walk 60/60 ")
    assert "/s, 0:00:00 left  loss " in lines[1]


def test_rate_in_the_record_is_that_since_the_row_before(tmp_path, monkeypatch):
    with new_run(tmp_path / "run") as run:
        clock = iter(float(i) for i in range(1000))
        monkeypatch.setattr("actionless.runs.engine.time.perf_counter", lambda: next(clock))
        work(run, RandomWalk(silent=True))
    rates = [row["steps_per_second"] for row in read_rows(tmp_path / "run" / "timing.jsonl")]
    # Two dispatches of 5 steps, each a tick of the clock, and another tick for the checkpoint.
    assert rates == [5.0] + [pytest.approx(10 / 3)] * 5


def test_step_moves_often_while_metrics_come_rarely(capfd, monkeypatch):
    clock = iter(i / 100 for i in range(100_000))
    monkeypatch.setattr("actionless.runs.progress.time.monotonic", lambda: next(clock))
    display = ProgressDisplay("walk", 10_000, 0, ("eval/return",))
    for step in range(1, 3001):
        display.show(step, {"eval/return": float(step)} if step % 1500 == 0 else {})
    assert capfd.readouterr().err.splitlines() == [
        "walk 1/10000  starting",
        "walk 1001/10000  100/s, 0:01:30 left",
        "walk 2001/10000  100/s, 0:01:20 left  eval/return 1500",
    ]


def test_rate_is_that_of_the_last_minute(capfd, monkeypatch):
    times = iter(range(1000))
    monkeypatch.setattr("actionless.runs.progress.time.monotonic", lambda: float(next(times)))
    display = ProgressDisplay("walk", 100_000, 0, ())
    for step in [*range(0, 10_000, 100), *range(10_000, 10_101)]:
        display.show(step, {})
    assert capfd.readouterr().err.splitlines()[-1] == "walk 10100/100000  1.00/s, 24:58:20 left"


def test_rate_and_time_left_do_not_count_what_came_before_the_first_step(capfd, monkeypatch):
    times = iter([100.0, 120.0])
    monkeypatch.setattr("actionless.runs.progress.time.monotonic", lambda: next(times))
    display = ProgressDisplay("walk", 1000, 0, ("loss",))
    display.show(10, {"loss": 0.5})
    display.show(110, {})
    assert capfd.readouterr().err.splitlines() == [
        "walk 10/1000  starting  loss 0.5",
        "walk 110/1000  5.00/s, 0:02:58 left  loss 0.5",
    ]
