"""Write a log recorded with our own agents, in D4RL's layout with actions and reference scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from actionless.errors import ActionlessError, first_line
from actionless.files import require_free_file, written_aside

_METADATA = "metadata"


@dataclass(frozen=True)
class Recording:
    """Transitions in the order in which they happened."""

    states: Float[np.ndarray, "transitions dim"]
    actions: Shaped[np.ndarray, "transitions *actions"]
    """In the environment's own units."""
    rewards: Float[np.ndarray, " transitions"]
    next_states: Float[np.ndarray, "transitions dim"]
    terminals: Bool[np.ndarray, " transitions"]
    """Where the environment reported a terminal state."""
    timeouts: Bool[np.ndarray, " transitions"]
    """Where an episode was cut off, by its time limit or by the end of the recording."""
    action_indices: Int[np.ndarray, "transitions actions"] | None
    """The chosen level in each dimension, if actions are factorised."""

    @property
    def episode_returns(self) -> Float[np.ndarray, " episodes"]:
        """Undiscounted sum of rewards of each episode."""
        stops = np.flatnonzero(self.terminals | self.timeouts) + 1
        return np.add.reduceat(self.rewards, np.concatenate([[0], stops[:-1]]), dtype=np.float64)


def check_recording_target(out: Path, *, overwrite: bool = False) -> None:
    """Raise if a recording cannot be written to `out`. Call it before a long training run."""
    if out.suffix.lower() not in (".hdf5", ".h5"):
        raise ActionlessError(f"{out}: a recording is an HDF5 file: name it FILE.hdf5")
    require_free_file(out, out.suffix.lower(), overwrite=overwrite)


def write_recording(
    out: Path, recording: Recording, metadata: Mapping[str, str | int | float], *, overwrite: bool = False
) -> None:
    """Write D4RL's keys, `action_indices`, and the metadata as attributes of a group. The write is atomic."""
    check_recording_target(out, overwrite=overwrite)
    arrays = {
        "observations": recording.states,
        "actions": recording.actions,
        "rewards": recording.rewards,
        "next_observations": recording.next_states,
        "terminals": recording.terminals,
        "timeouts": recording.timeouts,
        "action_indices": recording.action_indices,
    }
    try:
        with written_aside(out) as aside, h5py.File(aside, "w") as file:
            for key, array in arrays.items():
                if array is not None:
                    file[key] = array
            file.create_group(_METADATA).attrs.update(metadata)
    # On a full disk, h5py raises either, depending on when it notices.
    except (OSError, RuntimeError) as error:
        raise ActionlessError(
            f"{out}: cannot be written ({first_line(error)}); the partial file was removed"
        ) from error


def read_metadata(path: str | Path) -> dict[str, Any]:
    """The metadata of a recording: environment, level, agent, reference scores."""
    try:
        with h5py.File(path, "r") as file:
            stored = dict(file[_METADATA].attrs) if _METADATA in file else {}
    except OSError as error:
        raise ActionlessError(f"{path}: cannot be read as HDF5 ({first_line(error)})") from error
    if not stored:
        raise ActionlessError(
            f"{path}: has no metadata about how it was made; give a file written by `actionless record`"
        )
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in stored.items()}
