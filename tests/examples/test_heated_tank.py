"""The tank of the examples: a task that keeps what it promises, and the bundled log that was made with it."""

import importlib

import numpy as np
import polars as pl
import pytest
from documented import EXAMPLES, as_in_a_process
from gymnasium.utils.env_checker import check_env

LOG = EXAMPLES / "heated_tank.parquet"


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    with as_in_a_process():
        yield importlib.import_module("heated_tank")


def tank_at(module, **sensors):
    """A tank at its set points, but for what is said, in m, °C, m³/min and MW."""
    tank = module.HeatedTank()
    tank.reset(seed=0)
    at_rest = {"level": 1, "temperature": 60, "inlet_temperature": 10, "inflow": 0.4, "demand": 0.4, "heating": 1.68}
    tank.state = np.array([*(at_rest | sensors).values()], np.float64)
    return tank


def test_gymnasium_finds_nothing_wrong(module):
    check_env(module.HeatedTank(), skip_render_check=True)


def test_at_rest_it_stays_where_it_is(module):
    """Inflow equals demand; 0.04 of the water is replaced, 50 °C colder, and 0.4 °C lost: 2.4 °C, or 1.68 MW."""
    readings, quality, tripped, truncated, _ = tank_at(module).step(np.array([0.4, 0.42]))
    level, temperature, inlet, inflow, _, heating = readings
    np.testing.assert_allclose([level, temperature, inlet, inflow, heating], [0.5, 0.6, 0.1, 0.4, 0.42])
    assert quality == pytest.approx(1.0)
    assert not tripped and not truncated


def test_actuators_lag_behind_commands_and_the_water_behind_actuators(module):
    readings, *_ = tank_at(module).step(np.array([1.0, 0.0]))
    inflow, heating = 0.4 + 0.5 * 0.6, 1.68 * 0.7
    level = 1 + (inflow - 0.4) / 10
    temperature = 60 + (inflow / 10 * -50 + heating / 0.7) / level - 0.4
    np.testing.assert_allclose(readings[[0, 1, 3, 5]], [level / 2, temperature / 100, inflow, heating / 4])


@pytest.mark.parametrize(("sensors", "quality"), [({"temperature": 65}, 0.5), ({"level": 0.75}, 0.5), ({}, 1.0)])
def test_quality_is_a_half_at_the_tolerance(module, sensors, quality):
    assert tank_at(module, **sensors).quality() == pytest.approx(quality)


@pytest.mark.parametrize("sensors", [{"level": 0.1, "inflow": 0}, {"level": 1.9, "inflow": 1}, {"temperature": 95}])
def test_a_trip_ends_the_batch_with_no_quality(module, sensors):
    _, quality, tripped, _, _ = tank_at(module, **sensors).step(np.array([0.5, 0.5]))
    assert tripped
    assert quality == 0


def test_the_bundled_log_is_what_the_script_makes(module):
    logged = pl.read_parquet(LOG)
    assert logged["batch"].unique().to_list() == list(range(module.BATCHES))
    assert LOG.stat().st_size < 1e6
    made = module.batch(7)
    assert made.schema == logged.schema
    of_that_batch = logged.filter(pl.col("batch") == 7)
    np.testing.assert_allclose(made.to_numpy(), of_that_batch.to_numpy(), rtol=1e-5, atol=1e-6)


def test_no_action_is_in_the_log(module):
    columns = pl.read_parquet_schema(LOG).keys()
    assert set(columns) == {"batch", "minute", *module.SENSORS, "quality", "tripped"}
