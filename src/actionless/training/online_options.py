"""What `train` takes, and what a run makes of it."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from actionless.errors import ActionlessError, require_extra
from actionless.guidance.kinds import Part
from actionless.offline.presets import ScaleName
from actionless.online.presets import REPLAY_LIMIT, SCALES, AgentConfig, AgentName, AnyName, preset, stored_config
from actionless.runs.sinks import SinkName
from actionless.settings import Settings, from_json, to_json
from actionless.training.options import at_least_one, require_choices, require_sound


@dataclass(frozen=True)
class AgentOptions:
    """Departures from what agent and scale set; None keeps it. Not every agent knows every one."""

    hidden: tuple[int, ...] | None = None
    """Sizes of the hidden layers."""
    learning_rate: float | None = None
    """Step size of Adam."""
    discount: float | None = None
    """γ: what a reward one step later is worth."""
    target_rate: float | None = None
    """τ: how fast target networks follow."""
    n_step: int | None = None
    """Rewards that a target sums up before it bootstraps."""
    ensemble: int | None = None
    """Number of networks (decqn)."""
    exploration_noise: float | None = None
    """Standard deviation of the noise on the actions taken (td3)."""


@dataclass(frozen=True)
class GuideOptions:
    """How an agent is guided; None leaves it to the scale. Not every kind of guidance knows every one."""

    beta: float | None = None
    """Follow the guide with this probability throughout; if not given, 0.5 falling to 0 halfway, as in the paper."""
    bootstrap: bool = True
    """Let the inverse dynamics model learn from the log's states too; `--no-bootstrap` leaves them out."""
    idm_hidden: tuple[int, ...] | None = None
    """Sizes of its hidden layers."""
    idm_learning_rate: float | None = None
    """Step size of its Adam."""
    idm_batch_size: int | None = None
    """Transitions in each term of its loss."""
    idm_every: int | None = None
    """Environment steps for each of its updates."""
    target_return: float | None = None
    """Return that the planner is asked for; if not given, that of its run (plans)."""
    guide_weight: float | None = None
    """What a unit of the guiding reward is worth in return; if not given, 3 as published (plans)."""

    @property
    def given(self) -> dict[str, Any]:
        """Those that were chosen, by their names."""
        return {name: value for name, value in vars(self).items() if value != getattr(GuideOptions(), name)}


@dataclass(frozen=True)
class OnlineLoopOptions:
    """How the loop works. All but `updates_together` leave what is learnt untouched."""

    log_every: int = 250
    """Steps between two rows of metrics.jsonl, a multiple of `updates_together`."""
    evaluate_every: int | None = None
    """Steps between two evaluations, a multiple of `log_every`; if not given, a tenth of the run, 10,000 at most."""
    episodes: int = 10
    """Episodes of each evaluation."""
    checkpoint_seconds: float = 30.0
    """Least time between two checkpoints, which are taken at evaluations."""
    updates_together: int = 5
    """Steps taken before as many updates follow in one dispatch."""
    snapshots: bool = False
    """Keep the agent as it was at each evaluation, in RUN/snapshots."""


@dataclass(frozen=True)
class TrainOptions:
    """What to train and for how long; None leaves it to the scale."""

    agent: AgentName = "td3"
    """TD3 and SAC for continuous actions; DecQN_N for choices, or for continuous actions in bins."""
    scale: ScaleName = "cpu"
    """Preset sizes: seconds for a test, minutes on two cores, or the paper's."""
    steps: int | None = None
    """Steps in the environment."""
    batch_size: int | None = None
    """Transitions in each update."""
    warm_up: int | None = None
    """Random steps before the agent acts and learns."""
    seed: int = 0
    """Decides the initial weights, the episodes and everything that is drawn."""
    action_bins: int = 3
    """Choices in each dimension where decqn meets continuous actions."""
    learner: AgentOptions = field(default_factory=AgentOptions)
    guidance: str | None = None
    """Kinds of guidance in their order, separated by commas; if not given, the first that the guide's run fits."""
    guide_options: GuideOptions = field(default_factory=GuideOptions)
    loop: OnlineLoopOptions = field(default_factory=OnlineLoopOptions)


