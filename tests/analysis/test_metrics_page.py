"""docs/metrics.md explains every figure that runs and `evaluate --json` have, and none that they do not have.

One real run of each verb says what the loops add; what each method and agent measures is known without training it.
"""

import json
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from linear_environment import LINEAR, labelled_log, planner

import actionless
from actionless import cli
from actionless.discretise import Discretiser
from actionless.guidance.guided_sac import GuidedSacConfig
from actionless.guidance.plans import PlanGuide
from actionless.offline import learner as offline
from actionless.offline.methods import METHODS
from actionless.online import agent as online
from actionless.online import agents
from actionless.online.labelled_log import LabelledLog
from actionless.online.replay import Replay
from actionless.training.batches import Preparation
from actionless.training.heldout import possible_names

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
VARIABLES = ("s0", "s1")
KEY = jax.random.key(0)


def documented(heading):
    """The keys in the first column of the tables below a heading of the page."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    (text,) = (section for section in sections if section.startswith(f"{heading}\n"))
    cells = re.findall(r"^\| (`[^|]+`) \|", text, flags=re.MULTILINE)
    return {key for cell in cells for key in re.findall(r"`([^`]+)`", cell)}


def keys_of_rows(path):
    return {key for line in path.read_text().splitlines() for key in json.loads(line)}


def of_updates(create, spec, config, batch):
    """The metrics of an update, without making one."""
    return set(jax.eval_shape(lambda batch: create(spec, config, KEY).update(batch, KEY)[1], batch))


def a_planners_guide():
    """A planner's guide that has observed steps."""
    guide = PlanGuide.create(planner(), 1.0)
    guide.reward(np.zeros(2), 0.0, np.ones(2), first=True)
    return guide


def nested(figures, lead=""):
    """The keys of an object as the page writes them: a.b for objects, a[].b for lists of them."""
    for key, value in figures.items():
        name = f"{lead}{'NAME' if key in VARIABLES else key}"
        if isinstance(value, dict):
            yield from nested(value, f"{name}.")
        elif isinstance(value, list) and isinstance(value[0], dict):
            yield from nested(value[0], f"{name}[].")
        else:
            yield name


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A pre-training run, its log beside it."""
    folder = tmp_path_factory.mktemp("runs")
    log = labelled_log()
    arrays = {"states": log.states, "next_states": log.next_states, "rewards": log.rewards, "actions": log.actions}
    np.savez(folder / "linear.npz", **arrays, terminals=log.ends)  # so that there are complete returns
    brief = {"scale": "smoke", "steps": 10, "log_every": 10, "evaluate_every": 10}
    actionless.pretrain(folder / "linear.npz", folder / "run", **brief)
    return folder / "run"


def test_pretraining(run):
    log = labelled_log()
    measured = keys_of_rows(run / "metrics.jsonl")
    for method in METHODS.values():
        config = method.config_at("smoke")
        preparation = Preparation.of(log, Discretiser.fit(log.states, log.next_states), config.declares.columns)
        batch = preparation.many_rows(np.arange(10)).on_device()
        measured |= of_updates(method.learner.create, offline.Spec(2, 3, 2), config, batch)
        measured |= set(possible_names(config.declares.shown))
    assert measured == documented("metrics.jsonl of pretrain")


def test_training_and_the_summary(run, tmp_path):
    # The agent that compiles fastest.
    brief = {"scale": "smoke", "steps": 40, "warm_up": 10, "batch_size": 8, "episodes": 1}
    brief |= {"log_every": 20, "evaluate_every": 20}
    actionless.train(LINEAR, tmp_path / "run", agent="decqn", guide=run, guidance="switch,potential,relabel", **brief)
    rows = keys_of_rows(tmp_path / "run" / "metrics.jsonl")
    measured = {re.sub(f"/({'|'.join(VARIABLES)})$", "/NAME", key) for key in rows}
    for agent in agents.AGENTS:
        spec = online.Spec(2, 2, 3 if agent == "decqn" else None)
        batch = Replay.create(8, spec).sample(np.zeros(8, np.int64), 1, 0.99)
        config = agents.preset(agent, "smoke")
        measured |= of_updates(agents.create_agent, spec, config, batch)
    spec = online.Spec(2, 2, None)
    batch = Replay.create(8, spec, PlanGuide.columns).sample(np.zeros(8, np.int64), 1, 0.99)
    measured |= of_updates(agents.create_agent, spec, GuidedSacConfig(hidden=(8,)), batch)
    measured |= set(a_planners_guide().metrics())
    # After 500 steps: tests/guidance/test_log_check.py sees them.
    measured |= {"potential/reward_correlation", "relabel/reward_correlation"}
    assert measured == documented("metrics.jsonl of train")
    summary = json.loads((tmp_path / "run" / "result.json").read_text()).keys()
    assert summary | keys_of_rows(tmp_path / "run" / "timing.jsonl") == documented("result.json")


def test_finetuning_beside_training():
    spec = online.Spec(2, 2, None)
    batch = Replay.create(8, spec, LabelledLog.columns).sample(np.zeros(8, np.int64), 1, 0.99)
    measured = set()
    for agent in agents.LABELLED:
        config = agents.labelled_preset(agent, "smoke")
        measured |= of_updates(agents.create_agent, spec, config, batch)
    with_another_meaning = {"step", "loss", "actor_loss"}
    new = measured - documented("metrics.jsonl of train")
    assert new | with_another_meaning == documented("metrics.jsonl of finetune")


def test_evaluation(run, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ACTIONLESS_CACHE", str(tmp_path))
    played = ["--env", LINEAR, "--labelled", str(run.parent / "linear.npz"), "--scale", "smoke", "--episodes", "1"]
    capsys.readouterr()
    assert cli.run(["evaluate", str(run), *played, "--json"]) == 0
    assert set(nested(json.loads(capsys.readouterr().out))) == documented("evaluate --json")
