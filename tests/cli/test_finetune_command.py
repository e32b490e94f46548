"""`finetune` as users call it: killed in both phases, several seeds, and mistakes."""

import json
import signal

import pytest
from complaints import complaint
from hopper_log import write_random_log
from processes import assert_same_run, start, wait_for_rows

OPTIONS = ["--scale=smoke", "--offline-steps=200", "--steps=200", "--batch-size=32"]
OPTIONS += ["--log-every=20", "--evaluate-every=20", "--episodes=1", "--checkpoint-seconds=0"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A log of random actions in Hopper."""
    return write_random_log(tmp_path_factory.mktemp("data") / "hopper.npz", episodes=10)


def test_killed_in_both_phases_ends_the_same(tmp_path, data):
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


def test_seeds(tmp_path, data):
    run, brief = tmp_path / "run", ["--offline-steps=40", "--steps=40"]
    begin = ["finetune", "Hopper-v5", "--data", data, "--out", run, "--seeds=2", *OPTIONS, *brief]
    process = start(*begin, JAX_PLATFORMS="cpu")
    said, errors = process.communicate()
    assert process.returncode == 0, errors
    assert said.splitlines()[-1].startswith("mean of 2 seeds: evaluation return ")
    assert "80 steps each" in said
    summaries = [json.loads((run / f"seed-{seed}" / "result.json").read_text()) for seed in (0, 1)]
    assert [summary["steps"] for summary in summaries] == [80, 80]
    returns = [summary["final"]["eval/return"] for summary in summaries]
    assert returns[0] != returns[1]
    together = json.loads((run / "result.json").read_text())["final"]["eval/return"]
    assert together == pytest.approx(sum(returns) / 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["Hopper-v55"], "did you mean 'Hopper-v5'"),
        (["CartPole-v1"], "needs continuous actions"),
        (["HalfCheetah-v5"], "hopper.npz: has 11 state variables, and 'HalfCheetah-v5' has 17"),
        (["Hopper-v5", "--method=sac"], "invalid choice"),
        (["Hopper-v5", "--seeds=0"], "seeds=0: choose at least 1"),
    ],
)
def test_mistakes(capsys, tmp_path, data, arguments, words):
    assert words in complaint(capsys, "finetune", *arguments, "--data", data, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
