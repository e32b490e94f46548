"""A heated tank as a Gymnasium environment, and the log of its operators, whose actions were not recorded.

A tank is filled through a valve, drained by a demand that wanders, and heated. Level and temperature are to stay near
their set points; a batch ends early when the tank trips (too hot, dry or full). The log has what the sensors
read each minute under operators of differing skill, and the quality of the product, but neither the valve's nor the
heater's commands. This makes the bundled log:

    python examples/heated_tank.py examples/heated_tank.parquet
"""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars as pl

BATCHES, MINUTES = 40, 480
LEVEL_TARGET, TEMPERATURE_TARGET = 1.0, 60.0

# Full scale of each sensor in m, °C, m³/min and MW. Readings are shares of it, as plants often log them, and as agents
# like them: they learn badly from variables that differ by orders of magnitude.
SENSORS = {"level": 2, "temperature": 100, "inlet_temperature": 100, "inflow": 1, "demand": 1, "heating": 4}
FULL_SCALE = np.array(list(SENSORS.values()), np.float64)


class HeatedTank(gymnasium.Env[np.ndarray, np.ndarray]):
    """States are the sensors' readings; actions say how far the valve is to open and the heater to heat, 0 to 1."""

    observation_space = gymnasium.spaces.Box(0, 2, (len(SENSORS),), np.float64)  # a trip may lie beyond full scale
    action_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """A batch begins anywhere, with valve and heater shut."""
        super().reset(seed=seed, options=options)
        draw = self.np_random.uniform
        self.state = np.array([draw(0.6, 1.4), draw(30, 70), draw(8, 18), 0.0, draw(0.2, 0.6), 0.0])
        return self.state / FULL_SCALE, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """One minute: actuators lag behind their commands, the water follows from the balance of mass and heat."""
        level, temperature, inlet, inflow, demand, heating = self.state
        valve, power = np.clip(action, 0, 1)
        inflow += 0.5 * (valve - inflow)
        heating += 0.3 * (4 * power - heating)
        level += (inflow - demand) / 10  # ten square metres
        warming = inflow / 10 * (inlet - temperature) + heating / 0.7
        temperature += warming / max(level, 0.1) - 0.01 * (temperature - 20)
        demand = np.clip(demand + 0.03 * self.np_random.normal(), 0.05, 0.8)
        self.state = np.array([level, temperature, inlet, inflow, demand, heating])
        tripped = not (0.1 < level < 1.9 and temperature < 90)
        return self.state / FULL_SCALE, 0.0 if tripped else self.quality(), tripped, False, {}

    def quality(self) -> float:
        """1 at the set points, a half at 5 °C or 0.25 m from them."""
        level, temperature = self.state[:2]
        return 1 / (1 + ((temperature - TEMPERATURE_TARGET) / 5) ** 2 + ((level - LEVEL_TARGET) / 0.25) ** 2)


gymnasium.register("HeatedTank-v0", entry_point="heated_tank:HeatedTank", max_episode_steps=MINUTES)


def operate(state: np.ndarray, skill: float, rng: np.random.Generator) -> np.ndarray:
    """Proportional control by hand: the less skill, the slower and the shakier."""
    level, temperature, _, _, demand, _ = state
    valve = demand + skill * 2 * (LEVEL_TARGET - level) + 0.2 * rng.normal() / skill
    power = skill * 0.06 * (TEMPERATURE_TARGET - temperature) + 0.1 * rng.normal()
    return np.array([valve, power])


def batch(number: int) -> pl.DataFrame:
    """What was logged of one batch: a row for each minute, with the quality at that minute."""
    tank, rng = HeatedTank(), np.random.default_rng(number)
    skill = rng.uniform(0.1, 1.0)
    readings, _ = tank.reset(seed=number)
    rows = [(*readings, tank.quality(), False)]
    for _ in range(MINUTES):
        readings, quality, tripped, _, _ = tank.step(operate(tank.state, skill, rng))
        rows.append((*readings, quality, tripped))
        if tripped:
            break
    columns = dict.fromkeys((*SENSORS, "quality"), pl.Float32) | {"tripped": pl.Boolean}
    table = pl.DataFrame(rows, columns, orient="row").with_row_index("minute")
    return table.select(pl.lit(number).alias("batch"), pl.all())


def main(path: Path) -> None:
    """Write all batches as one table."""
    table = pl.concat([batch(number) for number in range(BATCHES)])
    table.write_parquet(path)
    print(f"{path}: {len(table):,} rows, {table['batch'].n_unique()} batches, {table['tripped'].sum()} trips")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
