"""A mixture density against a regression, on a task where the same Δs has two actions and their average another one."""

import dataclasses

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from linear_environment import CHOOSING, discretiser, labelled_log, pushes

from actionless.analysis import expert_idm as module
from actionless.analysis.expert_idm import ExpertIdmConfig, expert_idm
from actionless.analysis.mixture_idm import MixtureNetwork
from actionless.analysis.rollouts import evaluate_in_environment
from actionless.data.log import Log, Source
from actionless.discretise import Discretiser, Normaliser
from actionless.errors import ActionlessError
from actionless.guidance.idm import Examples, IdmSpec
from actionless.networks import Ensemble
from actionless.offline.state_policy import PolicyModel, StatePolicy
from actionless.online.environments import make

EITHER = "test_mixture_idm:Either-v0"
CONFIG = ExpertIdmConfig(steps=1500, hidden=(32, 32), batch_size=128, learning_rate=3e-3)


class Either(gymnasium.Env):
    """A place that rises where the action is strong, to either side, and falls where it is weak. A rise earns 1."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 1)
        return self.place, {}

    def step(self, action):
        rises = abs(float(action[0])) > 0.5
        self.place = self.place + (0.5 if rises else -0.5)
        return self.place, float(rises), False, False, {}


gymnasium.register("Either-v0", Either, max_episode_steps=10)


def either_log(rows=2000):
    """Any action, from anywhere."""
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-6, 6, (rows, 1)), rng.uniform(-1, 1, (rows, 1)).astype(np.float32)
    return Log(
        states=states,
        rewards=np.where(np.abs(actions[:, 0]) > 0.5, 1.0, 0.0),
        next_states=states + np.where(np.abs(actions) > 0.5, 0.5, -0.5),
        terminals=np.zeros(rows, bool),
        ends=np.arange(rows) % 10 == 9,
        state_names=("place",),
        source=Source("either.npz", "npz", ("states",)),
        actions=actions,
    )


def bins():
    return Discretiser(
        Normaliser(np.zeros(1), np.full(1, 3.0)), np.array([[-0.01, 0.01]]), np.array([[-1.0, 0.0, 1.0]])
    )


def always_up():
    network = Ensemble(weights=(jnp.zeros((1, 1, 3)),), biases=(jnp.array([[[0.0, 0.0, 1.0]]]),))
    return StatePolicy(PolicyModel(network, bins(), "logits", 1.0), "up", ("place",))


def test_the_average_action_is_wrong_and_the_mixtures_is_not(tmp_path, monkeypatch):
    monkeypatch.setitem(module.EXPERT_IDM_SCALES, "smoke", CONFIG)
    played = {
        components: evaluate_in_environment(
            always_up(), EITHER, either_log(), scale="smoke", components=components, episodes=4, cache=tmp_path
        )
        for components in (0, 2)
    }
    # Every step should rise and earn 1. An action between the two kinds of strong ones is weak.
    assert played[0].rollouts.returns.mean() < 2
    assert played[2].rollouts.returns.mean() == 10
    assert played[2].to_dict()["rollout_delta_error"] == 0 < played[0].to_dict()["rollout_delta_error"]


def test_each_action_has_a_component(tmp_path):
    config = dataclasses.replace(CONFIG, components=2)
    network = expert_idm(either_log(), make(EITHER), bins(), "delta", config, cache=tmp_path).network
    _, centres, _ = network.mixture(jnp.linspace(-2, 2, 9)[:, None], jnp.full((9, 1), 2, jnp.int8))
    np.testing.assert_allclose(np.sort(centres[..., 0], axis=1), np.tile([-0.75, 0.75], (9, 1)), atol=0.1)
    again = expert_idm(either_log(), make(EITHER), bins(), "delta", config, cache=tmp_path).network
    assert isinstance(again, MixtureNetwork)
    np.testing.assert_array_equal(again.mlp.ensemble.weights[0], network.mlp.ensemble.weights[0])


def test_density_by_hand():
    """With weights of 0 both components have centre 0 and the geometric mean of the limits as standard deviation."""
    network = MixtureNetwork.create(IdmSpec(1, 3, 2), (4,), 2, jax.random.key(0))
    network = jax.tree.map(jnp.zeros_like, network)
    actions = np.array([[0.1, -0.2], [0.0, 0.0]])
    variance = 0.02 * 1.0
    density = np.exp(-np.square(actions).sum(axis=1) / (2 * variance)) / (2 * np.pi * variance)
    rows = Examples(jnp.zeros((2, 1)), jnp.ones((2, 1), jnp.int8), jnp.asarray(actions, jnp.float32))
    assert float(network.error(rows)) == pytest.approx(-np.log(density).mean() / 2, rel=1e-5)
    np.testing.assert_array_equal(network.act(rows.states, rows.deltas), np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("components", "message"),
    [
        (-1, "components=-1: choose at least 0, which is a regression"),
        (3, "components=3: .* has choices for actions, and needs no mixture: leave it out"),
    ],
)
def test_refused(components, message, tmp_path):
    log = labelled_log(pushes(600), actions=pushes(600) + 2)
    with pytest.raises(ActionlessError, match=message):
        config = dataclasses.replace(CONFIG, components=components)
        expert_idm(log, make(CHOOSING, bins=2), discretiser(), "delta", config, cache=tmp_path)
