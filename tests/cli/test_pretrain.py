"""`pretrain` and `resume` as users call them: killed, interrupted, several seeds, mistakes."""

import fcntl
import json
import random
import signal
import time

import numpy as np
import pytest
from complaints import complaint
from processes import assert_same_run, start, wait_for_rows

from actionless import cli
from actionless.runs.checkpoints import Checkpoints

STEPS = 3000
OPTIONS = ["--scale=smoke", f"--steps={STEPS}", "--log-every=20", "--evaluate-every=100", "--checkpoint-seconds=0"]


@pytest.fixture(scope="module")
def log_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "walk.npz"
    rows = np.random.default_rng(0).normal(size=(12, 31, 2)).cumsum(axis=1)
    last = np.tile(np.arange(30) == 29, 12)
    np.savez(
        path,
        states=rows[:, :-1].reshape(-1, 2),
        next_states=rows[:, 1:].reshape(-1, 2),
        rewards=np.exp(-np.square(rows[:, :-1, 0])).reshape(-1),
        terminals=np.zeros(360, bool),
        timeouts=last,
        actions=rows[:, 1:].reshape(-1, 2),
    )
    return path


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, log_file):
    """On one thread, as each of several seeds runs."""
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    process = start("pretrain", log_file, "--out", run, *OPTIONS, NPROC="1")
    said, _ = process.communicate()
    assert process.returncode == 0
    return run, said


def test_the_end_says_where_the_policy_is_and_what_it_is_worth(undisturbed):
    run, said = undisturbed
    final = json.loads((run / "result.json").read_text())["final"]
    assert said.startswith(f"{run / 'policy'}: held-out Δs accuracy {final['heldout/accuracy']:.4g}, ")
    assert f"Q mean {final['q/mean']:.4g}, discounted return of the log {final['q/data_return']:.4g}, " in said
    assert f" {STEPS:,} steps in " in said
    assert said.count("\n") == 1


def test_killed_and_interrupted_at_random_moments_ends_the_same(tmp_path, log_file, undisturbed):
    run, moments = tmp_path / "run", random.Random(0)
    begin = ["pretrain", log_file, "--out", run, *OPTIONS]
    for rows, stop, code in ((2, signal.SIGKILL, -9), (50, signal.SIGINT, 130)):
        process = start(*begin, NPROC="1")
        wait_for_rows(run, rows, process)
        time.sleep(moments.uniform(0, 0.05))
        process.send_signal(stop)
        _, said = process.communicate()
        assert process.returncode == code, said
        assert not (run / "result.json").exists()
        begin = ["resume", run]
    stopped_at = int(Checkpoints(run / "checkpoints").paths()[-1].name.removeprefix("step-"))
    assert f"stopped at step {stopped_at}; `actionless resume {run}` resumes it" in said
    assert "Traceback" not in said
    process = start("resume", run)  # on as many threads as run.json says, not as there are cores
    said, _ = process.communicate()
    assert process.returncode == 0
    assert said.startswith(f"{run / 'policy'}: held-out Δs accuracy ")
    assert_same_run(run, undisturbed[0], STEPS)


@pytest.mark.slow
def test_killed_on_two_threads_ends_the_same(tmp_path, log_file):
    """With matrix products large enough to be shared between the threads."""
    sizes = ["--method=bc-delta", "--steps=200", "--hidden=256,256", "--batch-size=256", "--log-every=20"]
    options = [*OPTIONS[:1], *sizes, "--evaluate-every=20", "--checkpoint-seconds=0"]
    for name in ("undisturbed", "killed"):
        process = start("pretrain", log_file, "--out", tmp_path / name, *options, NPROC="2")
        if name == "killed":
            wait_for_rows(tmp_path / name, 4, process)
            process.kill()
        process.communicate()
        assert process.returncode == (0 if name == "undisturbed" else -9)
    assert not (tmp_path / "killed" / "result.json").exists()
    process = start("resume", tmp_path / "killed", NPROC="1")  # what run.json says goes before
    _, said = process.communicate()
    assert process.returncode == 0, said
    assert_same_run(tmp_path / "killed", tmp_path / "undisturbed", 200)


