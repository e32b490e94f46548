"""From an agent's actions to the task's own, which Gymnasium's `step` takes, and back; one action or a batch.

Kept apart from the task, so that an agent acts where the task is not installed.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int, Integer, Real, Shaped

Actions = Shaped[np.ndarray, "*batch actions"]


@final
@dataclass(frozen=True, eq=False)
class Limits:
    """Numbers in [-1, 1] stretched to the limits of each dimension."""

    low: Float[np.ndarray, " actions"]
    high: Float[np.ndarray, " actions"]

    def __call__(self, actions: Actions) -> Actions:
        """The task's own actions."""
        # Rounding may step over a limit by a hair, which strict tasks refuse.
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
class Levels:
    """The index of one of a few numbers in each dimension."""

    levels: Float[np.ndarray, "actions bins"]

    def __call__(self, actions: Actions) -> Actions:
        """The task's own actions."""
        return self.levels[self._dimensions, actions]

    @cached_property
    def _dimensions(self) -> Int[np.ndarray, " actions"]:
        return np.arange(len(self.levels))


@final
@dataclass(frozen=True, eq=False)
class Choices:
    """The index of a choice in each dimension, where the task may begin to count elsewhere than at 0."""

    start: Integer[np.ndarray, " actions"]

    def __call__(self, actions: Actions) -> Actions:
        """The task's own actions."""
        return self.start + actions


@final
@dataclass(frozen=True, eq=False)
class Choice:
    """The index of a choice, in a task whose actions are no vectors but whole numbers."""

    start: int

    def __call__(self, actions: Actions) -> Integer[np.ndarray, "*batch"] | np.integer:
        """The task's own actions."""
        return np.int64(self.start) + actions[..., 0]


Translation = Limits | Levels | Choices | Choice

_KINDS: dict[str, type[Translation]] = {"limits": Limits, "levels": Levels, "choices": Choices, "choice": Choice}


def normalised_actions(translation: Translation, actions: Real[np.ndarray, "n actions"]) -> Shaped[np.ndarray, "n _"]:
    """The task's own actions as an agent gives them: the way back of a translation.

    Logs of factorised actions hold the index of a level already.
    """
    if isinstance(translation, Limits):
        low, high = translation.low.astype(np.float64), translation.high.astype(np.float64)
        half = np.where(high > low, (high - low) / 2, 1.0)
        # Noise on top of a policy may step over the limits, where the task clips.
        return np.clip((actions - (high + low) / 2) / half, -1, 1).astype(np.float32)
    start = translation.start if isinstance(translation, Choices | Choice) else 0
    return (np.rint(actions) - start).astype(np.int32)


def translation_to_json(translation: Translation) -> dict[str, Any]:
    """Plain values; arrays with their type of number."""
    kind = {kind: name for name, kind in _KINDS.items()}[type(translation)]
    # Not all of `vars`: what was worked out on the way is worked out again.
    stored = {name: _stored(vars(translation)[name]) for name in translation.__dataclass_fields__}
    return {"kind": kind, **stored}


def translation_from_json(stored: dict[str, Any]) -> Translation:
    """What `translation_to_json` wrote."""
    return _KINDS[stored["kind"]](**{name: _restored(value) for name, value in stored.items() if name != "kind"})


def _stored(value: Any) -> Any:
    return {"dtype": value.dtype.name, "values": value.tolist()} if isinstance(value, np.ndarray) else value


def _restored(value: Any) -> Any:
    return np.array(value["values"], value["dtype"]) if isinstance(value, dict) else value
