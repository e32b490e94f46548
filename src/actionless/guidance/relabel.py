"""Guidance by recovered actions: rows of the log, with the actions that the log lacks, beside the agent's own steps.

Inverse dynamics models of (s, s' − s) learn online, from the agent's own steps, which action leads from one state to
the next. What they say of the log's steps is used where they agree with each other, as a share of every batch
(Ball, Smith, Kostrikov and Levine 2023: symmetric sampling, and critics with LayerNorm).
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int64, PRNGKeyArray, Shaped

from actionless.data.log import Log
from actionless.discretise import Normaliser
from actionless.guidance.idm import (
    IDM_SCALES,
    ActionNetwork,
    Examples,
    IdmBatch,
    IdmConfig,
    IdmSpec,
    InverseDynamics,
    Ring,
)
from actionless.guidance.interface import (
    Draw,
    Guidance,
    GuidanceContext,
    GuidanceSettings,
    LogRows,
    Mean,
    OwnSteps,
)
from actionless.guidance.log_check import USED_THROUGHOUT, Sums, near_and_expected, suspended
from actionless.offline.state_policy import PolicyModel
from actionless.online.agent import Act, AgentSettings, Spec, Transitions
from actionless.online.replay import Column
from actionless.randomness import generator
from actionless.settings import Count, Fraction, NonNegative, ScaleName
from actionless.updates import Metrics, TrainState, means, padded, power_of_two, reset_metrics, updated

POOL = 12_800
"""Rows of the log that carry recovered actions at any time."""
ROWS_PER_STEP = 6
"""Rows of the pool that are replaced at every environment step, the oldest first: none is older than 2,134 steps."""
LEAST_USABLE = 0.02
"""The share of the pool on which the models must agree before any of it is used."""
HELD_OUT_EVERY, HELD_OUT = 20, 512
"""Every twentieth step of the agent is kept from the models, which are measured on the newest 512 of these."""
OWN_RATE = 0.01
"""How fast the moving average of the models' disagreement on such steps follows, at each environment step."""
_CHANGE_ROWS = 50_000


@dataclass(frozen=True)
class RelabelSettings(GuidanceSettings, kind="relabel"):
    """How much of the log enters a batch, and how its actions are recovered."""

    share: Fraction = 0.5
    """Share of log rows in each batch."""
    agreement: NonNegative = 3.0
    """Use a log row if the models' disagreement is at most this many times their disagreement on held-out steps of the
    agent."""
    models: Count = 3
    """Number of inverse dynamics models."""
    inverse: IdmConfig = field(default_factory=IdmConfig)
    plain_critics: bool = False
    """Use critics without LayerNorm."""

    @property
    def reads_log(self) -> bool:
        """Rows of it are what the agent learns from."""
        return True

    def agent_settings(self, settings: AgentSettings) -> AgentSettings:
        """States in units of the log's spread, and LayerNorm in the critics of agents that know it."""
        settings = dataclasses.replace(settings, standardise=True)
        return settings if self.plain_critics else settings.with_layer_norm()

    def memory(self, spec: Spec, kept: int, logged: int) -> int:
        """The agent's own steps, and the log."""
        return kept * 4 * (2 * spec.state_dim + spec.action_dim) + 16 * logged * spec.state_dim

    def create(self, context: GuidanceContext) -> "Relabel":
        """Guidance that has learnt nothing."""
        log, model = context.log_of_guide, context.policy.model
        return Relabel(log, model, context.spec, self, steps=context.steps, seed=context.seed)


def preset(scale: ScaleName) -> RelabelSettings:
    """The inverse dynamics models of a scale."""
    return RelabelSettings(inverse=IDM_SCALES[scale])


def in_words(mean: Mean) -> str | None:
    """What it did in some runs."""
    used, agreed, error = mean("relabel/used"), mean("relabel/agreed"), mean("relabel/error")
    if used is None or agreed is None or error is None:
        return None
    left_out = mean("relabel/suspended") or 0.0
    if left_out > 1 - USED_THROUGHOUT:
        return suspended("the use of the log's rows", left_out, mean("relabel/reward_correlation"))
    if used == 0:
        return (
            f"no row of the log was used: the models agreed on the actions of {agreed:.0%} of its rows. The agent has "
            "not seen what the log has seen; more steps, or the potential beside it, may help."
        )
    return (
        f"{used:.0%} of the rows in the batches were the log's. The recovered actions miss by {error:.2f} on held-out "
        f"steps of the agent; the models agreed on {agreed:.0%} of the log."
    )


