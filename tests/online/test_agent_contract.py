"""What every agent must do. A new agent adds a line to CONFIGS and passes."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_agents import CONFIGS, SPECS, leaves_equal, random_batch

from actionless.online.agents import create_agent
from actionless.trees import pack, unpack

update = eqx.filter_jit(lambda agent, batch, key: agent.update(batch, key))
explore = eqx.filter_jit(lambda behaviour, state, memory, key: behaviour.explore(state, memory, key))


@pytest.fixture(params=CONFIGS, scope="module")
def name(request):
    return request.param


def create(name, seed=0):
    return create_agent(SPECS[name], CONFIGS[name], jax.random.key(seed))


@pytest.fixture(scope="module")
def agent(name):
    return create(name)


@pytest.fixture(scope="module")
def batch(name):
    return random_batch(SPECS[name])


def test_actions_are_in_their_range(name, agent):
    spec = SPECS[name]
    states = 10 * jax.random.normal(jax.random.key(1), (50, spec.state_dim))
    best = agent.behaviour.act(states)
    tried = [explore(agent.behaviour, state, agent.exploration(), jax.random.key(2))[0] for state in states]
    for actions in (best, jnp.stack(tried)):
        assert actions.shape == (50, spec.action_dim)
        assert actions.dtype == (jnp.float32 if spec.bins is None else jnp.int32)
        low, high = (-1, 1) if spec.bins is None else (0, spec.bins - 1)
        assert low <= actions.min() < actions.max() <= high


def test_exploring_is_decided_by_the_key(agent):
    state, memory = jnp.ones(3), agent.exploration()
    first, again = (explore(agent.behaviour, state, memory, jax.random.key(0)) for _ in range(2))
    assert leaves_equal(first, again)
    assert jax.tree.structure(first[1]) == jax.tree.structure(memory)
    others = [explore(agent.behaviour, state, memory, jax.random.key(seed))[0] for seed in range(1, 20)]
    assert any(not leaves_equal(first[0], other) for other in others)


def test_the_best_action_of_a_state_does_not_depend_on_its_company(agent):
    states = jax.random.normal(jax.random.key(1), (5, 3))
    np.testing.assert_allclose(agent.behaviour.act(states)[2:3], agent.behaviour.act(states[2:3]), rtol=1e-5)


def test_update_keeps_the_tree_and_gives_scalar_metrics(agent, batch):
    after, metrics = update(agent, batch, jax.random.key(1))
    before_shapes, after_shapes = (jax.tree.map(lambda x: (x.shape, x.dtype), tree) for tree in (agent, after))
    assert before_shapes == after_shapes
    assert {"loss", "q_mean"} <= metrics.keys()
    assert all(value.shape == () and jnp.isfinite(value) for value in metrics.values())


def test_the_same_seed_gives_the_same_bits(name, agent, batch):
    again = create(name)
    assert leaves_equal(agent, again)
    results = [update(start, batch, jax.random.key(1)) for start in (agent, again)]
    assert leaves_equal(*results)
    assert not leaves_equal(agent.behaviour, create(name, seed=5).behaviour)


def test_updates_change_the_behaviour_and_lower_the_loss_on_a_fixed_batch(agent, batch):
    # The task ends everywhere, so that the target stands still.
    batch = eqx.tree_at(lambda b: b.discounts, batch, jnp.zeros_like(batch.discounts))
    losses, behaviour = [], agent.behaviour
    for key in jax.random.split(jax.random.key(3), 100):
        agent, metrics = update(agent, batch, key)
        losses.append(float(metrics["loss"]))
    assert losses[-1] < 0.7 * losses[0]
    assert not leaves_equal(behaviour, agent.behaviour)


@pytest.mark.parametrize("compiled", [False, True])
def test_no_two_arrays_share_memory(name, compiled):
    build = eqx.filter_jit(create_agent) if compiled else create_agent
    agent = build(SPECS[name], CONFIGS[name], jax.random.key(0))
    addresses = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves((agent, agent.exploration()))]
    assert len(set(addresses)) == len(addresses)


def test_a_scan_may_donate_the_agent(name, batch):
    @eqx.filter_jit(donate="all-except-first")
    def loop(batch, agent):
        keys = jax.random.split(jax.random.key(2), 4)
        return jax.lax.scan(lambda state, key: state.update(batch, key), agent, keys)

    after, _ = loop(batch, create(name))
    expected = create(name)
    for key in jax.random.split(jax.random.key(2), 4):
        expected, _ = update(expected, batch, key)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), after, expected)


def test_a_stored_agent_goes_on_as_before(name, agent, batch):
    learnt = (update(agent, batch, jax.random.key(1))[0], agent.exploration())
    stored = unpack((create(name, seed=9), agent.exploration()), *pack(learnt), Path("agent"))
    assert leaves_equal(learnt, stored)
    results = [update(start, batch, jax.random.key(2)) for start, _ in (learnt, stored)]
    assert leaves_equal(*results)
