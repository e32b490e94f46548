"""Checks that run while a file is read, block by block, and name the first bad place."""

import dataclasses
import re
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float, Shaped

from actionless.data.log import blocks
from actionless.errors import ActionlessError

NO_ACTIONS = ": give a log with actions, or learn without them (`actionless pretrain`)"
"""The way out where actions were asked for that no file has."""


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


def narrowed(values: Shaped[np.ndarray, "..."], dtype: np.dtype) -> Float[np.ndarray, "..."]:
    """Numbers as another float type; those too large for it become infinite, for the finite check to name."""
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False)


def as_flags(values: Shaped[np.ndarray, "rows"], place: Callable[[int], str]) -> Bool[np.ndarray, "rows"]:
    """True or false, or 1 or 0; `place` says where a value stands that is neither."""
    odd = np.flatnonzero((values != 0) & (values != 1))
    if len(odd):
        raise ActionlessError(
            f"{place(int(odd[0]))} is {values[odd[0]]}; an episode-end flag must be true or false, or 1 or 0"
        )
    return values != 0


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


# Words of a name, joined by underscores. Some words mean an action anywhere in a name. A control or a dose is
# one as the last word (`valve_control`, but not `control_room_temp`), `act` as the first (`temp_act` is what
# was measured), `u` alone.
_ACTION_NAME = re.compile(
    r"(.*_)?(actions?|commands?|cmd|ctrl|torques?)(_.*)?"
    r"|(.*_)?(controls?|doses?)"
    r"|act(_.*)?"
    r"|u"
)


def action_like(names: Sequence[str]) -> list[str]:
    """State names that usually belong to actions."""
    return [name for name in names if _ACTION_NAME.fullmatch(_words(name))]


def _words(name: str) -> str:
    """`jointTorque[3]` and `joint.torque_3` as `joint_torque`."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return re.sub(r"[\W\d_]+", "_", apart).strip("_").lower()