class InverseEnsemble(eqx.Module):
    """Inverse dynamics models that differ in their initial weights."""

    members: InverseDynamics
    """All of them, their arrays stacked."""

    @classmethod
    def create(cls, count: int, spec: IdmSpec, config: IdmConfig, key: PRNGKeyArray) -> "InverseEnsemble":
        """Models that have learnt nothing."""
        keys = jax.random.split(key, count)
        each = [InverseDynamics.create(spec, config, key) for key in keys]
        return cls(jax.tree.map(lambda *arrays: jnp.stack(arrays), *each))

    def update(self, batch: IdmBatch, key: PRNGKeyArray) -> tuple["InverseEnsemble", Metrics]:
        """One step of Adam for each, on the same rows."""
        members, metrics = eqx.filter_vmap(lambda member: member.update(batch, key))(self.members)
        return InverseEnsemble(members), {"relabel/loss": metrics["idm/loss"].mean()}


class Pool(NamedTuple):
    """Rows of the log with recovered actions."""

    states: Float32[np.ndarray, "pool dim"]
    actions: Shaped[np.ndarray, "pool actions"]
    rewards: Float32[np.ndarray, " pool"]
    next_states: Float32[np.ndarray, "pool dim"]
    terminals: Bool[np.ndarray, " pool"]
    disagreement: Float32[np.ndarray, " pool"]
    extra: dict[str, Shaped[np.ndarray, " pool"]]
    """The replay's extra columns."""


class RelabelState(NamedTuple):
    """All that changes."""

    learning: TrainState
    """The models, and their metrics added up since the last report."""
    ring: Ring
    """The agent's own steps."""
    held_out: Ring
    """Those that the models are measured on."""
    pool: Pool
    own: Float[np.ndarray, "2"]
    """The disagreement on the agent's own steps that were kept from the models, as a moving average, and its weight."""
    relabelled: Int64[np.ndarray, ""]
    """Rows that were given an action since the beginning."""
    learnt: Int64[np.ndarray, ""]
    """Updates of the models since the beginning."""
    rows: Int64[np.ndarray, "2"]
    """Rows of the log in batches, and all rows, since the last report."""
    check: Sums
    """Whether the log fits the environment."""


