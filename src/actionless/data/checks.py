"""Checks that run while a file is read, block by block, and name the first bad place."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float

from actionless.data.log import blocks
from actionless.errors import ActionlessError


@dataclasses.dataclass
class FiniteCheck:
    """Counts NaN and infinite values over all blocks; `finish` raises with the first place and the count."""

    path: str
    place: Callable[[int, int], str]
    bad: int = 0
    first: tuple[int, int, float] | None = None

    def block(
        self,
        start_row: int,
        values: Float[np.ndarray, "block ..."],
        allowed: Bool[np.ndarray, "block"] | None = None,
    ) -> None:
        """Look at the rows from `start_row` on; rows that are `allowed` may hold anything."""
        finite = np.isfinite(values)
        if finite.all():
            return
        bad = ~finite.reshape(len(values), -1)
        if allowed is not None:
            bad &= ~allowed[:, None]
        places = np.argwhere(bad)
        if len(places) and self.first is None:
            row, column = places[0].tolist()
            self.first = (start_row + row, column, float(values.reshape(len(values), -1)[row, column]))
        self.bad += len(places)

    def finish(self) -> None:
        """Raise if anything was not finite."""
        if self.first is not None:
            row, column, value = self.first
            others = f", the first of {self.bad:,} such values" if self.bad > 1 else ""
            raise ActionlessError(
                f"{self.path}: {self.place(row, column)} is {value}{others}; fill in or drop these rows before reading"
            )


def require_transitions(path: str, transitions: int) -> None:
    """A log without a single (state, next state) pair teaches nothing."""
    if transitions == 0:
        raise ActionlessError(
            f"{path}: no complete transition: every episode has fewer than two states; "
            "check the episode column or the episode-end flags"
        )


def mark_breaks(
    states: Float[np.ndarray, "transitions dim"],
    next_states: Float[np.ndarray, "transitions dim"],
    ends: Bool[np.ndarray, "transitions"],
) -> int:
    """Set `ends` where the next state is not the state that follows; return how many were not flagged.

    Recordings are cut and joined without a flag; a return must not run across such a seam.
    """
    unflagged = 0
    row_bytes = 2 * states.itemsize * states.shape[1]
    for block in blocks(len(states) - 1, row_bytes):
        after = slice(block.start + 1, block.stop + 1)
        broken = (next_states[block] != states[after]).any(axis=1) & ~ends[block]
        ends[block] |= broken
        unflagged += int(broken.sum())
    ends[-1] = True
    return unflagged


def broken_rows_warning(breaks: int, transitions: int) -> str:
    """What to say about unflagged breaks."""
    if breaks > transitions // 2:
        return (
            f"{breaks:,} of {transitions:,} rows do not go on from the row before: the rows are shuffled or "
            "sampled, so returns and episode lengths mean nothing"
        )
    return (
        f"{breaks:,} breaks without an episode-end flag (the next state is not the state that follows) "
        "were taken as episode ends"
    )


ACTION_NAMES = ("action", "act", "actions", "control", "controls", "ctrl", "torque", "command", "dose", "u")


def action_like(names: Sequence[str]) -> list[str]:
    """State names that usually belong to actions."""
    return [name for name in names if name.lower().rstrip("0123456789").rstrip("_.-[]") in ACTION_NAMES]
