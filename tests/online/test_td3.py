import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from toy_agents import CONFIGS, SPECS, leaves_equal, member, random_batch

from actionless.online.critics import critic_loss
from actionless.online.td3 import Td3

SPEC, CONFIG, BATCH = SPECS["td3"], CONFIGS["td3"], random_batch(SPECS["td3"])
update = eqx.filter_jit(lambda agent, key: agent.update(BATCH, key))


def agent_with(**changes):
    agent = Td3.create(SPEC, dataclasses.replace(CONFIG, **changes), jax.random.key(0))
    # A target that differs from its own network, so that mistaking one for the other shows.
    target = Td3.create(SPEC, CONFIG, jax.random.key(1)).delayed
    return eqx.tree_at(
        lambda a: (a.delayed.target_actor, a.delayed.target_critics), agent, (target.actor, target.target_critics)
    )


def test_the_target_is_the_lesser_critic_at_a_smoothed_action():
    agent, key = agent_with(policy_noise=0.6), jax.random.key(4)
    states = np.asarray(BATCH.next_states, np.float64)
    draw = 0.6 * np.asarray(jax.random.normal(key, BATCH.actions.shape), np.float64)
    noise = np.clip(draw, -0.5, 0.5)
    assert (np.abs(draw) > 0.5).any()
    actions = np.clip(np.tanh(member(agent.delayed.target_actor.ensemble, 0, states)) + noise, -1, 1)
    inputs = np.concatenate([states, actions], axis=1)
    critics = [member(agent.delayed.target_critics.networks, i, inputs)[:, 0] for i in range(2)]
    expected = np.asarray(BATCH.rewards) + np.asarray(BATCH.discounts) * np.minimum(*critics)
    np.testing.assert_allclose(agent.td_target(BATCH, key), expected, rtol=1e-4, atol=1e-6)


def test_the_loss_is_the_squared_error_of_both_critics():
    agent, target = agent_with(), jnp.linspace(-1, 1, 32)
    inputs = np.concatenate([BATCH.states, BATCH.actions], axis=1, dtype=np.float64)
    errors = [member(agent.critics.networks, i, inputs)[:, 0] - np.asarray(target) for i in range(2)]
    loss, _ = critic_loss(agent.critics, BATCH, target)
    np.testing.assert_allclose(loss, np.mean(errors[0] ** 2) + np.mean(errors[1] ** 2), rtol=1e-5)


def test_the_actor_climbs_the_first_critic_alone():
    agent = agent_with()

    def loss_with(critic, factor):
        last = agent.critics.networks.weights[-1]
        critics = eqx.tree_at(lambda c: c.networks.weights[-1], agent.critics, last.at[critic].multiply(factor))
        return agent.actor_loss(agent.delayed.actor, critics, BATCH.states)

    assert loss_with(1, 5.0) == loss_with(1, 1.0)
    assert loss_with(0, 5.0) != loss_with(0, 1.0)


def test_policy_and_targets_move_at_every_second_update_only():
    agent = agent_with()
    before = agent.delayed
    agent, first = update(agent, jax.random.key(1))
    assert leaves_equal(before, agent.delayed)
    assert first["actor_loss"] == 0

    agent, second = update(agent, jax.random.key(2))
    after, rate = agent.delayed, CONFIG.target_rate
    assert not leaves_equal(before.actor, after.actor)
    for old, new, fast in (
        (before.target_actor, after.target_actor, after.actor),
        (before.target_critics, after.target_critics, agent.critics),
    ):
        expected = jax.tree.map(lambda o, f: o + rate * (f - o), old, fast)
        jax.tree.map(lambda n, e: np.testing.assert_allclose(n, e, rtol=1e-5, atol=1e-7), new, expected)

    _, third = update(agent, jax.random.key(3))
    assert third["actor_loss"] == second["actor_loss"] != 0


def test_exploration_adds_noise_of_the_stated_size():
    behaviour, state = agent_with(exploration_noise=0.1).behaviour, jnp.zeros(3)
    explore = jax.jit(jax.vmap(lambda key: behaviour.explore(state, (), key)[0]))
    noise = explore(jax.random.split(jax.random.key(0), 4000)) - behaviour.act(state[None])
    np.testing.assert_allclose(noise.std(axis=0), 0.1, rtol=0.05)
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=0.01)
