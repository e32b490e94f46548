"""A subset of a log's episodes, given by row numbers, so that a log larger than memory is not copied."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Int8

from actionless.data.log import Log, blocks
from actionless.discretise import Discretiser


@dataclass(frozen=True, eq=False)
class EpisodeSubset:
    """Whole episodes of a log: those to measure on, or those a policy was trained on."""

    log: Log
    rows: Int[np.ndarray, " rows"]
    """Rows of whole episodes, in the order of the log."""
    title: str
    """Which episodes these are, for the reader of a report."""

    @classmethod
    def whole(cls, log: Log) -> "EpisodeSubset":
        """All episodes of a log."""
        return cls(log, np.arange(len(log)), "the whole log")

    @property
    def episodes(self) -> Int[np.ndarray, " rows"]:
        """For each row, the index of its episode in the log."""
        return np.searchsorted(self.log.episode_stops, self.rows, side="right")

    @property
    def count(self) -> int:
        """Number of episodes."""
        return len(np.unique(self.episodes))

    def sample(self, most: int) -> Int[np.ndarray, " sample"]:
        """Indices into `rows`: all of them, or `most` of them at even distances."""
        return np.linspace(0, len(self.rows) - 1, min(most, len(self.rows))).astype(int)

    def deltas(self, discretiser: Discretiser, places: Int[np.ndarray, " sample"]) -> Int8[np.ndarray, "sample dim"]:
        """Bins of the Δs in the log."""
        rows = self.rows[places]
        states, next_states = np.asarray(self.log.states[rows]), np.asarray(self.log.next_states[rows])
        return discretiser.index(discretiser.difference(states, next_states))

    def bin_counts(self, discretiser: Discretiser) -> Int[np.ndarray, "dim bins"]:
        """For each variable, the number of its Δs in each bin."""
        counts = np.zeros((discretiser.dim, discretiser.bins), np.int64)
        for block in blocks(len(self.rows), 16 * discretiser.dim):
            deltas = self.deltas(discretiser, np.arange(block.start, block.stop))
            for k in range(discretiser.bins):
                counts[:, k] += (deltas == k).sum(axis=0)
        return counts
