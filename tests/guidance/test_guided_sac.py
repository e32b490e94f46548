"""What AF-Guide adds to SAC: a critic of one step, and an actor that listens to it."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_agents import CONFIGS, SPECS, leaves_equal, member, random_batch

from actionless.guidance.guided_sac import GuidedSac
from actionless.online.sac import Sac, sample

SPEC, CONFIG = SPECS["guided sac"], CONFIGS["guided sac"]
BATCH = random_batch(SPEC)
update = eqx.filter_jit(lambda agent, batch, key: agent.update(batch, key))


def created(**changes):
    return GuidedSac.create(SPEC, dataclasses.replace(CONFIG, **changes), jax.random.key(0))


def test_the_guiding_critic_is_fitted_to_the_reward_of_one_step():
    """Neither what comes later nor the task's reward enters it."""
    agent = created()
    inputs = np.concatenate([BATCH.states, BATCH.actions], axis=1).astype(np.float64)
    q = member(agent.guiding_critic.networks, 0, inputs)[:, 0]
    _, metrics = update(agent, BATCH, jax.random.key(1))
    np.testing.assert_allclose(
        metrics["guiding_loss"], np.square(q - np.asarray(BATCH.extra["guiding"])).mean(), rtol=1e-5
    )
    other = dataclasses.replace(BATCH, rewards=BATCH.rewards + 5, discounts=BATCH.discounts * 0)
    after, changed = (update(agent, batch, jax.random.key(1))[0] for batch in (BATCH, other))
    assert leaves_equal(after.guiding_critic, changed.guiding_critic)
    assert not leaves_equal(after.sac.critics, changed.sac.critics)


def test_it_learns_the_guiding_reward_itself():
    agent = created(hidden=(32, 32))
    for key in jax.random.split(jax.random.key(2), 200):
        agent, metrics = update(agent, BATCH, key)
    assert metrics["guiding_loss"] < 0.05


def test_the_actor_wants_both():
    """E[temperature · log π − min Q − 3 · guiding Q], by hand, of both critics after their step."""
    agent, key = created(), jax.random.key(3)
    after, metrics = update(agent, BATCH, key)
    _, actor_key = jax.random.split(key)
    actions, log_probability = sample(agent.sac.actor, BATCH.states, actor_key)
    inputs = np.concatenate([BATCH.states, actions], axis=1).astype(np.float64)
    q = np.minimum(*(member(after.sac.critics.networks, i, inputs)[:, 0] for i in range(2)))
    guiding = member(after.guiding_critic.networks, 0, inputs)[:, 0]
    expected = (np.asarray(log_probability) - q - 3 * guiding).mean()
    np.testing.assert_allclose(metrics["actor_loss"], expected, rtol=1e-4)


def test_without_weight_it_is_sac():
    agent = created(guide_weight=0.0)
    after, metrics = update(agent, BATCH, jax.random.key(1))
    alone, alone_metrics = eqx.filter_jit(Sac.update)(agent.sac, BATCH, jax.random.key(1))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), after.sac, alone)
    np.testing.assert_allclose(metrics["actor_loss"], alone_metrics["actor_loss"], rtol=1e-5)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_plan_draws_the_actor_to_where_it_leads(side):
    """The task pays nothing; the plan pays for the first action being on one side."""
    agent = created(hidden=(32, 32))
    draw = np.random.default_rng(0)
    for step in range(150):
        actions = jnp.asarray(draw.uniform(-1, 1, (64, 2)), jnp.float32)
        batch = random_batch(SPEC, 64)
        guiding = -10 * jnp.abs(actions[:, 0] - 0.5 * side)
        nothing = jnp.zeros(64)
        batch = dataclasses.replace(
            batch, actions=actions, extra={"guiding": guiding}, rewards=nothing, discounts=nothing
        )
        agent, _ = update(agent, batch, jax.random.fold_in(jax.random.key(1), step))
    best = agent.behaviour.act(random_batch(SPEC).states)
    assert (side * best[:, 0] > 0.25).all()
