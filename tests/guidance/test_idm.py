import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actionless.guidance.idm import IDM_SCALES, Examples, IdmBatch, IdmConfig, IdmSpec, InverseDynamics

CONFIG = IdmConfig(hidden=(32, 32), learning_rate=3e-3)
CONTINUOUS = IdmSpec(state_dim=2, delta_bins=3, action_dim=2)
FACTORISED = IdmSpec(state_dim=2, delta_bins=3, action_dim=2, action_bins=3)
SPECS = pytest.mark.parametrize("spec", [CONTINUOUS, FACTORISED], ids=["continuous", "factorised"])


def create(spec, config=CONFIG, seed=0):
    return InverseDynamics.create(spec, config, jax.random.key(seed))


def fitted(idm, batch, updates):
    def update(idm, _):
        return idm.update(batch, jax.random.key(0))

    return jax.jit(lambda idm: jax.lax.scan(update, idm, None, updates))(idm)


def random_examples(spec, rows=256, seed=0):
    """Actions that have nothing to do with Δs."""
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1, 1, (rows, 2)) if spec.action_bins is None else rng.integers(0, 3, (rows, 2))
    return Examples(
        jnp.asarray(rng.normal(size=(rows, 2)), jnp.float32),
        jnp.asarray(rng.integers(0, 3, (rows, 2)), jnp.int8),
        jnp.asarray(actions, jnp.float32 if spec.action_bins is None else jnp.int32),
    )


def with_zero_network(idm):
    return jax.tree.map(jnp.zeros_like, idm)


class TestKnownSystem:
    """s' = s + B a, where B mixes the action's dimensions; actions of full strength either way, or none."""

    mixing = np.array([[1.0, 0.0], [1.0, 1.0]])

    def transitions(self, seed=0):
        rng = np.random.default_rng(seed)
        actions = rng.integers(-1, 2, (512, 2))
        # The second variable stands still if the action's parts cancel: rows where Δs says all there is to say.
        actions = actions[np.abs(actions.sum(axis=1)) < 2]
        actions = actions[(actions[:, 0] != 0) | (actions[:, 1] != 0)]
        deltas = np.sign(actions @ self.mixing.T) + 1
        return rng.normal(size=deltas.shape).astype(np.float32), deltas.astype(np.int8), actions

    def test_recovers_continuous_actions(self):
        states, deltas, actions = self.transitions()
        examples = Examples(jnp.asarray(states), jnp.asarray(deltas), jnp.asarray(actions * 0.8, jnp.float32))
        idm, metrics = fitted(create(CONTINUOUS), IdmBatch(examples, None), 500)
        assert metrics["idm/loss"][-1] < 0.05
        states, deltas, actions = self.transitions(seed=1)
        error = np.abs(np.asarray(idm.act(jnp.asarray(states), jnp.asarray(deltas))) - 0.8 * actions).mean()
        assert error < 0.08

    def test_recovers_factorised_actions(self):
        states, deltas, actions = self.transitions()
        examples = Examples(jnp.asarray(states), jnp.asarray(deltas), jnp.asarray(actions + 1, jnp.int32))
        idm, _ = fitted(create(FACTORISED), IdmBatch(examples, None), 300)
        states, deltas, actions = self.transitions(seed=1)
        proposed = idm.act(jnp.asarray(states), jnp.asarray(deltas))
        assert proposed.dtype == jnp.int32
        assert (np.asarray(proposed) == actions + 1).mean() > 0.97


