import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actionless.optimise import Adam, polyak
from actionless.trees import pack


class PlainAdam:
    """Clipping, Adam, weight decay and warm-up as their papers write them, in float64."""

    def __init__(self, learning_rate, warm_up=0, weight_decay=0.0, max_grad_norm=np.inf):
        self.learning_rate, self.warm_up, self.weight_decay = learning_rate, warm_up, weight_decay
        self.max_grad_norm = max_grad_norm
        self.m = self.v = 0.0
        self.t = 0

    def step(self, parameters, gradient):
        length = np.linalg.norm(gradient)
        gradient = gradient * min(1, self.max_grad_norm / length) if length > 0 else gradient
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        direction = (self.m / (1 - 0.9**self.t)) / (np.sqrt(self.v / (1 - 0.999**self.t)) + 1e-8)
        rate = self.learning_rate * (min(1, self.t / self.warm_up) if self.warm_up else 1)
        return parameters - rate * (direction + self.weight_decay * parameters)


def test_a_falling_learning_rate_by_hand():
    """Of equal gradients each step is as long as the learning rate: 1 + cos(π t / 4) over 2."""
    place, adam = jnp.zeros(()), Adam.create(jnp.zeros(()), learning_rate=1.0, decay=4)
    for place_after in np.cumsum([-(2 + 2**0.5) / 4, -0.5, -(2 - 2**0.5) / 4, 0, 0]):
        place, adam = adam.step(place, jnp.ones(()))
        assert float(place) == pytest.approx(place_after, rel=1e-4)


def test_two_steps_by_hand():
    parameters, adam = jnp.array([1.0, -2.0]), Adam.create(jnp.zeros(2), learning_rate=0.01)
    # The first step is as long as the learning rate, whatever the gradient.
    parameters, adam = adam.step(parameters, jnp.array([0.5, -4.0]))
    np.testing.assert_allclose(parameters, [0.99, -1.99], rtol=1e-6)
    parameters, adam = adam.step(parameters, jnp.array([1.5, 0.0]))
    first = np.array([0.9 * 0.05 + 0.1 * 1.5, 0.9 * -0.4]) / (1 - 0.9**2)
    second = np.array([0.999 * 0.00025 + 0.001 * 2.25, 0.999 * 0.016]) / (1 - 0.999**2)
    np.testing.assert_allclose(parameters, np.array([0.99, -1.99]) - 0.01 * first / np.sqrt(second), rtol=1e-6)
    assert adam.count == 2


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"warm_up": 20},
        {"weight_decay": 0.1},
        {"max_grad_norm": 2.0},
        {"warm_up": 20, "weight_decay": 0.1, "max_grad_norm": 2.0},
    ],
    ids=lambda settings: " ".join(settings) or "plain",
)
def test_fifty_steps_are_those_of_the_papers(settings):
    gradients = np.random.default_rng(0).normal(size=(50, 3, 4)).astype(np.float32)
    gradients *= np.random.default_rng(1).uniform(0, 2, (50, 1, 1)).astype(np.float32)
    parameters, expected = jnp.ones((3, 4)), np.ones((3, 4))
    adam, plain = Adam.create(parameters, 1e-3, **settings), PlainAdam(1e-3, **settings)
    step = jax.jit(Adam.step)
    for gradient in gradients:
        parameters, adam = step(adam, parameters, jnp.asarray(gradient))
        expected = plain.step(expected, gradient.astype(np.float64))
        np.testing.assert_allclose(parameters, expected, rtol=1e-6)


def test_the_norm_that_is_clipped_is_that_of_all_leaves_together():
    long = {"a": jnp.array([3.0]), "b": jnp.array([[0.0, 4.0]])}
    zeros = jax.tree.map(jnp.zeros_like, long)

    def first_moment(max_grad_norm, gradient):
        return Adam.create(zeros, 0.1, max_grad_norm=max_grad_norm).step(zeros, gradient)[1].first

    np.testing.assert_allclose(first_moment(0.5, long)["a"], [0.03], rtol=1e-6)
    np.testing.assert_allclose(first_moment(0.5, long)["b"], [[0.0, 0.04]], rtol=1e-6)
    np.testing.assert_allclose(first_moment(6.0, long)["a"], [0.3], rtol=1e-6)
    np.testing.assert_array_equal(first_moment(0.5, zeros)["b"], np.zeros((1, 2)))


def test_the_arrays_of_a_checkpoint_keep_their_names():
    """Runs that were stopped under an older version are resumed by these names."""
    arrays, values = pack({"optimiser": Adam.create({"w": jnp.ones(2)}, 0.1, warm_up=3)})
    assert set(arrays) == {"['optimiser'].first['w']", "['optimiser'].second['w']", "['optimiser'].count"}
    assert arrays["['optimiser'].count"].dtype == np.int32
    assert values == {}


def test_polyak_moves_by_the_share():
    np.testing.assert_allclose(polyak(jnp.array([0.0, 1.0]), jnp.array([1.0, 1.0]), 0.25), [0.25, 1.0])