class Relabel(Guidance):
    """Puts rows of the log, with recovered actions, into the batches."""

    headline = ("relabel/error", "relabel/used")
    state: RelabelState
    """For checkpoints: arrays alone."""

    def __init__(self, log: Log, model: PolicyModel, spec: Spec, settings: RelabelSettings, *, steps: int, seed: int):
        self.log, self.settings, self.seed = log, settings, seed
        self._normaliser = self.normaliser = model.discretiser.normaliser
        self._support = model.support
        self.spec = IdmSpec(spec.state_dim, None, spec.action_dim, spec.bins)
        self.discount = 0.99
        self._changes = _change_scale(log, self._normaliser)
        self._key = jax.random.fold_in(jax.random.key(seed, impl="rbg"), 1002)
        models = InverseEnsemble.create(settings.models, self.spec, settings.inverse, self._key)
        self.state = RelabelState(
            learning=TrainState(models, {"relabel/loss": jnp.zeros(())}, jnp.zeros((), jnp.int32)),
            ring=Ring.create(steps, self.spec),
            held_out=Ring.create(HELD_OUT, self.spec),
            pool=_pool(self.spec, {}),
            own=np.zeros(2),
            relabelled=np.zeros((), np.int64),
            learnt=np.zeros((), np.int64),
            rows=np.zeros(2, np.int64),
            check=Sums.create(),
        )

    @property
    def name(self) -> str:
        """What errors call it."""
        return "relabel"

    def agent_settings(self, settings: AgentSettings) -> AgentSettings:
        """The same as its own settings ask for."""
        self.discount = settings.discount
        return self.settings.agent_settings(settings)

    def begin(self, columns: Mapping[str, Column]) -> None:
        """Rows of the log need every column that the agent's own have."""
        self.state = self.state._replace(pool=_pool(self.spec, columns))

    def observe_together(self, steps: OwnSteps) -> Mapping[str, Float32[np.ndarray, " steps"]]:
        """Remember steps of the agent."""
        z, change = self._inputs(steps.states, steps.next_states)
        if self._support is not None:
            after = Normaliser.normalise(self._normaliser, steps.next_states).astype(np.float32)
            size = power_of_two(len(z))
            found = near_and_expected(self._support, padded(z, size), padded(after, size))
            distance, expected = np.asarray(found)[:, : len(z)]
            self.state.check.add(steps.rewards, expected, distance)
        kept = (np.arange(steps.first, steps.first + len(z)) % HELD_OUT_EVERY) == 0
        for ring, rows in ((self.state.held_out, kept), (self.state.ring, ~kept)):
            ring.add(z[rows], change[rows], steps.actions[rows])
        return {}

    def learn(self, first: int, stop: int, act: Act) -> None:  # noqa: ARG002
        """Update the models as often as these steps ask for."""
        config, state = self.settings.inverse, self.state
        updates = stop // config.every - first // config.every
        if updates <= 0 or state.ring.stored == 0 or self.settings.share == 0:
            return
        draw = generator(self.seed, "relabelling models", int(state.learnt))
        rows = state.ring.rows(draw.integers(0, state.ring.stored, updates * config.batch_size))
        size = power_of_two(updates) * config.batch_size
        batch = IdmBatch(Examples(*(padded(array, size) for array in rows)), None)
        learning = updated(state.learning, batch, int(state.learnt), updates, self._key, config.batch_size)
        self.state = state._replace(learning=learning)
        self.state.learnt[...] += updates

    def change_rows(self, batch: Transitions, draw: Draw) -> Transitions:
        """Rows of the log in place of the first of each batch, once the models agree on enough of them."""
        rows = self.rows(draw)
        if rows is None:
            return batch
        share = len(rows.rewards) // draw.updates
        places = (np.arange(draw.updates)[:, None] * draw.batch_size + np.arange(share)).reshape(-1)

        def put(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
            changed = np.array(mine)
            changed[places] = theirs
            return changed

        return jax.tree.map(put, batch, rows)

    def rows(self, draw: Draw) -> Transitions | None:
        """What the log adds to these batches, an equal number of rows to each; None while it adds nothing."""
        share = round(self.settings.share * draw.batch_size)
        if share == 0:
            return None
        self._refresh(draw)
        pool, counts = self.state.pool, self.state.rows
        counts[1] += draw.updates * draw.batch_size
        stored = min(int(self.state.relabelled), POOL)
        usable = np.flatnonzero(pool.disagreement[:stored] <= self._limit)
        if len(usable) < LEAST_USABLE * POOL or not self.state.check.fits:
            return None
        counts[0] += draw.updates * share
        draws = generator(self.seed, "relabelled rows", draw.step).integers(0, len(usable), draw.updates * share)
        chosen = usable[draws]
        return Transitions(
            states=pool.states[chosen],
            actions=pool.actions[chosen],
            rewards=pool.rewards[chosen],
            next_states=pool.next_states[chosen],
            discounts=np.float32(self.discount) * ~pool.terminals[chosen],
            extra={name: column[chosen] for name, column in pool.extra.items()},
        )

    def metrics(self) -> dict[str, float]:
        """How well actions are recovered, and how much of the log is used."""
        state = self.state
        metrics = means(state.learning)
        self.state = state._replace(learning=reset_metrics(state.learning))
        used, rows = state.rows.tolist()
        state.rows[:] = 0
        if rows:
            metrics["relabel/used"] = used / rows
        metrics["relabel/suspended"] = float(not state.check.fits)
        if state.check.correlation is not None:
            metrics["relabel/reward_correlation"] = state.check.correlation
        stored = min(int(state.relabelled), POOL)
        if stored:
            disagreement = state.pool.disagreement[:stored]
            metrics["relabel/agreed"] = float((disagreement <= self._limit).mean())
            metrics["relabel/disagreement"] = float(disagreement.mean())
        if state.held_out.stored:
            own = state.held_out.rows(np.arange(HELD_OUT))
            actions, apart = self._recovered(own.states, own.deltas)
            seen = slice(0, state.held_out.stored)
            wrong = actions[seen] != own.actions[seen] if self.spec.action_bins else actions[seen] - own.actions[seen]
            metrics["relabel/error"] = float(np.abs(wrong).mean())
            metrics["relabel/own_disagreement"] = float(apart[seen].mean())
        return metrics

    @property
    def _limit(self) -> float:
        """The largest disagreement on a row that is used."""
        disagreement, weight = self.state.own.tolist()
        return self.settings.agreement * disagreement / weight if weight else 0.0

    def _refresh(self, draw: Draw) -> None:
        """Give actions to some rows of the log, in place of those that have had theirs for longest."""
        pool, done = self.state.pool, int(self.state.relabelled)
        count = ROWS_PER_STEP * draw.updates
        draws = generator(self.seed, "rows to relabel", draw.step)
        chosen = np.sort(draws.integers(0, len(self.log), count))
        log = LogRows(
            states=np.asarray(self.log.states[chosen]),
            rewards=np.asarray(self.log.rewards[chosen]),
            next_states=np.asarray(self.log.next_states[chosen]),
            terminals=np.asarray(self.log.terminals[chosen]),
        )
        z, change = self._inputs(log.states, log.next_states)
        # Half as many of the agent's own steps beside them, which costs less than asking twice.
        held_out = self.state.held_out
        own = held_out.rows(draws.integers(0, max(1, held_out.stored), count // 2))
        size = power_of_two(count + count // 2)
        actions, disagreement = self._recovered(
            padded(np.concatenate([z, own.states]), size), padded(np.concatenate([change, own.deltas]), size)
        )
        if held_out.stored:
            keep = (1 - OWN_RATE) ** draw.updates
            self.state.own[:] = keep * self.state.own + (1 - keep) * np.array(
                [disagreement[count : count + count // 2].mean(), 1.0]
            )
        slots = (done + np.arange(count)) % POOL
        pool.states[slots], pool.next_states[slots] = log.states, log.next_states
        pool.rewards[slots], pool.terminals[slots] = log.rewards, log.terminals
        pool.actions[slots], pool.disagreement[slots] = actions[:count], disagreement[:count]
        for name, values in draw.columns_of(log).items():
            pool.extra[name][slots] = values
        self.state.relabelled[...] += count

    def _recovered(self, z: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        actions, disagreement = _recovered(self.state.learning.learner.members.network, z, change)
        return np.asarray(actions), np.asarray(disagreement)

    def _inputs(self, states: np.ndarray, next_states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # Called through its class, since this is done at every step: Equinox takes 40 µs to bind a method.
        z, after = (Normaliser.normalise(self._normaliser, s.astype(np.float64)) for s in (states, next_states))
        return z.astype(np.float32), ((after - z) / self._changes).astype(np.float32)


def _pool(spec: IdmSpec, columns: Mapping[str, Column]) -> Pool:
    return Pool(
        states=np.zeros((POOL, spec.state_dim), np.float32),
        actions=np.zeros((POOL, spec.action_dim), np.float32 if spec.action_bins is None else np.int32),
        rewards=np.zeros(POOL, np.float32),
        next_states=np.zeros((POOL, spec.state_dim), np.float32),
        terminals=np.zeros(POOL, bool),
        disagreement=np.zeros(POOL, np.float32),
        extra={name: np.full(POOL, column.fill, column.dtype) for name, column in columns.items()},
    )


def _change_scale(log: Log, normaliser: Normaliser) -> Float[np.ndarray, " dim"]:
    """The spread of each variable's change in one step."""
    rows = np.unique(np.linspace(0, len(log) - 1, _CHANGE_ROWS).astype(int))
    change = normaliser.normalise(log.next_states[rows].astype(np.float64)) - normaliser.normalise(
        log.states[rows].astype(np.float64)
    )
    spread = change.std(axis=0)
    return np.where(spread > 0, spread, 1.0)


@jax.jit
def _recovered(
    network: ActionNetwork, z: Float[Array, "batch dim"], change: Float[Array, "batch dim"]
) -> tuple[Shaped[Array, "batch actions"], Float[Array, " batch"]]:
    """The members' action for each row, and how much they disagree on it."""
    each = eqx.filter_vmap(lambda member: member.act(z, change))(network)
    if network.spec.action_bins is None:
        return each.mean(axis=0), each.std(axis=0).mean(axis=1)
    votes = jax.nn.one_hot(each, network.spec.action_bins).mean(axis=0)
    return votes.argmax(axis=2).astype(jnp.int32), 1 - votes.max(axis=2).mean(axis=1)