class TestLoss:
    """Of a network of zeros: it says 0, or the same chance for each bin."""

    def examples(self, actions, dtype):
        return Examples(jnp.zeros((2, 2)), jnp.zeros((2, 2), jnp.int8), jnp.asarray(actions, dtype))

    def test_continuous_is_the_absolute_error_averaged_over_batch_and_dimensions(self):
        idm = with_zero_network(create(CONTINUOUS))
        online = self.examples([[1.0, -1.0], [0.5, 0.0]], jnp.float32)
        offline = self.examples([[0.2, -0.2], [0.2, 0.2]], jnp.float32)
        loss, metrics = idm.loss(idm.network, IdmBatch(online, offline))
        assert metrics["idm/online_loss"] == pytest.approx(2.5 / 4)
        assert metrics["idm/offline_loss"] == pytest.approx(0.2)
        assert loss == metrics["idm/loss"] == pytest.approx(0.825)

    def test_factorised_is_the_cross_entropy_of_each_dimension(self):
        idm = with_zero_network(create(FACTORISED))
        loss, _ = idm.loss(idm.network, IdmBatch(self.examples([[0, 1], [2, 2]], jnp.int32), None))
        assert loss == pytest.approx(np.log(3))

    def test_factorised_tells_bins_from_dimensions(self):
        idm = with_zero_network(create(FACTORISED))
        bias = jnp.asarray(
            [[[0.0, 9.0, 0.0, 0.0, 9.0, 0.0]]]
        )  # (bin, dimension): bin 2 of the first, bin 0 of the other
        biases = idm.network.mlp.ensemble.biases
        network = jax.tree.map(lambda leaf: bias if leaf is biases[-1] else leaf, idm.network)
        assert network.act(jnp.zeros((1, 2)), jnp.zeros((1, 2), jnp.int8)).tolist() == [[2, 0]]
        assert network.error(self.examples([[2, 0], [2, 0]], jnp.int32)) == pytest.approx(2 * np.exp(-9), rel=1e-2)

    def test_bins_enter_between_minus_one_and_one(self):
        # Weights that only see the first dimension's Δs, and pass it on.
        spec = IdmSpec(state_dim=1, delta_bins=5, action_dim=1)
        idm = create(spec, IdmConfig(hidden=()))
        network = jax.tree.map(jnp.zeros_like, idm.network)
        weights = network.mlp.ensemble.weights
        weight = jnp.asarray([[[0.0], [1.0]]])
        network = jax.tree.map(lambda leaf: weight if leaf is weights[0] else leaf, network)
        actions = network.act(jnp.zeros((5, 1)), jnp.arange(5, dtype=jnp.int8)[:, None])
        np.testing.assert_allclose(np.arctanh(actions[:, 0]), [-1, -0.5, 0, 0.5, 1], atol=1e-6)


@SPECS
class TestBootstrapping:
    def test_pulls_towards_the_agents_actions_where_the_log_is(self, spec):
        online, offline = random_examples(spec, 8), random_examples(spec, 8, seed=1)
        _, metrics = fitted(create(spec), IdmBatch(online, offline), 400)
        assert metrics["idm/offline_loss"][-1] < 0.2 * metrics["idm/offline_loss"][0]

    def test_off_means_absent(self, spec):
        idm = create(spec)
        loss, metrics = idm.loss(idm.network, IdmBatch(random_examples(spec), None))
        assert metrics == {"idm/loss": loss, "idm/online_loss": loss}

    def test_both_terms_weigh_the_same(self, spec):
        one, other = random_examples(spec), random_examples(spec, seed=1)
        idm = create(spec)
        forward, _ = idm.loss(idm.network, IdmBatch(one, other))
        backward, _ = idm.loss(idm.network, IdmBatch(other, one))
        assert forward == pytest.approx(float(backward))


@SPECS
class TestUpdate:
    def test_is_pure_and_repeatable(self, spec):
        idm, batch = create(spec), IdmBatch(random_examples(spec), None)
        update = jax.jit(InverseDynamics.update)
        key = jax.random.key(0)
        first, again = update(idm, batch, key)[0], update(idm, batch, key)[0]
        assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), first, again)))
        assert (int(idm.optimiser.count), int(first.optimiser.count)) == (0, 1)

    def test_keeps_every_shape_and_type(self, spec):
        idm = create(spec)
        after, _ = jax.eval_shape(idm.update, IdmBatch(random_examples(spec), None), jax.random.key(0))
        kinds = jax.tree.map(lambda a, b: (a.shape, a.dtype) == (b.shape, b.dtype), idm, after)
        assert all(jax.tree.leaves(kinds))


def test_continuous_actions_stay_in_range():
    idm = create(CONTINUOUS)
    actions = idm.act(1e4 * jnp.ones((3, 2)), jnp.zeros((3, 2), jnp.int8))
    assert float(jnp.abs(actions).max()) <= 1


def test_the_paper_scale_is_the_papers():
    paper = IDM_SCALES["paper"]
    assert (paper.hidden, paper.learning_rate, paper.batch_size, paper.every) == ((512, 512, 512), 1e-3, 512, 1)
