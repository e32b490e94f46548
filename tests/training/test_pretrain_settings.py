"""What `pretrain` takes, what is refused before a run begins, and what a run records of it."""

import json
import subprocess
import sys

import numpy as np
import pytest

from actionless import ActionlessError
from actionless.offline.imitation import ImitationConfig
from actionless.offline.learner import LogFacts
from actionless.offline.oso_decqn import OsoDecqnConfig
from actionless.runs.directory import Manifest
from actionless.settings import to_json
from actionless.training.pretrain_settings import LoopSettings, pretrain_options, resolve, stored_settings

PLANT = LogFacts("plant", np.array([-50.0, 20.0, 3.0]))


@pytest.mark.parametrize(
    ("method", "given", "words"),
    [
        ("oso-decqn", {"bins": 5}, "bins=5 with spacing='epsilon'"),
        ("afdt", {"alpha": 1.0}, "alpha: not an option of afdt, which knows .*blocks, .*context, .*target_return, "),
        ("decqn", {"penalty_factor": 2.0}, "penalty_factor: not an option of decqn"),
        ("oso-decqn", {"alpa": 1.0}, "alpa: not an option of oso-decqn, which knows .*; did you mean alpha?"),
        ("oso-decqn", {"method": "decqn"}, "method: not an option of oso-decqn"),
        ("afdt", {"context": 0}, "context=0: choose at least 1"),
        ("afdt", {"target_return": float("nan")}, "target_return=nan: choose a finite number"),
        ("oso-decqn", {"epsilon": -1.0}, "epsilon=-1.0: choose"),
        ("oso-decqn", {"resident_gb": float("inf")}, "resident_gb=inf: choose a finite number"),
        ("oso-decqn", {"checkpoint_seconds": float("nan")}, "checkpoint_seconds=nan: choose"),
        ("oso-decqn", {"penalty_factor": 0.0}, "penalty_factor=0.0: choose a finite number above 0"),
        ("bc-delta", {"learner": OsoDecqnConfig()}, "learner: bc-delta takes ImitationConfig, not OsoDecqnConfig"),
        ("bc-delta", {"learner": ImitationConfig("action")}, "bc-delta needs target='delta', not 'action'"),
    ],
)
def test_what_cannot_work(method, given, words):
    with pytest.raises(ActionlessError, match=words):
        resolve(method, "cpu", given)


def test_parts_may_be_given_whole_and_changed():
    learner, loop = OsoDecqnConfig(hidden=(8,)), LoopSettings(log_every=10, evaluate_every=20)
    settings = resolve("oso-decqn", "smoke", {"learner": learner, "loop": loop, "alpha": 2.0, "held_out": 0.3})
    assert settings.learner == OsoDecqnConfig(hidden=(8,), alpha=2.0)
    assert settings.loop == LoopSettings(log_every=10, evaluate_every=20, held_out=0.3)


@pytest.mark.parametrize(
    ("scale", "given", "weight"),
    [
        ("cpu", {}, 40.0),
        ("cpu", {"alpha": 8.0}, 40.0),
        ("cpu", {"alpha": 3.0}, 15.0),
        ("cpu", {"alpha": 3.0, "penalty_factor": 1.0}, 3.0),
        ("smoke", {"alpha": 3.0}, 3.0),
        ("paper", {"alpha": 3.0}, 3.0),
    ],
)
def test_alpha_is_the_papers_at_every_scale(scale, given, weight):
    learner = resolve("oso-decqn", scale, given, PLANT).learner
    assert isinstance(learner, OsoDecqnConfig)
    assert learner.alpha == given.get("alpha", 8.0)
    assert learner.penalty_weight == weight


@pytest.mark.parametrize(
    ("log_name", "given", "expected"),
    [
        ("hopper_medium-v2", {}, (3600.0, 1000.0)),
        ("plant", {}, (20.0, 50.0)),
        ("plant", {"target_return": -7.0}, (-7.0, 50.0)),
    ],
)
def test_the_return_that_afdt_asks_for_and_what_it_is_divided_by(log_name, given, expected):
    learner = resolve("afdt", "cpu", given, LogFacts(log_name, PLANT.episode_returns)).learner
    assert (learner.target_return, learner.return_scale) == expected


def test_an_absent_sink_is_named_before_the_run_exists(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ActionlessError, match=r"pip install 'actionless\[wandb\]'"):
        resolve("oso-decqn", "cpu", {}, sinks=("wandb",))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("'bc_delta', 'cpu', {}", "method='bc_delta': choose 'oso-decqn', 'decqn', 'iql-delta', 'bc-delta'"),
        ("'oso-decqn', 'CPU', {}", "scale='CPU': choose 'smoke', 'cpu', 'paper'"),
        ("'oso-decqn', 'cpu', {'loss': 'MSE'}", "loss='MSE': choose 'mse', 'huber'"),
        ("'oso-decqn', 'cpu', {'target': 'max'}", "target='max': choose 'mean', 'min'"),
    ],
)
def test_what_python_does_not_check_is_checked(arguments, words):
    """In a process without the type checks that the tests turn on."""
    program = f"from actionless.training.pretrain_settings import resolve; resolve({arguments})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert words in done.stderr


@pytest.mark.parametrize("method", ["oso-decqn", "decqn", "bc-diff", "afdt"])
def test_run_json_gives_the_settings_back(method):
    settings = resolve(method, "smoke", {"steps": 7, "held_out": 0.2}, PLANT)
    stored = json.loads(json.dumps(to_json(settings)))
    assert stored_settings("run", Manifest("pretrain", stored, 0, {})) == settings


@pytest.mark.parametrize(
    ("method", "stored", "names"),
    [
        ("decqn", {"alpha": 0.0, "hidden": [8]}, {"alpha": 0.0, "penalty_factor": 1.0, "hidden": (8,)}),
        ("oso-decqn", {"alpha": 40.0}, {"penalty_weight": 40.0}),
        ("bc-next", {"target": "next_state", "hidden": [8, 8]}, {"target": "next_state", "hidden": (8, 8)}),
        ("afdt", {"context": 3, "most_gradient": 0.5}, {"context": 3, "max_grad_norm": 0.5}),
    ],
)
def test_run_json_of_version_0_1_0(method, stored, names):
    config = {**to_json(resolve(method, "cpu", {})), "learner": stored}
    learner = stored_settings("run", Manifest("pretrain", config, 0, {})).learner
    assert {name: getattr(learner, name) for name in names} == names


def test_every_setting_is_declared_with_a_help_text():
    for setting in pretrain_options():
        assert setting.help.endswith("."), setting.name
