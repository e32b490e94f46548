"""Reading one million transitions of a D4RL file, beside h5py reading the same arrays.

    python -m benchmarks.read_d4rl

Budget: at most 3 s beyond h5py's own read, peak memory at most 2.5 times the arrays.
"""

import json
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

from benchmarks.measure import in_fresh_process, timed

TRANSITIONS, STATE_DIM, ACTION_DIM, EPISODE = 1_000_000, 17, 6, 1000
KEYS = ("observations", "next_observations", "rewards", "terminals", "timeouts")


def make_file(path: Path) -> None:
    """A file of the size, types and compression of walker2d-medium-v2, filled with random walks."""
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(TRANSITIONS // EPISODE, EPISODE + 1, STATE_DIM)).astype(np.float32)
    walks = steps.cumsum(axis=1)
    arrays = {
        "observations": walks[:, :-1].reshape(-1, STATE_DIM),
        "next_observations": walks[:, 1:].reshape(-1, STATE_DIM),
        "actions": rng.uniform(-1, 1, (TRANSITIONS, ACTION_DIM)).astype(np.float32),
        "rewards": rng.normal(size=TRANSITIONS).astype(np.float32),
        "terminals": np.zeros(TRANSITIONS, bool),
        "timeouts": np.arange(TRANSITIONS) % EPISODE == EPISODE - 1,
    }
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array, compression="gzip", compression_opts=1)


def with_h5py(path: str) -> dict[str, float]:
    """h5py's own read of what a log needs."""

    def work() -> list[np.ndarray]:
        with h5py.File(path) as file:
            return [file[key][:] for key in KEYS]  # pyright: ignore

    _, seconds, _ = timed(work)
    return {"seconds": seconds}


def with_actionless(path: str) -> dict[str, float]:
    """Our read, fingerprint included."""
    import actionless
    import actionless.data.hdf5_npz  # imports are not part of the read

    def work() -> actionless.Log:
        log = actionless.read(path)
        _ = log.fingerprint
        return log

    log, seconds, peak = timed(work)
    arrays = (log.states, log.next_states, log.rewards, log.terminals, log.ends)
    return {"seconds": seconds, "peak_over_arrays": peak / sum(array.nbytes for array in arrays)}


def main() -> dict[str, float]:
    """Three interleaved pairs; medians."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "walker2d_medium-v2.hdf5"
        make_file(path)
        name = "benchmarks.read_d4rl"
        pairs = [(in_fresh_process(name, "h5py", str(path)), in_fresh_process(name, "ours", str(path))) for _ in "123"]
    h5py_seconds = float(np.median([theirs["seconds"] for theirs, _ in pairs]))
    seconds = float(np.median([ours["seconds"] for _, ours in pairs]))
    return {
        "transitions": TRANSITIONS,
        "h5py_seconds": h5py_seconds,
        "seconds": seconds,
        "seconds_beyond_h5py": seconds - h5py_seconds,
        "peak_over_arrays": float(np.median([ours["peak_over_arrays"] for _, ours in pairs])),
    }


if __name__ == "__main__":
    if len(sys.argv) == 3:
        part = {"h5py": with_h5py, "ours": with_actionless}[sys.argv[1]](sys.argv[2])
        print(json.dumps(part))
    else:
        print(json.dumps(main(), indent=2))
