"""The learner against brute force, against a plain NumPy version of itself, and on a problem with known values."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_learners import random_batch

from actionless.networks import q_values
from actionless.offline.learner import Batch, LogFacts, Returns, Spec
from actionless.offline.oso_decqn import (
    OsoDecqn,
    OsoDecqnConfig,
    conservative_penalty,
    logits,
    sample,
    utilities,
)

M, BINS = 4, 3
SPEC = Spec(M, BINS)
EVERY_DELTA = np.array(list(itertools.product(range(BINS), repeat=M)))


def joint_logits(u, kind):
    """The logit of all 3^M joint Δs: Q itself, or the sum of utilities."""
    chosen = u[EVERY_DELTA, np.arange(M)]
    return chosen.mean(axis=1) if kind == "scaled" else chosen.sum(axis=1)


@pytest.mark.parametrize("kind", ["utilities", "scaled"])
class TestBruteForce:
    u = np.random.default_rng(0).normal(0, 3, (1, 5, BINS, M))
    delta = np.random.default_rng(1).integers(0, BINS, (5, M))

    def factorised(self, kind):
        return logits(jnp.asarray(self.u, jnp.float32), SPEC, OsoDecqnConfig(logits=kind))

    def test_penalty(self, kind):
        excess = []
        for u, delta in zip(self.u[0], self.delta, strict=True):
            every, own = joint_logits(u, kind), (delta == EVERY_DELTA).all(axis=1).argmax()
            excess.append(np.log(np.exp(every).sum()) - every[own])
        # Raw utilities are averaged over dimensions, so that one alpha serves both kinds.
        expected = np.mean(excess) / (M if kind == "utilities" else 1)
        delta = jnp.asarray(self.delta, jnp.int32)
        penalty = conservative_penalty(self.factorised(kind), delta, OsoDecqnConfig(logits=kind))
        np.testing.assert_allclose(penalty, expected, rtol=1e-5)

    def test_sampled_delta(self, kind):
        draws = 200_000
        one_state = self.factorised(kind)[0, :1]
        drawn = sample(jnp.broadcast_to(one_state, (draws, BINS, M)), jax.random.key(0))
        codes = np.asarray(drawn) @ BINS ** np.arange(M)[::-1]
        frequency = np.bincount(codes, minlength=BINS**M) / draws
        joint = np.exp(joint_logits(self.u[0, 0], kind))
        probability = joint / joint.sum()
        deviation = np.sqrt(probability * (1 - probability) / draws)
        assert (np.abs(frequency - probability) < 5 * deviation + 1e-5).all()


@pytest.mark.parametrize(
    ("returns", "scale"),
    [
        (Returns(300.0, 100.0), 0.5),
        (Returns(-300.0, 0.5), 100.0),
        (Returns(1000.0, 0.0), 0.05),
        (Returns(-1000.0, 1e-5), 0.05),
        (Returns(0.0, 0.0), 1.0),
    ],
)
def test_rewards_are_scaled_to_the_spread_that_alpha_was_chosen_for(returns, scale):
    facts = LogFacts("patients", np.zeros(1), lambda discount: {0.9: returns}[discount])
    assert OsoDecqnConfig(discount=0.9).for_log(facts).reward_scale == pytest.approx(scale)
    hopper = LogFacts("hopper_medium-v2", np.zeros(1), facts.returns)
    assert OsoDecqnConfig(discount=0.9).for_log(hopper).reward_scale == 1


def test_extreme_logits_are_sampled_within_bounds():
    certain = jnp.array([[[1e4], [-1e4], [-1e4]], [[-1e4], [-1e4], [1e4]]])
    many = jnp.tile(certain, (500, 1, 1))
    np.testing.assert_array_equal(sample(many, jax.random.key(0)).ravel(), [0, 2] * 500)


def test_q_is_the_mean_utility_of_the_chosen_bins():
    u = jnp.arange(2 * 1 * 3 * 2, dtype=jnp.float32).reshape(2, 1, 3, 2)
    np.testing.assert_allclose(q_values(u, jnp.array([[2, 0]])), [[(4 + 1) / 2], [(10 + 7) / 2]])


class PlainNumpy:
    """One update in float64 with loops and finite differences; shares nothing with the learner."""

    def __init__(self, learner):
        self.config, self.spec = learner.config, learner.spec
        self.parameters = self.copy(learner.network)
        self.target = self.copy(learner.target_network)
        self.first = [np.zeros_like(p) for p in self.parameters]
        self.second = [np.zeros_like(p) for p in self.parameters]
        self.count = 0

    @staticmethod
    def copy(network):
        return [np.array(p, np.float64) for p in (*network.weights, *network.biases)]

    def utilities(self, parameters, states):
        depth = len(parameters) // 2
        members = []
        for e in range(self.config.ensemble):
            x = np.asarray(states, np.float64)
            for layer in range(depth):
                x = x @ parameters[layer][e] + parameters[depth + layer][e]
                x = np.maximum(x, 0) if layer < depth - 1 else x
            members.append(x.reshape(len(x), self.spec.bins, self.spec.state_dim))
        return members

    def q(self, u, delta):
        dims = range(self.spec.state_dim)
        return np.array([np.mean([row[delta[b, j], j] for j in dims]) for b, row in enumerate(u)])

    def temperature(self):
        return self.spec.state_dim if self.config.logits == "scaled" else 1

    def td_target(self, batch, key):
        mean = np.mean(self.utilities(self.parameters, batch.next_states), axis=0) / self.temperature()
        uniform = np.asarray(jax.random.uniform(key, (len(mean), 1, self.spec.state_dim)))[:, 0]
        delta = np.zeros(uniform.shape, int)
        for b, j in np.ndindex(delta.shape):
            odds = np.exp(mean[b, :, j])
            delta[b, j] = np.searchsorted(np.cumsum(odds / odds.sum()), uniform[b, j], side="right")
        members = [self.q(u, delta) for u in self.utilities(self.target, batch.next_states)]
        value = np.mean(members, axis=0) if self.config.target == "mean" else np.min(members, axis=0)
        masks = np.asarray(batch.masks) if self.config.mask_terminals else 1
        return self.config.reward_scale * np.asarray(batch.rewards) + self.config.discount * masks * value

    def loss(self, parameters, batch, target):
        members, delta = self.utilities(parameters, batch.states), np.asarray(batch.deltas)
        errors = np.concatenate([self.q(u, delta) - target for u in members])
        if self.config.loss == "mse":
            td_loss = np.mean(errors**2)
        else:
            td_loss = np.mean([0.5 * e**2 if abs(e) <= 1 else abs(e) - 0.5 for e in errors])
        penalised = [np.mean(members, axis=0)] if self.config.penalty_on == "mean" else members
        excess = []
        for u in penalised:
            for b, j in np.ndindex(delta.shape):
                scaled = u[b, :, j] / self.temperature()
                excess.append(np.log(np.sum(np.exp(scaled))) - scaled[delta[b, j]])
        penalty = np.mean(excess) * (self.spec.state_dim if self.config.logits == "scaled" else 1)
        return td_loss + self.config.alpha * penalty

    def gradient(self, batch, target, step=1e-5):
        gradient = [np.zeros_like(p) for p in self.parameters]
        for p, g in zip(self.parameters, gradient, strict=True):
            for place in np.ndindex(p.shape):
                kept, sides = p[place], []
                for sign in (1, -1):
                    p[place] = kept + sign * step
                    sides.append(self.loss(self.parameters, batch, target))
                p[place] = kept
                g[place] = (sides[0] - sides[1]) / (2 * step)
        return gradient

    def update(self, batch, key):
        gradient = self.gradient(batch, self.td_target(batch, key))
        self.count += 1
        for i, g in enumerate(gradient):
            self.first[i] = 0.9 * self.first[i] + 0.1 * g
            self.second[i] = 0.999 * self.second[i] + 0.001 * g**2
            first, second = self.first[i] / (1 - 0.9**self.count), self.second[i] / (1 - 0.999**self.count)
            self.parameters[i] = self.parameters[i] - self.config.learning_rate * first / (np.sqrt(second) + 1e-8)
            rate = self.config.target_rate
            self.target[i] = (1 - rate) * self.target[i] + rate * self.parameters[i]
        return gradient


BY_DEFAULT = OsoDecqnConfig(alpha=2.0, ensemble=2, hidden=(5, 4), learning_rate=1e-2, target_rate=0.1, reward_scale=0.5)
OTHERWISE = dataclasses.replace(
    BY_DEFAULT, loss="huber", logits="scaled", penalty_on="members", target="min", mask_terminals=False
)


@eqx.filter_jit
def td_target(learner, batch, key):
    return learner.td_target(batch, key)


@eqx.filter_jit
def gradient_of(learner, batch, target):
    return eqx.filter_grad(learner.loss, has_aux=True)(learner.network, batch, target)


@eqx.filter_jit
def update(learner, batch, key):
    return learner.update(batch, key)


@pytest.mark.parametrize("config", [BY_DEFAULT, OTHERWISE], ids=["default", "every-other-choice"])
def test_updates_equal_a_plain_numpy_version(config):
    spec = Spec(2, 3)
    learner = OsoDecqn.create(spec, config, jax.random.key(0))
    plain = PlainNumpy(learner)
    for step in range(3):
        batch, key = random_batch(step, rows=6, spec=spec), jax.random.key(10 + step)
        target = td_target(learner, batch, key)
        np.testing.assert_allclose(target, plain.td_target(batch, key), rtol=1e-4, atol=1e-5)
        expected_loss = plain.loss(plain.parameters, batch, np.asarray(target))
        gradient, metrics = gradient_of(learner, batch, target)
        np.testing.assert_allclose(metrics["loss"], expected_loss, rtol=1e-4)
        learner, _ = update(learner, batch, key)
        for ours, theirs in zip((*gradient.weights, *gradient.biases), plain.update(batch, key), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-5)
        for network, parameters in ((learner.network, plain.parameters), (learner.target_network, plain.target)):
            for ours, theirs in zip((*network.weights, *network.biases), parameters, strict=True):
                np.testing.assert_allclose(ours, theirs, atol=2e-4)


class TestKnownValues:
    """Two independent walks on the positions 0, 1, 2; the reward of a step is what its positions pay.

    Q* is then the sum of two values of dynamic programming, and the optimal Δs is up, then stay at 2. No step
    leaves the board, so some Δs appear nowhere in the log: the gap in coverage that the penalty is for.
    """

    discount, pay = 0.9, np.array([0.0, 2.0, 8.0])

    def optimal_values(self):
        value = np.zeros(3)
        for _ in range(300):
            q = np.full((3, 3), -np.inf)
            for position, move in itertools.product(range(3), (-1, 0, 1)):
                if 0 <= position + move <= 2:
                    q[position, move + 1] = self.pay[position + move] + self.discount * value[position + move]
            value = q.max(axis=1)
        return q

    def log(self, moves):
        """Every state with every pair of the given moves, once each."""
        rows = [
            (state, pair)
            for state in itertools.product(range(3), repeat=2)
            for pair in itertools.product(moves[state[0]], moves[state[1]])
        ]
        states, steps = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
        arrived = states + steps
        batch = Batch(
            states=jnp.asarray(states - 1, jnp.float32),
            next_states=jnp.asarray(arrived - 1, jnp.float32),
            rewards=jnp.asarray(self.pay[arrived].sum(axis=1), jnp.float32),
            masks=jnp.ones(len(rows)),
            deltas=jnp.asarray(steps + 1, jnp.int32),
        )
        return states, batch

    def learn(self, batch, alpha):
        config = OsoDecqnConfig(
            alpha=alpha,
            ensemble=2,
            hidden=(64, 64),
            learning_rate=2e-3,
            discount=self.discount,
            target_rate=0.02,
        )
        learner = OsoDecqn.create(Spec(2, 3), config, jax.random.key(0))
        keys = jax.random.split(jax.random.key(1), 2500)
        learner, _ = eqx.filter_jit(lambda state: jax.lax.scan(lambda s, key: s.update(batch, key), state, keys))(
            learner
        )
        u = utilities(learner.network, batch.states, learner.spec)
        return np.asarray(q_values(u, batch.deltas).mean(axis=0)), np.asarray(u.mean(axis=0).argmax(axis=1)) - 1

    def expected(self, states, batch):
        q = self.optimal_values()
        values = sum(q[states[:, j], np.asarray(batch.deltas)[:, j]] for j in range(2))
        return values, np.where(states < 2, 1, 0)

    def test_small_alpha_finds_the_values_and_the_optimal_delta(self):
        states, batch = self.log({0: (0, 1), 1: (-1, 0, 1), 2: (-1, 0)})
        values, best = self.expected(states, batch)
        q, proposed = self.learn(batch, alpha=0.5)
        np.testing.assert_array_equal(proposed, best)
        np.testing.assert_allclose(q, values, atol=0.05 * values.max())

    def test_where_coverage_is_missing_only_the_penalty_prevents_overestimation(self):
        states, batch = self.log({0: (1,), 1: (0, 1), 2: (0,)})
        values, best = self.expected(states, batch)
        q, proposed = self.learn(batch, alpha=2.0)
        np.testing.assert_array_equal(proposed, best)
        assert (q - values).max() < 0.02 * values.max()
        naive, wandering = self.learn(batch, alpha=0.0)
        assert (naive - values).min() > values.max()
        assert (wandering != best).any()
