import equinox as eqx
import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actionless.data.log
from actionless.discretise import Discretiser, Normaliser
from actionless.errors import ActionlessError

examples = settings(deadline=None, max_examples=60)

values = st.floats(-100, 100, width=32)
logs = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12).flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.float64, shape, elements=values), hnp.arrays(np.float64, shape, elements=values)
    )
)
three_or_more = st.sampled_from(
    [("epsilon", 2), ("epsilon", 3), ("even", 3), ("even", 4), ("quantile", 5), ("occupancy", 3)]
)


def unit_discretiser(edges, dim=1):
    """Scale 1, so that raw differences are normalised differences."""
    unit = Normaliser(np.zeros(dim), np.ones(dim))
    return Discretiser(unit, np.tile(np.asarray(edges, float), (dim, 1)), np.zeros((dim, len(edges) + 1)))


class TestNormaliser:
    def test_scale_is_spread_plus_offset(self):
        normaliser = Normaliser.fit(np.array([[1.0, 10.0], [3.0, 10.0]]))
        np.testing.assert_allclose(normaliser.mean, [2.0, 10.0])
        np.testing.assert_allclose(normaliser.scale, [1.001, 0.001])

    def test_a_dead_dimension_without_offset_gets_scale_one(self):
        states = np.full((1000, 1), 0.1)
        assert Normaliser.fit(states, offset=0.0).scale == 1.0

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_a_large_offset_costs_no_digits(self, dtype):
        noise = np.tile([-1.0, 1.0], 5000)[:, None].astype(dtype)
        normaliser = Normaliser.fit(noise + dtype(1e6), offset=0.0)
        np.testing.assert_allclose(normaliser.mean, 1e6, rtol=1e-15)
        np.testing.assert_allclose(normaliser.scale, 1.0, rtol=1e-12)
        np.testing.assert_allclose(normaliser.normalise(noise + dtype(1e6)), noise, atol=1e-9)

    def test_blockwise_equals_one_shot(self, monkeypatch):
        states = np.random.default_rng(0).normal(3, 2, (1003, 5)).astype(np.float32)
        monkeypatch.setattr(actionless.data.log, "BLOCK_BYTES", 8 * 70)
        normaliser = Normaliser.fit(states, offset=0.0)
        np.testing.assert_allclose(normaliser.mean, states.mean(0, dtype=np.float64), rtol=1e-12)
        np.testing.assert_allclose(normaliser.scale, states.std(0, dtype=np.float64), rtol=1e-12)

    def test_a_memory_mapped_log(self, tmp_path):
        states = np.random.default_rng(0).normal(size=(50, 2))
        np.save(tmp_path / "states.npy", states)
        mapped = Normaliser.fit(np.load(tmp_path / "states.npy", mmap_mode="r"))
        np.testing.assert_array_equal(mapped.scale, Normaliser.fit(states).scale)

    @examples
    @given(logs)
    def test_denormalise_undoes_normalise(self, log):
        normaliser = Normaliser.fit(log[0])
        np.testing.assert_allclose(normaliser.denormalise(normaliser.normalise(log[1])), log[1], atol=1e-9)

    def test_no_states(self):
        with pytest.raises(ActionlessError, match="without states"):
            Normaliser.fit(np.zeros((0, 2)))

    def test_integers_and_jax(self):
        states = np.array([[1, 5], [3, 9]], np.uint8)
        normaliser = Normaliser.fit(states)
        expected = normaliser.normalise(states.astype(np.float32))
        assert normaliser.normalise(states).dtype == np.float32
        np.testing.assert_allclose(jax.jit(lambda x: normaliser.normalise(x))(jnp.asarray(states)), expected, rtol=1e-6)
        z = jnp.asarray(expected)
        np.testing.assert_allclose(eqx.filter_jit(normaliser.denormalise)(z), states, rtol=1e-6)


