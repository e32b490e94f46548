"""A learner from outside the package: its own file, one entry in the table of methods, nothing else."""

import json
import os
import signal
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import actionless
from actionless.analysis.diagnostics import diagnose_run
from actionless.data.log import Log, Source, default_state_names
from actionless.errors import ActionlessError
from actionless.networks import Ensemble
from actionless.offline.learner import Declaration, LearnerConfig, OfflineLearner, Spec, by_bin
from actionless.offline.methods import METHODS, Method, Size
from actionless.offline.state_policy import PolicyModel, StatePolicy
from actionless.optimise import Adam
from actionless.runs.sinks import read_rows
from actionless.settings import Positive
from actionless.training.offline import OfflineLoop


def rewards_squared(log: Log) -> np.ndarray:
    return np.square(log.rewards).astype(np.float32)


@dataclass(frozen=True)
class ToyConfig(LearnerConfig, kind="test-toy"):
    temper: Positive = 1.0
    """How strongly steps with large rewards count."""
    best_reward: float = 0.0
    """The largest return of the log."""

    set_by_log = ("best_reward",)

    @property
    def declares(self):
        return Declaration(
            columns={"squared": rewards_squared},
            window=2,
            score="surprise",
            lower_is_better=True,
            shown=("surprise",),
        )

    def for_log(self, log):
        return ToyConfig(temper=self.temper, best_reward=float(log.episode_returns.max()))

    def watch(self, returns):
        assert returns is None
        return lambda step, metrics: LOOKED.append((step, "loss" in metrics))


LOOKED = []
"""What the learner's watch has seen."""


class Toy(OfflineLearner):
    network: Ensemble
    optimiser: Adam
    spec: Spec = eqx.field(static=True)
    config: ToyConfig = eqx.field(static=True)

    @classmethod
    def create(cls, spec, config, key):
        network = Ensemble.create(1, (spec.state_dim, spec.state_dim * spec.bins), key)
        return cls(network, Adam.create(network, 1e-2), spec, config)

    def surprise(self, network, batch):
        logits = by_bin(network(batch.states), self.spec)
        normalised = logits - jnp.log(jnp.exp(logits).sum(axis=2, keepdims=True))
        happened = batch.deltas[:, None] == jnp.arange(self.spec.bins, dtype=batch.deltas.dtype)[None, :, None]
        return -(normalised[0] * happened.astype(logits.dtype)).sum(axis=1).mean(axis=1)

    def update(self, batch, key):
        def loss(network):
            weights = jnp.exp(-self.config.temper * batch.extra["squared"])
            return (weights * self.surprise(network, batch)).mean()

        value, gradient = eqx.filter_value_and_grad(loss)(self.network)
        network, optimiser = self.optimiser.step(self.network, gradient)
        return Toy(network, optimiser, self.spec, self.config), {"loss": value}

    def measure(self, data, discretiser, returns):
        assert len(data.states) % self.config.declares.window == 0
        return {"surprise": float(self.surprise(self.network, data).mean()), "toy/figure": 2.0}

    def policy(self, discretiser, label):
        return StatePolicy.of(PolicyModel(self.network, discretiser, "logits", 1.0), label)


TOY = Method(Toy, ToyConfig(), {"smoke": Size(40, 8), "cpu": Size(80, 8, {"temper": 3.0})}, about="a toy")


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    monkeypatch.setitem(METHODS, "toy", TOY)
    LOOKED.clear()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "walk.npz"
    walks = np.random.default_rng(0).normal(size=(8, 21, 2)).cumsum(axis=1)
    ends = np.tile(np.arange(20) == 19, 8)
    states, next_states = walks[:, :-1].reshape(-1, 2), walks[:, 1:].reshape(-1, 2)
    np.savez(
        path,
        states=states,
        next_states=next_states,
        rewards=np.exp(-np.square(states[:, 0])),
        terminals=np.zeros(160, bool),
        timeouts=ends,
    )
    return path


BRIEF = {"method": "toy", "scale": "smoke", "log_every": 10, "evaluate_every": 20, "checkpoint_seconds": 0.0}


def test_it_learns_with_its_own_setting_and_is_measured_in_its_own_way(tmp_path, data):
    policy = actionless.pretrain(data, tmp_path / "run", temper=2.0, **BRIEF)
    assert isinstance(policy, StatePolicy) and policy.method == "toy"
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    best = float(actionless.read(data).episode_returns.max())
    assert stored["learner"] == {"kind": "test-toy", "temper": 2.0, "best_reward": best}
    assert (stored["steps"], stored["batch_size"]) == (40, 8)
    rows = list(read_rows(tmp_path / "run" / "metrics.jsonl"))
    assert [row["step"] for row in rows] == [10, 20, 30, 40]
    assert rows[-1].keys() == {"step", "loss", "heldout/surprise", "toy/figure"}
    assert rows[-1]["heldout/surprise"] < rows[0]["heldout/surprise"]
    assert [(step, True) for step in (10, 20, 30, 40)] == LOOKED
    best = [path.name for path in (tmp_path / "run" / "checkpoints").iterdir() if path.is_dir()]
    assert "step-000000000040" in best


def test_its_policy_is_evaluated_and_proposes(tmp_path, data):
    actionless.pretrain(data, tmp_path / "run", **BRIEF)
    policy = StatePolicy.load(tmp_path / "run")
    assert policy.propose(np.zeros((3, 2))).shape == (3, 2)
    assert 0 <= diagnose_run(tmp_path / "run").to_dict()["delta_accuracy"] <= 1


def test_it_is_resumed(tmp_path, data, monkeypatch):
    actionless.pretrain(data, tmp_path / "undisturbed", **BRIEF)
    advance = OfflineLoop.advance

    def interrupted(loop, state, start):
        ahead = advance(loop, state, start)
        if start < 20 <= ahead.step:
            os.kill(os.getpid(), signal.SIGINT)
        return ahead

    with monkeypatch.context() as patched:
        patched.setattr(OfflineLoop, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            actionless.pretrain(data, tmp_path / "run", **BRIEF)
    actionless.resume(tmp_path / "run")
    for file in ("metrics.jsonl", "policy/policy.safetensors"):
        assert (tmp_path / "run" / file).read_bytes() == (tmp_path / "undisturbed" / file).read_bytes()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "toy", "temper": 0.0}, r"temper=0\.0: choose a finite number above 0"),
        ({"method": "toy", "alpha": 1.0}, r"alpha: not an option of toy, which knows .*temper"),
        ({"method": "bc-delta", "temper": 1.0}, r"temper: not an option of bc-delta"),
        ({"method": "toy", "scale": "paper"}, r"scale='paper': choose 'smoke', 'cpu'"),
    ],
)
def test_its_settings_are_checked_as_all_are(tmp_path, data, settings, words):
    with pytest.raises(ActionlessError, match=words):
        actionless.pretrain(data, tmp_path / "run", **settings)


def test_a_log_from_memory_and_a_whole_config(tmp_path):
    states = np.random.default_rng(0).normal(size=(31, 2))
    log = Log(
        states=states[:-1],
        rewards=np.ones(30),
        next_states=states[1:],
        terminals=np.zeros(30, bool),
        ends=np.arange(30) % 10 == 9,
        state_names=default_state_names(2),
        source=Source("here", "npz", ("states",)),
    )
    actionless.pretrain(log, tmp_path / "run", learner=ToyConfig(temper=5.0), **BRIEF)
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["config"]["learner"]
    assert stored["temper"] == 5.0
