import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_agents import CONFIGS

from actionless.errors import ActionlessError
from actionless.online.agent import Spec
from actionless.online.decqn import Decqn, DecqnConfig
from actionless.online.replay import Replay

# Two action dimensions of two bins, one state dimension.
SPEC = Spec(1, 2, 2)


def linear(*members):
    """An agent without hidden layers whose target utilities are state · members[e][bin][dimension]."""
    agent = Decqn.create(SPEC, DecqnConfig(ensemble=len(members), hidden=()), jax.random.key(0))
    weights = jnp.asarray(members, jnp.float32).reshape(len(members), 1, 4)
    network = eqx.tree_at(
        lambda n: (n.weights, n.biases), agent.network, ((weights,), (jnp.zeros((len(members), 1, 4)),))
    )
    return eqx.tree_at(lambda a: a.target_network, agent, network), network


MEMBERS = ([[1, 4], [3, 0]], [[5, 0], [1, 2]])
"""Their mean: [[3, 2], [2, 1]], so the best bins have 3 and 2 and a state s is worth 2.5 s."""


def episode(last_is_terminal):
    """States 1, 2, 3, 4 with rewards 10, 20, 30, 40; the episode ends, one way or the other, in state 5."""
    replay = Replay.create(10, SPEC)
    for t in range(1, 5):
        ends = t == 4
        replay.add(
            np.array([float(t)]), np.array([0, 1]), 10.0 * t, np.array([t + 1.0]), ends and last_is_terminal, ends
        )
    replay.add(np.array([100.0]), np.array([0, 0]), 1000.0, np.array([101.0]), False, False)
    return jax.tree.map(jnp.asarray, replay.sample(np.arange(4), 3, 0.5))


def test_n_step_targets_of_an_episode_that_ends_with_the_task():
    agent, _ = linear(*MEMBERS)
    expected = [10 + 20 / 2 + 30 / 4 + 2.5 * 4 / 8, 20 + 30 / 2 + 40 / 4, 30 + 40 / 2, 40]
    np.testing.assert_allclose(agent.td_target(episode(last_is_terminal=True)), expected, rtol=1e-6)


def test_n_step_targets_of_an_episode_cut_by_a_time_limit():
    agent, _ = linear(*MEMBERS)
    worth = 2.5 * 5
    expected = [32.5 - 5 + 2.5 * 4 / 8, 45 + worth / 8, 50 + worth / 4, 40 + worth / 2]
    np.testing.assert_allclose(agent.td_target(episode(last_is_terminal=False)), expected, rtol=1e-6)


def test_the_loss_is_hubers_over_members_and_batch():
    agent, network = linear(*MEMBERS)
    batch = episode(last_is_terminal=True)
    # Action (0, 1): member 0 gives s (1 + 0) / 2, member 1 gives s (5 + 2) / 2.
    errors = [0.5 - 0.25, 1 - 3, 1.5 - 1, 2 - 2, 3.5 - 0.25, 7 - 3, 10.5 - 1, 14 - 2]
    target = jnp.asarray([0.25, 3, 1, 2])
    expected = np.mean([0.5 * e**2 if abs(e) <= 1 else abs(e) - 0.5 for e in errors])
    loss, _ = agent.loss(network, batch, target)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_the_best_action_is_by_the_mean_over_members():
    agent, network = linear(*MEMBERS)
    agent = eqx.tree_at(lambda a: a.network, agent, network)
    # Member 0 alone would take bin 1 of the first dimension, member 1 bin 1 of the second.
    assert agent.behaviour.act(jnp.ones((1, 1))).tolist() == [[0, 0]]
    assert agent.behaviour.act(-jnp.ones((1, 1))).tolist() == [[1, 1]]


def explored(agent, epsilon, count):
    keys = jax.random.split(jax.random.key(0), count)
    explore = jax.vmap(lambda key: agent.behaviour.explore(jnp.ones(1), jnp.asarray(epsilon), key))
    actions, after = jax.jit(explore)(keys)
    return np.asarray(actions), np.asarray(after)


def test_without_chance_it_follows_one_random_member():
    agent, network = linear(*MEMBERS)
    agent = eqx.tree_at(lambda a: a.network, agent, network)
    actions, after = explored(agent, 0.0, 1000)
    joint, counts = np.unique(actions, axis=0, return_counts=True)
    assert joint.tolist() == [[0, 1], [1, 0]]
    assert 400 < counts[0] < 600
    assert (after == 0).all()


def test_chance_takes_the_whole_joint_action():
    # All members agree on (0, 0): whatever differs was drawn, and each of four draws is as likely.
    agent, network = linear([[9, 9], [0, 0]], [[9, 9], [0, 0]])
    agent = eqx.tree_at(lambda a: a.network, agent, network)
    actions, after = explored(agent, 0.8, 4000)
    joint, counts = np.unique(actions, axis=0, return_counts=True)
    assert joint.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    np.testing.assert_allclose(counts / 4000, [0.4, 0.2, 0.2, 0.2], atol=0.03)
    drawn = after != np.float32(0.8)
    np.testing.assert_allclose(drawn.mean(), 0.8, atol=0.03)
    np.testing.assert_allclose(after[drawn], 0.8 * 0.999, rtol=1e-6)
    assert (actions[~drawn] == 0).all()


def test_epsilon_starts_at_one_and_falls_to_its_floor():
    agent = Decqn.create(SPEC, dataclasses.replace(CONFIGS["decqn"], epsilon_decay=0.5), jax.random.key(0))
    explore = jax.jit(lambda epsilon, key: agent.behaviour.explore(jnp.ones(1), epsilon, key)[1])
    epsilon, seen = agent.exploration(), []
    for key in jax.random.split(jax.random.key(3), 300):
        seen.append(float(epsilon))
        epsilon = explore(epsilon, key)
    np.testing.assert_allclose(sorted(set(seen), reverse=True), [1, 0.5, 0.25, 0.125, 0.0625, 0.05], rtol=1e-6)
    assert seen == sorted(seen, reverse=True)
    assert seen[:2] == [1, 0.5]


def test_it_needs_bins():
    with pytest.raises(
        ActionlessError, match="decqn needs discrete actions, and these are continuous: give a number of bins"
    ):
        Decqn.create(Spec(1, 2, None), CONFIGS["decqn"], jax.random.key(0))
