"""Run directories of version 0.1.0 resume and load; tests/fixtures/old_runs/make.py made them."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import point_task  # noqa: F401 (the environment of these runs)
import pytest

import actionless
from actionless.old_runs import upgraded_config, upgraded_policy
from actionless.runs.sinks import read_rows

OLD = Path(__file__).parent.parent / "fixtures" / "old_runs"
EXPECTED = json.loads((OLD / "expected.json").read_text())


@pytest.fixture
def old(tmp_path):
    """A copy whose paths are those of this machine."""
    shutil.copytree(OLD, tmp_path / "old")
    for file in (tmp_path / "old").rglob("*.json"):
        file.write_text(file.read_text().replace("@HERE@", str(tmp_path / "old")))
    return tmp_path / "old"


@pytest.mark.parametrize("name", ["pretrain", "train", "plans", "finetune"])
def test_a_run_that_was_stopped_ends_as_if_it_never_had_been(old, name):
    actionless.resume(old / name)
    rows, expected = list(read_rows(old / name / "metrics.jsonl")), EXPECTED[name]["metrics"]
    assert [row.keys() for row in rows] == [row.keys() for row in expected]
    # Not bit by bit: version 0.1.0 had an Adam of its own, which rounds otherwise than Optax's.
    for row, wanted in zip(rows, expected, strict=True):
        assert row == pytest.approx(wanted, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(("name", "kind"), [("finished-pretrain", "StatePolicy"), ("finished-plans", "Planner")])
def test_what_a_finished_run_learnt_is_loaded(old, name, kind, caplog):
    policy = getattr(actionless, kind).load(old / name)
    again = actionless.resume(old / name)
    assert "is finished already" in caplog.text
    assert type(again) is type(policy)
    assert weights_of(old / name) == EXPECTED[name]["weights"]
    states = np.zeros((1, 2))
    said = policy.plan(states) if kind == "Planner" else policy.propose(states)
    assert np.isfinite(said).all()


def weights_of(run: Path) -> str:
    return hashlib.sha256((run / "policy" / "policy.safetensors").read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("kind", "without"),
    [
        ("oso-decqn", {"support": False}),
        ("imitation", {"average_rate": 0.0}),
        ("iql-delta", {"average_rate": 0.0, "at_once": None}),
    ],
)
def test_runs_from_before_a_part_go_on_without_it(kind, without):
    learner = upgraded_config("pretrain", {"learner": {"kind": kind, "hidden": [8]}})["learner"]
    assert {name: learner[name] for name in without} == without
    own = {"kind": kind, "hidden": [8], "support": True, "average_rate": 0.5}
    assert upgraded_config("pretrain", {"learner": own})["learner"] == {**learner, **own}


IDM = {"hidden": [8], "learning_rate": 0.1, "batch_size": 4, "every": 2}


@pytest.mark.parametrize(
    ("guidance", "upgraded"),
    [
        (None, (None, [])),
        (
            {"policy": "/p", "schedule": {"kind": "fixed", "beta": 0.3}, "idm": {**IDM, "bootstrap": False}},
            ("/p", [{"bootstrap": False, "beta": 0.3, "schedule": None}]),
        ),
        (
            {"policy": "/p", "schedule": {"kind": "paper", "interval": 7}, "idm": {**IDM, "bootstrap": True}},
            ("/p", [{"bootstrap": True, "beta": None, "schedule": {"kind": "paper", "interval": 7}}]),
        ),
        (
            {"policy": "/p", "schedule": None, "idm": {**IDM, "bootstrap": True}},
            ("/p", [{"bootstrap": True, "beta": None, "schedule": {"kind": "python", "name": "function"}}]),
        ),
    ],
)
def test_guidance_without_a_kind_was_the_switch(guidance, upgraded):
    config = {"learner": {"hidden": [8]}, "guidance": guidance}
    guide, parts = upgraded
    parts = [{"kind": "switch", "normalise": False, "idm": IDM, "capacity": 1_000_000, **part} for part in parts]
    assert upgraded_config("train", config) == {"learner": {"hidden": [8]}, "guide": guide, "guidance": parts}
    assert config["guidance"] == guidance
    again = upgraded_config("train", config)
    assert upgraded_config("train", again) == again


def test_the_weight_of_plans_stood_with_the_agent():
    config = {"learner": {"hidden": [8], "guide_weight": 2.0}, "guidance": {"policy": "/p", "target_return": 5.0}}
    assert upgraded_config("train", config) == {
        "learner": {"hidden": [8]},
        "guide": "/p",
        "guidance": [{"kind": "plans", "target_return": 5.0, "guide_weight": 2.0}],
    }
    policy = {"kind": "agent", "method": "sac", "config": {"hidden": [8], "guide_weight": 2.0}}
    assert upgraded_policy(policy) == {**policy, "config": {"kind": "sac", "hidden": [8]}}


def test_another_verb_is_left_as_it_is():
    assert upgraded_config("evaluate", {"guidance": None}) == {"guidance": None}
