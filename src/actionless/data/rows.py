"""From logged rows to transitions: for files that store one state per row and no next state."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from actionless.data.store import LogArrays

# The copies that indexing makes then stay in the processor's cache: three times as fast as all at once.
_PLACE_BYTES = 2**20


@dataclasses.dataclass(frozen=True)
class RowPairs:
    """Which transition each row is the state of, and the next state of; −1 for none.

    The last row of an episode is the state of no transition, the first the next state of none: a
    transition never crosses an episode border.
    """

    leaves: Int[np.ndarray, "rows"]
    arrives: Int[np.ndarray, "rows"]
    transitions: int
    single_rows: int

    @staticmethod
    def of(last: Bool[np.ndarray, "rows"]) -> "RowPairs":
        """Pair consecutive rows, where `last` marks the last row of each episode."""
        # In place: for a table larger than memory these are the largest arrays that are not memory-mapped.
        leaves = np.cumsum(~last)
        transitions = int(leaves[-1])
        leaves -= 1
        leaves[last] = -1
        arrives = np.empty_like(leaves)
        arrives[0], arrives[1:] = -1, leaves[:-1]
        return RowPairs(leaves, arrives, transitions, int(((leaves < 0) & (arrives < 0)).sum()))

    def flag_ends(self, arrays: LogArrays, last: Bool[np.ndarray, "rows"], terminal: Bool[np.ndarray, "rows"]) -> None:
        """Fill `ends` and `terminals`.

        The transition into the last row of an episode ends it. It is terminal if either of its two rows
        is flagged: files differ in whether the flag stands with the step that leaves or with the state
        reached, and where the last step was logged without its next state, the flag moves to the step
        before rather than get lost.
        """
        leaves = self.leaves[:-1]
        kept = leaves >= 0
        arrays.ends[:] = last[1:][kept]
        arrays.terminals[:] = arrays.ends & (terminal[:-1] | terminal[1:])[kept]

    def place_states(
        self,
        arrays: LogArrays,
        rows: slice | Int[np.ndarray, "block"],
        states: Float[np.ndarray, "block dim"],
    ) -> None:
        """Write a block of rows to where they are states and to where they are next states."""
        place(arrays.states, self.leaves[rows], states)
        place(arrays.next_states, self.arrives[rows], states)


def place(
    target: Shaped[np.ndarray, "transitions ..."],
    positions: Int[np.ndarray, "block"],
    values: Shaped[np.ndarray, "block ..."],
) -> None:
    """Write values to their transitions: some of `RowPairs.leaves`, or of `arrives`."""
    step = max(1, _PLACE_BYTES // max(1, values[:1].nbytes))
    for start in range(0, len(positions), step):
        part = slice(start, start + step)
        kept = positions[part] >= 0
        target[positions[part][kept]] = values[part][kept]
