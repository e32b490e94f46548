import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from toy_agents import random_batch

from actionless.online.advantage import GaussianPolicy, advantage_weights, regression_loss
from actionless.online.agent import Spec

SPEC = Spec(3, 2, None)
BATCH = random_batch(SPEC)


def test_weights_and_their_cap_by_hand():
    # e^(3·0) = 1, e^(3·½) = 4.4817, e^(3·2) = 403 and so the cap; the last overflows, and is the cap all the same.
    weights = advantage_weights(jnp.array([0.0, 0.5, 2.0, -1.0, 1000.0]), 3.0, 100.0)
    np.testing.assert_allclose(weights, [1, 4.481689, 100, 0.04978707, 100], rtol=1e-5)


def test_the_density_is_that_of_a_gaussian_around_the_squashed_mean():
    policy = GaussianPolicy.create(SPEC, (4,), jax.random.key(0))
    policy = eqx.tree_at(lambda p: p.log_std, policy, jnp.log(jnp.array([0.5, 2.0])))
    distance = np.asarray(BATCH.actions - policy.mean(BATCH.states), np.float64) / [0.5, 2.0]
    expected = (-0.5 * distance**2 - np.log([0.5, 2.0]) - 0.5 * np.log(2 * np.pi)).sum(axis=1)
    np.testing.assert_allclose(policy.log_probability(BATCH.states, BATCH.actions), expected, rtol=1e-5)


def test_draws_have_its_mean_and_spread_within_the_limits():
    policy = GaussianPolicy.create(SPEC, (4,), jax.random.key(0))
    narrow = eqx.tree_at(lambda p: p.log_std, policy, jnp.full(2, jnp.log(0.05)))
    states = jnp.broadcast_to(BATCH.states[:1], (4000, 3))
    draws = np.asarray(narrow.sample(states, jax.random.key(1)))
    np.testing.assert_allclose(draws.mean(axis=0), narrow.mean(states)[0], atol=5e-3)
    np.testing.assert_allclose(draws.std(axis=0), 0.05, rtol=0.1)
    assert np.abs(policy.sample(states, jax.random.key(1))).max() == 1


def test_what_weighs_nothing_is_not_imitated():
    policy = GaussianPolicy.create(SPEC, (4,), jax.random.key(0))
    weights = jnp.zeros(32).at[3].set(2.0)
    alone = jax.tree.map(lambda rows: rows[3:4], BATCH)
    loss = regression_loss(policy, BATCH, weights)
    np.testing.assert_allclose(loss, regression_loss(policy, alone, jnp.array([2.0])) / 32, rtol=1e-5)
