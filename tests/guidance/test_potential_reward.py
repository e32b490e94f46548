"""The wrapper for every library: what Gymnasium expects, and that shaped returns telescope."""

import dataclasses
import warnings

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from test_potential import linear, values  # noqa: F401

import actionless
from actionless import PotentialReward
from actionless.errors import ActionlessError
from actionless.guidance.potential import Potential
from actionless.guidance.potential_reward import VectorPotentialReward
from actionless.networks import Ensemble
from actionless.offline.state_policy import StatePolicy
from actionless.offline.support import SupportLearner

TASK = "point_task:Point-v0"
DISCOUNT = 0.9


class Walk(gymnasium.Env):
    """Moves by its action; ends beyond 1, and is cut off after `limit` steps."""

    observation_space = gymnasium.spaces.Box(-5, 5, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def __init__(self, limit=100):
        self.limit = limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = np.array([0.1], np.float32), 0
        return self.place, {}

    def step(self, action):
        self.place = self.place + np.float32(action[0])
        self.steps += 1
        return self.place, float(self.steps), bool(self.place[0] > 1), self.steps >= self.limit, {"theirs": 1}


def test_gymnasiums_checker(values):  # noqa: F811
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(PotentialReward(gymnasium.make(TASK).unwrapped, values), skip_render_check=True)


def episode(env, moves):
    rewards, infos = [], []
    env.reset(seed=0)
    for move in moves:
        _, reward, terminated, truncated, info = env.step(np.array([move], np.float32))
        rewards.append(reward)
        infos.append(info)
    return np.array(rewards), infos, terminated, truncated


def test_shaped_returns_telescope():
    """The discounted sum of what was added is γⁿΦ(s_n) − Φ(s_0), whatever lay between."""
    env = PotentialReward(Walk(limit=5), linear((10.0,)), discount=DISCOUNT, kappa=0.0)
    rewards, infos, terminated, truncated = episode(env, [0.3, -0.5, 0.2, 0.4, 0.1])
    assert truncated and not terminated
    added = rewards - [1, 2, 3, 4, 5]
    weights = DISCOUNT ** np.arange(5)
    assert (weights * added).sum() == pytest.approx(DISCOUNT**5 * 6.0 - 1.0, abs=1e-5)
    assert [info["true_reward"] for info in infos] == [1, 2, 3, 4, 5]
    assert "true_return" not in infos[3]
    assert infos[4]["true_return"] == 15
    assert infos[4]["theirs"] == 1


def test_an_end_is_worth_nothing():
    env = PotentialReward(Walk(), linear((10.0,)), discount=DISCOUNT, kappa=0.0)
    rewards, infos, terminated, _ = episode(env, [0.5, 0.6])
    assert terminated
    assert rewards == pytest.approx([1 + 0.9 * 6 - 1, 2 - 6], abs=1e-5)
    assert infos[-1]["true_return"] == 3


def test_observations_are_normalised_unless_told_not_to(values):  # noqa: F811
    policy = StatePolicy.load(values)
    plain = gymnasium.make(TASK)
    raw, _ = plain.reset(seed=3)
    seen, _ = PotentialReward(gymnasium.make(TASK), policy).reset(seed=3)
    as_is, _ = PotentialReward(gymnasium.make(TASK), policy, normalise=False).reset(seed=3)
    np.testing.assert_allclose(seen, policy.model.discretiser.normaliser.normalise(raw), rtol=1e-5)
    np.testing.assert_array_equal(as_is, raw)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_vector_environments_give_what_single_ones_do(mode):
    policy = linear((10.0,))
    vector = PotentialReward(
        SyncVectorEnv([lambda: Walk(limit=3), lambda: Walk(limit=4)], autoreset_mode=mode),
        policy,
        discount=DISCOUNT,
        kappa=0.0,
    )
    assert isinstance(vector, VectorPotentialReward)
    vector.reset(seed=0)
    moves = np.random.default_rng(0).uniform(-0.4, 0.2, (9, 2, 1)).astype(np.float32)
    theirs = [vector.step(move) for move in moves]
    for i, limit in enumerate((3, 4)):
        env = PotentialReward(Walk(limit=limit), policy, discount=DISCOUNT, kappa=0.0)
        env.reset(seed=0)
        over = False
        for move, (seen, rewards, _, truncated, info) in zip(moves, theirs, strict=True):
            if over and mode == AutoresetMode.NEXT_STEP:
                state, _ = env.reset()
                assert rewards[i] == 0
                np.testing.assert_allclose(seen[i], state)
                over = False
                continue
            if over:
                env.reset()
            state, reward, _, over, own = env.step(move[i])
            assert rewards[i] == pytest.approx(reward, abs=1e-5)
            assert truncated[i] == over
            assert info["true_reward"][i] == own["true_reward"]
            if over:
                assert info["true_return"][i] == own["true_return"]
            elif mode == AutoresetMode.NEXT_STEP:
                np.testing.assert_allclose(seen[i], state, rtol=1e-6)


def test_what_does_not_fit(values):  # noqa: F811
    with pytest.raises(ActionlessError, match="values states of 2 variables"):
        PotentialReward(Walk(), values)
    with pytest.raises(ActionlessError, match=r"discount=1\.5: choose a number from 0 to 1"):
        PotentialReward(Walk(), linear((1.0,)), discount=1.5)
    with pytest.raises(ActionlessError, match="no saved policy here"):
        PotentialReward(Walk(), "nowhere")


def test_the_default_caution_is_that_of_guidance(values):  # noqa: F811
    policy = StatePolicy.load(values)
    env = PotentialReward(gymnasium.make(TASK), policy)
    raw, _ = gymnasium.make(TASK).reset(seed=1)
    from actionless.guidance.potential import PotentialSettings

    settings = PotentialSettings()
    expected = Potential.of(policy, settings.kappa, settings.reach)(raw[None])[0]
    assert env.shaping.potential(raw[None])[0] == pytest.approx(float(expected))
    assert actionless.PotentialReward is PotentialReward


class Paid(Walk):
    """Pays for the place, or the opposite."""

    sign = 1.0

    def step(self, action):
        state, _, terminated, truncated, info = super().step(action)
        return state, self.sign * float(state[0]), terminated, truncated, info


@pytest.mark.parametrize(("sign", "used"), [(1.0, 1.0), (-1.0, 0.0)])
def test_a_log_that_pays_the_opposite_adds_nothing(sign, used):
    policy = linear((10.0,))
    support = SupportLearner.create(1, (8,), 1e-3, jax.random.key(0)).support
    # No step is far from the log, which pays the place that is reached.
    distances = Ensemble((jnp.zeros((1, 1, 1)),), (jnp.full((1, 1, 1), -20.0),))
    rewards = Ensemble((jnp.array([[[0.0], [1.0]]]),), (jnp.zeros((1, 1, 1)),))
    support = dataclasses.replace(support, distances=distances, rewards=rewards)
    policy = dataclasses.replace(policy, model=dataclasses.replace(policy.model, support=support))
    rng, env = np.random.default_rng(0), PotentialReward(Paid(limit=50), policy, discount=DISCOUNT)
    env.unwrapped.sign = sign
    for _ in range(14):
        rewards, infos, _, _ = episode(env, rng.uniform(-0.1, 0.1, 50))
    added = rewards - [info["true_reward"] for info in infos]
    assert (np.abs(added).max() > 0.1) == bool(used)
    metrics = env.shaping.metrics()
    assert metrics["potential/used"] == used
    assert metrics["potential/reward_correlation"] == pytest.approx(sign)


def test_settings_are_checked_as_everywhere():
    with pytest.raises(ActionlessError, match=r"kappa=-1\.0"):
        PotentialReward(Walk(), linear((10.0,)), kappa=-1.0)
