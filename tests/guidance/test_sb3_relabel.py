"""Rows of a log in the samples of Stable-Baselines3, and the potential beside its agents: `make test-sb3` runs it."""

import dataclasses
import pickle
import runpy
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from toy_guides import SMALL_ALONE, constant_policy, walk_log

import actionless
from actionless import ActionlessError, Fixed, GuideConfig, IdmConfig, PotentialReward
from actionless.data.log import Source
from actionless.guidance.relabel import RelabelSettings

pytest.importorskip("stable_baselines3", reason="`make test-sb3` has it")
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from actionless.guidance.sb3 import GuideCallback, RelabelBuffer

LOW, HIGH = np.array([-1, -3], np.float32), np.array([3, 1], np.float32)
ROWS = 64
RIGHT_IS_GOOD = constant_policy([0, 1, 0, 0, 1, 0], "utilities")
EAGER = RelabelSettings(agreement=1e9, models=2, inverse=IdmConfig((64, 64), learning_rate=3e-3, every=1))


class Push(gymnasium.Env):
    """Moves by a tenth of the action and a little further; pays for the first variable."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(LOW, HIGH)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1, 1, 2)
        return self.state, {}

    def step(self, action):
        self.state = self.state + 0.1 * action + 0.05
        return self.state, float(self.state[0]), False, False, {}


class Choose(Push):
    """The same with three choices."""

    action_space = spaces.Discrete(3)

    def step(self, action):
        return super().step(np.array([action - 1.0, 1.0 - action]))


def push_log(rows=400, seed=0):
    """Steps of Push with actions that are returned beside them, scaled to [-1, 1]."""
    rng = np.random.default_rng(seed)
    states, scaled = rng.uniform(-1, 1, (rows, 2)), rng.uniform(-1, 1, (rows, 2))
    next_states = states + 0.1 * (LOW + (scaled + 1) / 2 * (HIGH - LOW)) + 0.05
    log = dataclasses.replace(
        walk_log(rows=rows),
        states=states,
        next_states=next_states,
        rewards=next_states[:, 0].copy(),
        terminals=np.arange(rows) % 10 == 0,
        source=Source("push.npz", "npz", ("states",)),
    )
    return log, scaled


def task(limit=20):
    return TimeLimit(Push(), limit)


def model_of(kind, env, guide, log, settings=EAGER, **options):
    options = {"learning_starts": 20, "batch_size": ROWS, "buffer_size": 5000, "seed": 3} | options
    kwargs = {"guide": guide, "log": log, "settings": settings}
    network = {"net_arch": [8]}
    return kind(
        "MlpPolicy",
        env,
        policy_kwargs=network,
        replay_buffer_class=RelabelBuffer,
        replay_buffer_kwargs=kwargs,
        **options,
    )


def arrays(sample):
    return [tensor.numpy() for tensor in sample[:5]]


def places_of(log, states):
    """The rows of the log that these states are of."""
    distances = np.abs(states[:, None] - log.states[None]).max(axis=2)
    assert (distances.min(axis=1) < 1e-5).all()
    return distances.argmin(axis=1)


class TestSamples:
    def test_half_are_rows_of_the_log_with_their_actions(self):
        log, scaled = push_log()
        model = model_of(SAC, task(), RIGHT_IS_GOOD, log)
        model.learn(900)
        states, actions, next_states, dones, rewards = arrays(model.replay_buffer.sample(ROWS))
        theirs = places_of(log, states[: ROWS // 2])
        np.testing.assert_allclose(next_states[: ROWS // 2], log.next_states[theirs], atol=1e-5)
        np.testing.assert_allclose(rewards[: ROWS // 2, 0], log.rewards[theirs], atol=1e-5)
        np.testing.assert_array_equal(dones[: ROWS // 2, 0], log.terminals[theirs])
        assert np.abs(actions[: ROWS // 2] - scaled[theirs]).mean() < 0.15
        assert (np.abs(states[ROWS // 2 :, None] - log.states[None]).max(axis=2).min(axis=1) > 1e-5).any()

    def test_have_the_units_and_rewards_of_a_wrapped_environment(self):
        log, _ = push_log()
        env = PotentialReward(task(), RIGHT_IS_GOOD, discount=0.9)
        model = model_of(SAC, env, env, log, gamma=0.9)
        model.learn(90)
        states, _, next_states, dones, rewards = arrays(model.replay_buffer.sample(ROWS))
        count = ROWS // 2
        theirs = places_of(log, env.shaping.unseen(states[:count]))
        potential = env.shaping.potential
        before, after = potential(log.states[theirs]), potential(log.next_states[theirs])
        going_on = 1 - dones[:count, 0]
        expected = log.rewards[theirs] + 0.9 * going_on * after - before
        np.testing.assert_allclose(rewards[:count, 0], expected, atol=1e-4)
        np.testing.assert_allclose(next_states[:count], env.shaping.seen(log.next_states[theirs]), atol=1e-5)

    def test_are_normalised_as_the_models_own(self):
        log, _ = push_log()
        env = VecNormalize(DummyVecEnv([task] * 2))
        model = model_of(TD3, env, RIGHT_IS_GOOD, log)
        model.learn(120)
        states = arrays(model.replay_buffer.sample(ROWS, env=env))[0]
        assert len(places_of(log, env.unnormalize_obs(states[: ROWS // 2]))) == ROWS // 2

    def test_without_a_share_nothing_changes(self):
        log, _ = push_log()
        none = dataclasses.replace(EAGER, share=0.0)
        related = model_of(SAC, task(), RIGHT_IS_GOOD, log, none).learn(60)
        plain = SAC("MlpPolicy", task(), learning_starts=20, batch_size=ROWS, seed=3, policy_kwargs={"net_arch": [8]})
        plain.learn(60)
        ours, theirs = related.policy.state_dict(), plain.policy.state_dict()
        assert all((ours[name] == theirs[name]).all() for name in ours)

    def test_choices_are_recovered(self):
        log, _ = push_log()
        model = model_of(DQN, TimeLimit(Choose(), 20), RIGHT_IS_GOOD, log)
        model.learn(60)
        assert set(np.unique(arrays(model.replay_buffer.sample(ROWS))[1])) <= {0, 1, 2}

    def test_a_buffer_is_saved_and_loaded(self, tmp_path):
        log, _ = push_log()
        model = model_of(SAC, task(), RIGHT_IS_GOOD, log)
        model.learn(60)
        model.save_replay_buffer(tmp_path / "buffer")
        model.load_replay_buffer(tmp_path / "buffer")
        assert (
            model.replay_buffer.relabel.state.learnt
            == pickle.loads(pickle.dumps(model.replay_buffer)).relabel.state.learnt
        )
        model.learn(20, reset_num_timesteps=False)


def test_metrics_say_how_well_actions_are_recovered():
    log, _ = push_log()
    model = model_of(SAC, task(), RIGHT_IS_GOOD, log)
    model.learn(900)
    metrics = model.replay_buffer.relabel.metrics()
    assert metrics["relabel/error"] < 0.15
    assert 0.4 < metrics["relabel/used"] <= 0.5


def test_the_switch_sees_the_environments_own_states_within_a_potential():
    env = PotentialReward(task(), RIGHT_IS_GOOD)
    model = SAC("MlpPolicy", env, learning_starts=5, batch_size=8, seed=0, policy_kwargs={"net_arch": [8]})
    callback = GuideCallback(RIGHT_IS_GOOD, schedule=Fixed(0.5), config=SMALL_ALONE)
    model.learn(60, callback=callback)
    ring = callback.guide.state.ring
    normaliser = RIGHT_IS_GOOD.model.discretiser.normaliser
    own = env.shaping.unseen(model.replay_buffer.observations[:60, 0])
    np.testing.assert_allclose(ring.states[: ring.stored], normaliser.normalise(own)[: ring.stored], atol=1e-4)
    states = push_log()[0].states
    expected = model.policy.scale_action(model.predict(env.shaping.seen(states), deterministic=True)[0])
    np.testing.assert_allclose(callback._best_actions(states), expected, atol=1e-6)


class Returns(BaseCallback):
    """Keeps the true return of each episode."""

    def _on_training_start(self):
        self.seen = []

    def _on_step(self):
        self.seen += [info["true_return"] for info in self.locals["infos"] if "true_return" in info]
        return True


@pytest.mark.parametrize("kind", [TD3, SAC, PPO])
def test_the_potential_with_real_agents(kind, point_run):
    """True returns are in the agent's own statistics, where Monitor stands within."""
    env = PotentialReward(Monitor(gymnasium.make("point_task:Point-v0")), point_run)
    sizes = {"n_steps": 64, "batch_size": 32} if kind is PPO else {"learning_starts": 100, "batch_size": 32}
    model, returns = kind("MlpPolicy", env, seed=0, policy_kwargs={"net_arch": [16, 16]}, **sizes), Returns()
    model.learn(400, callback=returns)
    assert len(returns.seen) > 3
    np.testing.assert_allclose([episode["r"] for episode in model.ep_info_buffer], returns.seen, atol=1e-4)


