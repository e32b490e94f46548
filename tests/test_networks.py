import jax
import jax.numpy as jnp
import numpy as np

from actionless.networks import MLP, Ensemble


def by_hand(ensemble, member, x):
    last = len(ensemble.weights) - 1
    for layer, (weight, bias) in enumerate(zip(ensemble.weights, ensemble.biases, strict=True)):
        x = np.asarray(x) @ np.asarray(weight[member]) + np.asarray(bias[member])
        x = x if layer == last else np.maximum(x, 0)
    return x


def test_each_member_is_its_own_network():
    ensemble = Ensemble.create(3, (4, 8, 8, 2), jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (5, 4))
    outputs = ensemble(x)
    assert outputs.shape == (3, 5, 2)
    for member in range(3):
        np.testing.assert_allclose(outputs[member], by_hand(ensemble, member, x), atol=1e-5)


def test_weights_start_within_one_over_root_inputs():
    ensemble = Ensemble.create(2, (16, 400, 3), jax.random.key(0))
    for weight, bias, bound in zip(ensemble.weights, ensemble.biases, (1 / 4, 1 / 20), strict=True):
        assert 0.99 * bound < jnp.abs(weight).max() <= bound
        assert jnp.abs(bias).max() <= bound
        assert jnp.abs(weight.mean()) < 0.05 * bound
    assert not np.allclose(ensemble.weights[0][0], ensemble.weights[0][1])


def test_an_mlp_is_an_ensemble_of_one():
    mlp = MLP.create((4, 8, 2), jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (5, 4))
    np.testing.assert_allclose(mlp(x), by_hand(mlp.ensemble, 0, x), atol=1e-5)
