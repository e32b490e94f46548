"""`train` and `resume` as users call them, on real simulators: killed, interrupted, several seeds, mistakes."""

import json
import random
import signal
import time

import pytest
from complaints import complaint
from hopper_log import write_random_log
from processes import assert_same_run, start, wait_for_rows

from actionless import cli

STEPS = 400
OPTIONS = ["--scale=smoke", "--warm-up=100", "--log-every=20", "--episodes=1", "--checkpoint-seconds=0"]
OPTIONS += ["--evaluate-every=20", "--batch-size=32"]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """The run of a state policy for Hopper, from a log of random actions."""
    folder = tmp_path_factory.mktemp("policy")
    write_random_log(folder / "hopper.npz", episodes=20)
    pretrain = ["pretrain", folder / "hopper.npz", "--out", folder / "run", "--scale=smoke", "--steps=30"]
    assert cli.run([str(word) for word in pretrain]) == 0
    return folder / "run"


@pytest.mark.parametrize(
    ("task", "agent"), [("Hopper-v5", "td3"), pytest.param("dmc:cheetah-run", "decqn", marks=pytest.mark.slow)]
)
def test_killed_and_interrupted_at_random_moments_ends_the_same(tmp_path, policy, task, agent):
    options = [f"--agent={agent}", f"--steps={STEPS}", *OPTIONS]
    options += ["--guide", policy] if agent == "td3" else []
    process = start("train", task, "--out", tmp_path / "undisturbed", *options, NPROC="1")
    said, errors = process.communicate()
    assert process.returncode == 0, errors
    assert said.startswith(f"{tmp_path / 'undisturbed' / 'policy'}: evaluation return ")
    assert f"{STEPS} steps in " in said
    run, moments = tmp_path / "run", random.Random(0)
    begin = ["train", task, "--out", run, *options]
    for rows, stop, code in ((6, signal.SIGKILL, -9), (12, signal.SIGINT, 130)):
        process = start(*begin, NPROC="1")
        wait_for_rows(run, rows, process)
        time.sleep(moments.uniform(0, 0.05))
        process.send_signal(stop)
        _, errors = process.communicate()
        assert process.returncode == code, errors
        assert not (run / "result.json").exists()
        begin = ["resume", run]
    assert "Traceback" not in errors
    process = start("resume", run)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "cannot be restored" not in errors
    assert_same_run(run, tmp_path / "undisturbed", STEPS)


def test_seeds(tmp_path):
    run = tmp_path / "run"
    process = start("train", "Hopper-v5", "--out", run, "--seeds=2", "--steps=120", *OPTIONS, JAX_PLATFORMS="cpu")
    said, errors = process.communicate()
    assert process.returncode == 0, errors
    finals = [json.loads((run / f"seed-{seed}" / "result.json").read_text())["final"] for seed in (0, 1)]
    assert finals[0]["eval/return"] != finals[1]["eval/return"]
    assert said.splitlines()[-1].startswith("mean of 2 seeds: evaluation return ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["Hopper-v55"], "did you mean 'Hopper-v5'"),
        (["CartPole-v1"], "use an agent for discrete actions (train --agent decqn)"),
        (["Hopper-v5", "--beta=0.5"], "beta: guidance options require --guide"),
        (["Hopper-v5", "--guide=nowhere"], "nowhere: no saved policy here"),
        (["Hopper-v5", "--agent=decqn", "--exploration-noise=0.2"], "exploration_noise: not an option of decqn"),
        (["Hopper-v5", "--seeds=0"], "seeds=0: choose at least 1"),
        (["HalfCheetah-v5", "--guide"], "proposes changes of 11 variables, and HalfCheetah-v5 has 17"),
    ],
)
def test_mistakes(capsys, tmp_path, policy, arguments, words):
    arguments = [*arguments, policy] if arguments[-1] == "--guide" else arguments
    assert words in complaint(capsys, "train", *arguments, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
