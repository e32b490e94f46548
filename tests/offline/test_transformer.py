"""The network of AFDT against its definition, in NumPy and by what must not change its answers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actionless.offline.transformer import Block, PlanNetwork, dropped, is_step, visible_tokens

DIM, STEPS = 2, 4


@pytest.fixture(scope="module")
def network():
    return eqx.filter_jit(PlanNetwork.create(DIM, longest=9, width=8, blocks=2, key=jax.random.key(0)))


def episode(seed=0, last=7):
    """A window that ends with the step `last` of its episode."""
    rng = np.random.default_rng(seed)
    states = jnp.asarray(rng.normal(size=(1, STEPS, DIM)), jnp.float32)
    to_go = jnp.asarray(rng.normal(size=(1, STEPS)), jnp.float32)
    return states, to_go, jnp.arange(last - STEPS + 1, last + 1, dtype=jnp.int32)[None]


def test_a_window_may_begin_before_its_episode():
    times = jnp.array([[7, 8, 0, 1], [3, 4, 5, 6], [0, 0, 0, 0]])
    expected = [[False, False, True, True], [True] * 4, [False, False, False, True]]
    np.testing.assert_array_equal(is_step(times), expected)


def test_tokens_see_what_was_before_them_in_their_episode():
    visible = visible_tokens(jnp.array([[5, 0, 1]]))[0]
    expected = [
        [1, 0, 0, 0, 0, 0],  # of another episode: itself alone
        [0, 1, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],  # the state of step 0
        [0, 0, 1, 1, 0, 0],  # its return
        [0, 0, 1, 1, 1, 0],
        [0, 0, 1, 1, 1, 1],
    ]
    np.testing.assert_array_equal(visible, np.array(expected, bool))


@pytest.mark.parametrize("changed", range(STEPS))
def test_no_step_sees_a_later_one(network, changed):
    states, to_go, times = episode()
    before = network(states, to_go, times)
    for other in (
        network(states.at[0, changed].add(1.0), to_go, times),
        network(states, to_go.at[0, changed].add(1.0), times),
    ):
        np.testing.assert_array_equal(other[0, :changed], before[0, :changed])
        assert (np.abs(other[0, changed:] - before[0, changed:]).max(axis=1) > 1e-4).all()


def test_a_step_sees_its_own_return_and_those_before_it(network):
    """The prediction is read where the return stands; where the state stands, its own would not matter."""
    states, to_go, times = episode()
    slope = jax.grad(lambda wanted: network(states, wanted, times)[0, -1, 0])(to_go)
    assert (np.abs(slope) > 1e-6).all()


def test_what_is_before_the_episode_does_not_matter(network):
    states, to_go, times = episode(last=1)
    other = network(states.at[0, :2].add(100.0), to_go.at[0, :2].add(100.0), times.at[0, :2].set(8))
    np.testing.assert_array_equal(other[0, 2:], network(states, to_go, times)[0, 2:])


def test_the_place_in_the_episode_matters_and_the_last_stands_for_all_later_ones(network):
    states, to_go, _ = episode()
    at = [network(states, to_go, jnp.arange(last - 3, last + 1)[None])[0, -1] for last in (5, 6, 20, 30)]
    assert not np.allclose(at[0], at[1])
    np.testing.assert_array_equal(at[2], at[3])


def test_windows_do_not_see_each_other(network):
    one, other = episode(0), episode(1)
    together = network(*(jnp.concatenate(pair) for pair in zip(one, other, strict=True)))
    np.testing.assert_allclose(together[1], network(*other)[0], rtol=1e-5, atol=1e-6)


def test_a_block_by_its_definition():
    """In float64, token by token."""
    block = Block.create(6, jax.random.key(1))
    block = eqx.tree_at(lambda b: b.before_attention.scale, block, jnp.linspace(0.5, 2, 6))
    block = eqx.tree_at(lambda b: b.before_widening.shift, block, jnp.linspace(-1, 1, 6))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 6))
    visible = np.tril(np.ones((3, 3), bool))

    def normal(layer, row):
        return (row - row.mean()) / np.sqrt(row.var() + 1e-5) * np.asarray(layer.scale) + np.asarray(layer.shift)

    def linear(layer, row):
        return row @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)

    def gelu(row):
        return 0.5 * row * (1 + np.tanh(np.sqrt(2 / np.pi) * (row + 0.044715 * row**3)))

    parts = [np.split(linear(block.attended, normal(block.before_attention, row)), 3) for row in x]
    expected = []
    for t in range(3):
        weights = np.array([np.exp(parts[t][0] @ parts[s][1] / np.sqrt(6)) for s in range(3)]) * visible[t]
        told = sum(w * parts[s][2] for s, w in enumerate(weights / weights.sum()))
        row = x[t] + linear(block.mixed, told)
        expected.append(row + linear(block.narrowed, gelu(linear(block.widened, normal(block.before_widening, row)))))
    ours = block(jnp.asarray(x, jnp.float32)[None], jnp.asarray(visible)[None], 0.0, None)[0]
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


def test_dropping_keeps_the_mean():
    ones = jnp.ones((100, 100))
    kept = dropped(ones, 0.25, jax.random.key(0))
    assert set(np.unique(kept).tolist()) == {0.0, np.float32(1 / 0.75)}
    assert float(kept.mean()) == pytest.approx(1.0, abs=0.02)
    assert dropped(ones, 0.25, None) is ones
