"""Pair rows into transitions, for files that store one state per row and no next state."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from actionless.data.store import LogArrays

# So small that the copies made by indexing fit in the processor's cache: three times as fast as one large copy.
_PLACE_BYTES = 2**20


@dataclasses.dataclass(frozen=True)
class RowPairs:
    """For each row: the index of the transition that leaves it, and of the one that arrives at it; −1 for none.

    No transition leaves the last row of an episode and none arrives at the first, so a transition never crosses
    from one episode to another.
    """

    leaves: Int[np.ndarray, "rows"]
    arrives: Int[np.ndarray, "rows"]
    transitions: int
    single_rows: int
    """Number of episodes that have only one row."""

    @staticmethod
    def of(last: Bool[np.ndarray, "rows"]) -> "RowPairs":
        """Pair consecutive rows, where `last` marks the last row of each episode."""
        # In place: for a table larger than memory, these are the largest arrays that are not memory-mapped.
        leaves = np.cumsum(~last)
        transitions = int(leaves[-1])
        leaves -= 1
        leaves[last] = -1
        arrives = np.empty_like(leaves)
        arrives[0], arrives[1:] = -1, leaves[:-1]
        return RowPairs(leaves, arrives, transitions, int(((leaves < 0) & (arrives < 0)).sum()))

    def flag_ends(self, arrays: LogArrays, last: Bool[np.ndarray, "rows"], terminal: Bool[np.ndarray, "rows"]) -> None:
        """Fill `ends` and `terminals`.

        The transition that arrives at the last row of an episode ends it. It is terminal if either of its two rows
        has the flag, for two reasons: some files flag the step, others the state reached; and where the last step
        was logged without its next state, its flag must move to the step before to be kept.
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
        """Write a block of rows into both `states` and `next_states`."""
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
