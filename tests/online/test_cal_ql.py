import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_agents import CONFIGS, SPECS, member, random_batch

from actionless.online.cal_ql import CalQl, soft_maximum
from actionless.online.labelled_log import UNKNOWN
from actionless.online.sac import sample

SPEC, CONFIG, BATCH = SPECS["cal-ql"], CONFIGS["cal-ql"], random_batch(SPECS["cal-ql"])


@pytest.fixture(scope="module")
def agent():
    # Target critics that differ from the critics, so that mistaking one for the other shows.
    other = CalQl.create(SPEC, CONFIG, jax.random.key(1))
    return eqx.tree_at(
        lambda a: a.sac.target_critics, CalQl.create(SPEC, CONFIG, jax.random.key(0)), other.sac.target_critics
    )


def lesser(critics, states, actions):
    inputs = np.concatenate([states, actions], axis=1)
    return np.minimum(*(member(critics.networks, i, inputs)[:, 0] for i in range(2)))


def test_the_soft_maximum_by_hand():
    # Q 0 at density ½ and Q log 3 at density ¼: log(1 / ½ + 3 / ¼) = log 14.
    values = [jnp.zeros((1, 1, 1)), jnp.full((1, 1, 1), jnp.log(3.0))]
    densities = [jnp.full((1, 1), jnp.log(0.5)), jnp.full((1, 1), jnp.log(0.25))]
    np.testing.assert_allclose(soft_maximum(values, densities), [[np.log(14)]], rtol=1e-6)


def test_it_does_not_depend_on_where_actions_are_drawn_from():
    # With the correction, even draws and those of a tanh-Gaussian both estimate log(N ∫ e^a da) over [-1, 1].
    count = 200_000
    even = jax.random.uniform(jax.random.key(0), (count,), minval=-1.0, maxval=1.0)
    u = np.asarray(jax.random.normal(jax.random.key(1), (count,)), np.float64)
    normal = -0.5 * u**2 - 0.5 * np.log(2 * np.pi)
    density = jnp.asarray(normal - np.log(1 - np.tanh(u) ** 2), jnp.float32)
    expected = np.log(count * (np.e - 1 / np.e))
    for drawn, log_density in (
        (even, jnp.full(count, -jnp.log(2.0))),
        (jnp.tanh(jnp.asarray(u, jnp.float32)), density),
    ):
        found = soft_maximum([drawn[None, None]], [log_density[None]])
        np.testing.assert_allclose(found, [[expected]], atol=0.02)


def test_the_target_has_no_entropy(agent):
    key, states = jax.random.key(4), np.asarray(BATCH.next_states, np.float64)
    actions = np.asarray(sample(agent.sac.actor, BATCH.next_states, key)[0], np.float64)
    expected = np.asarray(BATCH.rewards) + np.asarray(BATCH.discounts) * lesser(
        agent.sac.target_critics, states, actions
    )
    np.testing.assert_allclose(agent.td_target(BATCH, key), expected, rtol=1e-4, atol=1e-5)


def test_the_penalty_has_three_sources_of_which_the_policys_two_are_bounded(agent):
    key = jax.random.key(5)
    keys = jax.random.split(key, 3)
    states, later = (jnp.repeat(rows, 10, axis=0) for rows in (BATCH.states, BATCH.next_states))
    anywhere = jax.random.uniform(keys[0], (320, 2), minval=-1.0, maxval=1.0)
    own, own_log = sample(agent.sac.actor, states, keys[1])
    ahead, ahead_log = sample(agent.sac.actor, later, keys[2])
    bound, total = np.repeat(np.asarray(BATCH.extra["returns"], np.float64), 10), 0.0
    for i in range(2):

        def q(states, actions, i=i):
            inputs = np.concatenate([states, actions], axis=1).astype(np.float64)
            return member(agent.sac.critics.networks, i, inputs)[:, 0]

        # Even draws from [-1, 1]² have density ¼. Actions of the next state are valued in this one.
        terms = [
            q(states, anywhere) + np.log(4),
            np.maximum(q(states, own), bound) - np.asarray(own_log),
            np.maximum(q(states, ahead), bound) - np.asarray(ahead_log),
        ]
        together = np.exp(np.stack(terms)).reshape(3, 32, 10).sum(axis=(0, 2))
        total += (np.log(together) - q(BATCH.states, BATCH.actions)).mean()
    found, _ = agent.penalty(agent.sac.critics, BATCH, key)
    np.testing.assert_allclose(found, total, rtol=1e-4)


def test_what_is_below_the_bound_is_not_pushed_further(agent):
    """Far below what was earned, values feel the data's own part alone; where that is not known, the whole of it."""

    slope_and_share = eqx.filter_jit(eqx.filter_grad(agent.penalty, has_aux=True))

    def bounded_and_slope(returns):
        batch = dataclasses.replace(BATCH, extra={"returns": jnp.full(32, returns)})
        gradient, share = slope_and_share(agent.sac.critics, batch, jax.random.key(6))
        # The last bias moves all values of a critic alike: holding down and lifting cancel, where nothing is bound.
        return share, gradient.networks.biases[-1].ravel()

    share, slope = bounded_and_slope(1000.0)
    assert share == 1
    np.testing.assert_allclose(slope, -1, atol=1e-5)
    share, slope = bounded_and_slope(float(UNKNOWN))
    assert share == 0
    np.testing.assert_allclose(slope, 0, atol=1e-5)


def test_the_policy_is_slower_than_the_critics():
    sac = CalQl.create(SPEC, dataclasses.replace(CONFIG, policy_learning_rate=1e-5), jax.random.key(0)).sac
    rates = [sac.critic_optimiser, sac.actor_optimiser, sac.temperature_optimiser]
    assert [optimiser.learning_rate for optimiser in rates] == [1e-2, 1e-5, 1e-5]


def test_the_penalty_of_every_other_transition(agent):
    """That of a batch of these alone; the error against the target is of all."""
    sparing = CalQl(agent.sac, SPEC, dataclasses.replace(CONFIG, penalty_every=2))
    target, key = jnp.zeros(len(BATCH.rewards)), jax.random.key(5)
    _, metrics = eqx.filter_jit(sparing.loss)(agent.sac.critics, BATCH, target, key)
    _, whole = eqx.filter_jit(agent.loss)(agent.sac.critics, BATCH, target, key)
    halved = jax.tree.map(lambda rows: rows[::2], BATCH)
    expected, _ = eqx.filter_jit(agent.penalty)(agent.sac.critics, halved, key)
    np.testing.assert_allclose(metrics["penalty"], expected, rtol=1e-5)
    np.testing.assert_allclose(metrics["td_loss"], whole["td_loss"], rtol=1e-5)
    assert metrics["penalty"] != whole["penalty"]
