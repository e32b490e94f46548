"""The theorem's experiment: value iteration gives the closed form, and the trend is that of the bound."""

import csv
import itertools
import math

import numpy as np
import pytest

from actionless.reproduction import theorem as experiment


def optimal_values(increments, places):
    """Value iteration over y with the best of these increments of every coordinate in every state."""
    steps = increments.sum(axis=1) / math.sqrt(increments.shape[1])
    nodes, weights = np.polynomial.hermite_e.hermegauss(15)
    grid = np.linspace(-25, 25, 301)
    reward = experiment._normal_cdf(grid / experiment.WIDTH)
    values = np.zeros_like(grid)
    for _ in range(100):
        reached = grid[:, None, None] + np.unique(steps)[None, :, None] + experiment.NOISE * nodes
        ahead = np.interp(reached, grid, values) @ (weights / weights.sum())
        values = reward + experiment.DISCOUNT * ahead.max(axis=1)
    return np.interp(places, grid, values)


@pytest.mark.parametrize("bins", [2, 3])
def test_the_closed_form_is_what_value_iteration_finds(bins):
    dimensions, span, places = 2, 1.0, np.linspace(-4, 4, 9)
    edges = np.linspace(-span / 2, span / 2, bins + 1)
    centres = np.array(list(itertools.product((edges[:-1] + edges[1:]) / 2, repeat=dimensions)))
    anything = np.array(list(itertools.product(np.linspace(-span / 2, span / 2, 9), repeat=dimensions)))
    restricted = experiment.value(places, experiment.best_drift(dimensions, span, bins))
    free = experiment.value(places, experiment.best_drift(dimensions, span))
    assert (free - restricted).max() > 0.5
    np.testing.assert_allclose(optimal_values(centres, places), restricted, atol=0.02)
    np.testing.assert_allclose(optimal_values(anything, places), free, atol=0.02)


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_of_uneven_bins_the_uppermost_counts(ratio):
    dimensions, span, places = 2, 1.0, np.linspace(-4, 4, 9)
    widths = {0.5: [4 / 7, 2 / 7, 1 / 7], 2.0: [1 / 7, 2 / 7, 4 / 7]}[ratio]
    np.testing.assert_allclose(experiment.shares(3, ratio), widths)
    edges = span * (np.concatenate([[0], np.cumsum(widths)]) - 0.5)
    centres = np.array(list(itertools.product((edges[:-1] + edges[1:]) / 2, repeat=dimensions)))
    restricted = experiment.value(places, experiment.best_drift(dimensions, span, 3, ratio))
    np.testing.assert_allclose(optimal_values(centres, places), restricted, atol=0.02)


def test_fine_bins_where_the_best_increments_are_cost_less_than_even_ones():
    fine, even, coarse = (experiment.value_gap(**experiment.BASE | {"ratio": ratio}) for ratio in (0.5, 1.0, 2.0))
    # In proportion to the uppermost bin while increments are small: 1/7, 1/3 and 4/7 of H.
    assert [fine / even, coarse / even] == pytest.approx([3 / 7, 12 / 7], rel=0.05)


@pytest.mark.parametrize(("varied", "exponent"), [("bins", -1.0), ("dimensions", 0.5), ("span", 1.0)])
def test_the_gap_follows_the_bound_while_increments_are_small_beside_the_noise(varied, exponent):
    values = {"bins": (2, 4, 8, 16), "dimensions": (1, 4, 16), "span": (0.0125, 0.025, 0.05)}[varied]
    gaps = [experiment.value_gap(**experiment.BASE | {varied: value}) for value in values]
    measured = np.polyfit(np.log(values), np.log(gaps), 1)[0]
    assert measured == pytest.approx(exponent, abs=0.03)


def test_the_gap_never_passes_the_bound():
    for bins, dimensions, span, ratio in itertools.product((1, 17), (1, 64), (0.05, 5.0), (0.5, 1.0, 3.0)):
        problem = {"bins": bins, "dimensions": dimensions, "span": span, "ratio": ratio}
        assert 0 < experiment.value_gap(**problem) <= experiment.bound(**problem)


def test_what_is_written(tmp_path):
    experiment.write(tmp_path, "Theorem 1", "actionless reproduce theorem")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "figure.png",
        "figure.svg",
        "table.csv",
        "table.md",
        "table.tex",
    ]
    with (tmp_path / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(map(len, experiment.SWEEPS.values()))
    assert all(float(row["gap"]) <= float(row["bound"]) for row in rows)
    assert "| k | -1.00 | -1.00 |" in (tmp_path / "table.md").read_text()
