"""Checks that run block by block while a file is read. Their errors name the first bad value."""

import dataclasses
import re
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float, Shaped

from actionless.data.log import blocks
from actionless.errors import ActionlessError

NO_ACTIONS = ": give a log with actions, or learn without them (`actionless pretrain`)"
"""End of the error message when actions were requested but the data set has none."""


@dataclasses.dataclass
class FiniteCheck:
    """Counts NaN and infinite values over all blocks; `finish` raises with the first location and the count."""

    path: str
    place: Callable[[int, int], str]
    """Describes the location of (row, column) for the error message."""
    bad: int = 0
    first: tuple[int, int, float] | None = None

    def block(
        self,
        start_row: int,
        values: Float[np.ndarray, "block ..."],
        allowed: Bool[np.ndarray, "block"] | None = None,
    ) -> None:
        """Check a block whose first row is `start_row`; rows marked in `allowed` are not checked."""
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
        """Raise if any checked value was NaN or infinite."""
        if self.first is not None:
            row, column, value = self.first
            others = f", the first of {self.bad:,} such values" if self.bad > 1 else ""
            raise ActionlessError(
                f"{self.path}: {self.place(row, column)} is {value}{others}; fill in or drop these rows before reading"
            )


def narrowed(values: Shaped[np.ndarray, "..."], dtype: np.dtype) -> Float[np.ndarray, "..."]:
    """Convert to another float type. Values too large for it become infinite, so `FiniteCheck` reports them."""
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False)


def as_flags(values: Shaped[np.ndarray, "rows"], place: Callable[[int], str]) -> Bool[np.ndarray, "rows"]:
    """Convert values that are true or false, or 1 or 0; `place` describes the location of any other value."""
    invalid = np.flatnonzero((values != 0) & (values != 1))
    if len(invalid):
        raise ActionlessError(
            f"{place(int(invalid[0]))} is {values[invalid[0]]}; an episode-end flag must be true or false, or 1 or 0"
        )
    return values != 0


def require_transitions(path: str, transitions: int) -> None:
    """Refuse a log without a single (state, next state) pair: there is nothing to learn from."""
    if transitions == 0:
        raise ActionlessError(
            f"{path}: no complete transitions: every episode has fewer than two states; "
            "check the episode column or the episode-end flags"
        )


def mark_breaks(
    states: Float[np.ndarray, "transitions dim"],
    next_states: Float[np.ndarray, "transitions dim"],
    ends: Bool[np.ndarray, "transitions"],
) -> int:
    """Set `ends` where the next state differs from the state of the next row; return how many were set.

    Some recordings are cut and joined without an episode-end flag. Returns must not be summed across such a break.
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
    """The warning for breaks that had no episode-end flag."""
    if breaks > transitions // 2:
        return (
            f"{breaks:,} of {transitions:,} rows do not continue the row before: the rows are shuffled or "
            "sampled, so returns and episode lengths are meaningless"
        )
    return (
        f"{breaks:,} breaks without an episode-end flag (the next state differs from the state of the next row) "
        "were treated as episode ends"
    )


# Matches the words of a name, joined by underscores. Some words mean an action anywhere in a name. "control" and
# "dose" do so only as the last word (`valve_control`, but not `control_room_temp`), `act` only as the first
# (`temp_act` is an actual, measured temperature), and `u` only alone.
_ACTION_NAME = re.compile(
    r"(.*_)?(actions?|commands?|cmd|ctrl|torques?)(_.*)?"
    r"|(.*_)?(controls?|doses?)"
    r"|act(_.*)?"
    r"|u"
)


def action_like(names: Sequence[str]) -> list[str]:
    """The state names that look like names of actions."""
    return [name for name in names if _ACTION_NAME.fullmatch(_words(name))]


def _words(name: str) -> str:
    """Turn `jointTorque[3]` and `joint.torque_3` into `joint_torque`."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return re.sub(r"[\W\d_]+", "_", split).strip("_").lower()
