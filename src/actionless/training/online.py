"""The loop that learns by acting, the same for every agent, guided or not, with a log to begin with or without.

Some steps in the environment, then as many updates in one dispatch; while an agent learns from its log, updates alone.
Everything random depends on the seed and the step, and the simulator is rebuilt by playing the episode's actions
again: a run may stop anywhere.
"""

import dataclasses
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Real, Shaped

from actionless import old_runs
from actionless.errors import ActionlessError
from actionless.guidance.interface import Draw, Guidance, LogRows, OwnSteps, unchanged_shapes
from actionless.online.agent import Agent, AgentView, Behaviour, Spec, Transitions, best_actions
from actionless.online.agent_policy import AgentPolicy
from actionless.online.agents import create_agent
from actionless.online.environments import Environment, Step
from actionless.online.labelled_log import LabelledLog
from actionless.online.replay import Column, Replay, sample_both
from actionless.online.standardise import standardised_by
from actionless.randomness import generator
from actionless.runs.engine import Advance, DivergedError, Loop
from actionless.training.evaluation import episode_seed, returns_of
from actionless.training.online_settings import OnlineSettings
from actionless.updates import TrainState, means, reset_metrics, train_state, updated

HEADLINE = ("eval/return", "episode/return", "loss")
"""The metrics shown while any agent learns; guidance adds its own."""

_SECONDS_PER_DISPATCH = 1.0

logger = logging.getLogger("actionless")


class Episode(NamedTuple):
    """Where the agent stands in its environment."""

    number: int
    length: int
    total: float
    state: Real[np.ndarray, " dim"]


class StepTaken(NamedTuple):
    """A step in the environment."""

    state: Real[np.ndarray, " dim"]
    action: Shaped[np.ndarray, " actions"]
    reward: float
    next_state: Real[np.ndarray, " dim"]
    terminated: bool


class Finished(NamedTuple):
    """Episodes that ended since the last row of metrics."""

    episodes: int
    returns: float
    lengths: int


class OnlineState(NamedTuple):
    """All that the next step depends on. The replay is changed in place, as the memory of guidance is."""

    train_state: TrainState
    exploration: Any
    replay: Replay
    guidance: tuple[Any, ...]
    """The `state` of each guidance."""
    episode: Episode
    finished: Finished