class TestByHand:
    differences = np.array([[-0.2], [-0.1], [0.0], [0.1], [0.2]])

    def test_three_bins_with_changes_exactly_at_epsilon(self):
        assert unit_discretiser([-0.1, 0.1]).index(self.differences).ravel().tolist() == [0, 1, 1, 1, 2]

    def test_three_bins_in_float32(self):
        # float32(0.1) is above 0.1: at the edge must mean at the edge in the data's own precision.
        index = unit_discretiser([-0.1, 0.1]).index(self.differences.astype(np.float32))
        assert index.ravel().tolist() == [0, 1, 1, 1, 2]

    def test_two_bins(self):
        discretiser = unit_discretiser([0.0])
        index = discretiser.index(self.differences)
        assert index.ravel().tolist() == [0, 0, 0, 1, 1]
        assert discretiser.labels(index).ravel().tolist() == [0, 0, 0, 1, 1]

    def test_five_bins_give_edges_to_the_side_of_zero(self):
        discretiser = unit_discretiser([-0.2, -0.1, 0.1, 0.2])
        index = discretiser.index(np.array([[-0.3], [-0.2], [-0.1], [0.1], [0.2], [0.3]]))
        assert discretiser.labels(index).ravel().tolist() == [-2, -1, 0, 0, 1, 2]

    def test_four_bins_count_from_zero(self):
        discretiser = unit_discretiser([-0.1, 0.0, 0.1])
        assert discretiser.labels(discretiser.index(self.differences)).ravel().tolist() == [0, 1, 1, 2, 3]

    def test_labels_of_transitions(self):
        states = np.array([[0.0, 5.0], [2.0, 5.0]])  # spread 1 and 0; with the offset 1.001 and 0.001
        next_states = states + np.array([[1.1e-4, 0.0], [-0.9e-4, 1.1e-7]])
        delta = Discretiser.fit(states, next_states).delta(states, next_states)
        assert delta.dtype == np.int8
        assert delta.tolist() == [[1, 0], [0, 1]]

    def test_representatives(self):
        states = np.zeros((5, 2))
        next_states = np.array([[-2.0, 0.0], [-4.0, 0.0], [0.05, 0.0], [1.0, 0.0], [0.0, 0.0]])
        unit = Normaliser(np.zeros(2), np.ones(2))
        discretiser = Discretiser.fit(states, next_states, epsilon=0.1, normaliser=unit)
        labels = np.array([[-1, -1], [0, 0], [1, 1]], np.int8)
        expected = [[-3.0, -0.3], [0.025, 0.0], [1.0, 0.3]]  # nothing moves in the second: points inside its bins
        np.testing.assert_allclose(discretiser.change(labels), expected)

    def test_even_and_quantile_edges(self):
        states = np.zeros((5, 1))
        next_states = np.array([[-1.0], [0.0], [0.25], [0.5], [3.0]])
        unit = Normaliser(np.zeros(1), np.ones(1))
        even = Discretiser.fit(states, next_states, bins=4, spacing="even", normaliser=unit)
        quantile = Discretiser.fit(states, next_states, bins=4, spacing="quantile", normaliser=unit)
        np.testing.assert_allclose(even.edges, [[0.0, 1.0, 2.0]])
        np.testing.assert_allclose(quantile.edges, [[0.0, 0.25, 0.5]])

    @pytest.mark.parametrize(
        ("bins", "edges"),
        [
            (2, [0.0]),
            (3, [-2.0, 2.0]),
            (4, [-3.0, 0.0, 3.0]),
            (5, [-3.6, -1.2, 1.2, 3.6]),
        ],
    )
    def test_edges_by_occupancy(self, bins, edges):
        # A variable that drifts: sizes 0 to 6, most of them up.
        changes = np.array([0.0, 1.0, -2.0, 3.0, 4.0, 5.0, 6.0])[:, None]
        unit = Normaliser(np.zeros(1), np.ones(1))
        states = np.zeros_like(changes)
        fitted = Discretiser.fit(states, changes, bins=bins, spacing="occupancy", normaliser=unit)
        np.testing.assert_allclose(fitted.edges, [edges], atol=1e-12)

    def test_each_variable_has_its_own_share_that_stays_the_same(self):
        changes = np.random.default_rng(0).normal(size=(9000, 3)) * [1e-6, 1.0, 50.0] + [0.0, 1.0, 0.0]
        unit = Normaliser(np.zeros(3), np.ones(3))
        labels = Discretiser.fit(changes * 0, changes, spacing="occupancy", normaliser=unit).delta(changes * 0, changes)
        np.testing.assert_allclose((labels == 0).mean(axis=0), 1 / 3, atol=1e-3)
        # Unlike quantiles: what is called up did go up.
        assert (np.sign(changes)[labels != 0] == labels[labels != 0]).all()

    def test_where_more_than_a_third_stands_still_only_that_is_same(self):
        changes = np.array([0.0, 0.0, 0.0, -0.1, 0.2, 0.3])[:, None]
        fitted = Discretiser.fit(changes * 0, changes, spacing="occupancy")
        assert fitted.delta(changes * 0, changes).ravel().tolist() == [0, 0, 0, -1, 1, 1]

    def test_quantiles_of_a_long_log_come_from_a_strided_sample(self, monkeypatch):
        monkeypatch.setattr(actionless.discretise, "QUANTILE_ROWS", 4)
        next_states = np.array([0, 99, 1, 99, 2, 99, 3, 99.0])[:, None]
        unit = Normaliser(np.zeros(1), np.ones(1))
        fitted = Discretiser.fit(np.zeros((8, 1)), next_states, bins=2, spacing="quantile", normaliser=unit)
        np.testing.assert_allclose(fitted.edges, [[1.5]])

    @pytest.mark.parametrize("bins, centre", [(3, 0), (4, 1), (5, 0)])
    @pytest.mark.parametrize("spacing", ["even", "quantile", "occupancy"])
    def test_a_dead_dimension_stays_in_the_middle(self, bins, centre, spacing):
        states = np.full((6, 1), 3.0)
        discretiser = Discretiser.fit(states, states, bins=bins, spacing=spacing)
        assert (discretiser.delta(states, states) == centre).all()

    def test_a_dead_dimension_is_same(self):
        states = np.full((6, 1), 3.0)
        discretiser = Discretiser.fit(states, states)
        assert (discretiser.delta(states, states) == 0).all()

    def test_a_large_offset_in_float32_and_float64(self):
        small = np.array([[0.0], [0.5], [-0.5], [0.0], [0.0]])
        states, next_states = small[:-1] + 4e6, small[1:] + 4e6
        for dtype in (np.float32, np.float64):
            s, n = states.astype(dtype), next_states.astype(dtype)
            discretiser = Discretiser.fit(s, n)
            assert discretiser.delta(s, n).ravel().tolist() == [1, -1, 1, 0]
            np.testing.assert_allclose(
                discretiser.difference(s, n), np.diff(small, axis=0) / discretiser.normaliser.scale
            )

    def test_unsigned_integers_do_not_wrap(self):
        states, next_states = np.array([[5], [3]], np.uint8), np.array([[3], [5]], np.uint8)
        assert Discretiser.fit(states, next_states).delta(states, next_states).ravel().tolist() == [-1, 1]


