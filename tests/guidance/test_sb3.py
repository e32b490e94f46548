"""Needs PyTorch: `make test-sb3` runs it in an environment of its own."""

import dataclasses
import io
import json
import runpy
import sys
import zipfile
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import NormalizeObservation, TimeLimit
from toy_guides import SMALL, SMALL_ALONE, UP_AND_DOWN, constant_policy, walk_log

import actionless
from actionless import ActionlessError, Fixed, GuideConfig, IdmConfig, PaperSchedule

pytest.importorskip("stable_baselines3", reason="`make test-sb3` has it")
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback
from stable_baselines3.common.logger import HumanOutputFormat, KVWriter, Logger
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from actionless.guidance.sb3 import GuideCallback

LENGTH, WARM_UP = 5, 6
LEARNT_IN_40 = 40 // SMALL.idm.every - WARM_UP // SMALL.idm.every
LOW, HIGH = np.array([-1, -3], np.float32), np.array([3, 1], np.float32)
STILL = GuideConfig(IdmConfig(hidden=(16, 16), every=10**6), bootstrap=False)
"""Never learns, so that its proposals can be asked for again."""


class Climb(gymnasium.Env):
    """s0 rises by 1 at every step and s1 stays, whatever is done: only a reset brings s0 down."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(LOW, HIGH)

    def __init__(self):
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(0, 0.5, 2)
        return self.state, {}

    def step(self, action):
        self.taken.append(action)
        self.state = self.state + np.array([1.0, 0.0])
        return self.state, float(-np.square(action).sum()), False, False, {}


class Push(Climb):
    """Moves as it is pushed."""

    def step(self, action):
        self.state = self.state + action
        return self.state, 0.0, False, False, {}


class Named(gymnasium.ObservationWrapper):
    """The same with a name for its state."""

    observation_space = spaces.Dict(state=Climb.observation_space)

    def observation(self, observation):
        return {"state": observation}


def climbs(count=1):
    return DummyVecEnv([lambda: TimeLimit(Climb(), LENGTH)] * count)


def model_of(kind=TD3, task=None, **options):
    options = {"learning_starts": WARM_UP, "batch_size": 8, "buffer_size": 1000, "seed": 3} | options
    return kind("MlpPolicy", climbs() if task is None else task, policy_kwargs={"net_arch": [8]}, **options)


def alone(schedule, config=SMALL_ALONE, **options):
    return GuideCallback(UP_AND_DOWN, schedule=schedule, config=config, **options)


def weights(model):
    return {name: tensor.numpy() for name, tensor in model.policy.state_dict().items()}


def same(a, b):
    return all(np.array_equal(a[name], b[name]) for name in a)


class Watch(BaseCallback):
    """A user's own callback: keeps the actions that it is shown."""

    def _on_training_start(self):
        self.seen = []

    def _on_step(self):
        self.seen.append(self.locals["buffer_actions"].copy())
        return True


class Stop(BaseCallback):
    """A user who presses Ctrl-C."""

    def _on_step(self):
        if self.num_timesteps == 20:
            raise KeyboardInterrupt
        return True


class Rows(KVWriter):
    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append(dict(key_values))


class TestActions:
    def test_the_guides_reach_task_and_replay_buffer(self):
        model, callback = (
            model_of(action_noise=NormalActionNoise(np.zeros(2), np.full(2, 0.5))),
            alone(Fixed(1.0), STILL),
        )
        model.learn(20, callback=callback)
        guide, buffer = callback.guide, model.replay_buffer
        proposals = [guide.propose(buffer.observations[step, 0], step) for step in range(WARM_UP, 20)]
        np.testing.assert_array_equal(buffer.actions[WARM_UP:20, 0], proposals)
        taken = np.array(model.get_env().envs[0].unwrapped.taken)
        np.testing.assert_allclose(taken[WARM_UP:], LOW + (np.array(proposals) + 1) / 2 * (HIGH - LOW), rtol=1e-6)

    def test_the_guide_is_silent_while_the_model_acts_at_random(self):
        guided = model_of().learn(20, callback=alone(Fixed(1.0)))
        plain = model_of().learn(20)
        differ = (guided.replay_buffer.actions[:20] != plain.replay_buffer.actions[:20]).any(axis=(1, 2))
        assert not differ[:WARM_UP].any()
        assert differ[WARM_UP:].all()

    def test_are_shown_to_callbacks_wherever_they_stand(self):
        model, before, after = model_of(), Watch(), Watch()
        model.learn(20, callback=[before, alone(Fixed(1.0)), after])
        stored = model.replay_buffer.actions[:20]
        np.testing.assert_array_equal(before.seen, stored)
        np.testing.assert_array_equal(after.seen, stored)

    def test_the_switch_decides_for_each_environment(self):
        model, callback = model_of(task=climbs(3)), alone(Fixed(0.5), STILL)
        model.learn(60, callback=callback)
        guide, buffer = callback.guide, model.replay_buffer
        for step in range(WARM_UP, 60):
            row = divmod(step, 3)
            proposal = guide.propose(buffer.observations[row], step)
            assert proposal is None or np.array_equal(proposal, buffer.actions[row])


