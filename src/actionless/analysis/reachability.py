"""Reachability: did a proposed Δs ever happen in the log from a similar state?"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from actionless.analysis.episode_subset import EpisodeSubset
from actionless.discretise import Discretiser

NEIGHBOURS = 32
MOST_STATES = 1000
MOST_SEEN = 50_000
"""Transitions among which neighbours are looked for: distances to all of them are computed."""

_BLOCK = 128


@dataclass(frozen=True)
class Reachability:
    """Shares of the sampled states whose Δs also happened at one of their nearest neighbours."""

    neighbours: int
    states: int
    """Number of sampled states."""
    seen: int
    """Number of transitions in which neighbours were searched."""
    proposed: float
    """Share for proposed Δs, all variables together."""
    observed: float
    """Share for the Δs that did happen: a reference for what data of this density allows."""
    proposed_by_variable: tuple[float, ...]


def reachability(
    discretiser: Discretiser,
    part: EpisodeSubset,
    places: Int[np.ndarray, " sample"],
    proposed: Int[np.ndarray, "sample dim"],
    seen: EpisodeSubset,
) -> Reachability:
    """Compare proposed bins with what happened in `seen` at the nearest neighbours of the states at `places`."""
    states = np.asarray(part.log.states[part.rows[places]])
    among = seen.sample(MOST_SEEN)
    known_rows = seen.rows[among]
    known = _normalised(discretiser, np.asarray(seen.log.states[known_rows]))
    deltas = seen.deltas(discretiser, among)
    observed = part.deltas(discretiser, places)
    itself = _places_of(part.rows[places], known_rows) if seen.log is part.log else np.full(len(places), -1)
    nearest = nearest_neighbours(_normalised(discretiser, states), known, NEIGHBOURS, itself)
    proposal_seen = deltas[nearest] == proposed[:, None]
    event_seen = deltas[nearest] == observed[:, None]
    return Reachability(
        neighbours=nearest.shape[1],
        states=len(places),
        seen=len(known),
        proposed=float(proposal_seen.all(axis=2).any(axis=1).mean()),
        observed=float(event_seen.all(axis=2).any(axis=1).mean()),
        proposed_by_variable=tuple(proposal_seen.any(axis=1).mean(axis=0).tolist()),
    )


def nearest_neighbours(
    states: Float[np.ndarray, "sample dim"],
    known: Float[np.ndarray, "known dim"],
    count: int,
    itself: Int[np.ndarray, " sample"],
) -> Int[np.ndarray, "sample count"]:
    """Rows of `known` nearest to each state, in no order, without the state's own (-1 where it has none)."""
    count = min(count, len(known) - int((itself >= 0).any()))
    lengths = np.square(known).sum(axis=1)
    nearest = np.empty((len(states), count), np.int64)
    for start in range(0, len(states), _BLOCK):
        block = slice(start, start + _BLOCK)
        # |s - k|² without |s|², which is the same for all k.
        distance = lengths - 2 * states[block] @ known.T
        own = itself[block]
        distance[np.flatnonzero(own >= 0), own[own >= 0]] = np.inf
        nearest[block] = np.argpartition(distance, count - 1, axis=1)[:, :count]
    return nearest


def _places_of(rows: Int[np.ndarray, " sample"], known: Int[np.ndarray, " known"]) -> Int[np.ndarray, " sample"]:
    """Where each row stands among the sorted `known`, -1 where it does not."""
    place = np.searchsorted(known, rows).clip(max=len(known) - 1)
    return np.where(known[place] == rows, place, -1)


def _normalised(discretiser: Discretiser, states: np.ndarray) -> Float[np.ndarray, "rows dim"]:
    return discretiser.normaliser.normalise(states).astype(np.float64)