class TestProperties:
    @examples
    @given(logs, st.integers(-1000, 1000))
    def test_shift_invariance(self, log, shift):
        states, next_states = (np.round(x * 8) / 8 for x in log)  # exact after the shift
        labels = Discretiser.fit(states, next_states).delta(states, next_states)
        moved = Discretiser.fit(states + shift, next_states + shift).delta(states + shift, next_states + shift)
        np.testing.assert_array_equal(labels, moved)

    @examples
    @given(logs, st.integers(-20, 20), three_or_more)
    def test_scale_invariance_without_offset(self, log, power, choice):
        spacing, bins = choice
        labels = []
        for factor in (1.0, 2.0**power):
            states, next_states = (x * factor for x in log)
            normaliser = Normaliser.fit(states, offset=0.0)
            if (normaliser.scale == 1.0).any():  # a dead dimension has no scale of its own
                return
            fitted = Discretiser.fit(states, next_states, bins=bins, spacing=spacing, normaliser=normaliser)
            labels.append(fitted.delta(states, next_states))
        np.testing.assert_array_equal(*labels)

    @examples
    @given(logs, st.floats(1.0, 1e6))
    def test_scale_invariance_with_the_offset_up_to_a_margin(self, log, factor):
        states, next_states = log
        fitted = Discretiser.fit(states, next_states)
        difference = np.abs(fitted.difference(states, next_states))
        spread = fitted.normaliser.scale - 1e-3
        scaled = Discretiser.fit(states * factor, next_states * factor)
        # Scaling by f turns d = c / (σ + o) into c / (σ + o/f): larger, by no more than the factor 1 + o/σ.
        margin = (difference <= 1e-4 * (1 + 1e-9)) & (difference * (spread + 1e-3) >= 1e-4 * spread * (1 - 1e-9))
        same = fitted.delta(states, next_states) == scaled.delta(states * factor, next_states * factor)
        assert (same | margin).all()

    @examples
    @given(logs, st.sampled_from([2, 3]))
    def test_reversing_time_mirrors_the_labels(self, log, bins):
        states, next_states = log
        fitted = Discretiser.fit(states, next_states, bins=bins)
        forward = fitted.index(fitted.difference(states, next_states))
        backward = fitted.index(fitted.difference(next_states, states))
        moved = states != next_states if bins == 2 else np.ones_like(states, bool)
        np.testing.assert_array_equal(backward[moved], bins - 1 - forward[moved])

    @examples
    @given(logs, three_or_more)
    def test_bounds_order_and_inverse(self, log, choice):
        spacing, bins = choice
        fitted = Discretiser.fit(*log, bins=bins, spacing=spacing)
        difference = fitted.difference(*log)
        index, labels = fitted.index(difference), fitted.delta(*log)
        assert index.min() >= 0 and index.max() < bins
        np.testing.assert_array_equal(fitted.index_of(labels), index)
        order = np.argsort(difference, axis=0)
        assert (np.diff(np.take_along_axis(index, order, axis=0), axis=0) >= 0).all()
        # Every label the log holds: its representative falls into its own bin.
        np.testing.assert_array_equal(fitted.labels(fitted.index(fitted.change(labels))), labels)

    @examples
    @given(logs, three_or_more)
    def test_the_inverse_holds_in_float32(self, log, choice):
        spacing, bins = choice
        log = tuple(x.astype(np.float32) for x in log)
        fitted = Discretiser.fit(*log, bins=bins, spacing=spacing)
        labels = fitted.delta(*log)
        for precision in (np.float32, np.float64):
            change = fitted.change(labels).astype(precision)
            np.testing.assert_array_equal(fitted.labels(fitted.index(change)), labels)

    @examples
    @given(logs, three_or_more)
    def test_points_of_unfilled_bins_lie_inside(self, log, choice):
        spacing, bins = choice
        fitted = Discretiser.fit(*log, bins=bins, spacing=spacing)
        every = np.tile(np.arange(bins, dtype=np.int8)[:, None], (1, fitted.dim))
        wide = np.concatenate(
            [np.full((fitted.dim, 1), True), np.diff(fitted.edges) > 1e-9, np.full((fitted.dim, 1), True)], axis=1
        ).T
        back = fitted.index(fitted.change(fitted.labels(every)))
        np.testing.assert_array_equal(back[wide], every[wide])