class OnlineLoop(Loop[OnlineState]):
    """Training one agent in one environment."""

    score = "eval/return"
    old_names = old_runs.ONLINE_NAMES

    def __init__(
        self,
        environment: Environment,
        evaluation: Environment,
        config: OnlineSettings,
        seed: int,
        guidance: Sequence[Guidance] = (),
        labelled: LabelledLog | None = None,
    ):
        self.steps = config.all_steps
        self.config = config
        self._environment, self._evaluation, self._seed = environment, evaluation, seed
        self._guidance, self._labelled = tuple(guidance), labelled
        self._learner = config.learner
        for each in guidance:
            self._learner = each.agent_settings(self._learner)
        self._normaliser = next((each.normaliser for each in guidance if each.normaliser is not None), None)
        if self._normaliser is not None:
            self._learner = dataclasses.replace(self._learner, standardise=True)
        self._columns = _columns(guidance, labelled)
        for each in guidance:
            each.begin(self._columns)
        self.headline = (*HEADLINE, *(name for each in guidance for name in each.headline))
        keys = jax.random.split(jax.random.key(seed, impl="rbg"), 3)
        self._initial_key, self._update_key, self._explore_key = keys
        self._in_step_with: int | None = None
        """The step that simulator and guidance stand at: a resumed run has to bring them to its own."""
        self.snapshots: Path | None = None
        """Where the agent is saved at each evaluation."""

    def begin(self) -> OnlineState:
        """An agent that has learnt nothing, at the start of its first episode."""
        config, spec = self.config, self._environment.spec
        agent = eqx.filter_jit(create_agent)(spec, self._learner, self._initial_key)
        if self._labelled is not None:
            agent = self._labelled.introduced_to(agent)
        if self._normaliser is not None:
            agent = standardised_by(self._normaliser, agent)
        replay = Replay.create(config.replay_size, spec, self._columns)
        example = replay.sample(np.zeros(config.batch_size, np.int64), self._learner.n_step, self._learner.discount)
        self._in_step_with = 0
        return OnlineState(
            train_state=train_state(agent, example, self._update_key),
            exploration=agent.exploration(),
            replay=replay,
            guidance=self._guidance_state,
            episode=Episode(0, 0, 0.0, self._environment.reset(episode_seed(self._seed, 0))),
            finished=Finished(0, 0.0, 0),
        )

    @property
    def _guidance_state(self) -> tuple[Any, ...]:
        return tuple(each.state for each in self._guidance)

    @property
    def spec(self) -> Spec:
        """What an agent must know of the environment."""
        return self._environment.spec

    def close(self) -> None:
        """Release the simulators."""
        self._environment.close()
        self._evaluation.close()

    def advance(self, state: OnlineState, step: int) -> Advance[OnlineState]:
        """About a second's worth of steps, up to the next row of metrics at most."""
        if self._in_step_with != step:
            state = self._in_step(state)
        row = self._next_row(step)
        until = time.perf_counter() + _SECONDS_PER_DISPATCH
        while True:
            stop = min(row, (step // self.config.loop.updates_together + 1) * self.config.loop.updates_together)
            state, step = self._cycle(state, step, stop), stop
            if step == row or time.perf_counter() >= until:
                break
        self._in_step_with = step
        if step < row:
            return Advance(state._replace(guidance=self._guidance_state), step, {})
        metrics = self._metrics(state, step)
        state = state._replace(train_state=reset_metrics(state.train_state), finished=Finished(0, 0.0, 0))
        return Advance(state._replace(guidance=self._guidance_state), step, metrics)

    def policy(self, state: OnlineState, provenance: Mapping[str, Any]) -> AgentPolicy:
        """What the agent has learnt so far."""
        agent, name, settings = state.train_state.learner, self.config.agent, self._learner.for_policy()
        return AgentPolicy.of(agent, state.exploration, name, settings, self._environment, provenance)

    def _next_row(self, step: int) -> int:
        """At regular steps, where the log has been learnt from, and at the end."""
        regular = (step // self.config.loop.log_every + 1) * self.config.loop.log_every
        return min(row for row in (regular, self.config.offline_steps, self.steps) if row > step)

    def _cycle(self, state: OnlineState, step: int, stop: int) -> OnlineState:
        """Steps in the environment, unless the log is still learnt from, then an update for each."""
        agent = state.train_state.learner
        behaviour = agent.behaviour
        made: list[StepTaken] = []
        for now in range(max(step, self.config.offline_steps), stop):
            state = self._step(state, agent, behaviour, now, made)
        self._observed_together(state.replay, stop, made)
        if stop <= self.config.warm_up:
            return state
        first = max(step, self.config.warm_up)
        batches = self._changed(self._batches(state, stop, stop - first), stop, stop - first)
        after = updated(state.train_state, batches, first, stop - first, self._update_key, self.config.batch_size)
        behaviour = after.learner.behaviour
        for each in self._guidance:
            each.learn(first, stop, lambda states: best_actions(behaviour, states))
        return state._replace(train_state=after)

    def _changed(self, batches: Transitions, step: int, updates: int) -> Transitions:
        """Batches after each guidance in its turn: first their rows, then what the rows hold."""
        draw = Draw(step, updates, self.config.batch_size, self._columns_of)
        changes = [(each.name, each.change_rows) for each in self._guidance]
        changes += [(each.name, each.change_batch) for each in self._guidance]
        for name, change in changes:
            before, batches = batches, change(batches, draw)
            if batches is not before:
                unchanged_shapes(before, batches, name)
        return batches

    def _columns_of(self, rows: LogRows) -> dict[str, Shaped[np.ndarray, " rows"]]:
        """Values of the replay's extra columns for transitions that the agent has not made."""
        values = {name: np.full(len(rows.rewards), column.fill, column.dtype) for name, column in self._columns.items()}
        for each in self._guidance:
            for name, column in each.columns_of(rows).items():
                values[name] = np.asarray(column, values[name].dtype)
        return values

    def _step(
        self, state: OnlineState, agent: Agent, behaviour: Behaviour, step: int, made: list[StepTaken]
    ) -> OnlineState:
        """One step in the environment, by chance, by guidance or by the agent. It is put behind those made before."""
        episode, exploration = state.episode, state.exploration
        if step < self.config.warm_up:
            action = random_action(self._environment.spec, generator(self._seed, "warm-up actions", step))
        elif (action := self._proposal(episode.state, step, agent)) is None:
            chosen, exploration = explore(
                behaviour, episode.state.astype(np.float32), exploration, self._explore_key, step
            )
            action = np.asarray(chosen)
            if not np.isfinite(action).all():
                raise DivergedError("the agent's action", step)
        after = self._environment.step(action)
        over = after.terminated or after.truncated
        seen = self._observed(episode, action, after, step)
        made.append(StepTaken(episode.state, action, after.reward, after.state, after.terminated))
        reward = self.config.reward_scale * after.reward
        state.replay.add(episode.state, action, reward, after.state, after.terminated, over, seen)
        total, length = episode.total + after.reward, episode.length + 1
        if not over:
            return state._replace(exploration=exploration, episode=Episode(episode.number, length, total, after.state))
        if self._labelled is not None:
            self._labelled.end_episode(state.replay, length)
        done, number = state.finished, episode.number + 1
        return state._replace(
            exploration=exploration,
            episode=Episode(number, 0, 0.0, self._environment.reset(episode_seed(self._seed, number))),
            finished=Finished(done.episodes + 1, done.returns + total, done.lengths + length),
        )

    def _proposal(
        self, state: Real[np.ndarray, " dim"], step: int, agent: Agent
    ) -> Shaped[np.ndarray, " actions"] | None:
        """The first action that guidance proposes, as the environment can take it."""
        for each in self._guidance:
            action = each.propose(state, step)
            if action is not None:
                checked = _checked_proposal(action, self._environment.spec, each.name, step)
                if each.accepts(checked, state, step, AgentView(agent)):
                    return checked
        return None

    def _observed(
        self, episode: Episode, action: Shaped[np.ndarray, " actions"], after: Step, step: int
    ) -> dict[str, float | int]:
        """Values of the replay's extra columns, from all guidance."""
        seen: dict[str, float | int] = {}
        for each in self._guidance:
            first = episode.length == 0
            values = each.observe(
                episode.state, action, after.reward, after.state, step, terminated=after.terminated, first=first
            )
            _check_columns(each, values)
            seen.update(values)
        return seen

    def _observed_together(self, replay: Replay, stop: int, made: Sequence[StepTaken]) -> None:
        """Tell guidance of several steps at once, the last of which came before `stop`."""
        if not made:
            return
        steps = OwnSteps(stop - len(made), *map(np.array, zip(*made, strict=True)))
        for each in self._guidance:
            values = each.observe_together(steps)
            _check_columns(each, values)
            replay.set_newest(values)

    def _batches(self, state: OnlineState, step: int, updates: int) -> Transitions:
        """As many as a dispatch can take: those beyond `updates` are not looked at."""
        config, replay = self.config, state.replay
        logged = 0 if self._labelled is None else len(self._labelled)
        size = config.loop.updates_together * config.batch_size
        low, high = 0, logged + len(replay)
        if config.log_share is not None:
            # Whole episodes alone, as published: their returns are known. A share that held the first few steps in the
            # environment again and again undid within one episode what the log had taught.
            whole = max(0, len(replay) - state.episode.length)
            share = config.log_share if whole else 1.0
            from_log = np.arange(size) % config.batch_size < round(share * config.batch_size)
            low, high = np.where(from_log, 0, logged), np.where(from_log, logged, logged + whole)
        rows = generator(self._seed, "replay rows", step).integers(low, high, size)
        if config.log_share is not None:
            rows = np.where(rows < logged, rows, logged + replay.oldest_first(rows - logged))
        rows[updates * config.batch_size :] = 0
        if self._labelled is None:
            return replay.sample(rows, self._learner.n_step, self._learner.discount)
        return sample_both(self._labelled, replay, rows, self._learner.n_step, self._learner.discount)

    def _metrics(self, state: OnlineState, step: int) -> dict[str, float]:
        metrics = means(state.train_state)
        done = state.finished
        if done.episodes:
            metrics["episode/return"] = done.returns / done.episodes
            metrics["episode/length"] = done.lengths / done.episodes
        for each in self._guidance:
            own = each.metrics()
            if taken := sorted(own.keys() & {*metrics, "step", "eval/return", "eval/return_std"}):
                raise ActionlessError(f"guidance '{each.name}' reports '{taken[0]}', which there is already: rename it")
            metrics |= own
        if step % self.config.evaluate_every == 0 or step in (self.config.offline_steps, self.steps):
            metrics |= self._evaluate(state.train_state.learner.behaviour)
            if self.snapshots is not None:
                self.policy(state, {"step": step}).save(self.snapshots / f"step-{step:012d}")
        return metrics

    def _evaluate(self, behaviour: Behaviour) -> dict[str, float]:
        """The agent alone, in a copy of the environment."""
        returns = returns_of(
            self._evaluation, lambda states: best_actions(behaviour, states), self.config.loop.episodes, self._seed
        )
        return {"eval/return": float(returns.mean()), "eval/return_std": float(returns.std())}

    def _in_step(self, state: OnlineState) -> OnlineState:
        """Guidance and simulator as they stood when this state was saved."""
        for each, saved in zip(self._guidance, state.guidance, strict=True):
            each.restore(saved)
        return state._replace(episode=self._replayed(state.episode, state.replay))

    def _replayed(self, episode: Episode, replay: Replay) -> Episode:
        """The simulator brought to where the episode stood; where that fails, a new episode."""
        reached = self._environment.reset(episode_seed(self._seed, episode.number))
        if episode.length <= len(replay):
            for action in replay.last_actions(episode.length):
                reached = self._environment.step(action).state
            if np.array_equal(reached, episode.state):
                return episode
        logger.warning(
            "%s: the episode cannot be restored, it does not repeat itself from its seed and actions: "
            "a new one begins, and the run differs from one that never stopped",
            self._environment.name,
        )
        if episode.length:
            replay.end_episode()
            if self._labelled is not None:
                self._labelled.end_episode(replay, episode.length)
        number = episode.number + 1
        return Episode(number, 0, 0.0, self._environment.reset(episode_seed(self._seed, number)))


def _columns(guidance: Sequence[Guidance], labelled: LabelledLog | None) -> dict[str, Column]:
    """The extra columns of the replay, of all that declare any."""
    columns = {} if labelled is None else dict(labelled.columns)
    for each in guidance:
        if taken := sorted(columns.keys() & each.columns.keys()):
            raise ActionlessError(f"guidance '{each.name}' declares the column '{taken[0]}', which there is already")
        columns.update(each.columns)
    return columns


def _check_columns(guidance: Guidance, values: Any) -> None:
    if not isinstance(values, Mapping):
        raise ActionlessError(f"guidance '{guidance.name}': observe gave {values!r}, and has to return its columns")
    if not values.keys() <= guidance.columns.keys():
        unknown = sorted(values.keys() - guidance.columns.keys())[0]
        raise ActionlessError(f"guidance '{guidance.name}' gives values of '{unknown}', which its columns lack")


def _checked_proposal(action: Any, spec: Spec, name: str, step: int) -> Shaped[np.ndarray, " actions"]:
    """An action that guidance proposed. One that is not finite never reaches the environment, which would be blamed."""
    proposed = np.asarray(action)
    if not np.isfinite(proposed).all():
        raise DivergedError(f"the action that guidance '{name}' proposes", step)
    low, high = (-1, 1) if spec.bins is None else (0, spec.bins - 1)
    fits = proposed.shape == (spec.action_dim,) and low <= proposed.min() and proposed.max() <= high
    if fits and (spec.bins is None or (proposed == np.round(proposed)).all()):
        return proposed.astype(np.float32 if spec.bins is None else np.int32, copy=False)
    raise ActionlessError(
        f"guidance '{name}' proposed {proposed.tolist()} at step {step}, where {spec.action_dim} "
        f"{'' if spec.bins is None else 'whole '}numbers from {low} to {high} are needed"
    )


def random_action(spec: Spec, draw: np.random.Generator) -> Shaped[np.ndarray, " actions"]:
    """Any action, each as likely."""
    if spec.bins is None:
        return draw.uniform(-1, 1, spec.action_dim).astype(np.float32)
    return draw.integers(0, spec.bins, spec.action_dim, dtype=np.int32)


@jax.jit
def explore(
    behaviour: Behaviour, state: Float[Array, " dim"], memory: Any, key: PRNGKeyArray, step: Array | int
) -> tuple[Shaped[Array, " actions"], Any]:
    """What an agent does at a step to learn from it, and what its exploration then remembers."""
    return behaviour.explore(state, memory, jax.random.fold_in(key, step))
