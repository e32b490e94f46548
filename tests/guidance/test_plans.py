"""A planner that pays: the distance between what happened and what was planned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actionless.discretise import Normaliser
from actionless.guidance.plans import PlanGuide
from actionless.offline.planner import PlanConfig, Planner
from actionless.offline.transformer import PlanNetwork

CONFIG = PlanConfig(context=3, width=8, blocks=1, return_scale=10.0, target_return=50.0)
NORMALISER = Normaliser(np.array([1.0, -1.0]), np.array([2.0, 4.0]))


def planner(seed=0):
    network = PlanNetwork.create(2, 9, 8, 1, jax.random.key(seed))
    return Planner(network, CONFIG, NORMALISER, "afdt", ("x", "y"))


def still():
    """A planner that plans to stay."""
    network = jax.tree.map(jnp.zeros_like, planner().network)
    return Planner(network, CONFIG, NORMALISER, "afdt", ("x", "y"))


def test_the_distance_is_in_units_of_the_spread():
    guide = PlanGuide.create(still(), 50.0)
    paid = guide.reward(np.array([3.0, 3.0]), 1.0, np.array([9.0, 19.0]), first=True)
    assert paid == pytest.approx(-5.0)  # (6 / 2, 16 / 4)
    assert guide.metrics() == {"guide/missed": pytest.approx(5.0)}
    assert guide.metrics() == {}


def walk(seed=0, steps=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(steps + 1, 2)), rng.normal(size=steps)


@pytest.mark.parametrize("steps", [1, 2, 3, 6])
def test_each_step_is_compared_with_the_plan_for_the_episode_so_far(steps):
    guide = PlanGuide.create(planner(), 50.0)
    states, rewards = walk()
    for other in range(4):  # an episode before it, which must not matter
        guide.reward(states[other] + 7, 3.0, states[other + 1] + 7, first=other == 0)
    for t in range(steps):
        paid = guide.reward(states[t], rewards[t], states[t + 1], first=t == 0)
    planned = planner().plan(states[:steps], rewards[: steps - 1], target_return=50.0)
    expected = -np.linalg.norm((states[steps] - planned) / NORMALISER.scale)
    assert paid == pytest.approx(expected, rel=1e-4)


def test_it_goes_on_from_a_saved_state():
    guide, states, rewards = PlanGuide.create(planner(), 50.0), *walk()
    for t in range(3):
        guide.reward(states[t], rewards[t], states[t + 1], first=t == 0)
    saved = jax.tree.map(np.copy, guide.state)
    again = PlanGuide.create(planner(), 50.0)
    again.restore(saved)
    paid = [g.reward(states[3], rewards[3], states[4], first=False) for g in (guide, again)]
    assert paid[0] == paid[1]
    assert guide.metrics() == again.metrics()