@pytest.mark.parametrize("spacing, bins", [("epsilon", 2), ("epsilon", 3), ("quantile", 4)])
def test_jax_agrees_with_numpy(spacing, bins):
    rng = np.random.default_rng(2)
    states = rng.normal(size=(200, 3)).astype(np.float32)
    next_states = states + rng.normal(size=(200, 3)).astype(np.float32) * np.float32(2e-4)
    fitted = Discretiser.fit(states, next_states, bins=bins, spacing=spacing)
    difference, labels = fitted.difference(states, next_states), fitted.delta(states, next_states)
    jitted = eqx.filter_jit(lambda d, *arrays: (d.difference(*arrays), d.delta(*arrays)))
    in_jax, jax_labels = jitted(fitted, jnp.asarray(states), jnp.asarray(next_states))
    np.testing.assert_allclose(in_jax, difference, rtol=1e-6)
    np.testing.assert_array_equal(jax_labels, labels)
    change = jax.jit(lambda x: fitted.change(x))(jnp.asarray(labels))
    np.testing.assert_allclose(change, fitted.change(labels), rtol=1e-6)
    one_state = jax.jit(lambda *x: fitted.delta(*x))(states[0], next_states[0])
    np.testing.assert_array_equal(one_state, labels[0])


@pytest.mark.parametrize("spacing, bins", [("epsilon", 3), ("even", 5), ("quantile", 4), ("occupancy", 3)])
def test_blockwise_fit_equals_one_shot(spacing, bins, monkeypatch):
    rng = np.random.default_rng(1)
    states = rng.normal(size=(500, 3))
    next_states = states + rng.normal(size=(500, 3)) * 1e-3
    whole = Discretiser.fit(states, next_states, bins=bins, spacing=spacing)
    monkeypatch.setattr(actionless.data.log, "BLOCK_BYTES", 8 * 100)
    blockwise = Discretiser.fit(states, next_states, bins=bins, spacing=spacing)
    np.testing.assert_allclose(blockwise.edges, whole.edges, rtol=1e-12)
    np.testing.assert_allclose(blockwise.representatives, whole.representatives, rtol=1e-12)
    difference, index = whole.difference(states, next_states), whole.index(whole.difference(states, next_states))
    expected = [[difference[index[:, j] == k, j].mean() for k in range(bins)] for j in range(3)]
    np.testing.assert_allclose(whole.representatives, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"bins": 1}, "between 2 and 127"),
        ({"bins": 200}, "between 2 and 127"),
        ({"bins": 5}, "more than 3 bins need 'even' or 'quantile'"),
        ({"epsilon": -1.0}, "at least 0"),
        ({"epsilon": float("nan")}, "finite"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(ActionlessError, match=message):
        Discretiser.fit(np.zeros((2, 1)), np.ones((2, 1)), **options)


def test_more_dimensions_than_int8_can_count():
    states = np.zeros((2, 300))
    next_states = np.tile(np.arange(300.0), (2, 1))
    fitted = Discretiser.fit(states, next_states)
    for labels in (fitted.delta(states, next_states), jnp.asarray(fitted.delta(states, next_states))):
        np.testing.assert_allclose(fitted.change(labels)[1, 1:], next_states[1, 1:] / 1e-3, rtol=1e-6)
