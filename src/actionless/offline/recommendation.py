"""What a state policy advises: for each state and variable a direction, how sure it is, and what it would gain."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Int8

from actionless.discretise import Discretiser

WORDS = {-1: "down", 0: "same", 1: "up"}

_DIGITS = 6
"""More would only show the noise of float32."""


@dataclass(frozen=True, eq=False)
class Recommendation:
    """For one state or a batch, variable by variable."""

    state_names: tuple[str, ...]
    direction: Int8[np.ndarray, "*batch dim"]
    """-1 down, 0 same, 1 up."""
    probability: Float[np.ndarray, "*batch dim"]
    """Of the proposed bin under the policy."""
    disagreement: Float[np.ndarray, "*batch dim"]
    """Share of ensemble members that would propose another bin."""
    gain: Float[np.ndarray, "*batch dim"] | None
    """By how much Q is higher than if this variable alone stayed the same; NaN without a bin for that."""
    gain_over_data: Float[np.ndarray, "*batch dim"] | None
    """By how much Q is higher than if this variable alone did what it did."""

    @classmethod
    def of(
        cls,
        state_names: tuple[str, ...],
        discretiser: Discretiser,
        index: Int[np.ndarray, "*batch dim"],
        probability: Float[np.ndarray, "*batch dim"],
        disagreement: Float[np.ndarray, "*batch dim"],
        contributions: Float[np.ndarray, "bins *batch dim"] | None,
        happened: Int8[np.ndarray, "*batch dim"] | None,
    ) -> "Recommendation":
        """From the proposed bins; `contributions` is what each bin of each variable adds to Q."""
        directions = bin_directions(discretiser)
        gain = gain_over_data = None
        if contributions is not None:
            best = _picked(contributions, index)
            stays = np.broadcast_to((directions == 0).argmax(axis=1), index.shape)
            gain = np.where((directions == 0).any(axis=1), best - _picked(contributions, stays), np.nan)
            if happened is not None:
                gain_over_data = best - _picked(contributions, discretiser.index_of(happened).astype(np.int32))
        direction = directions[np.arange(discretiser.dim), index]
        return cls(state_names, direction, probability, disagreement, gain, gain_over_data)

    def columns(self) -> dict[str, np.ndarray]:
        """One flat column for each figure, variable after variable of state after state."""
        figures = {
            "direction": self.direction,
            "probability": self.probability,
            "disagreement": self.disagreement,
            "gain": self.gain,
            "gain_over_data": self.gain_over_data,
        }
        return {
            name: array.reshape(-1) if name == "direction" else array.reshape(-1).astype(np.float64).round(_DIGITS)
            for name, array in figures.items()
            if array is not None
        }

    def to_dicts(self) -> list[dict[str, dict[str, Any]]]:
        """One dictionary per state, variable → figures, in plain numbers; None for a gain that has no meaning."""
        columns = self.columns()
        lists = [[None if math.isnan(x) else x for x in column.tolist()] for column in columns.values()]
        figures = [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
        dim = len(self.state_names)
        return [
            dict(zip(self.state_names, figures[start : start + dim], strict=True))
            for start in range(0, len(figures), dim)
        ]


def bin_directions(discretiser: Discretiser) -> Int8[np.ndarray, "dim bins"]:
    """Which way each bin goes: `same` where zero lies inside it, else the way of the log's changes there."""
    limits = np.pad(discretiser.edges, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))
    around_zero = (limits[:, :-1] < 0) & (limits[:, 1:] > 0)
    return np.where(around_zero, 0, np.sign(discretiser.representatives)).astype(np.int8)


def _picked(
    contributions: Float[np.ndarray, "bins *batch dim"], index: Int[np.ndarray, "*batch dim"]
) -> Float[np.ndarray, "*batch dim"]:
    return np.take_along_axis(contributions, index[None], axis=0)[0]
