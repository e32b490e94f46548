import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from toy_agents import CONFIGS

import actionless
from actionless.discretise import Discretiser, Normaliser
from actionless.errors import ActionlessError
from actionless.networks import Ensemble
from actionless.offline.state_policy import PolicyModel, StatePolicy
from actionless.online.agent_policy import AgentPolicy
from actionless.online.agents import create_agent
from actionless.online.environments import Environment

STATES = np.random.default_rng(0).normal(size=(6, 3))


# A guided SAC is saved as SAC: tests/training/test_online.py loads one.
NAMES = [name for name in CONFIGS if name != "guided sac"]


class Named(gymnasium.Env):
    """A task of which only the spaces matter."""

    def __init__(self, action_space):
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,))
        self.action_space = action_space


def policy_of(name, action_space=None):
    space = spaces.Box(np.float32([-2, 0]), np.float32([2, 1])) if action_space is None else action_space
    environment = Environment("named", Named(space), bins=4 if name == "decqn" else None)
    agent = create_agent(environment.spec, CONFIGS[name], jax.random.key(0))
    return AgentPolicy.of(agent, agent.exploration(), name, CONFIGS[name], environment, {"seed": 0}), environment


@pytest.mark.parametrize("name", NAMES)
def test_acts_in_the_tasks_own_actions(name):
    policy, environment = policy_of(name)
    normalised = np.asarray(policy.behaviour.act(jnp.asarray(STATES, jnp.float32)))
    actions = policy.act(STATES)
    np.testing.assert_allclose(actions, environment.translation(normalised), rtol=1e-6)
    assert (actions[:, 1] >= 0).all()  # where the agent thinks in -1 … 1
    alone = policy.act(STATES[0])
    assert environment._simulator.action_space.contains(alone)
    np.testing.assert_allclose(alone, actions[0], rtol=1e-6)
    assert policy.act(STATES.reshape(2, 3, 3)).shape == (2, 3, 2)
    assert policy.act(STATES[:0]).shape == (0, 2)


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded(name, tmp_path):
    policy, _ = policy_of(name)
    policy.save(tmp_path / "agent")
    loaded = actionless.AgentPolicy.load(tmp_path / "agent")
    np.testing.assert_array_equal(loaded.act(STATES), policy.act(STATES))
    assert (loaded.agent, loaded.config, loaded.spec) == (policy.agent, CONFIGS[name], policy.spec)
    assert (loaded.environment, loaded.provenance) == ("named", {"seed": 0})
    for ours, theirs in zip(jax.tree.leaves(loaded.exploration), jax.tree.leaves(policy.exploration), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_choice_is_a_whole_number(tmp_path):
    policy, environment = policy_of("decqn", spaces.Discrete(3, start=5))
    policy.save(tmp_path)
    loaded = AgentPolicy.load(tmp_path)
    assert environment._simulator.action_space.contains(loaded.act(STATES[0]))
    assert loaded.act(STATES).shape == (6,)


@pytest.mark.parametrize("shape", [(2,), (4, 2), (3, 1)])
def test_states_of_another_shape(shape):
    policy, _ = policy_of("td3")
    with pytest.raises(ActionlessError, match="the agent was trained on 3 numbers per state"):
        policy.act(np.zeros(shape))


def test_a_state_policy_given_by_mistake(tmp_path):
    bins = Discretiser(Normaliser(np.zeros(2), np.ones(2)), np.tile([-0.1, 0.1], (2, 1)), np.tile([-1.0, 0, 1], (2, 1)))
    model = PolicyModel(Ensemble.create(1, (2, 6), jax.random.key(0)), bins, "utilities", 1.0)
    StatePolicy(model, "oso-decqn", ("x", "y")).save(tmp_path)
    with pytest.raises(
        ActionlessError, match="holds a policy of oso-decqn, no agent: give a run of `actionless train`"
    ):
        AgentPolicy.load(tmp_path)
