"""What is refused before a run begins."""

import subprocess
import sys

import pytest

from actionless import ActionlessError
from actionless.training.options import LoopOptions, PretrainOptions, check_options, resolve


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (PretrainOptions(bins=5), "bins=5 with spacing='epsilon'"),
        (PretrainOptions(epsilon=-1.0), "epsilon=-1.0: choose"),
        (PretrainOptions(loop=LoopOptions(resident_gb=float("inf"))), "resident_gb=inf: choose a finite number"),
        (PretrainOptions(loop=LoopOptions(checkpoint_seconds=float("nan"))), "checkpoint_seconds=nan: choose"),
    ],
)
def test_what_cannot_work(options, words):
    with pytest.raises(ActionlessError, match=words):
        check_options(options)


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
