"""Logs of our own agents: random, medium, expert, and what a run lived through on its way to medium.

One training run serves all levels of an environment. Its agent is kept as it was at each evaluation; which of these
snapshots is called what is decided by their evaluated returns.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import jax
import numpy as np
from jaxtyping import Int, Real, Shaped

from actionless.data.log import float_type
from actionless.data.recording import Recording, check_recording_target, write_recording
from actionless.errors import ActionlessError
from actionless.execution.job import is_done
from actionless.online.action_translation import Translation
from actionless.online.agent import best_actions
from actionless.online.agent_policy import AgentPolicy
from actionless.online.environments import Environment, make
from actionless.online.replay import Replay
from actionless.randomness import generator
from actionless.runs.directory import read_manifest
from actionless.runs.progress import ProgressDisplay
from actionless.runs.several_seeds import has_several_seeds
from actionless.runs.sinks import read_rows
from actionless.settings import Count, ScaleName, Seed, check_value
from actionless.training import evaluation
from actionless.training.online import explore, random_action
from actionless.training.online_settings import OnlineSettings, online_settings, train_settings
from actionless.training.resume import resume
from actionless.training.train import SNAPSHOTS, replay_of, train

Level = Literal["random", "medium", "expert", "replay"]

REFERENCE_EPISODES = 20
"""Behind each reference score; episodes of their own, since those of the evaluations chose the expert."""

_MEDIUM = 1 / 3
"""How far from random to expert an agent is medium."""
_EPISODES_OF_A_LEVEL = 2**40
_SHOW_EVERY = 100

logger = logging.getLogger("actionless")

Act = Callable[[Real[np.ndarray, " dim"], int], Shaped[np.ndarray, " actions"]]


def record(
    environment: str,
    out: str | Path,
    *,
    level: Level,
    steps: int,
    run: str | Path | None = None,
    agent: str = "td3",
    scale: ScaleName = "cpu",
    train_steps: int | None = None,
    action_bins: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> Path:
    """Record a log of an environment in D4RL's layout, with actions and reference scores.

        actionless.record("Hopper-v5", "hopper-medium.hdf5", level="medium", steps=100_000, run="runs/hopper")
        log = actionless.read("hopper-medium.hdf5")

    The agent is trained in `run` (by default beside the file, with `.run` behind its name), unless that is done
    already; a run that stopped is resumed. Random actions need no agent: without `run`, none is trained, and
    the file lacks the expert's score.
    """
    out = Path(out)
    if level not in get_args(Level):
        raise ActionlessError(f"level={level!r}: choose {', '.join(map(repr, get_args(Level)))}")
    check_value("steps", steps, Count)
    check_value("seed", seed, Seed)
    check_recording_target(out, overwrite=overwrite)
    asked = {"steps": train_steps, "action_bins": action_bins}
    given = {"snapshots": True} | {name: value for name, value in asked.items() if value is not None}
    config = train_settings(environment, agent, scale, given)
    with closing(make(environment, bins=config.action_bins)) as made:
        trained = None
        if run is not None or level != "random":
            folder = out.with_name(f"{out.name}.run") if run is None else Path(run)
            trained = _trained(folder, config, seed, given)
        recording, metadata = _recorded(made, level, steps, seed, trained)
    about = {"environment": environment, "level": level, "seed": seed, **metadata}
    returns = recording.episode_returns
    measured = {"steps": len(recording.rewards), "episodes": len(returns), "mean_return": float(returns.mean())}
    write_recording(out, recording, about | measured, overwrite=overwrite)
    return out


class Trained(NamedTuple):
    """A finished run with snapshots."""

    path: Path
    config: OnlineSettings
    evaluations: dict[int, float]
    """The evaluated return by step."""

    def snapshot(self, step: int) -> AgentPolicy:
        """The agent as it was at an evaluation."""
        return AgentPolicy.load(self.path / SNAPSHOTS / f"step-{step:012d}")


def expert_step(evaluations: Mapping[int, float]) -> int:
    """The best evaluated snapshot; of equals, the first."""
    return max(evaluations, key=lambda step: evaluations[step])


def medium_step(evaluations: Mapping[int, float], random_return: float) -> int:
    """The first snapshot that is a third of the way from random to expert."""
    best = evaluations[expert_step(evaluations)]
    if best <= random_return:
        raise ActionlessError(
            f"the agent never became better than random actions (a return of {best:.4g} at best, {random_return:.4g} "
            "by chance), so no snapshot is medium: train longer (--train-steps) in another --run"
        )
    bar = random_return + _MEDIUM * (best - random_return)
    return min(step for step, evaluated in evaluations.items() if evaluated >= bar)


def _trained(path: Path, config: OnlineSettings, seed: int, given: Mapping[str, Any]) -> Trained:
    """The run there at its end: begun, resumed, or as it is."""
    if not path.exists():
        train(config.environment, path, agent=config.agent, scale=config.scale, seed=seed, **given)
    else:
        _require_same(path, config, seed)
        if not is_done(path):
            resume(path)
    rows = read_rows(path / "metrics.jsonl")
    evaluations = {int(row["step"]): row["eval/return"] for row in rows if "eval/return" in row}
    return Trained(path, config, evaluations)


def _require_same(path: Path, config: OnlineSettings, seed: int) -> None:
    """Refuse a run of other settings. Those that only `actionless train --snapshots` has may differ."""
    manifest = read_manifest(path)
    if manifest.verb != "train" or has_several_seeds(manifest):
        raise ActionlessError(f"{path}: not a run of `train` with one seed; choose another --run")
    stored = online_settings(path, manifest)
    if not stored.loop.snapshots:
        raise ActionlessError(f"{path}: was trained without --snapshots, which are needed here; choose another --run")
    for name in ("environment", "agent", "scale", "steps", "action_bins"):
        asked, has = getattr(config, name), getattr(stored, name)
        if asked != has:
            raise ActionlessError(f"{path}: trained with {name}={has}, asked for is {asked}: choose another --run")
    if manifest.seed != seed:
        raise ActionlessError(f"{path}: trained with seed={manifest.seed}, asked for is {seed}: choose another --run")


def _recorded(
    environment: Environment, level: Level, steps: int, seed: int, trained: Trained | None
) -> tuple[Recording, dict[str, Any]]:
    """The log, and what is to be said of the agent behind it."""
    chance = generator(seed, "recorded actions", 0)
    random_return = _reference(environment, lambda _: random_action(environment.spec, chance)[None], seed)
    metadata: dict[str, Any] = {"reference_episodes": REFERENCE_EPISODES, "random_return": random_return}
    seeds = partial(_episode_seed, seed, level)
    if trained is not None:
        best = expert_step(trained.evaluations)
        if level == "expert" and trained.evaluations[best] <= random_return:
            logger.warning(
                "the agent never became better than random actions (a return of %.4g at best, %.4g by chance): "
                "this is no expert; train longer (--train-steps) in another --run",
                trained.evaluations[best],
                random_return,
            )
        metadata["expert_return"] = _reference(
            environment, partial(best_actions, trained.snapshot(best).behaviour), seed
        )
        metadata |= {"agent": trained.config.agent, "train_steps": trained.config.steps}
        if level != "random":
            step = best if level == "expert" else medium_step(trained.evaluations, random_return)
            metadata["agent_step"] = step
            if level == "replay":
                return from_replay(replay_of(trained.path), environment.translation, step, steps), metadata
            return roll_out(environment, _exploring(trained.snapshot(step), seeds(0)), steps, seeds), metadata
    draw = generator(seed, "recorded actions", 1)
    return roll_out(environment, lambda *_: random_action(environment.spec, draw), steps, seeds), metadata


def _reference(environment: Environment, act: evaluation.Act, seed: int) -> float:
    other = int(generator(seed, "recorded episodes", 0).integers(2**32))
    return float(evaluation.returns_of(environment, act, REFERENCE_EPISODES, other).mean())


def _episode_seed(seed: int, level: Level, number: int) -> int:
    """Levels share no episodes, so that logs of two of them can be joined."""
    first = (1 + get_args(Level).index(level)) * _EPISODES_OF_A_LEVEL
    return int(generator(seed, "recorded episodes", first + number).integers(2**31))


def _exploring(policy: AgentPolicy, seed: int) -> Act:
    """The agent as it acted when it learnt: a log of its best actions alone would hardly vary."""
    key, memory = jax.random.key(seed, impl="rbg"), policy.exploration

    def act(state: Real[np.ndarray, " dim"], step: int) -> Shaped[np.ndarray, " actions"]:
        nonlocal memory
        action, memory = explore(policy.behaviour, state.astype(np.float32), memory, key, step)
        return np.asarray(action)

    return act


def roll_out(environment: Environment, act: Act, steps: int, seed_of: Callable[[int], int]) -> Recording:
    """A number of steps in the environment; the last episode is cut off where they end."""
    episode, total, state = 0, 0.0, environment.reset(seed_of(0))
    states, next_states = (np.zeros((steps, environment.spec.state_dim), float_type(state.dtype)) for _ in range(2))
    actions = np.zeros((steps, environment.spec.action_dim), np.float32 if environment.spec.bins is None else np.int32)
    rewards, terminals, timeouts = np.zeros(steps), np.zeros(steps, bool), np.zeros(steps, bool)
    with ProgressDisplay(environment.name, steps, 0, ("episode/return",)) as display:
        for step in range(steps):
            states[step], actions[step] = state, act(state, step)
            after = environment.step(actions[step])
            state, total = after.state, total + after.reward
            rewards[step], next_states[step] = after.reward, state
            terminals[step], timeouts[step] = after.terminated, after.truncated and not after.terminated
            over = after.terminated or after.truncated
            if over or step + 1 == steps or step % _SHOW_EVERY == 0:
                display.show(step + 1, {"episode/return": total} if over else {})
            if over and step + 1 < steps:
                episode += 1
                total, state = 0.0, environment.reset(seed_of(episode))
    timeouts[-1] = not terminals[-1]
    return Recording(
        states=states,
        actions=np.asarray(environment.translation(actions)),
        rewards=rewards,
        next_states=next_states,
        terminals=terminals,
        timeouts=timeouts,
        action_indices=_indices(actions),
    )


def from_replay(replay: Replay, translation: Translation, until: int, steps: int) -> Recording:
    """The newest `steps` of the transitions that a run had lived through at step `until`."""
    oldest = int(replay.added) - len(replay)
    first = max(until - steps, oldest)
    if first >= until:
        raise ActionlessError(
            f"the run kept its newest {len(replay):,} transitions, and was medium at step {until:,}, before all of "
            "them: record this level from a shorter run (--train-steps)"
        )
    if until - first < steps:
        logger.warning("the run was medium at step %d: %d transitions instead of %d", until, until - first, steps)
    slots = np.arange(first, until) % replay.capacity
    terminals = replay.terminals[slots]
    timeouts = replay.ends[slots] & ~terminals
    timeouts[-1] = not terminals[-1]
    actions = replay.actions[slots]
    return Recording(
        states=replay.states[slots],
        actions=np.asarray(translation(actions)),
        rewards=replay.rewards[slots],
        next_states=replay.next_states[slots],
        terminals=terminals,
        timeouts=timeouts,
        action_indices=_indices(actions),
    )


def _indices(actions: Shaped[np.ndarray, "transitions actions"]) -> Int[np.ndarray, "transitions actions"] | None:
    return actions if np.issubdtype(actions.dtype, np.integer) else None
