import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_agents import CONFIGS, SPECS, member, random_batch

from actionless.online.iql import Iql, expectile_loss

SPEC, CONFIG, BATCH = SPECS["iql"], CONFIGS["iql"], random_batch(SPECS["iql"])
STATES, ACTIONS = (np.asarray(rows, np.float64) for rows in (BATCH.states, BATCH.actions))


@pytest.fixture(scope="module")
def agent():
    # Target critics that differ from the critics, so that mistaking one for the other shows.
    other = Iql.create(SPEC, CONFIG, jax.random.key(1))
    return eqx.tree_at(lambda a: a.target_critics, Iql.create(SPEC, CONFIG, jax.random.key(0)), other.target_critics)


def advantages(agent):
    inputs = np.concatenate([STATES, ACTIONS], axis=1)
    q = np.minimum(*(member(agent.target_critics.networks, i, inputs)[:, 0] for i in range(2)))
    return q - member(agent.value.ensemble, 0, STATES)[:, 0]


def test_the_expectile_loss_by_hand():
    # Too low a value by 2 costs 0.7 · 4, too high a one 0.3 · 4.
    np.testing.assert_allclose(expectile_loss(jnp.array([2.0, -2.0, 0.0]), 0.7), [2.8, 1.2, 0.0], rtol=1e-6)


def test_the_value_that_costs_least_is_the_expectile():
    # Of outcomes 0 and 1, equally common, that is 0.7: 0.7 · (1 − v) = 0.3 · v.
    values = np.linspace(0, 1, 101)
    costs = [float(expectile_loss(jnp.array([0.0 - v, 1.0 - v]), 0.7).sum()) for v in values]
    assert values[np.argmin(costs)] == pytest.approx(0.7)


def test_the_value_is_fitted_to_the_lesser_target_critic(agent):
    loss, (found, _) = agent.value_loss(agent.value, BATCH)
    expected = advantages(agent)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(loss, (np.where(expected < 0, 0.3, 0.7) * expected**2).mean(), rtol=1e-4)


def test_the_critics_target_is_the_value_of_the_next_state(agent):
    ahead = member(agent.value.ensemble, 0, np.asarray(BATCH.next_states, np.float64))[:, 0]
    expected = np.asarray(BATCH.rewards) + np.asarray(BATCH.discounts) * ahead
    np.testing.assert_allclose(agent.td_target(BATCH), expected, rtol=1e-4, atol=1e-5)


def test_actions_are_imitated_by_their_advantage(agent):
    _, metrics = eqx.filter_jit(agent.update)(BATCH, jax.random.key(0))
    weights = np.minimum(np.exp(3 * advantages(agent)), 100)
    # The mean is tanh of the network, the spread 1 in both dimensions: log π = −½ d² − ½ log 2π in each.
    distance = ACTIONS - np.tanh(member(agent.policy.network.ensemble, 0, STATES))
    log_probability = (-0.5 * distance**2 - 0.5 * np.log(2 * np.pi)).sum(axis=1)
    np.testing.assert_allclose(metrics["weight_mean"], weights.mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["actor_loss"], -(weights * log_probability).mean(), rtol=1e-4)
