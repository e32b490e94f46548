"""Guidance by a potential: the value that a log taught, given to the agent with its rewards.

The agent learns from r + γΦ(s') − Φ(s), with Φ = 0 where the environment ended. Whatever Φ is, the best policy stays
the best (Ng, Harada and Russell 1999); a good Φ tells at once what would otherwise be known at the end of an episode.
With a discount of λγ, λ < 1, the agent looks less far ahead and leaves the rest to Φ: HuRL (Cheng, Kolobov and
Swaminathan 2021), whose reward r + (γ − λγ)Φ(s') differs from this one by Φ(s') and Φ(s) alone.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int64, Real, Shaped

from actionless.discretise import Normaliser
from actionless.guidance.interface import Draw, Guidance, GuidanceContext, GuidanceSettings, LogRows
from actionless.guidance.log_check import Sums
from actionless.offline.state_policy import PolicyModel, StatePolicy
from actionless.online.agent import Transitions
from actionless.online.replay import Column
from actionless.settings import Count, Derived, Fraction, NonNegative, Positive, ScaleName
from actionless.updates import padded

POTENTIAL, NEXT_POTENTIAL = "potential", "next_potential"
"""Columns of the replay: Φ of a transition's state, and of the state it led to."""

_MOST_ROWS = 4096


