"""The guide: a state policy, an inverse dynamics model and the switch, beside any agent.

It sees NumPy alone and knows nothing of the agent's inside. Whatever it draws is decided by its seed, the
environment step and the number of updates so far, so `state` holds all there is to save.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, Int8, Int64, PRNGKeyArray, Real, Shaped

from actionless.data.log import Log
from actionless.discretise import Discretiser, Normaliser
from actionless.errors import ActionlessError
from actionless.guidance.idm import ActionNetwork, Examples, IdmBatch, IdmConfig, IdmSpec, InverseDynamics, Ring
from actionless.guidance.interface import NOTHING, Guidance
from actionless.guidance.schedule import PaperSchedule, Schedule, beta_at, follows_guide, guidance_end
from actionless.offline.log_origin import require_log_of
from actionless.offline.state_policy import PolicyModel, StatePolicy
from actionless.online.agent import Act, AgentView
from actionless.randomness import generator
from actionless.settings import Count, Positive, Settings
from actionless.updates import TrainState, means, padded, power_of_two, reset_metrics, updated


@dataclass(frozen=True)
class GuideConfig(Settings):
    """How the guide learns, and how much it remembers."""

    idm: IdmConfig = field(default_factory=IdmConfig)
    bootstrap: bool = True
    """Train the inverse dynamics model on states of the log too, with the agent's actions in place of the missing
    ones."""
    capacity: Count = 1_000_000
    """Number of newest transitions that the inverse dynamics model learns from."""
    stretch: Count = 1
    """Mean number of steps before a new draw decides who acts, the guide or the agent."""
    choice: Positive | None = None
    """Temperature of the critic's choice between the guide's and the agent's action, relative to |Q|; off if not
    given."""


class Counts(NamedTuple):
    """What happened since the last report, own steps before guided ones; and the proposal that is under way."""

    steps: Int64[np.ndarray, "2"]
    rewards: Float[np.ndarray, "2"]
    realised: Int64[np.ndarray, " dim"]
    beta: Float[np.ndarray, ""]
    proposed: Int8[np.ndarray, " dim"]
    proposed_at: Int64[np.ndarray, ""]
    learnt: Int64[np.ndarray, ""]
    """Updates of the inverse dynamics model since the beginning."""


class GuideState(NamedTuple):
    """All that changes."""

    learning: TrainState
    """The inverse dynamics model, and its metrics added up since the last report."""
    ring: Ring
    counts: Counts


class Guide(Guidance):
    """Follows a state policy in some steps, so that an agent that learns from all of them sees better ones sooner.

    Actions are scaled to [-1, 1], or are the index of a bin in each dimension. A plain loop with any agent:

        policy, log = StatePolicy.load("runs/hopper"), actionless.read("hopper_medium-v2.hdf5")
        guide = Guide.create(policy, action_dim=3, steps=100_000, log=log)
        state, _ = environment.reset(seed=0)
        for step in range(100_000):
            proposal = guide.propose(state, step)
            action = agent.explore(state) if proposal is None else proposal
            next_state, reward, terminated, truncated, _ = environment.step(action)
            guide.observe(state, action, reward, next_state, step)
            agent.learn(state, action, reward, next_state, terminated)
            guide.learn(step, step + 1, agent.best_actions)  # a function from a batch of states to their actions
            state = environment.reset()[0] if terminated or truncated else next_state
    """

    headline = ("beta", "guided_share", "idm/loss")
    state: GuideState
    """All that changes, for checkpoints: arrays alone. It is no copy: write it before the next step."""

    def __init__(
        self,
        policy: StatePolicy,
        spec: IdmSpec,
        schedule: Schedule,
        log: Log | None,
        config: GuideConfig,
        seed: int,
        state: GuideState,
    ):
        self.policy, self.spec, self.schedule, self.log = policy, spec, schedule, log
        self.config, self.seed, self.state = config, seed, state
        self.end = guidance_end(schedule)
        """The step from which on guidance is known to be over: nothing is remembered any more."""
        # Made once: the policy put where it computes, and the key.
        self._model = jax.tree.map(jnp.asarray, policy.model)
        self._key = _key(seed)

    @property
    def name(self) -> str:
        """What errors call it."""
        return "switch"

    @classmethod
    def create(
        cls,
        policy: StatePolicy,
        *,
        action_dim: int,
        bins: int | None = None,
        steps: int,
        log: Log | None,
        schedule: Schedule | None = None,
        config: GuideConfig | None = None,
        seed: int = 0,
    ) -> "Guide":
        """A guide that has learnt nothing, for a run of so many environment steps.

        `bins` is the number of choices in each action dimension where actions are factorised. Without a schedule,
        β falls as in the paper and guidance ends halfway. The log is the one that the policy was trained on.
        """
        config = GuideConfig() if config is None else config
        schedule = PaperSchedule().for_run(steps) if schedule is None else schedule
        _check(policy, log, config)
        discretiser = policy.model.discretiser
        spec = IdmSpec(discretiser.dim, discretiser.bins, action_dim, bins)
        end = guidance_end(schedule)
        state = GuideState(
            learning=_begin_learning(spec, config, seed),
            ring=Ring.create(int(max(1, min(config.capacity, steps, end))), spec),
            counts=_begin_counts(spec),
        )
        return cls(policy, spec, schedule, log, config, seed, state)

    def beta(self, step: int) -> float:
        """The probability of following the guide at an environment step."""
        return beta_at(self.schedule, step)

    def propose(self, state: Real[np.ndarray, " dim"], step: int) -> Shaped[np.ndarray, " actions"] | None:
        """The guide's action, or None where the agent is to act by itself."""
        if not follows_guide(self.seed, step, self.beta(step), self.config.stretch):
            return None
        self._check_state(state)
        action, proposed = _proposal(self._model, self.state.learning.learner.network, self._normalised(state))
        self.state.counts.proposed[:] = proposed
        self.state.counts.proposed_at[...] = step
        if not np.isfinite(action).all():
            raise ActionlessError(
                f"the guide's action at step {step} is not finite: its inverse dynamics model has diverged; start "
                "again with a smaller learning rate for it (idm_learning_rate)"
            )
        return np.array(action)

    def accepts(
        self,
        proposal: Shaped[np.ndarray, " actions"],
        state: Real[np.ndarray, " dim"],
        step: int,
        agent: AgentView,
    ) -> bool:
        """Whether the critic lets the guide act, where it is asked."""
        if self.config.choice is None:
            return True
        states = np.repeat(state[None], 2, axis=0)
        guides, own = agent.values(states, np.stack([proposal, agent.act(states)[0]])).tolist()
        unit = self.config.choice * max(abs(guides), abs(own), 1e-6)
        # Clipped, so that no difference overflows.
        chance = 1 / (1 + math.exp(min(50.0, (own - guides) / unit)))
        taken = generator(self.seed, "critic's choice", step).random() < chance
        if not taken:
            self.state.counts.proposed_at[...] = -1
        return taken

    def observe(
        self,
        state: Real[np.ndarray, " dim"],
        action: Shaped[np.ndarray, " actions"],
        reward: float,
        next_state: Real[np.ndarray, " dim"],
        step: int,
        *,
        terminated: bool = False,  # noqa: ARG002
        first: bool = False,  # noqa: ARG002
    ) -> Mapping[str, float | int]:
        """Take in a transition, guided or not: the guide knows by itself which."""
        self._check_state(state)
        self._check_action(action, step)
        counts = self.state.counts
        guided = int(counts.proposed_at) == step
        counts.steps[int(guided)] += 1
        counts.rewards[int(guided)] += reward
        counts.beta[...] = self.beta(step)
        if step >= self.end:
            return NOTHING
        # Here, while the states have their own precision: in float32 a small change of a large value is lost.
        delta = self._delta(state, next_state)
        if guided:
            counts.realised[:] += delta == counts.proposed
        self.state.ring.add(self._normalised(state)[None], delta[None], np.asarray(action)[None])
        return NOTHING

    def learn(self, first: int, stop: int, act: Act) -> None:
        """Update the inverse dynamics model as often as these steps ask for, while there is a chance to follow it.

        `act` gives the agent's present best action for each of a batch of states. Nothing is learnt before the first
        transition.
        """
        updates = stop // self.config.idm.every - first // self.config.idm.every
        if updates <= 0 or self.beta(stop) == 0 or self.state.ring.stored == 0:
            return
        rows, batch_size = updates * self.config.idm.batch_size, self.config.idm.batch_size
        size = power_of_two(updates) * batch_size
        batch = IdmBatch(self._online(rows), self._offline(rows, act) if self.config.bootstrap else None)
        filled = jax.tree.map(lambda array: padded(array, size), batch)
        learning = updated(self.state.learning, filled, 0, updates, self._key, batch_size)
        self.state = self.state._replace(learning=learning)
        self.state.counts.learnt[...] += updates

    def metrics(self) -> dict[str, float]:
        """What happened since the last call; what was not counted is left out."""
        learning, counts = self.state.learning, self.state.counts
        own, guided = counts.steps.tolist()
        metrics: dict[str, float] = {}
        if own + guided:
            metrics |= {"guided_share": guided / (own + guided), "beta": float(counts.beta)}
        if own:
            metrics["guide/own_reward"] = float(counts.rewards[0]) / own
        if guided:
            realised = (counts.realised / guided).tolist()
            metrics |= {"guide/reward": float(counts.rewards[1]) / guided, "guide/realised": float(np.mean(realised))}
            names = (f"guide/realised/{name}" for name in self.policy.state_names)
            metrics |= dict(zip(names, realised, strict=True))
        metrics |= means(learning)
        for counted in (counts.steps, counts.rewards, counts.realised):
            counted[:] = 0
        self.state = self.state._replace(learning=reset_metrics(learning))
        return metrics

    # Called through their classes, since this is done at every step: Equinox takes 40 µs to bind a method.

    def _normalised(self, states: np.ndarray) -> Float32[np.ndarray, "*batch dim"]:
        return Normaliser.normalise(self.policy.model.discretiser.normaliser, states).astype(np.float32)

    def _delta(self, states: np.ndarray, next_states: np.ndarray) -> Int8[np.ndarray, "*batch dim"]:
        discretiser = self.policy.model.discretiser
        return Discretiser.index(discretiser, Discretiser.difference(discretiser, states, next_states))

    def _online(self, rows: int) -> Examples:
        draw = generator(self.seed, "idm rows", int(self.state.counts.learnt))
        return self.state.ring.rows(draw.integers(0, self.state.ring.stored, rows))

    def _offline(self, rows: int, act: Act) -> Examples:
        assert self.log is not None
        draw = generator(self.seed, "idm log rows", int(self.state.counts.learnt))
        chosen = draw.integers(0, len(self.log), (rows // self.config.idm.batch_size, self.config.idm.batch_size))
        # Within a batch the order means nothing, and a memory map is read from front to back.
        chosen = np.sort(chosen, axis=1).reshape(-1)
        states, next_states = np.asarray(self.log.states[chosen]), np.asarray(self.log.next_states[chosen])
        actions = np.asarray(act(states))
        if actions.shape != (rows, self.spec.action_dim):
            raise ActionlessError(
                f"act gave actions of shape {actions.shape} for {rows} states: "
                f"it has to give one row of {self.spec.action_dim} for each"
            )
        delta = self._delta(states, next_states)
        return Examples(self._normalised(states), delta, actions.astype(self.state.ring.actions.dtype))

    def _check_state(self, state: np.ndarray) -> None:
        if state.shape != (self.spec.state_dim,):
            names = self.policy.state_names
            raise ActionlessError(
                f"the environment's states have shape {state.shape}, the state policy was trained on "
                f"{self.spec.state_dim} variables ({', '.join(names[:8])}{', …' if len(names) > 8 else ''}): "
                "pre-train on a log of this environment"
            )

    def _check_action(self, action: np.ndarray, step: int) -> None:
        bins = self.spec.action_bins
        lowest, highest = (-1, 1) if bins is None else (0, bins - 1)
        if action.shape != (self.spec.action_dim,) or not (lowest <= action.min() and action.max() <= highest):
            raise ActionlessError(
                f"action {action.tolist()} at step {step}: the guide needs {self.spec.action_dim} numbers "
                f"from {lowest} to {highest}, scaled from the environment's own limits"
            )


def _check(policy: StatePolicy, log: Log | None, config: GuideConfig) -> None:
    if config.bootstrap and log is None:
        raise ActionlessError(
            "the inverse dynamics model learns from the log too: give the log that the policy was trained on, "
            "or set bootstrap=False in its config"
        )
    if log is not None:
        require_log_of(policy, log)


def _begin_learning(spec: IdmSpec, config: GuideConfig, seed: int) -> TrainState:
    idm = InverseDynamics.create(spec, config.idm, _key(seed))
    names = ("idm/loss", "idm/online_loss", *(("idm/offline_loss",) if config.bootstrap else ()))
    return TrainState(idm, {name: jnp.zeros(()) for name in names}, jnp.zeros((), jnp.int32))


def _key(seed: int) -> PRNGKeyArray:
    # Its initial weights are not those of an agent with the same seed.
    return jax.random.fold_in(jax.random.key(seed, impl="rbg"), 1001)


def _begin_counts(spec: IdmSpec) -> Counts:
    return Counts(
        steps=np.zeros(2, np.int64),
        rewards=np.zeros(2),
        realised=np.zeros(spec.state_dim, np.int64),
        beta=np.zeros(()),
        proposed=np.zeros(spec.state_dim, np.int8),
        proposed_at=np.full((), -1, np.int64),
        learnt=np.zeros((), np.int64),
    )


@jax.jit
def _proposal(
    model: PolicyModel, network: ActionNetwork, z: Float[Array, " dim"]
) -> tuple[Shaped[Array, " actions"], Int[Array, " dim"]]:
    proposed = model.index(z[None])
    return network.act(z[None], proposed)[0], proposed[0]
