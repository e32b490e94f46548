"""Make heated_tank.parquet: the log of a small simulated process whose operators' actions were not recorded.

A tank is filled through a valve, drained by a varying demand and heated. Operators of differing skill keep its
temperature and level near their set points; the log has what the sensors saw each minute and how well the
process ran, but neither valve nor heater commands. A batch ends early when the tank trips (too hot, dry or full).

    python examples/heated_tank.py examples/heated_tank.parquet
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl

BATCHES, MINUTES = 60, 180
LEVEL_TARGET, TEMPERATURE_TARGET = 1.0, 60.0


def run_batch(rng: np.random.Generator, batch: int) -> list[dict[str, float]]:
    """One batch under an operator whose gain and care vary."""
    level, temperature = rng.uniform(0.6, 1.4), rng.uniform(30, 70)
    inflow, heating, demand = 0.0, 0.0, rng.uniform(0.02, 0.06)
    inlet = rng.uniform(8, 18)
    skill = rng.uniform(0.1, 1.0)
    rows = []
    for minute in range(MINUTES + 1):
        tripped = not (0.1 < level < 1.9 and temperature < 90)
        reward = -abs(temperature - TEMPERATURE_TARGET) / 10 - 2 * abs(level - LEVEL_TARGET) - 20 * tripped
        rows.append(
            {
                "batch": batch,
                "minute": minute,
                "level_m": level,
                "temperature_c": temperature,
                "inlet_temperature_c": inlet,
                "inflow_m3_per_min": inflow,
                "demand_m3_per_min": demand,
                "heating_kw": heating,
                "quality": reward,
                "tripped": tripped,
            }
        )
        if tripped:
            break
        # The operator's commands: proportional control, done well or badly. Not logged.
        valve = np.clip(demand + skill * 0.2 * (LEVEL_TARGET - level) + 0.02 * rng.normal() / skill, 0, 0.1)
        power = np.clip(skill * 25 * (TEMPERATURE_TARGET - temperature) + 40 * rng.normal(), 0, 400)
        # Actuators lag behind their commands; the water follows from the balance of mass and heat.
        inflow += 0.5 * (valve - inflow)
        heating += 0.3 * (power - heating)
        level += inflow - demand
        temperature += inflow / level * (inlet - temperature) + heating / (70 * level) - 0.01 * (temperature - 20)
        demand = float(np.clip(demand + 0.003 * rng.normal(), 0.005, 0.08))
    return rows


def main(path: Path) -> None:
    """Write all batches as one table."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame([row for batch in range(BATCHES) for row in run_batch(rng, batch)])
    table = table.with_columns(pl.col("^(level|temperature|inlet|inflow|demand|heating|quality).*$").cast(pl.Float32))
    table.write_parquet(path)
    print(f"{path}: {len(table):,} rows, {table['batch'].n_unique()} batches, {table['tripped'].sum()} trips")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
