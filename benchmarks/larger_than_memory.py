"""A file several times larger than the memory this process may take: read, inspected and sampled.

    python -m benchmarks.larger_than_memory

The child process sets a limit on its own data segment (RLIMIT_DATA: heap and private memory; the limit on the
address space would forbid mapping the file at all), reads the file, inspects it, draws random transitions and
compares each with what the generator wrote there.
"""

import json
import resource
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Float, Int

from benchmarks.measure import in_fresh_process, timed

TRANSITIONS, STATE_DIM, EPISODE = 6_000_000, 17, 1000
MEMORY_LIMIT = 250 * 2**20


def states_at(rows: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n dim"]:
    """The state that stands at each row: known without the file, so every sample can be checked."""
    return (np.sin(rows[:, None] * 0.37) + np.arange(STATE_DIM) * 0.1 + rows[:, None] % 997).astype(np.float32)


def make_file(path: Path) -> None:
    """Write block by block; the next state of a row is the state of the next, but for episode ends."""
    with h5py.File(path, "w") as file:
        for key in ("observations", "next_observations"):
            file.create_dataset(key, (TRANSITIONS, STATE_DIM), np.float32, chunks=(10_000, STATE_DIM))
        rows = np.arange(TRANSITIONS)
        file["rewards"] = (rows % 7).astype(np.float32)
        file["terminals"] = np.zeros(TRANSITIONS, bool)
        file["timeouts"] = rows % EPISODE == EPISODE - 1
        for start in range(0, TRANSITIONS, 100_000):
            block = rows[start : start + 100_000]
            file["observations"][block[0] : block[-1] + 1] = states_at(block)  # pyright: ignore
            file["next_observations"][block[0] : block[-1] + 1] = states_at(block + 1)  # pyright: ignore


def read_within_limit(path: str) -> dict[str, float]:
    """Read under the limit, inspect, and check random transitions."""
    import actionless
    from actionless.analysis.inspection import inspect

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    log, first_seconds, _ = timed(lambda: actionless.read(path))
    _, second_seconds, _ = timed(lambda: actionless.read(path))
    rows = np.random.default_rng(0).integers(len(log), size=100_000)
    assert log.memory_mapped
    assert (log.states[rows] == states_at(rows)).all()
    assert (log.next_states[rows] == states_at(rows + 1)).all()
    assert inspect(log).transitions == TRANSITIONS
    size = log.states.nbytes + log.next_states.nbytes
    return {
        "file_over_limit": Path(path).stat().st_size / MEMORY_LIMIT,
        "arrays_over_limit": size / MEMORY_LIMIT,
        "first_read_seconds": first_seconds,
        "second_read_seconds": second_seconds,
    }


def main() -> dict[str, float]:
    """Make the file, then read it in a child whose cache is thrown away with the file."""
    import os

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.hdf5"
        make_file(path)
        os.environ["ACTIONLESS_CACHE"] = str(Path(folder) / "cache")
        return in_fresh_process("benchmarks.larger_than_memory", str(path))


if __name__ == "__main__":
    print(json.dumps(read_within_limit(sys.argv[1]) if len(sys.argv) == 2 else main(), indent=2))
