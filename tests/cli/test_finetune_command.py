"""`finetune` as users call it: killed in both phases, and mistakes."""

import signal

import numpy as np
import pytest
from complaints import complaint
from processes import assert_same_run, starter, wait_for_rows

from actionless.online.environments import make

OPTIONS = ["--scale=smoke", "--offline-steps=200", "--steps=200", "--batch-size=32"]
OPTIONS += ["--log-every=20", "--evaluate-every=20", "--episodes=1", "--checkpoint-seconds=0"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A log of random actions in Hopper."""
    path, task, rng = tmp_path_factory.mktemp("data") / "hopper.npz", make("Hopper-v5"), np.random.default_rng(0)
    rows = {name: [] for name in ("states", "actions", "rewards", "next_states", "terminals")}
    for episode in range(10):
        state, over = task.reset(episode), False
        while not over:
            action = rng.uniform(-1, 1, 3).astype(np.float32)
            after = task.step(action)
            over = after.terminated
            for name, value in zip(rows, (state, action, after.reward, after.state, over), strict=True):
                rows[name].append(value)
            state = after.state
    np.savez(path, **{name: np.array(column) for name, column in rows.items()})
    return path


def test_killed_in_both_phases_ends_the_same(tmp_path, data, tmp_path_factory):
    start = starter(tmp_path_factory.mktemp("compiled"))
    process = start("finetune", "Hopper-v5", "--data", data, "--out", tmp_path / "undisturbed", *OPTIONS, NPROC="1")
    said, errors = process.communicate()
    assert process.returncode == 0, errors
    assert said.startswith(f"{tmp_path / 'undisturbed' / 'policy'}: evaluation return ")
    assert "400 steps in " in said
    run = tmp_path / "run"
    begin = ["finetune", "Hopper-v5", "--data", data, "--out", run, *OPTIONS]
    for rows in (4, 14):
        process = start(*begin, NPROC="1")
        wait_for_rows(run, rows, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not (run / "result.json").exists()
        begin = ["resume", run]
    process = start("resume", run)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert_same_run(run, tmp_path / "undisturbed", 400)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["Hopper-v55"], "did you mean 'Hopper-v5'"),
        (["CartPole-v1"], "needs continuous actions"),
        (["HalfCheetah-v5"], "hopper.npz: has 11 state variables, and 'HalfCheetah-v5' has 17"),
        (["Hopper-v5", "--method=sac"], "invalid choice"),
    ],
)
def test_mistakes(capsys, tmp_path, data, arguments, words):
    assert words in complaint(capsys, "finetune", *arguments, "--data", data, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