@dataclass(frozen=True)
class PotentialSettings(GuidanceSettings, kind="potential"):
    """How sure values must be, and how far the agent looks ahead by itself."""

    kappa: NonNegative = 3.0
    """κ: the potential is the mean of the values less κ times their disagreement."""
    reach: Positive = 1.0
    """How far off the log the potential falls to a third (1/e), in standard deviations of each variable. It does so
    only if episodes of the log end in terminals: elsewhere nothing is lost by leaving the log."""
    horizon: Fraction = 1.0
    """λ at the beginning: the agent's discount is λγ, and rises to γ. 1 leaves it as it is."""
    horizon_steps: Derived[Count | None] = None
    """The step at which λ has risen to 1: half of the run."""

    def completed(self, guide: str, steps: int) -> "PotentialSettings":  # noqa: ARG002
        """With the rise of λ stretched to this run."""
        return dataclasses.replace(self, horizon_steps=max(1, steps // 2))

    def create(self, context: GuidanceContext) -> "PotentialGuidance":
        """Guidance that has seen nothing."""
        return PotentialGuidance(Potential.of(context.policy, self.kappa, self.reach), self)


def preset(scale: ScaleName) -> PotentialSettings:  # noqa: ARG001 (the same at every scale)
    """The same at every scale."""
    return PotentialSettings()


class OfStep(NamedTuple):
    """What there is to know of one step."""

    before: float
    """Φ of the state it began in."""
    after: float
    """Φ of the state it led to."""
    disagreement: float
    """Of the members, on the second."""
    distance: float
    """Of the second from the log."""
    expected: float
    """What the log would have paid, in units of its spread."""


class Potential:
    """Φ: a pessimistic value of states, in the environment's own units."""

    def __init__(self, model: PolicyModel, kappa: float, reach: float, scale: float):
        self.normaliser = model.discretiser.normaliser
        # Made once: the model put where it computes.
        self._model = jax.tree.map(jnp.asarray, model)
        self._kappa, self._reach, self._scale = np.float32(kappa), np.float32(reach), np.float32(scale)

    @classmethod
    def of(cls, policy: StatePolicy, kappa: float, reach: float = np.inf) -> "Potential":
        """Of a policy that has values; another is refused. Where it knows no distance, `reach` means nothing."""
        policy.require_values()
        return cls(policy.model, kappa, reach, policy.value_scale)

    def __call__(self, states: Real[np.ndarray, "batch dim"]) -> Float32[np.ndarray, " batch"]:
        """Φ of each state."""
        z = self._normalised(states)
        parts = []
        for start in range(0, len(z), _MOST_ROWS):
            block = z[start : start + _MOST_ROWS]
            size = 1 << (len(block) - 1).bit_length()
            found = _pessimistic(self._model, padded(block, size), self._kappa, self._reach)
            parts.append(np.asarray(found)[0, : len(block)])
        return np.concatenate(parts) * self._scale

    def of_step(self, state: Real[np.ndarray, " dim"], next_state: Real[np.ndarray, " dim"]) -> OfStep:
        """All figures of one step, at the cost of one call."""
        z = self._normalised(np.stack([state, next_state]))
        (before, after), (_, spread), (_, distance), (_, expected) = np.asarray(
            _pessimistic(self._model, z, self._kappa, self._reach)
        ).tolist()
        scale = float(self._scale)
        return OfStep(scale * before, scale * after, scale * spread, distance, expected)

    def _normalised(self, states: Real[np.ndarray, "batch dim"]) -> Float32[np.ndarray, "batch dim"]:
        # Called through its class, since this is done at every step: Equinox takes 40 µs to bind a method.
        return Normaliser.normalise(self.normaliser, states).astype(np.float32)


class PotentialState(NamedTuple):
    """All that changes: whether the log fits, and what was counted since the last report."""

    check: Sums
    steps: Int64[np.ndarray, ""]
    sums: Float[np.ndarray, "5"]
    """Of Φ, of its disagreement, of the distance from the log, and of the sizes of what it adds and of rewards."""


class PotentialGuidance(Guidance):
    """Adds the potential's part to rewards when a batch is drawn."""

    headline = ("potential/mean",)
    columns = {POTENTIAL: Column(), NEXT_POTENTIAL: Column(of_last=True)}  # noqa: RUF012
    state: PotentialState
    """For checkpoints: arrays alone, changed in place."""

    def __init__(self, potential: Potential, settings: PotentialSettings):
        self.potential, self.settings = potential, settings
        self.normaliser = potential.normaliser
        self.state = PotentialState(Sums.create(), np.zeros((), np.int64), np.zeros(5))

    @property
    def name(self) -> str:
        """What errors call it."""
        return "potential"

    def observe(
        self,
        state: Real[np.ndarray, " dim"],
        action: Shaped[np.ndarray, " actions"],  # noqa: ARG002
        reward: float,
        next_state: Real[np.ndarray, " dim"],
        step: int,  # noqa: ARG002
        *,
        terminated: bool = False,
        first: bool = False,  # noqa: ARG002
    ) -> Mapping[str, float | int]:
        """Φ at both ends of a transition."""
        kept, figures = self.state, self.potential.of_step(state, next_state)
        kept.check.add(reward, figures.expected, figures.distance)
        kept.steps[...] += 1
        added = (0.0 if terminated else figures.after) - figures.before
        kept.sums[:] += (figures.after, figures.disagreement, figures.distance, abs(added), abs(reward))
        return {POTENTIAL: figures.before, NEXT_POTENTIAL: figures.after}

    def columns_of(self, rows: LogRows) -> Mapping[str, Float32[np.ndarray, " rows"]]:
        """Φ at both ends of transitions of a log."""
        return {
            POTENTIAL: self.potential(rows.states),
            NEXT_POTENTIAL: self.potential(rows.next_states),
        }

    def change_batch(self, batch: Transitions, draw: Draw) -> Transitions:
        """Rewards with the potential's part; discounts that look less far ahead while λ < 1.

        Nothing changes while the log does not fit the environment.
        """
        if not self.state.check.fits:
            return batch
        before, after = batch.extra[POTENTIAL], batch.extra[NEXT_POTENTIAL]
        rewards = batch.rewards + batch.discounts * after - before
        discounts = batch.discounts * np.float32(self.horizon(draw.step))
        return dataclasses.replace(batch, rewards=rewards, discounts=discounts)

    def horizon(self, step: int) -> float:
        """λ at an environment step."""
        start, until = self.settings.horizon, self.settings.horizon_steps
        return 1.0 if until is None else min(1.0, start + (1 - start) * step / until)

    def metrics(self) -> dict[str, float]:
        """Φ on the states of the last steps, and how much of what the agent learnt from came from it."""
        steps = int(self.state.steps)
        if steps == 0:
            return {}
        value, disagreement, distance, added, reward = (self.state.sums / steps).tolist()
        self.state.steps[...], self.state.sums[:] = 0, 0
        known = self.state.check.correlation
        return {
            **({} if known is None else {"potential/reward_correlation": known}),
            "potential/used": float(self.state.check.fits),
            "potential/mean": value,
            "potential/disagreement": disagreement,
            "potential/distance": distance,
            "potential/added": added,
            "potential/share": added / (added + reward) if added + reward else 0.0,
        }


@jax.jit
def _pessimistic(
    model: PolicyModel, z: Float[Array, "batch dim"], kappa: Float[Array, ""], reach: Float[Array, ""]
) -> Float[Array, "4 batch"]:
    """Φ, the members' disagreement, the distance from the log, what the log pays for the step from the row before."""
    values = model.member_values(z)
    spread = values.std(axis=0)
    value = values.mean(axis=0) - kappa * spread
    if model.support is None:
        return jnp.stack([value, spread, jnp.zeros_like(value), jnp.zeros_like(value)])
    distance, floor = model.support.distance(z), model.support.floor
    off = model.support.ends * distance / reach
    expected = model.support.reward(jnp.roll(z, 1, axis=0), z)
    return jnp.stack([floor + (value - floor) * jnp.exp(-off), spread, distance, expected])
