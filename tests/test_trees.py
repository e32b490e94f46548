from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from actionless.errors import ActionlessError
from actionless.trees import first_non_finite, pack, unpack

HERE = Path("run/checkpoints/step-1")


def round_trip(tree, like):
    return unpack(like, *pack(tree), HERE)


@given(
    hnp.arrays(st.sampled_from([np.float32, np.int8, np.uint32, np.bool_]), hnp.array_shapes(min_dims=0, min_side=0))
)
def test_arrays_keep_every_bit(array):
    restored = round_trip([array], [np.zeros_like(array)])[0]
    assert restored.dtype == array.dtype
    assert restored.shape == array.shape
    assert restored.tobytes() == array.tobytes()


def test_transposed_array_keeps_its_values():
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.testing.assert_array_equal(round_trip([array], [np.zeros_like(array)])[0], array)


def test_restored_numpy_arrays_can_be_written():
    restored = round_trip({"replay": np.zeros(3)}, {"replay": np.ones(3)})
    restored["replay"][0] = 5.0
    assert restored["replay"][0] == 5.0


def test_module_and_optimiser_state():
    def make(seed):
        model = eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(seed))
        return model, optax.adam(1e-3).init(eqx.filter(model, eqx.is_array))

    restored, original = round_trip(make(1), make(2)), make(1)
    assert eqx.tree_equal(restored, original)
    assert restored[0].activation is make(2)[0].activation


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_typed_keys_draw_the_same_numbers(impl):
    keys = jax.random.split(jax.random.key(3, impl=impl), 2)
    restored = round_trip(keys, jax.random.split(jax.random.key(0, impl=impl), 2))
    assert jax.random.uniform(restored[1]) == jax.random.uniform(keys[1])


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.Philox, np.random.MT19937, np.random.SFC64])
def test_generators_draw_the_same_numbers(kind):
    generator = np.random.Generator(kind(5))
    generator.normal(size=7)
    restored = round_trip(generator, np.random.Generator(kind(6)))
    np.testing.assert_array_equal(restored.normal(size=9), generator.normal(size=9))


def test_plain_values_keep_their_type():
    tree = {"count": 3, "rate": 0.1, "done": True, "name": "hopper", "scalar": np.float32(2.5)}
    restored = round_trip(tree, {"count": 0, "rate": 0.0, "done": False, "name": "", "scalar": np.float32(0)})
    assert restored == tree
    assert [type(value) for value in restored.values()] == [type(tree[name]) for name in restored]


@pytest.mark.parametrize(
    ("stored", "like", "message"),
    [
        (jnp.zeros(3), jnp.zeros(4), r"holds float32\[3\], this configuration needs float32\[4\]"),
        (jnp.zeros(3), jnp.zeros(3, jnp.int32), r"holds float32\[3\], this configuration needs int32\[3\]"),
        (1, jnp.zeros(3), "is not an array"),
        (1, 2.0, "holds 1, not a float"),
        (jnp.zeros(3), 2.0, "holds None, not a float"),
        (jax.random.key(0, impl="rbg"), jax.random.key(0, impl="threefry2x32"), "not a threefry2x32 key"),
        (np.random.default_rng(0), np.random.Generator(np.random.Philox(0)), "generator PCG64, not Philox"),
    ],
)
def test_what_does_not_fit_is_named(stored, like, message):
    with pytest.raises(ActionlessError, match=r"run/checkpoints/step-1: '\['a'\]' does not fit: .*" + message):
        round_trip({"a": stored}, {"a": like})


def test_missing_and_surplus_leaves_are_named():
    with pytest.raises(ActionlessError, match=r"'\['b'\]' does not fit: it is missing in the file"):
        round_trip({"a": 1}, {"a": 1, "b": 2})
    with pytest.raises(ActionlessError, match=r"'\['b'\]' does not fit: this configuration does not have it"):
        round_trip({"a": 1, "b": 2}, {"a": 1})


def test_unknown_kind_of_leaf_is_refused():
    with pytest.raises(TypeError, match=r"\['a'\]: cannot store a bytes"):
        pack({"a": b"x"})


def test_first_non_finite_names_the_leaf():
    assert first_non_finite(*pack({"a": jnp.ones(2), "b": np.array([1.0, np.nan]), "n": 3})) == "['b']"
    assert first_non_finite(*pack({"a": jnp.ones(2), "rate": float("inf")})) == "['rate']"
    assert first_non_finite(*pack({"a": jnp.ones(2), "key": jax.random.key(0), "rate": 1.0})) is None
