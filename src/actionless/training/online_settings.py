"""The settings of `train` and `finetune`: one class, which run.json holds to the last detail."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from actionless.data.log import Log
from actionless.declared import Alternative, DeclaredSetting, declared_settings
from actionless.errors import ActionlessError, require_extra
from actionless.guidance import kinds
from actionless.old_runs import upgraded_config
from actionless.online.agent import AgentSettings
from actionless.online.agents import (
    AGENTS,
    LABELLED,
    LABELLED_SCALES,
    REPLAY_LIMIT,
    SCALES,
    labelled_preset,
    preset,
)
from actionless.runs.directory import Manifest
from actionless.runs.sinks import SinkName
from actionless.settings import (
    Auto,
    Bounds,
    Count,
    Derived,
    Fraction,
    NonNegative,
    Parts,
    Positive,
    ScaleName,
    Settings,
    Whole,
    changed,
    check_value,
    from_json,
    marked,
    table_entry,
)

DEFAULT_AGENT, DEFAULT_METHOD = "td3", "iql"
DEFAULT_SCALE: ScaleName = "cpu"

DEFAULT_BINS = 3
"""Choices in each dimension of continuous actions, for agents that need choices."""


Value = TypeVar("Value")


class _TrainOnly:
    """Marks a setting of `train` that `finetune` has not."""


class _FinetuneOnly:
    """Marks a setting of `finetune` that `train` has not."""


TrainOnly = Annotated[Value, _TrainOnly()]
FinetuneOnly = Annotated[Value, _FinetuneOnly()]


@dataclass(frozen=True)
class OnlineLoopSettings(Settings):
    """How the loop works. Only `updates_together` changes what is learnt."""

    log_every: Count = 250
    """Steps between two rows of metrics.jsonl, a multiple of `updates_together`."""
    evaluate_every: Auto[Count | None] = None
    """Steps between two evaluations, a multiple of `log_every`; if not given, a tenth of the run, 10,000 at most."""
    episodes: Count = 10
    """Number of episodes in each evaluation."""
    checkpoint_seconds: NonNegative = 30.0
    """Shortest time between two checkpoints, which are written at evaluations."""
    updates_together: Count = 5
    """Number of steps between two groups of updates; a group has one update per step and runs in one dispatch."""
    snapshots: bool = False
    """Keep the agent as it was at each evaluation, in RUN/snapshots."""

    def check(self) -> None:
        """Intervals must divide each other."""
        if (self.evaluate_every or 0) % self.log_every:
            raise ActionlessError(
                f"evaluate_every={self.evaluate_every}: choose a multiple of log_every, which is {self.log_every}"
            )
        if self.log_every % self.updates_together:
            raise ActionlessError(
                f"log_every={self.log_every}: choose a multiple of updates_together, which is {self.updates_together}"
            )

    def for_run(self, steps: int) -> "OnlineLoopSettings":
        """With the interval of evaluations filled in."""
        tenth = max(1, round(min(steps / 10, 10_000) / self.log_every)) * self.log_every
        return self if self.evaluate_every is not None else dataclasses.replace(self, evaluate_every=tenth)


@dataclass(frozen=True)
class OnlineSettings(Settings):
    """A run of `train` or `finetune`."""

    environment: Derived[str]
    agent: Derived[str]
    scale: Derived[ScaleName]
    steps: Auto[Whole]
    """Steps in the environment."""
    batch_size: Auto[Count]
    """Transitions in each update."""
    learner: AgentSettings
    warm_up: Auto[TrainOnly[Whole]] = 0
    """Number of random steps before the agent acts and learns."""
    action_bins: Auto[TrainOnly[Annotated[int, Bounds(low=2)] | None]] = None
    """Bins per dimension of continuous actions, for agents with discrete actions (decqn)."""
    loop: OnlineLoopSettings = field(default_factory=OnlineLoopSettings)
    guide: Derived[str | None] = None
    """The directory of what was learnt from a log."""
    guidance: Parts = ()
    offline_steps: Auto[FinetuneOnly[Whole]] = 0
    """Number of updates from the log before the first step in the environment."""
    reward_scale: Auto[FinetuneOnly[Positive]] = 1.0
    """Factor for the rewards that the agent learns from, in the log and in the environment; reports use the
    environment's units. If not given, 1; for iql, 1,000 / (best return - worst return of the log's episodes)."""
    log_share: Derived[Fraction | None] = None
    """Share of log rows in each batch once an episode in the environment has ended; the other rows are from whole
    episodes. None draws evenly from the log and the agent's own transitions."""
    replay_size: Derived[Count] = 1
    sinks: Derived[tuple[SinkName, ...]] = ()

    @property
    def all_steps(self) -> int:
        """Updates from a log, then steps in the environment."""
        return self.offline_steps + self.steps

    @property
    def evaluate_every(self) -> int:
        """Steps between two evaluations."""
        assert self.loop.evaluate_every is not None
        return self.loop.evaluate_every

    def check(self) -> None:
        """Something must be learnt, and an agent must act after its random steps."""
        if self.all_steps == 0:
            raise ActionlessError("steps=0: nothing would be learnt; choose at least 1")
        if self.steps and self.warm_up >= self.steps:
            raise ActionlessError(
                f"steps={self.steps}: the first {self.warm_up} steps are random (warm_up): choose more steps, or a "
                "smaller warm_up"
            )

    def completed(self) -> "OnlineSettings":
        """With what follows from the number of steps."""
        replay_size = max(1, min(REPLAY_LIMIT, self.steps))
        return dataclasses.replace(self, replay_size=replay_size, loop=self.loop.for_run(self.all_steps))


