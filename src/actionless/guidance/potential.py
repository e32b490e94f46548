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
from jaxtyping import Array, Float, Float32, Int64, Real

from actionless.discretise import Normaliser
from actionless.guidance.interface import Draw, Guidance, GuidanceContext, GuidanceSettings, LogRows, Mean, OwnSteps
from actionless.guidance.log_check import USED_THROUGHOUT, Sums, suspended
from actionless.offline.state_policy import PolicyModel, StatePolicy
from actionless.online.agent import AgentSettings, Transitions
from actionless.online.replay import Column
from actionless.settings import Count, Derived, Fraction, NonNegative, Positive, ScaleName
from actionless.updates import padded, power_of_two

POTENTIAL, NEXT_POTENTIAL = "potential", "next_potential"
"""Columns of the replay: Φ of a transition's state, and of the state it led to."""

_MOST_ROWS = 4096


@dataclass(frozen=True)
class PotentialSettings(GuidanceSettings, kind="potential"):
    """How sure values must be, and how far the agent looks ahead by itself."""

    kappa: NonNegative = 3.0
    """κ: the potential is the mean of the members' values minus κ times their disagreement."""
    reach: Positive = 1.0
    """Distance from the log at which the potential has fallen to a third (1/e), in standard deviations of each
    variable. It falls only if episodes of the log end in terminals."""
    horizon: Fraction = 1.0
    """λ at the start of the run: the agent's discount is λγ at first and rises to γ halfway. 1 changes nothing."""
    horizon_steps: Derived[Count | None] = None
    """The step at which λ has risen to 1: half of the run."""

    def completed(self, guide: str, steps: int) -> "PotentialSettings":  # noqa: ARG002
        """With the rise of λ stretched to this run."""
        return dataclasses.replace(self, horizon_steps=max(1, steps // 2))

    def agent_settings(self, settings: AgentSettings) -> AgentSettings:
        """States in units of the log's spread."""
        return dataclasses.replace(settings, standardise=True)

    def create(self, context: GuidanceContext) -> "PotentialGuidance":
        """Guidance that has seen nothing."""
        potential, log = Potential.of(context.policy, self.kappa, self.reach), context.log_if_readable
        rows = None if log is None else log.states[:: max(1, len(log) // _MOST_ROWS)]
        return PotentialGuidance(potential, self, None if rows is None else potential.disagreement(rows))


def preset(scale: ScaleName) -> PotentialSettings:  # noqa: ARG001 (the same at every scale)
    """The same at every scale."""
    return PotentialSettings()


def in_words(mean: Mean) -> str | None:
    """What it did in some runs."""
    used, share, distance = mean("potential/used"), mean("potential/share"), mean("potential/distance")
    if share is None or distance is None:
        return None
    if used is not None and used < USED_THROUGHOUT:
        return suspended("the potential", 1 - used, mean("potential/reward_correlation"))
    if distance > 1:
        return (
            f"the agent stayed far from the log ({distance:.1f} standard deviations of each variable), where the "
            "potential says little. A log with worse behaviour in it would help more."
        )
    return (
        f"{share:.0%} of the rewards that the agent learnt from, by size, came from the potential, at a distance of "
        f"{distance:.2f} from the log."
    )


class OfSteps(NamedTuple):
    """What there is to know of steps."""

    before: Float32[np.ndarray, " steps"]
    """Φ of the state that each began in."""
    after: Float32[np.ndarray, " steps"]
    """Φ of the state that it led to."""
    disagreement: Float32[np.ndarray, " steps"]
    """Of the members, on the second."""
    distance: Float32[np.ndarray, " steps"]
    """Of the second from the log."""
    expected: Float32[np.ndarray, " steps"]
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
            found = _potential(self._model, padded(block, power_of_two(len(block))), self._kappa, self._reach)
            parts.append(np.asarray(found)[: len(block)])
        return np.concatenate(parts) * self._scale

    def disagreement(self, states: Real[np.ndarray, "batch dim"]) -> float:
        """The mean over states of the standard deviation of the members' values."""
        z = self._normalised(states)
        spread = _disagreement(self._model, padded(z, power_of_two(len(z))))
        return float(self._scale * np.asarray(spread)[: len(z)].mean())

    def of_steps(self, states: Real[np.ndarray, "steps dim"], next_states: Real[np.ndarray, "steps dim"]) -> OfSteps:
        """All figures of some steps, at the cost of one call."""
        size = power_of_two(len(states))
        z, next_z = (padded(self._normalised(each), size) for each in (states, next_states))
        found = np.asarray(_of_steps(self._model, z, next_z, self._kappa, self._reach))[:, : len(states)]
        before, after, disagreement, distance, expected = found
        return OfSteps(self._scale * before, self._scale * after, self._scale * disagreement, distance, expected)

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
    columns = {POTENTIAL: Column(), NEXT_POTENTIAL: Column(from_last_step=True)}  # noqa: RUF012
    state: PotentialState
    """For checkpoints: arrays alone, changed in place."""

    def __init__(self, potential: Potential, settings: PotentialSettings, log_disagreement: float | None = None):
        self.potential, self.settings, self.log_disagreement = potential, settings, log_disagreement
        self.discount = 0.99
        self.normaliser = potential.normaliser
        self.state = PotentialState(Sums.create(), np.zeros((), np.int64), np.zeros(5))

    @property
    def name(self) -> str:
        """What errors call it."""
        return "potential"

    def agent_settings(self, settings: AgentSettings) -> AgentSettings:
        """The same: only γ is looked up."""
        self.discount = settings.discount
        return settings

    def observe_together(self, steps: OwnSteps) -> Mapping[str, Float32[np.ndarray, " steps"]]:
        """Φ at both ends of steps."""
        kept, figures = self.state, self.potential.of_steps(steps.states, steps.next_states)
        kept.check.add(steps.rewards, figures.expected, figures.distance)
        kept.steps[...] += len(steps.rewards)
        added = np.where(steps.terminals, 0, self.discount * figures.after) - figures.before
        added = added if kept.check.fits else np.zeros_like(added)
        counted = (figures.after, figures.disagreement, figures.distance, np.abs(added), np.abs(steps.rewards))
        kept.sums[:] += [values.sum(dtype=np.float64) for values in counted]
        return {POTENTIAL: figures.before, NEXT_POTENTIAL: figures.after}

    def columns_of(self, rows: LogRows) -> Mapping[str, Float32[np.ndarray, " rows"]]:
        """Φ at both ends of transitions of a log."""
        both = self.potential(np.concatenate([rows.states, rows.next_states]))
        return {POTENTIAL: both[: len(rows.states)], NEXT_POTENTIAL: both[len(rows.states) :]}

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
            **({} if self.log_disagreement is None else {"potential/log_disagreement": self.log_disagreement}),
            "potential/distance": distance,
            "potential/added": added,
            "potential/share": added / (added + reward) if added + reward else 0.0,
        }


@jax.jit
def _potential(
    model: PolicyModel, z: Float[Array, "batch dim"], kappa: Float[Array, ""], reach: Float[Array, ""]
) -> Float[Array, " batch"]:
    """Φ."""
    return _with_its_parts(model, z, kappa, reach)[0]


@jax.jit
def _disagreement(model: PolicyModel, z: Float[Array, "batch dim"]) -> Float[Array, " batch"]:
    """Standard deviation of the members' values."""
    return model.member_values(z).std(axis=0)


@jax.jit
def _of_steps(
    model: PolicyModel,
    z: Float[Array, "steps dim"],
    next_z: Float[Array, "steps dim"],
    kappa: Float[Array, ""],
    reach: Float[Array, ""],
) -> Float[Array, "5 steps"]:
    """The fields of `OfSteps`, without the unit of values."""
    potential, disagreement, distance = _with_its_parts(model, jnp.concatenate([z, next_z]), kappa, reach)
    count = len(z)
    expected = jnp.zeros(count) if model.support is None else model.support.reward(z, next_z)
    return jnp.stack([potential[:count], potential[count:], disagreement[count:], distance[count:], expected])


def _with_its_parts(
    model: PolicyModel, z: Float[Array, "batch dim"], kappa: Float[Array, ""], reach: Float[Array, ""]
) -> tuple[Float[Array, " batch"], Float[Array, " batch"], Float[Array, " batch"]]:
    """Φ, the members' disagreement, the distance from the log."""
    values = model.member_values(z)
    spread = values.std(axis=0)
    value = values.mean(axis=0) - kappa * spread
    if model.support is None:
        return value, spread, jnp.zeros_like(value)
    distance, floor = model.support.distance(z), model.support.floor
    off = model.support.ends * distance / reach
    return floor + (value - floor) * jnp.exp(-off), spread, distance
