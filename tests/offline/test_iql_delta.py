"""IQL over Δs: its losses by hand, values against dynamic programming, and Δs that did better."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_learners import random_discretiser

from actionless.discretise import Discretiser
from actionless.errors import ActionlessError
from actionless.offline.iql_delta import (
    RETURNS,
    IqlDelta,
    IqlDeltaConfig,
    expectile_loss,
    imitation_weights,
    weighted_cross_entropy,
)
from actionless.offline.learner import Batch, PolicyLabel, Spec

CONFIG = IqlDeltaConfig(ensemble=2, hidden=(32,), learning_rate=3e-3, target_rate=0.05, discount=0.9)


def chain(pay=(0.0, 1.0, 2.0, 4.0)):
    """Every step of a walk to the right that ends at the last place, many times over."""
    places = np.tile(np.arange(len(pay)), 16)
    after = np.minimum(places + 1, len(pay) - 1)
    return Batch(
        states=jnp.asarray(places[:, None] - 1.5, jnp.float32),
        next_states=jnp.asarray(after[:, None] - 1.5, jnp.float32),
        rewards=jnp.asarray(np.array(pay)[places], jnp.float32),
        masks=jnp.asarray(places < len(pay) - 1, jnp.float32),
        deltas=jnp.full((len(places), 1), 2, jnp.int32),
    )


def taught(batch, config=CONFIG, updates=3000):
    learner = IqlDelta.create(Spec(batch.states.shape[1], 3), config, jax.random.key(0))
    step = eqx.filter_jit(lambda learner, key: learner.update(batch, key))
    for i in range(updates):
        learner, metrics = step(learner, jax.random.key(i))
    return learner, metrics


def test_expectiles_weigh_what_is_above_and_below():
    error = jnp.array([[2.0, -2.0]])
    assert expectile_loss(error, 0.5).tolist() == [[4.0, 4.0]]
    np.testing.assert_allclose(expectile_loss(error, 0.9), [[7.2, 0.8]], rtol=1e-6)


def test_weights_do_not_depend_on_the_unit_of_rewards():
    advantages = jnp.array([-1.0, 0.0, 1.0])
    weights = imitation_weights(advantages, CONFIG)
    np.testing.assert_allclose(imitation_weights(1000 * advantages, CONFIG), weights, rtol=1e-5)
    expected = np.exp(np.array([-1.0, 0.0, 1.0]) / np.std([-1.0, 0.0, 1.0]))
    np.testing.assert_allclose(weights, expected / expected.mean(), rtol=1e-5)
    assert imitation_weights(advantages, dataclasses.replace(CONFIG, advantage_weight=0.0)).tolist() == [1, 1, 1]
    cut = imitation_weights(jnp.array([0.0] * 99 + [99.0]), dataclasses.replace(CONFIG, advantage_weight=5.0))
    assert float(cut[-1] / cut[0]) == pytest.approx(CONFIG.weight_limit)


def test_weighted_cross_entropy_by_hand():
    two = jax.tree.map(lambda rows: rows[:2], chain())
    batch = dataclasses.replace(two, deltas=jnp.array([[0], [2]]))
    logits = jnp.log(jnp.array([[[[0.5], [0.3], [0.2]], [[0.1], [0.1], [0.8]]]]))
    loss = weighted_cross_entropy(logits, batch, jnp.array([1.0, 3.0]))
    assert float(loss) == pytest.approx(-(np.log(0.5) + 3 * np.log(0.8)) / 2, rel=1e-5)


@pytest.mark.parametrize("monte_carlo", [False, True])
def test_values_are_those_of_the_walk(monte_carlo):
    values = np.zeros(4)
    for place in (3, 2, 1, 0):
        values[place] = (0, 1, 2, 4)[place] + (0.9 * values[place + 1] if place < 3 else 0)
    batch = chain()
    if monte_carlo:
        batch = dataclasses.replace(batch, extra={RETURNS: jnp.asarray(np.tile(values, 16), jnp.float32)})
    learner, metrics = taught(batch, dataclasses.replace(CONFIG, monte_carlo=monte_carlo))
    places = np.arange(4.0)[:, None] - 1.5
    bins = Discretiser.fit(np.array([[-1.0], [1.0]]), np.array([[0.0], [2.0]]))
    model = learner.policy(bins, PolicyLabel("iql-delta", ("x",))).model
    np.testing.assert_allclose(model.best_value(jnp.asarray(places, jnp.float32)), values, atol=0.15)
    assert float(metrics["v_mean"]) == pytest.approx(values.mean(), abs=0.15)
    assert float(model.support.lowest_value) == pytest.approx(values.min(), abs=0.3)


class TestTurns:
    """Three networks of V, one of which learns in each update, from returns that do not depend on the others."""

    CONFIG = dataclasses.replace(CONFIG, ensemble=3, at_once=1, monte_carlo=True)
    BATCH = dataclasses.replace(chain(), extra={RETURNS: jnp.arange(64.0)})

    def learner(self, config=CONFIG, values=None):
        learner = IqlDelta.create(Spec(1, 3), config, jax.random.key(0))
        if values is None:
            return learner
        network = dataclasses.replace(learner.network, values=values)
        return dataclasses.replace(learner, network=network, target_values=jax.tree.map(jnp.copy, values))

    def after(self, learner, updates):
        for i in range(updates):
            learner, _ = learner.update(self.BATCH, jax.random.key(i))
        return learner

    def test_one_network_learns_at_a_time(self):
        before, after = self.learner(), self.after(self.learner(), 2)
        for old, new in ((before.network.values, after.network.values), (before.target_values, after.target_values)):
            moved = [bool((a != b).any()) for a, b in zip(old.weights[0], new.weights[0], strict=True)]
            assert moved == [True, True, False]

    def test_it_learns_as_it_would_alone(self):
        ours = self.learner()
        second = jax.tree.map(lambda a: jnp.copy(a[1:2]), ours.network.values)
        rate = 1 - (1 - self.CONFIG.target_rate) ** 3
        alone = self.learner(dataclasses.replace(self.CONFIG, ensemble=1, target_rate=rate), second)
        ours, alone = self.after(ours, 5), self.after(alone, 2)
        for field in ("weights", "biases"):
            for pair in ((ours.network.values, alone.network.values), (ours.target_values, alone.target_values)):
                for a, b in zip(*(getattr(ensemble, field) for ensemble in pair), strict=True):
                    np.testing.assert_allclose(a[1:2], b, rtol=1e-4, atol=1e-6)

    def test_all_at_once(self):
        together = dataclasses.replace(self.CONFIG, at_once=None)
        assert (together.learning, together.turns) == (3, 1)
        before, after = self.learner(together), self.after(self.learner(together), 1)
        assert (before.network.values.weights[0] != after.network.values.weights[0]).any(axis=(1, 2)).all()

    def test_turns_that_do_not_come_out_even(self):
        with pytest.raises(ActionlessError, match="at_once=2: choose a divisor of ensemble, which is 3"):
            dataclasses.replace(self.CONFIG, at_once=2)


def test_the_steps_that_did_better_are_imitated():
    """From one state, a quarter of the steps goes up and earns, the rest goes down and does not."""
    rows = 400
    up = np.arange(rows) % 4 == 0
    batch = Batch(
        states=jnp.zeros((rows, 1)),
        next_states=jnp.zeros((rows, 1)),
        rewards=jnp.asarray(np.where(up, 1.0, 0.0), jnp.float32),
        masks=jnp.zeros(rows),
        deltas=jnp.asarray(np.where(up, 2, 0)[:, None], jnp.int32),
    )
    for weight, proposed in ((0.0, 0), (3.0, 2)):
        learner, _ = taught(batch, dataclasses.replace(CONFIG, advantage_weight=weight), updates=300)
        policy = learner.policy(random_discretiser(dim=1), PolicyLabel("iql-delta", ("x",)))
        assert policy.model.index(jnp.zeros((1, 1)))[0, 0] == proposed


def test_saved_and_loaded_with_its_values_and_distances(tmp_path):
    learner, _ = taught(chain(), updates=20)
    policy = learner.policy(random_discretiser(dim=1), PolicyLabel("iql-delta", ("x",)))
    policy.save(tmp_path)
    again = type(policy).load(tmp_path)
    states = np.linspace(-2, 2, 7)[:, None]
    for name in ("values", "value_disagreement", "propose"):
        np.testing.assert_array_equal(getattr(again, name)(states), getattr(policy, name)(states))
    z = jnp.asarray(states, jnp.float32)
    np.testing.assert_array_equal(again.model.support.distance(z), policy.model.support.distance(z))
    np.testing.assert_array_equal(again.model.support.reward(z, z + 1), policy.model.support.reward(z, z + 1))
    assert (policy.value_disagreement(states) > 0).all()
