"""What is refused before a run begins."""

import subprocess
import sys

import numpy as np
import pytest

from actionless import ActionlessError
from actionless.training.options import LearnerOptions, LoopOptions, PretrainOptions, check_options, resolve


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (PretrainOptions(bins=5), "bins=5 with spacing='epsilon'"),
        (
            PretrainOptions(method="afdt", alpha=1.0),
            "alpha: not an option of afdt, which knows blocks, context, learning_rate, target_return, width$",
        ),
        (PretrainOptions(method="afdt", learner=LearnerOptions(context=0)), "context=0: choose at least 1"),
        (
            PretrainOptions(method="afdt", learner=LearnerOptions(target_return=float("nan"))),
            "target_return=nan: choose a finite number",
        ),
        (PretrainOptions(epsilon=-1.0), "epsilon=-1.0: choose"),
        (PretrainOptions(loop=LoopOptions(resident_gb=float("inf"))), "resident_gb=inf: choose a finite number"),
        (PretrainOptions(loop=LoopOptions(checkpoint_seconds=float("nan"))), "checkpoint_seconds=nan: choose"),
    ],
)
def test_what_cannot_work(options, words):
    with pytest.raises(ActionlessError, match=words):
        check_options(options)


@pytest.mark.parametrize(
    ("log_name", "asked", "expected"),
    [("hopper_medium-v2", None, (3600.0, 1000.0)), ("plant", None, (20.0, 50.0)), ("plant", -7.0, (-7.0, 50.0))],
)
def test_the_return_that_afdt_asks_for_and_what_it_is_divided_by(log_name, asked, expected):
    options = PretrainOptions(method="afdt", learner=LearnerOptions(target_return=asked))
    learner = resolve(options, log_name, episode_returns=np.array([-50.0, 20.0, 3.0])).learner
    assert (learner.target_return, learner.return_scale) == expected


def test_an_absent_sink_is_named_before_the_run_exists(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ActionlessError, match=r"pip install 'actionless\[wandb\]'"):
        resolve(PretrainOptions(), "log", ("wandb",))


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("PretrainOptions(method='bc_delta')", "method='bc_delta': choose 'oso-decqn', 'decqn', 'bc-delta'"),
        ("PretrainOptions(scale='CPU')", "scale='CPU': choose 'smoke', 'cpu', 'paper'"),
        ("PretrainOptions(learner=LearnerOptions(loss='MSE'))", "loss='MSE': choose 'mse', 'huber'"),
        ("PretrainOptions(learner=LearnerOptions(target='max'))", "target='max': choose 'mean', 'min'"),
    ],
)
def test_what_python_does_not_check_is_checked(program, words):
    """In a process without the type checks that the tests turn on."""
    imports = "from actionless.training.options import LearnerOptions, PretrainOptions, check_options"
    command = [sys.executable, "-c", f"{imports}; check_options({program})"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert words in done.stderr