def online_settings(run: Path, manifest: Manifest) -> OnlineSettings:
    """The settings that a run's run.json holds."""
    return from_json(OnlineSettings, upgraded_config(manifest.verb, manifest.config), str(run / "run.json"))


def train_settings(
    environment: str,
    agent: str,
    scale: ScaleName,
    given: Mapping[str, Any],
    *,
    guide: str | None = None,
    guidance: tuple[kinds.Part, ...] = (),
    sinks: tuple[SinkName, ...] = (),
) -> OnlineSettings:
    """The settings of a run of `train`: the agent's at this scale, then those given by name."""
    entry = table_entry(AGENTS, agent, "agent")
    check_value("scale", scale, ScaleName)
    _require_sinks(sinks)
    size = SCALES[scale]
    settings = OnlineSettings(
        environment=environment,
        agent=agent,
        scale=scale,
        steps=size.steps,
        batch_size=size.batch_size,
        learner=preset(agent, scale),
        warm_up=size.warm_up,
        action_bins=DEFAULT_BINS if entry.bins_actions else None,
        guide=guide,
        guidance=guidance,
        sinks=sinks,
    )
    fixed = (*marked(OnlineSettings, _FinetuneOnly), *(() if entry.bins_actions else ("action_bins",)))
    settings = changed(settings, given, agent, fixed=fixed).completed()
    _require_own(settings.learner, entry.config, agent)
    parts = kinds.completed(settings.guidance, guide, settings.steps)
    return dataclasses.replace(settings, guidance=parts, learner=kinds.agent_settings(parts, settings.learner))


def finetune_settings(
    environment: str,
    method: str,
    scale: ScaleName,
    given: Mapping[str, Any],
    *,
    log: Log | None = None,
    sinks: tuple[SinkName, ...] = (),
) -> OnlineSettings:
    """The settings of a run of `finetune`. Without a log nothing follows from it: enough to check what was given."""
    entry = table_entry(LABELLED, method, "method")
    check_value("scale", scale, ScaleName)
    _require_sinks(sinks)
    size = LABELLED_SCALES[scale]
    settings = OnlineSettings(
        environment=environment,
        agent=method,
        scale=scale,
        steps=size.steps,
        batch_size=size.batch_size,
        learner=labelled_preset(method, scale),
        offline_steps=size.offline_steps,
        log_share=entry.log_share,
        sinks=sinks,
    )
    settings = changed(settings, given, method, fixed=marked(OnlineSettings, _TrainOnly))
    _require_own(settings.learner, entry.config, method)
    if log is not None and entry.return_spread is not None and "reward_scale" not in given:
        settings = dataclasses.replace(settings, reward_scale=_reward_scale(log, method, entry.return_spread))
    return settings.completed()


def train_options() -> tuple[DeclaredSetting, ...]:
    """Every setting that some agent or kind of guidance knows, for the flags of `train` and its signature."""
    alternatives = {
        "learner": {name: Alternative([preset(name, scale) for scale in SCALES]) for name in AGENTS},
        "guidance": {name: Alternative([kind.preset(scale) for scale in SCALES]) for name, kind in kinds.KINDS.items()},
    }
    example = train_settings("", DEFAULT_AGENT, DEFAULT_SCALE, {})
    declared = declared_settings(example, alternatives)
    return tuple(each for each in declared if each.name not in marked(OnlineSettings, _FinetuneOnly))


def finetune_options() -> tuple[DeclaredSetting, ...]:
    """Every setting that some method of `finetune` knows, for its flags and its signature."""
    learners = {name: Alternative([labelled_preset(name, scale) for scale in LABELLED_SCALES]) for name in LABELLED}
    example = finetune_settings("", DEFAULT_METHOD, DEFAULT_SCALE, {})
    declared = declared_settings(example, {"learner": learners})
    return tuple(each for each in declared if each.name not in marked(OnlineSettings, _TrainOnly))


def _reward_scale(log: Log, method: str, spread: float) -> float:
    worst, best = float(log.episode_returns.min()), float(log.episode_returns.max())
    if math.isclose(worst, best):
        raise ActionlessError(
            f"{log.source.path}: {method} scales rewards by the spread of the episodes' returns, and all are "
            f"{best:.6g}: say what to multiply rewards by (--reward-scale, 1 leaves them as they are)"
        )
    return spread / (best - worst)


def _require_own(learner: AgentSettings, config: type[AgentSettings], name: str) -> None:
    """Refuse settings of another agent, given as a whole."""
    if type(learner) is not config:
        raise ActionlessError(f"learner: {type(learner).__name__} is not what {name} takes: give a {config.__name__}")


def _require_sinks(sinks: tuple[SinkName, ...]) -> None:
    for sink in sinks:
        require_extra(sink, sink, f"logging to {sink}")
