"""Each agent learns to bring a point to the origin, in seconds: by acting, or from a log of random actions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actionless.online.agent import Spec
from actionless.online.agents import LABELLED, create_agent, labelled_preset, preset
from actionless.online.labelled_log import LabelledLog, fill_returns
from actionless.online.replay import Replay

QUICK = {"discount": 0.9, "learning_rate": 3e-3, "target_rate": 0.02}
GENTLE = {"cal-ql": {"policy_learning_rate": 3e-3, "alpha": 0.1}}
"""So short a log of random actions holds enough of all actions."""
STRIDE, TIME_LIMIT, WARM_UP, STEPS, BATCH = 0.25, 10, 200, 500, 64

explore = jax.jit(lambda behaviour, state, memory, key: behaviour.explore(state, memory, key))
best = jax.jit(lambda behaviour, states: behaviour.act(states))
update = jax.jit(lambda agent, batch, key: agent.update(batch, key)[0])


def moved(x, action, spec):
    """One step of the point, whose reward is how near to the origin it then is."""
    push = action.astype(np.float32) if spec.bins is None else action - np.float32(1)
    after = np.clip(x + STRIDE * push, -1.5, 1.5).astype(np.float32)
    return after, -float(np.abs(after).sum())


def trained(name, spec):
    draw = np.random.default_rng(0)
    config = dataclasses.replace(preset(name, "smoke"), **QUICK)
    agent = create_agent(spec, config, jax.random.key(0))
    memory, replay = agent.exploration(), Replay.create(WARM_UP + STEPS, spec)
    for step in range(WARM_UP + STEPS):
        if step % TIME_LIMIT == 0:
            x = draw.uniform(-1, 1, 1).astype(np.float32)
        key = jax.random.fold_in(jax.random.key(1), step)
        if step < WARM_UP:
            action = draw.uniform(-1, 1, 1).astype(np.float32) if spec.bins is None else draw.integers(0, spec.bins, 1)
        else:
            action, memory = explore(agent.behaviour, x, memory, key)
        after, reward = moved(x, np.asarray(action), spec)
        replay.add(x, np.asarray(action), reward, after, False, step % TIME_LIMIT == TIME_LIMIT - 1)
        x = after
        if step >= WARM_UP:
            batch = replay.sample(draw.integers(0, len(replay), BATCH), config.n_step, config.discount)
            agent = update(agent, batch, key)
    return agent


@pytest.mark.parametrize("name, bins", [("td3", None), ("sac", None), ("decqn", 3)])
def test_the_point_comes_home(name, bins):
    spec = Spec(1, 1, bins)
    assert farthest(trained(name, spec), spec, moves=8) <= 0.25


def learnt_from_random_actions(name, spec):
    draw = np.random.default_rng(0)
    config = dataclasses.replace(labelled_preset(name, "smoke"), **QUICK, **GENTLE.get(name, {}))
    agent, replay = create_agent(spec, config, jax.random.key(0)), Replay.create(1000, spec, LabelledLog.columns)
    for _ in range(100):
        x = draw.uniform(-1.5, 1.5, 1).astype(np.float32)
        for step in range(TIME_LIMIT):
            action = draw.uniform(-1, 1, 1).astype(np.float32)
            after, reward = moved(x, action, spec)
            replay.add(x, action, reward, after, False, step == TIME_LIMIT - 1)
            x = after
        fill_returns(replay, TIME_LIMIT, config.discount)
    for step in range(400):
        batch = replay.sample(draw.integers(0, len(replay), BATCH), config.n_step, config.discount)
        agent = update(agent, batch, jax.random.fold_in(jax.random.key(1), step))
    return agent


@pytest.mark.parametrize("name", LABELLED)
def test_the_point_comes_home_as_learnt_from_a_log(name):
    spec = Spec(1, 1, None)
    assert farthest(learnt_from_random_actions(name, spec), spec, moves=20) <= 0.25


def farthest(agent, spec, moves):
    """From home after so many moves, over points that begin all over the place."""
    points = np.linspace(-1, 1, 9, dtype=np.float32)[:, None]
    for _ in range(moves):
        points, _ = moved(points, np.asarray(best(agent.behaviour, jnp.asarray(points))), spec)
    return np.abs(points).max()
