"""The distance from a log: known pushes, and a grid whose distances are known."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from actionless.offline.learner import Batch
from actionless.offline.support import EVERY, PUSHES, UNTOUCHED, SupportLearner, push


def test_pushes_are_as_far_as_they_say():
    states = jnp.zeros((4096, 3))
    pushed, far = push(states, jax.random.key(0))
    np.testing.assert_allclose(np.sqrt(np.square(pushed).mean(axis=1)), far, rtol=1e-5)
    assert (far[::UNTOUCHED] == 0).all()
    moved = np.delete(np.asarray(far), np.s_[::UNTOUCHED])
    assert moved.min() > 0
    # Evenly by order of magnitude: half of them below the geometric mean of the limits.
    assert abs((moved < np.sqrt(PUSHES[0] * PUSHES[1])).mean() - 0.5) < 0.05


def test_it_grows_away_from_the_log_and_is_small_on_it():
    """A log on a line: the distance of a point beside it is how far it lies beside it."""
    rng = np.random.default_rng(0)
    line = jnp.asarray(np.stack([rng.uniform(-2, 2, 4000), np.zeros(4000)], axis=1), jnp.float32)
    learner = SupportLearner.create(2, (64, 64), 3e-3, jax.random.key(0))

    @eqx.filter_jit
    def step(learner, key):
        rows = line[jax.random.randint(jax.random.fold_in(key, 1), (EVERY * 128,), 0, len(line))]
        batch = Batch(
            states=rows,
            next_states=rows + 0.1,
            rewards=100 + 5 * rows[:, 0],
            masks=jnp.ones(len(rows)),
            deltas=jnp.zeros(rows.shape, jnp.int32),
        )
        return learner.update(batch, rows[:, 0], key)

    for i in range(1500):
        learner, metrics = step(learner, jax.random.key(i))
    support = learner.support
    beside = jnp.array([[0.5, y] for y in (0.0, 0.5, 1.0, 2.0, 4.0)], jnp.float32)
    far = np.asarray(support.distance(beside))
    assert far[0] < 0.15
    assert (np.diff(far) > 0.1).all()
    # The root of the mean square over two variables, one of which did not move.
    np.testing.assert_allclose(far[3:], np.array([2.0, 4.0]) / np.sqrt(2), rtol=0.35)
    assert -2.1 < float(support.lowest_value) < -1.8
    assert float(support.floor) == float(support.lowest_value)
    # Rewards are learnt in units of their own spread.
    assert float(metrics["reward_loss"]) < 0.1
    paid = np.asarray(support.reward(line[:200], line[:200] + 0.1))
    np.testing.assert_allclose(paid, np.asarray(line[:200, 0]) / np.sqrt(4 / 3), atol=0.15)


def test_an_end_is_worth_0_so_the_floor_is_not_above_it():
    support = SupportLearner.create(2, (8,), 1e-3, jax.random.key(0)).support
    assert float(dataclasses.replace(support, lowest_value=jnp.array(7.0)).floor) == 0


def test_it_remembers_that_an_episode_ended():
    rows = jnp.zeros((2 * EVERY, 2))
    batch = Batch(rows, rows, jnp.zeros(len(rows)), jnp.ones(len(rows)), jnp.zeros(rows.shape, jnp.int32))
    learner = SupportLearner.create(2, (8,), 1e-3, jax.random.key(0))
    ended = dataclasses.replace(batch, masks=batch.masks.at[-1].set(0.0))
    seen = []
    for each in (batch, ended, batch):
        learner, _ = learner.update(each, rows[:, 0], jax.random.key(1))
        seen.append(float(learner.support.ends))
    assert seen == [0, 1, 1]
