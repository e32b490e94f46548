"""Reading one million rows of a table with 20 columns, and a table several times larger than memory.

    python -m benchmarks.read_table
    python -m benchmarks.read_table --larger-than-memory

Budget for Parquet: at most 3 s, peak memory at most 2.5 times the arrays. In the second mode the child process
limits its own data segment (RLIMIT_DATA: heap and private memory; a limit on the address space would forbid
mapping files at all), reads a Parquet file whose log is several times that, draws random transitions and compares
each with what the generator wrote there.
"""

import json
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int
from polars.io.plugins import register_io_source

from benchmarks.measure import in_fresh_process, timed

MODULE = "benchmarks.read_table"
ROWS, STATE_DIM, EPISODE = 1_000_000, 17, 1000
LARGE_ROWS, LARGE_STATE_DIM, MEMORY_LIMIT = 6_000_000, 40, 800 * 2**20
GENERATED_ROWS = 100_000


def states_at(rows: Int[np.ndarray, "n"], dim: int) -> Float[np.ndarray, "n dim"]:
    """The state at each row: known without the file, so every sample can be checked."""
    return np.sin(rows[:, None] * 0.37) + np.arange(dim) * 0.1 + rows[:, None] % 997


def table(start: int, stop: int, dim: int) -> pl.DataFrame:
    """Rows `start` to `stop` of the table: `dim` states, a reward, an episode and a time."""
    rows = np.arange(start, stop)
    states = states_at(rows, dim)
    columns = {f"s{i}": states[:, i] for i in range(dim)}
    return pl.DataFrame(columns | {"reward": rows * 0.5, "episode": rows // EPISODE, "time": rows % EPISODE})


def write_large(path: Path) -> None:
    """Write the large Parquet file without ever holding it."""

    def generate(*_: Any) -> Iterator[pl.DataFrame]:
        for start in range(0, LARGE_ROWS, GENERATED_ROWS):
            yield table(start, start + GENERATED_ROWS, LARGE_STATE_DIM)

    register_io_source(generate, schema=table(0, 1, LARGE_STATE_DIM).schema).sink_parquet(path)


def read_here(path: str) -> tuple[Any, float, int]:
    """Read the table in this process; the log, seconds, and the rise of the peak of resident memory."""
    import actionless
    import actionless.data.table.read  # imports are not part of the read

    return timed(
        lambda: actionless.read(
            path, state_columns=["s*"], reward_column="reward", episode_column="episode", time_column="time"
        )
    )


def measure(path: str) -> dict[str, float]:
    """Seconds and peak memory of one read."""
    log, seconds, peak = read_here(path)
    assert len(log) == ROWS - ROWS // EPISODE
    arrays = (log.states, log.next_states, log.rewards, log.terminals, log.ends)
    return {"seconds": seconds, "peak_over_arrays": peak / sum(array.nbytes for array in arrays)}


def measure_within_limit(path: str) -> dict[str, float]:
    """Read under the limit, and check random transitions against the generator."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    log, first_seconds, _ = read_here(path)
    _, second_seconds, _ = read_here(path)
    assert log.memory_mapped
    assert len(log) == LARGE_ROWS - LARGE_ROWS // EPISODE
    transitions = np.random.default_rng(0).integers(len(log), size=20_000)
    rows = transitions + transitions // (EPISODE - 1)
    assert (log.states[transitions] == states_at(rows, LARGE_STATE_DIM)).all()
    assert (log.next_states[transitions] == states_at(rows + 1, LARGE_STATE_DIM)).all()
    assert (log.rewards[transitions] == rows * 0.5).all()
    assert (log.ends[transitions] == (rows % EPISODE == EPISODE - 2)).all()
    return {
        "file_over_limit": Path(path).stat().st_size / MEMORY_LIMIT,
        "arrays_over_limit": (log.states.nbytes + log.next_states.nbytes) / MEMORY_LIMIT,
        "first_read_seconds": first_seconds,
        "second_read_seconds": second_seconds,
    }


def main() -> dict[str, Any]:
    """Medians over three fresh processes for each format."""
    result: dict[str, Any] = {"rows": ROWS, "columns": STATE_DIM + 3}
    with tempfile.TemporaryDirectory() as folder:
        frame = table(0, ROWS, STATE_DIM)
        for kind, write in (("parquet", frame.write_parquet), ("csv", frame.write_csv), ("arrow", frame.write_ipc)):
            path = Path(folder) / f"log.{kind}"
            write(path)
            runs = [in_fresh_process(MODULE, "measure", str(path)) for _ in range(3)]
            result[kind] = {key: float(np.median([run[key] for run in runs])) for key in runs[0]}
            path.unlink()
    return result


def larger_than_memory() -> dict[str, Any]:
    """Make the file, then read it in a child whose cache is thrown away with the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.parquet"
        write_large(path)
        os.environ["ACTIONLESS_CACHE"] = str(Path(folder) / "cache")
        return in_fresh_process(MODULE, "measure-within-limit", str(path))


if __name__ == "__main__":
    work = {
        "measure": measure,
        "measure-within-limit": measure_within_limit,
        "--larger-than-memory": larger_than_memory,
    }
    chosen = work[sys.argv[1]](*sys.argv[2:]) if len(sys.argv) > 1 else main()
    print(json.dumps(chosen, indent=2))