def test_seeds_are_runs_of_their_own_and_are_resumed_together(tmp_path, log_file, undisturbed):
    run = tmp_path / "run"
    process = start("pretrain", log_file, "--out", run, "--seeds=2", *OPTIONS, NPROC="2", JAX_PLATFORMS="cpu")
    wait_for_rows(run / "seed-1", 2, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert f"stopped; `actionless resume {run}` resumes it" in said
    assert not (run / "result.json").exists()
    assert json.loads((run / "seed-1" / "run.json").read_text())["seed"] == 1
    process = start("resume", run, JAX_PLATFORMS="cpu")
    said, errors = process.communicate()
    assert process.returncode == 0, errors
    assert_same_run(run / "seed-0", undisturbed[0], STEPS)
    finals = [json.loads((run / f"seed-{seed}" / "result.json").read_text())["final"] for seed in (0, 1)]
    mean = json.loads((run / "result.json").read_text())["final"]
    assert finals[0]["loss"] != finals[1]["loss"]
    assert mean["loss"] == pytest.approx((finals[0]["loss"] + finals[1]["loss"]) / 2)
    assert [line.split(":")[0] for line in said.splitlines()] == [
        str(run / "seed-0" / "policy"),
        str(run / "seed-1" / "policy"),
        "mean of 2 seeds",
    ]


def test_seeds_stop_with_their_parent_and_are_resumed(tmp_path, log_file, undisturbed):
    """However the parent ends: no process is left behind that would hold the run or write into the next one."""
    run = tmp_path / "run"
    process = start("pretrain", log_file, "--out", run, "--seeds=2", *OPTIONS, NPROC="2", JAX_PLATFORMS="cpu")
    for seed in (0, 1):  # A process that is still starting holds no lock yet.
        wait_for_rows(run / f"seed-{seed}", 2, process)
    process.kill()
    process.communicate()
    patience = time.monotonic() + 60
    while any(is_held(run / f"seed-{seed}" / "lock") for seed in (0, 1)):
        assert time.monotonic() < patience
        time.sleep(0.1)
    process = start("resume", run, JAX_PLATFORMS="cpu")
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert_same_run(run / "seed-0", undisturbed[0], STEPS)


def is_held(lock):
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_existing_out_is_refused_before_the_data_is_read(capsys, tmp_path):
    said = complaint(capsys, "pretrain", "no-such-file.npz", "--out", tmp_path)
    assert f"{tmp_path} exists: `actionless resume {tmp_path}` resumes it, --overwrite replaces it" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--with-actions"], ["oso-decqn learns without actions: leave out --with-actions"]),
        (["--method=bc-action"], ["bc-action imitates actions: ask for them with --with-actions"]),
        (["--method=bc-delta", "--alpha=3"], ["alpha: not an option of bc-delta"]),
        (["--method=bc"], ["'bc'", "bc-delta"]),
        (["--seeds=0"], ["seeds=0: choose at least 1"]),
        (["--hidden=64,x"], ["--hidden", "'64,x' is not a list of whole numbers"]),
        (["--mask-terminals=maybe"], ["--mask-terminals", "'maybe' is neither true nor false"]),
        (["--alpa=3"], ["--alpa", "perhaps you meant --alpha"]),
    ],
)
def test_mistakes_are_one_line(capsys, tmp_path, arguments, words):
    said = complaint(capsys, "pretrain", "no-such-file.npz", "--out", tmp_path / "run", *arguments)
    for word in words:
        assert word in said


def test_threads_that_are_no_number(capsys, tmp_path, log_file, monkeypatch):
    monkeypatch.setenv("NPROC", "two")
    said = complaint(capsys, "pretrain", log_file, "--out", tmp_path / "run", "--scale=smoke")
    assert "NPROC=two: give the number of threads" in said
    assert not (tmp_path / "run").exists()


def test_bug_of_a_seed_is_a_bug(capsys, tmp_path, log_file, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho 'ZeroDivisionError: division by zero' >&2; exit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(script))
    run = tmp_path / "run"
    assert cli.run(["pretrain", str(log_file), "--out", str(run), "--scale=smoke", "--seeds=2"]) == 1
    said = capsys.readouterr().err
    assert f"{run}/seed-0: its process met a bug, see {run}/seed-0/output.txt (2 of 2 seeds failed)" in said


def test_exploding_rewards_exit_2_without_a_result(capsys, tmp_path):
    states = np.random.default_rng(0).normal(size=(40, 2))
    ends = np.arange(40) % 10 == 9
    np.savez(
        tmp_path / "log.npz",
        states=states,
        next_states=np.roll(states, -1, axis=0),
        rewards=np.full(40, 1e30),
        terminals=np.zeros(40, bool),
        timeouts=ends,
    )
    run = tmp_path / "run"
    assert cli.run(["pretrain", str(tmp_path / "log.npz"), "--out", str(run), "--scale=smoke"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"actionless: {run}: '")
    assert "between steps 1 and 10; no checkpoint was written before" in said
    assert not (run / "result.json").exists()


def test_only_a_run_can_be_resumed(capsys, tmp_path):
    assert "no run.json there, so it is not a run directory" in complaint(capsys, "resume", tmp_path)


def test_warnings_of_the_log_are_shown(capsys, caplog, tmp_path):
    states, next_states = np.random.default_rng(0).normal(size=(2, 20, 2))  # no row goes on from the one before
    terminals = np.zeros(20, bool)
    np.savez(tmp_path / "log.npz", states=states, next_states=next_states, rewards=np.zeros(20), terminals=terminals)
    run = tmp_path / "run"
    assert cli.run(["pretrain", str(tmp_path / "log.npz"), "--out", str(run), "--scale=smoke", "--steps=1"]) == 0
    assert f"{tmp_path / 'log.npz'}: 19 of 20 rows do not continue the row before" in caplog.text
    assert "held-out Δs accuracy" in capsys.readouterr().out
