"""Whole episodes of a log, named by their rows: a log larger than memory is not copied to be cut."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Int8

from actionless.data.log import Log, blocks
from actionless.discretise import Discretiser


@dataclass(frozen=True, eq=False)
class EpisodeSubset:
    """What is measured on, or what a policy has learnt from."""

    log: Log
    rows: Int[np.ndarray, " rows"]
    """Those of whole episodes, in the order of the log."""
    title: str

    @classmethod
    def whole(cls, log: Log) -> "EpisodeSubset":
        """Every episode."""
        return cls(log, np.arange(len(log)), "the whole log")

    @property
    def episodes(self) -> Int[np.ndarray, " rows"]:
        """The number of each row's episode in the log."""
        return np.searchsorted(self.log.episode_stops, self.rows, side="right")

    @property
    def count(self) -> int:
        """Number of episodes."""
        return len(np.unique(self.episodes))

    def sample(self, most: int) -> Int[np.ndarray, " sample"]:
        """Places among `rows`, spread evenly: all of them, or `most`."""
        return np.linspace(0, len(self.rows) - 1, min(most, len(self.rows))).astype(int)

    def deltas(self, discretiser: Discretiser, places: Int[np.ndarray, " sample"]) -> Int8[np.ndarray, "sample dim"]:
        """Bins that the log's own Δs fell into."""
        rows = self.rows[places]
        states, next_states = np.asarray(self.log.states[rows]), np.asarray(self.log.next_states[rows])
        return discretiser.index(discretiser.difference(states, next_states))

    def bin_counts(self, discretiser: Discretiser) -> Int[np.ndarray, "dim bins"]:
        """How often each variable's Δs fell into each bin."""
        counts = np.zeros((discretiser.dim, discretiser.bins), np.int64)
        for block in blocks(len(self.rows), 16 * discretiser.dim):
            deltas = self.deltas(discretiser, np.arange(block.start, block.stop))
            for k in range(discretiser.bins):
                counts[:, k] += (deltas == k).sum(axis=0)
        return counts
