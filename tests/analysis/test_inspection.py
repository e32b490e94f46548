"""Inspection: figures computed by hand, and each warning."""

import json

import numpy as np
import pytest

from actionless.analysis.inspection import inspect, suggest_epsilon
from actionless.data.log import Log, Source


def log_of(columns: dict[str, list[float]], rewards=(1.0, 2.0, 3.0), dtype=np.float64) -> Log:
    """Two episodes: two transitions (states 0, 1, 2), then one (states 3, 4)."""
    rows = np.array(list(columns.values()), dtype).T
    return Log(
        states=rows[[0, 1, 3]],
        next_states=rows[[1, 2, 4]],
        rewards=np.array(rewards),
        terminals=np.array([False, True, False]),
        ends=np.array([False, True, True]),
        state_names=tuple(columns),
        source=Source("log.npz", "npz", ("states", "rewards")),
        warnings=("said by the reader",),
    )


def test_figures():
    inspection = inspect(log_of({"x": [0, 1, 1, 5, 2], "y": [7, 8, 9, 10, 11]}))
    assert (inspection.transitions, inspection.episodes, inspection.state_dim) == (3, 2, 2)
    assert (inspection.terminals, inspection.timeouts) == (1, 1)
    assert inspection.returns["mean"] == 3.0
    assert (inspection.returns["min"], inspection.returns["max"]) == (3.0, 3.0)
    assert inspection.lengths["q50"] == 1.5
    x, y = inspection.dimensions
    assert (x.down, x.same, x.up) == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    assert (y.down, y.same, y.up) == (0.0, 0.0, 1.0)
    assert (x.min, x.max, x.mean) == (0.0, 5.0, 2.0)
    assert x.std == pytest.approx(np.std([0, 1, 5]))
    assert inspection.suggested_epsilon == 1e-4
    assert inspection.read == ("states", "rewards")
    assert inspection.warnings == ("said by the reader",)


def test_json_round_trip():
    inspection = inspect(log_of({"x": [0, 1, 1, 5, 2]}))
    assert json.loads(json.dumps(inspection.to_dict()))["dimensions"][0]["name"] == "x"


def warnings_of(log: Log, **options) -> str:
    return "; ".join(inspect(log, **options).warnings)


def test_constant_and_duplicated_dimensions():
    inspection = inspect(log_of({"x": [0, 1, 1, 5, 2], "c": [3] * 5, "z": [0, 1, 1, 5, 2], "d": [3] * 5}))
    assert [d.constant for d in inspection.dimensions] == [False, True, False, True]
    assert [d.duplicate_of for d in inspection.dimensions] == [None, None, "x", None]
    assert inspection.dimensions[1].same == 1.0
    assert inspection.dimensions[1].std == 0.0
    text = "; ".join(inspection.warnings)
    assert "no change to learn: c, d" in text
    assert "z equals x" in text


def test_epsilon_moves_the_shares():
    log = log_of({"x": [0, 1, 1, 5, 2]})
    assert inspect(log, epsilon=10.0).dimensions[0].same == 1.0
    assert "never changes by more than ε = 10 within an episode: x" in warnings_of(log, epsilon=10.0)


def test_a_variable_that_hardly_moves():
    rows = np.zeros((401, 1))
    rows[200:] = 1.0
    log = Log(
        states=rows[:-1],
        next_states=rows[1:],
        rewards=np.arange(400.0),
        terminals=np.zeros(400, bool),
        ends=np.arange(400) % 100 == 99,
        state_names=("x",),
        source=Source("log.npz", "npz", ()),
    )
    assert inspect(log).dimensions[0].same == 399 / 400
    assert "rarely changes by more than ε = 0.0001: x" in warnings_of(log)


def test_small_spread_and_equal_rewards():
    text = warnings_of(log_of({"x": [0, 1e-3, 0, 2e-3, 0]}, rewards=(2.0, 2.0, 2.0)))
    assert "standard deviation below 0.01" in text
    assert "every reward is 2" in text


def test_suggested_epsilon_stays_above_rounding():
    # Values near 1e6 with spread 1, in float32: the last place is 1/16, far above 1e-4.
    low, high, std = np.array([1e6 - 3]), np.array([1e6 + 3]), np.array([1.0])
    assert suggest_epsilon(np.dtype(np.float32), low, high, std) == 1.0
    assert suggest_epsilon(np.dtype(np.float64), low, high, std) == 1e-4
    assert suggest_epsilon(np.dtype(np.float32), low, low, np.array([0.0])) == 1e-4
    log = log_of({"x": [1e6, 1e6 + 1, 1e6, 1e6 + 2, 1e6]}, dtype=np.float32)
    assert "use --epsilon" in warnings_of(log)


def test_single_episode():
    log = log_of({"x": [0, 1, 2, 3, 4]})
    one = Log(
        states=log.states[:2],
        next_states=log.next_states[:2],
        rewards=log.rewards[:2],
        terminals=log.terminals[:2],
        ends=log.ends[:2],
        state_names=("x",),
        source=log.source,
    )
    assert "only one episode" in warnings_of(one)