@pytest.mark.parametrize("environments", [1, 3])
@pytest.mark.parametrize("normalised", [False, True])
class TestMemory:
    def test_is_of_the_tasks_own_states_to_the_end_of_each_episode(self, environments, normalised):
        task = climbs(environments)
        model = model_of(task=VecNormalize(task, clip_obs=1e6) if normalised else task)
        callback = alone(Fixed(0.5))
        model.learn(60, callback=callback)
        ring, buffer = callback.guide.state.ring, model.replay_buffer
        assert ring.stored == 60
        np.testing.assert_array_equal(ring.deltas[:60], [[2, 1]] * 60)  # s0 up, s1 same: never that of a reset
        states = buffer.observations[: 60 // environments].reshape(60, 2)
        np.testing.assert_array_equal(ring.states[:60], states.astype(np.float32))
        np.testing.assert_array_equal(ring.actions[:60], buffer.actions[: 60 // environments].reshape(60, 2))

    def test_counts_every_environment(self, environments, normalised):
        task = climbs(environments)
        model = model_of(task=VecNormalize(task, clip_obs=1e6) if normalised else task, learning_starts=0)
        callback, rows = alone(Fixed(1.0), STILL), Rows()
        model.set_logger(Logger(None, [rows]))
        model.learn(30, callback=callback, log_interval=1)
        first, rewards = rows.rows[0], -np.square(np.array([env.unwrapped.taken[:5] for env in task.envs])).sum(axis=2)
        assert first["guided_share"] == 1
        assert first["guide/realised/s0"] == 1  # up is proposed and happens
        assert first["guide/realised/s1"] == 0  # down is proposed and never happens
        assert first["guide/reward"] == pytest.approx(rewards.mean(), rel=1e-5)


def test_a_last_state_that_was_clipped_is_left_out():
    model, callback = model_of(task=VecNormalize(climbs(), clip_obs=0.5)), alone(Fixed(0.5))
    model.learn(40, callback=callback)
    ring = callback.guide.state.ring
    assert ring.stored == 40 - 40 // LENGTH
    np.testing.assert_array_equal(ring.deltas[: ring.stored], [[2, 1]] * ring.stored)


@pytest.mark.parametrize("kind", [TD3, SAC])
@pytest.mark.parametrize("environments", [1, 2])
def test_without_beta_nothing_changes(kind, environments):
    noise = NormalActionNoise(np.zeros(2), np.full(2, 0.1))
    found = []
    for callback in (None, alone(Fixed(0.0)), alone(lambda step: 0.0), alone(Fixed(0.5))):
        model = model_of(kind, climbs(environments), action_noise=noise)
        found.append(weights(model.learn(40, callback=callback)))
    plain, known, unknown, guided = found
    assert same(plain, known)
    assert same(plain, unknown)
    assert not same(plain, guided)


def test_learning_beside_a_model_takes_none_of_its_random_numbers():
    after = []
    for callback in (None, GuideCallback(UP_AND_DOWN, schedule=lambda step: 1e-12, log=walk_log(), config=SMALL)):
        model = model_of(SAC)
        model.learn(40, callback=callback)
        after.append(weights(model))
    assert callback.guide.state.counts.learnt == LEARNT_IN_40
    assert same(*after)


def test_the_guide_learns_what_actions_do():
    model, rows = model_of(SAC, TimeLimit(Push(), 100), gradient_steps=0, learning_starts=0), Rows()
    model.set_logger(Logger(None, [rows]))
    config = GuideConfig(IdmConfig(hidden=(32, 32), learning_rate=1e-2, batch_size=64, every=1), bootstrap=False)
    model.learn(300, callback=alone(Fixed(0.01), config), log_interval=1)
    assert rows.rows[-1]["idm/loss"] < 0.6 * rows.rows[0]["idm/loss"]


class TestTheLog:
    def test_has_the_models_own_actions(self):
        """With no transition but one, the loss on the log is the distance to what the model would do there."""
        model = model_of(learning_starts=0)
        log = walk_log()
        callback = GuideCallback(UP_AND_DOWN, log=log, schedule=Fixed(0.5), config=SMALL)
        model.learn(1, callback=callback)
        expected = model.policy.scale_action(model.predict(log.states, deterministic=True)[0])
        np.testing.assert_allclose(callback._best_actions(log.states), expected)
        assert callback.guide.log is log

    def test_is_normalised_for_a_model_that_knows_normalised_states(self):
        task = VecNormalize(climbs())
        model, callback = model_of(task=task), alone(Fixed(0.5))
        model.learn(30, callback=callback)
        states = walk_log().states
        seen = task.normalize_obs(states)
        expected = model.policy.scale_action(model.predict(seen, deterministic=True)[0])
        np.testing.assert_allclose(callback._best_actions(states), expected)
        assert not np.allclose(model.predict(states, deterministic=True)[0], model.predict(seen, deterministic=True)[0])

    def test_of_another_environment_gives_a_warning(self, caplog):
        walk = walk_log()
        far_away = dataclasses.replace(walk, states=walk.states + 1000, next_states=walk.next_states + 1000)
        for log in (far_away, walk):
            model_of().learn(1, callback=GuideCallback(UP_AND_DOWN, log=log, config=SMALL))
        (warning,) = caplog.messages  # none about the log that fits
        assert warning.startswith("walk.npz: this log may come from a different environment: the model's environment ")

    def test_is_asked_for_where_the_policy_does_not_say(self):
        with pytest.raises(ActionlessError, match="the state policy: does not say where its log is"):
            model_of().learn(10, callback=GuideCallback(UP_AND_DOWN))


class TestLogger:
    def test_gets_what_the_guide_reports(self):
        model, rows = model_of(learning_starts=LENGTH), Rows()
        model.set_logger(Logger(None, [rows]))
        model.learn(3 * LENGTH, callback=alone(PaperSchedule(1.0, 1.0, 10)), log_interval=1)
        assert [row["guided_share"] for row in rows.rows] == [0, 1, 0]
        assert [row["beta"] for row in rows.rows] == [1, 1, 0]
        assert "idm/loss" not in rows.rows[0]
        assert rows.rows[1]["idm/loss"] > 0

    def test_tables_survive_long_names(self):
        policy = constant_policy([0, 1, 0, 0, 1, 0], "utilities")
        names = tuple(f"temperature of the coolant behind the exchanger {i}" for i in range(2))
        policy = type(policy)(policy.model, policy.method, names)
        model, table = model_of(), io.StringIO()
        model.set_logger(Logger(None, [HumanOutputFormat(table)]))
        model.learn(30, callback=GuideCallback(policy, schedule=Fixed(1.0), config=SMALL_ALONE))
        assert "guided_share" in table.getvalue()
        assert "coolant" not in table.getvalue()


class TestSaving:
    def test_while_learning_and_after(self, tmp_path):
        model = model_of(SAC)
        saves = CheckpointCallback(20, str(tmp_path), save_replay_buffer=True)
        model.learn(40, callback=[alone(Fixed(0.5)), saves])
        model.save(tmp_path / "last")
        for name in ("rl_model_20_steps", "rl_model_40_steps", "last"):
            stored = json.loads(zipfile.ZipFile(tmp_path / f"{name}.zip").read("data"))
            assert "learning_starts" in stored
            assert not {"_sample_action", "_excluded_save_params"} & stored.keys()
        loaded = SAC.load(tmp_path / "last", climbs())
        assert same(weights(loaded), weights(model))
        loaded.load_replay_buffer(tmp_path / "rl_model_replay_buffer_40_steps")
        callback = alone(Fixed(1.0), STILL)
        loaded.learn(20, callback=callback, reset_num_timesteps=False)
        buffer = loaded.replay_buffer
        proposal = callback.guide.propose(buffer.observations[50, 0], 50)
        np.testing.assert_array_equal(buffer.actions[50, 0], proposal)

    def test_the_model_is_its_own_again(self):
        model = model_of()
        before = set(vars(model))
        model.learn(20, callback=alone(Fixed(0.5)))
        assert set(vars(model)) - before <= {"start_time", "_logger"}

    def test_after_ctrl_c(self, tmp_path):
        model, callback = model_of(), alone(Fixed(1.0))
        with pytest.raises(KeyboardInterrupt):
            model.learn(40, callback=[callback, Stop()])
        model.save(tmp_path / "stopped")
        assert same(weights(TD3.load(tmp_path / "stopped")), weights(model))
        steps = callback.guide.state.ring.stored
        plain = TD3.load(tmp_path / "stopped", climbs())
        for learner in (plain, model):
            learner.set_random_seed(7)
            learner.replay_buffer.reset()
            learner.learn(40)
        assert callback.guide.state.ring.stored == steps
        assert same(weights(plain), weights(model))  # no guide any more


def test_a_callback_goes_on_where_learning_does():
    model, callback = model_of(), alone(Fixed(0.5))
    model.learn(20, callback=callback)
    guide = callback.guide
    model.learn(20, callback=callback, reset_num_timesteps=False)
    assert callback.guide is guide
    assert guide.state.counts.learnt == LEARNT_IN_40
    model.learn(20, callback=callback)
    assert callback.guide is not guide


class TestRefusals:
    def refused(self, model, message, policy=UP_AND_DOWN):
        with pytest.raises(ActionlessError, match=message):
            model.learn(10, callback=GuideCallback(policy, config=SMALL_ALONE))

    def test_agents_that_learn_from_themselves(self):
        self.refused(PPO("MlpPolicy", climbs(), n_steps=8, batch_size=8), "PPO learns from what it did itself")

    def test_choices_as_actions(self):
        self.refused(DQN("MlpPolicy", "CartPole-v1"), r"actions are Discrete\(2\): a guide of DQN needs one vector")

    def test_observations_with_names(self):
        model = SAC("MultiInputPolicy", Named(Climb()))
        self.refused(model, r"observes Dict\('state'.*as one vector.*FlattenObservation")

    def test_a_policy_of_another_task(self):
        model = TD3("MlpPolicy", "Pendulum-v1")
        self.refused(model, r"the state policy: proposes changes of 2 variables \(s0, s1\), and the model observes 3")

    def test_states_that_are_hidden(self):
        self.refused(TD3("MlpPolicy", NormalizeObservation(Climb())), "hidden by NormalizeObservation")
        self.refused(model_of(task=VecNormalize(VecNormalize(climbs()))), "a second VecNormalize")


@pytest.fixture(scope="module")
def pendulum_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pendulum")
    actionless.record("Pendulum-v1", folder / "log.hdf5", level="random", steps=1000)
    actionless.pretrain(folder / "log.hdf5", folder / "run", method="bc-delta", scale="smoke", steps=200)
    return folder / "run"


@pytest.mark.parametrize("kind", [TD3, SAC])
def test_pendulum_with_and_without(kind, pendulum_run):
    options = {"learning_starts": 100, "batch_size": 32, "policy_kwargs": {"net_arch": [16, 16]}, "seed": 0}
    plain, guided = (kind("MlpPolicy", "Pendulum-v1", **options) for _ in range(2))
    rows = Rows()
    guided.set_logger(Logger(None, [rows]))
    config = GuideConfig(IdmConfig(hidden=(32, 32), batch_size=64))
    plain.learn(600)
    guided.learn(600, callback=GuideCallback(pendulum_run, schedule=Fixed(0.5), config=config), log_interval=1)
    assert plain._n_updates == guided._n_updates == 500
    assert not same(weights(plain), weights(guided))
    assert 0.35 < rows.rows[-1]["guided_share"] < 0.65
    assert {"idm/online_loss", "idm/offline_loss", "guide/reward", "train/actor_loss"} <= rows.rows[-1].keys()


def test_the_example(pendulum_run, monkeypatch, capsys):
    script = Path(__file__).parents[2] / "examples" / "sb3_guided.py"
    monkeypatch.setattr(
        sys, "argv", [str(script), "Pendulum-v1", str(pendulum_run), "--steps", "120", "--episodes", "1"]
    )
    runpy.run_path(str(script), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["alone", "return"], ["guided", "return"]]
