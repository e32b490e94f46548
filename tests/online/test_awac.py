import equinox as eqx
import jax
import numpy as np
import pytest
from toy_agents import CONFIGS, SPECS, member, random_batch

from actionless.online.awac import Awac

SPEC, CONFIG, BATCH = SPECS["awac"], CONFIGS["awac"], random_batch(SPECS["awac"])


@pytest.fixture(scope="module")
def agent():
    # Target critics that differ from the critics, so that mistaking one for the other shows.
    other = Awac.create(SPEC, CONFIG, jax.random.key(1))
    return eqx.tree_at(lambda a: a.target_critics, Awac.create(SPEC, CONFIG, jax.random.key(0)), other.target_critics)


def drawn(agent, states, key):
    """The policy's own actions: tanh of the network, and noise of spread 1, within the limits."""
    mean = np.tanh(member(agent.policy.network.ensemble, 0, states))
    return np.clip(mean + np.asarray(jax.random.normal(key, mean.shape), np.float64), -1, 1)


def lesser(critics, states, actions):
    inputs = np.concatenate([states, actions], axis=1)
    return np.minimum(*(member(critics.networks, i, inputs)[:, 0] for i in range(2)))


def test_the_critics_target_is_the_lesser_target_critic_of_the_policys_own_action(agent):
    key, states = jax.random.key(4), np.asarray(BATCH.next_states, np.float64)
    value = lesser(agent.target_critics, states, drawn(agent, states, key))
    expected = np.asarray(BATCH.rewards) + np.asarray(BATCH.discounts) * value
    np.testing.assert_allclose(agent.td_target(BATCH, key), expected, rtol=1e-4, atol=1e-5)


def test_the_advantage_is_over_the_policys_own_action(agent):
    key, states = jax.random.key(5), np.asarray(BATCH.states, np.float64)
    own = lesser(agent.critics, states, drawn(agent, states, key))
    expected = lesser(agent.critics, states, np.asarray(BATCH.actions, np.float64)) - own
    np.testing.assert_allclose(agent.advantages(agent.critics, BATCH, key), expected, rtol=1e-4, atol=1e-5)


def test_weights_are_those_of_the_critics_after_their_step(agent):
    key = jax.random.key(6)
    after, metrics = eqx.filter_jit(agent.update)(BATCH, key)
    advantages = np.asarray(agent.advantages(after.critics, BATCH, jax.random.split(key)[1]), np.float64)
    np.testing.assert_allclose(metrics["weight_mean"], np.minimum(np.exp(3 * advantages), 100).mean(), rtol=1e-4)
