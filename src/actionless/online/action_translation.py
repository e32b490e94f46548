"""Translate an agent's actions to the environment's own actions and back; one action or a batch.

Separate from the environment, so that a trained agent can act where the environment is not installed.
"""

import abc
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Float, Int, Integer, Real, Shaped

from actionless.settings import Settings

Actions = Shaped[np.ndarray, "*batch actions"]


class Translation(Settings, abc.ABC):
    """From an agent's actions to the environment's own; saved with the agent."""

    @abc.abstractmethod
    def __call__(self, actions: Actions) -> Shaped[np.ndarray, "..."] | np.integer:
        """The environment's own actions."""


@final
@dataclass(frozen=True, eq=False)
class Limits(Translation, kind="limits"):
    """Continuous actions: numbers in [-1, 1], scaled to the limits of each dimension."""

    low: Float[np.ndarray, " actions"]
    high: Float[np.ndarray, " actions"]

    def __call__(self, actions: Actions) -> Actions:
        """The environment's own actions."""
        # Rounding may exceed a limit slightly, which strict environments refuse.
        inside = np.minimum(np.maximum(self._centre + self._half * actions, self.low), self.high)
        return inside.astype(self.low.dtype, copy=False)

    @cached_property
    def _centre(self) -> Float[np.ndarray, " actions"]:
        return (self.high + self.low) / 2

    @cached_property
    def _half(self) -> Float[np.ndarray, " actions"]:
        return (self.high - self.low) / 2


@final
@dataclass(frozen=True, eq=False)
class Levels(Translation, kind="levels"):
    """Discretised continuous actions: the index of a level in each dimension."""

    levels: Float[np.ndarray, "actions bins"]

    def __call__(self, actions: Actions) -> Actions:
        """The environment's own actions."""
        return self.levels[self._dimensions, actions]

    @cached_property
    def _dimensions(self) -> Int[np.ndarray, " actions"]:
        return np.arange(len(self.levels))


@final
@dataclass(frozen=True, eq=False)
class Choices(Translation, kind="choices"):
    """`MultiDiscrete` actions: an index in each dimension, plus the environment's first index."""

    start: Integer[np.ndarray, " actions"]

    def __call__(self, actions: Actions) -> Actions:
        """The environment's own actions."""
        return self.start + actions


@final
@dataclass(frozen=True, eq=False)
class Choice(Translation, kind="choice"):
    """`Discrete` actions: a single index, plus the environment's first index."""

    start: int

    def __call__(self, actions: Actions) -> Integer[np.ndarray, "*batch"] | np.integer:
        """The environment's own actions."""
        return np.int64(self.start) + actions[..., 0]


def normalised_actions(translation: Translation, actions: Real[np.ndarray, "n actions"]) -> Shaped[np.ndarray, "n _"]:
    """The inverse of a translation: the environment's own actions as an agent would give them.

    Logs of factorised actions already contain the index of a level.
    """
    if isinstance(translation, Limits):
        low, high = translation.low.astype(np.float64), translation.high.astype(np.float64)
        half = np.where(high > low, (high - low) / 2, 1.0)
        # Exploration noise may exceed the limits; the environment clips such actions.
        return np.clip((actions - (high + low) / 2) / half, -1, 1).astype(np.float32)
    start = translation.start if isinstance(translation, Choices | Choice) else 0
    return (np.rint(actions) - start).astype(np.int32)