@pytest.mark.parametrize("kind", [TD3, SAC])
def test_all_three_together(kind, point_run):
    env = PotentialReward(gymnasium.make("point_task:Point-v0"), point_run)
    kwargs = {"guide": env, "settings": dataclasses.replace(EAGER, models=2)}
    model = kind(
        "MlpPolicy",
        env,
        learning_starts=100,
        batch_size=32,
        seed=0,
        policy_kwargs={"net_arch": [16, 16]},
        replay_buffer_class=RelabelBuffer,
        replay_buffer_kwargs=kwargs,
    )
    config = GuideConfig(IdmConfig(hidden=(32, 32), batch_size=64))
    model.learn(400, callback=GuideCallback(point_run, schedule=Fixed(0.3), config=config))
    assert model.replay_buffer.relabel.metrics()["relabel/used"] > 0.2


@pytest.fixture(scope="module")
def point_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("point")
    actionless.record("point_task:Point-v0", folder / "log.hdf5", level="random", steps=1000)
    actionless.pretrain(folder / "log.hdf5", folder / "run", method="iql-delta", scale="smoke", steps=200)
    return folder / "run"


@pytest.mark.parametrize("guided", [True, False])
def test_the_example_in_one_file(guided, point_run, monkeypatch, capsys):
    script = Path(__file__).parents[2] / "examples" / "single_file_td3.py"
    words = [str(script), "point_task:Point-v0", *([str(point_run)] if guided else []), "--steps", "1100"]
    monkeypatch.setattr(sys, "argv", words)
    runpy.run_path(str(script), run_name="__main__")
    steps = [int(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
    assert steps[-1] > 1000


class TestRefusals:
    def test_a_log_of_another_task(self):
        with pytest.raises(ActionlessError, match=r"its log has 2 variables, and the model observes Box.*pre-train"):
            model_of(SAC, gymnasium.make("Pendulum-v1"), RIGHT_IS_GOOD, push_log()[0])

    def test_a_policy_that_does_not_say_where_its_log_is(self):
        with pytest.raises(ActionlessError, match="does not say where its log is"):
            model_of(SAC, task(), RIGHT_IS_GOOD, None)