@dataclass(frozen=True)
class OnlineConfig:
    """A run to the last detail, as its run.json holds it."""

    environment: str
    agent: AnyName
    scale: ScaleName
    steps: int
    """In the task."""
    batch_size: int
    warm_up: int
    replay_size: int
    action_bins: int | None
    evaluate_every: int
    learner: AgentConfig
    loop: OnlineLoopOptions
    guide: str | None = None
    """The run, or the directory, of what guides."""
    guidance: tuple[Part, ...] = ()
    """In the order in which they act."""
    sinks: tuple[SinkName, ...] = ()
    offline_steps: int = 0
    """Updates from a labelled log before the first step in the task."""
    log_share: float | None = None
    """Of each batch once an episode in the task has ended, before which all is from the log; the rest is from whole
    episodes. None draws evenly from the log and what was lived through."""
    reward_scale: float = 1.0
    """What the agent learns from is each reward times this; what is reported is in the task's own units."""

    @property
    def all_steps(self) -> int:
        """Where the run ends."""
        return self.offline_steps + self.steps

    def to_json(self) -> dict[str, Any]:
        """Plain values for run.json."""
        return to_json(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "OnlineConfig":
        """What `to_json` wrote."""
        parts = {
            "learner": stored_config(stored["agent"], stored["learner"]),
            "loop": OnlineLoopOptions(**stored["loop"]),
            "guidance": from_json(tuple[Settings, ...], stored["guidance"], "run.json"),
            "sinks": tuple(stored["sinks"]),
        }
        return cls(**{**stored, **parts})


def check_train_options(options: TrainOptions) -> None:
    """Refuse what cannot work, before anything is made. Python checks no annotation, so choices are checked too."""
    require_choices(options, "agent", "scale")
    _learner_config(options)
    steps = steps_of(options)
    at_least_one(steps=steps, batch_size=options.batch_size)
    check_seed(options.seed)
    if options.action_bins < 2:
        raise ActionlessError(f"action_bins={options.action_bins}: choose at least 2")
    if options.warm_up is None and _warm_up(options) >= steps:
        raise ActionlessError(
            f"steps={steps}: the scale '{options.scale}' begins with {_warm_up(options)} random steps (warm_up): "
            "choose more steps, or fewer of those"
        )
    if not 0 <= _warm_up(options) < steps:
        raise ActionlessError(f"warm_up={_warm_up(options)}: choose at least 0 and fewer than the {steps} steps")
    check_loop(options.loop)


def check_seed(seed: int) -> None:
    """Refuse what is no seed."""
    if not 0 <= seed < 2**32:
        raise ActionlessError(f"seed={seed}: choose between 0 and {2**32 - 1}")


def check_loop(loop: OnlineLoopOptions) -> None:
    """Refuse a loop whose rhythms do not fit into each other."""
    at_least_one(
        log_every=loop.log_every,
        evaluate_every=loop.evaluate_every,
        episodes=loop.episodes,
        updates_together=loop.updates_together,
    )
    if (loop.evaluate_every or 0) % loop.log_every:
        raise ActionlessError(
            f"evaluate_every={loop.evaluate_every}: choose a multiple of log_every, which is {loop.log_every}"
        )
    if loop.log_every % loop.updates_together:
        raise ActionlessError(
            f"log_every={loop.log_every}: choose a multiple of updates_together, which is {loop.updates_together}"
        )
    if not 0 <= loop.checkpoint_seconds < float("inf"):
        raise ActionlessError(f"checkpoint_seconds={loop.checkpoint_seconds}: choose a finite number of at least 0")


def resolve_training(
    options: TrainOptions,
    environment: str,
    guide: str | None = None,
    guidance: tuple[Part, ...] = (),
    sinks: tuple[SinkName, ...] = (),
) -> OnlineConfig:
    """Options with the gaps filled in by the scale."""
    require_sinks(sinks)
    scale, steps = SCALES[options.scale], steps_of(options)
    return OnlineConfig(
        environment=environment,
        agent=options.agent,
        scale=options.scale,
        steps=steps,
        batch_size=scale.batch_size if options.batch_size is None else options.batch_size,
        warm_up=_warm_up(options),
        replay_size=min(REPLAY_LIMIT, steps),
        action_bins=options.action_bins if options.agent == "decqn" else None,
        evaluate_every=evaluation_interval(options.loop, steps),
        learner=_learner_config(options),
        loop=options.loop,
        guide=guide,
        guidance=guidance,
        sinks=sinks,
    )


def require_sinks(sinks: tuple[SinkName, ...]) -> None:
    """That what runs are to be followed with is installed."""
    for sink in sinks:
        require_extra(sink, sink, f"logging to {sink}")


def evaluation_interval(loop: OnlineLoopOptions, steps: int) -> int:
    """As asked for, or a tenth of so many steps, 10,000 at most."""
    tenth = max(1, round(min(steps / 10, 10_000) / loop.log_every)) * loop.log_every
    return tenth if loop.evaluate_every is None else loop.evaluate_every


def departed(base: AgentConfig, departures: Any, agent: AnyName) -> AgentConfig:
    """A config with those departures from it that are given; refused where the agent does not know them."""
    options = dataclasses.asdict(departures)
    given = {name: value for name, value in options.items() if value is not None}
    known = options.keys() & {config_field.name for config_field in dataclasses.fields(base)}
    if foreign := sorted(given.keys() - known):
        raise ActionlessError(f"{foreign[0]}: not an option of {agent}, which knows {', '.join(sorted(known))}")
    require_sound(given)
    return dataclasses.replace(base, **given)


def steps_of(options: TrainOptions) -> int:
    """Steps in the environment: as asked for, or the scale's."""
    return SCALES[options.scale].steps if options.steps is None else options.steps


def _warm_up(options: TrainOptions) -> int:
    return SCALES[options.scale].warm_up if options.warm_up is None else options.warm_up


def _learner_config(options: TrainOptions) -> AgentConfig:
    return departed(preset(options.agent, SCALES[options.scale]), options.learner, options.agent)
