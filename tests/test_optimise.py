import jax
import jax.numpy as jnp
import numpy as np
import optax

from actionless.optimise import Adam, clipped, follow, norm


def test_two_steps_by_hand():
    parameters, adam = jnp.array([1.0, -2.0]), Adam.create(jnp.zeros(2), learning_rate=0.1)
    gradients = [np.array([0.5, -4.0]), np.array([1.5, 0.0])]
    expected, m, v = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    for t, gradient in enumerate(gradients, start=1):
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        expected = expected - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        parameters, adam = adam.step(parameters, jnp.asarray(gradient, jnp.float32))
        np.testing.assert_allclose(parameters, expected, rtol=1e-6)


def test_follow_moves_by_the_share():
    np.testing.assert_allclose(follow(jnp.array([0.0, 1.0]), jnp.array([1.0, 1.0]), 0.25), [0.25, 1.0])


def test_norm_of_a_tree():
    assert norm({"a": jnp.array([3.0]), "b": jnp.array([[0.0, 4.0]])}) == 5.0


def test_a_long_gradient_is_shortened_and_a_short_one_left_alone():
    long = {"a": jnp.array([3.0]), "b": jnp.array([[0.0, 4.0]])}
    np.testing.assert_allclose(clipped(long, 0.5)["a"], [0.3], rtol=1e-6)
    np.testing.assert_allclose(clipped(long, 0.5)["b"], [[0.0, 0.4]], rtol=1e-6)
    np.testing.assert_array_equal(clipped(long, 5.0)["a"], long["a"])
    np.testing.assert_array_equal(clipped(jnp.zeros(3), 0.5), np.zeros(3))


def test_clipping_warming_up_and_decaying_is_that_of_optax():
    gradients = jax.random.normal(jax.random.key(0), (10, 3, 4)) * 3
    parameters = theirs = jnp.ones((3, 4))
    ours = Adam.create(parameters, learning_rate=0.01, warm_up=4, weight_decay=0.1)
    reference = optax.chain(
        optax.clip_by_global_norm(2.0),
        optax.adamw(lambda count: 0.01 * jnp.minimum((count + 1.0) / 4.0, 1.0), weight_decay=0.1),
    )
    with jax.numpy_dtype_promotion("standard"):
        state, next_update = reference.init(theirs), jax.jit(reference.update)
        for gradient in gradients:
            parameters, ours = ours.step(parameters, clipped(gradient, 2.0))
            update, state = next_update(gradient, state, theirs)
            theirs = theirs + update
    np.testing.assert_allclose(parameters, theirs, rtol=1e-5)


def test_adam_takes_the_steps_of_optax():
    """Ten steps on random gradients; Optax needs JAX's usual promotion."""
    gradients = jax.random.normal(jax.random.key(0), (10, 3, 4))
    parameters = theirs = jnp.ones((3, 4))
    ours, reference = Adam.create(parameters, learning_rate=0.01), optax.adam(0.01)
    state = reference.init(theirs)
    for gradient in gradients:
        parameters, ours = ours.step(parameters, gradient)
        with jax.numpy_dtype_promotion("standard"):
            update, state = reference.update(gradient, state)
        theirs = theirs + update
    np.testing.assert_allclose(parameters, theirs, rtol=1e-6)
