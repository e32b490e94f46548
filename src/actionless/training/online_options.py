"""What `train` takes, and what a run makes of it."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from actionless.errors import ActionlessError, require_extra
from actionless.guidance.idm import IDM_SCALES, IdmConfig
from actionless.guidance.switch import Fixed, PaperSchedule
from actionless.online.guided_sac import GuidedSacConfig
from actionless.online.presets import REPLAY_LIMIT, SCALES, AgentConfig, AgentName, AnyName, preset, stored_config
from actionless.runs.sinks import SinkName
from actionless.settings import ScaleName
from actionless.training.options import at_least_one, require_choices, require_sound

_STORED_SCHEDULES = {"paper": PaperSchedule, "fixed": Fixed}


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
    """How an agent is guided; None leaves it to the scale."""

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
    """Return that the planner is asked for; if not given, that of its run (guide: afdt)."""
    guide_weight: float | None = None
    """What a unit of the guiding reward is worth in return; if not given, 3 as published (guide: afdt)."""


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
    guidance: GuideOptions = field(default_factory=GuideOptions)
    loop: OnlineLoopOptions = field(default_factory=OnlineLoopOptions)


@dataclass(frozen=True)
class GuidanceConfig:
    """Guidance to the last detail."""

    policy: str
    """The directory of the state policy."""
    schedule: PaperSchedule | Fixed | None
    """None where it was handed over from Python."""
    idm: IdmConfig


@dataclass(frozen=True)
class PlanGuidanceConfig:
    """Guidance by a planner, which pays instead of acting."""

    policy: str
    """The directory of the planner."""
    target_return: float


AnyGuidance = GuidanceConfig | PlanGuidanceConfig


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
    guidance: AnyGuidance | None = None
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
        stored = dataclasses.asdict(self)
        if isinstance(self.guidance, GuidanceConfig) and self.guidance.schedule is not None:
            kind = {kind: name for name, kind in _STORED_SCHEDULES.items()}[type(self.guidance.schedule)]
            stored["guidance"]["schedule"]["kind"] = kind
        return stored

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "OnlineConfig":
        """What `to_json` wrote."""
        parts = {
            "learner": stored_config(stored["agent"], stored["learner"]),
            "loop": OnlineLoopOptions(**stored["loop"]),
            "guidance": None if stored["guidance"] is None else _stored_guidance(stored["guidance"]),
            "sinks": tuple(stored["sinks"]),
        }
        return cls(**{**stored, **parts})


def check_train_options(options: TrainOptions) -> None:
    """Refuse what cannot work, before anything is made. Python checks no annotation, so choices are checked too."""
    require_choices(options, "agent", "scale")
    _learner_config(options)
    steps = _steps(options)
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
    _idm_config(options)


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
    guidance: AnyGuidance | None,
    sinks: tuple[SinkName, ...] = (),
) -> OnlineConfig:
    """Options with the gaps filled in by the scale."""
    require_sinks(sinks)
    scale, steps = SCALES[options.scale], _steps(options)
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
        learner=_guided(options) if isinstance(guidance, PlanGuidanceConfig) else _learner_config(options),
        loop=options.loop,
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


def guidance_config(options: TrainOptions, policy: str, schedule: PaperSchedule | Fixed | None) -> GuidanceConfig:
    """Guidance by the state policy in that directory."""
    for name in ("target_return", "guide_weight"):
        if getattr(options.guidance, name) is not None:
            raise ActionlessError(f"{name}: an option of guidance by afdt alone; {policy} holds a state policy")
    return GuidanceConfig(policy, schedule, _idm_config(options))


def schedule_of(options: TrainOptions) -> PaperSchedule | Fixed:
    """The schedule that the options ask for."""
    beta = options.guidance.beta
    return PaperSchedule().for_run(_steps(options)) if beta is None else Fixed(beta)


def _steps(options: TrainOptions) -> int:
    return SCALES[options.scale].steps if options.steps is None else options.steps


def _warm_up(options: TrainOptions) -> int:
    return SCALES[options.scale].warm_up if options.warm_up is None else options.warm_up


def _learner_config(options: TrainOptions) -> AgentConfig:
    return departed(preset(options.agent, SCALES[options.scale]), options.learner, options.agent)


def _guided(options: TrainOptions) -> GuidedSacConfig:
    asked = options.guidance.guide_weight
    settings: dict[str, Any] = dataclasses.asdict(_learner_config(options))
    return GuidedSacConfig(**(settings if asked is None else {**settings, "guide_weight": asked}))


def plan_guidance_config(options: TrainOptions, policy: str, target_return: float) -> PlanGuidanceConfig:
    """Guidance by the planner in that directory, which asks for this return unless told otherwise."""
    asked, own = options.guidance, ("target_return", "guide_weight")
    if options.agent != "sac":
        raise ActionlessError(f"{policy}: afdt guides the agent sac, not {options.agent}: choose --agent sac")
    for name, default in vars(GuideOptions()).items():
        if name not in own and getattr(asked, name) != default:
            raise ActionlessError(f"{name}: not an option of guidance by afdt, which knows {', '.join(own)}")
    given = {name: getattr(asked, name) for name in own if getattr(asked, name) is not None}
    require_sound(given)
    return PlanGuidanceConfig(policy, given.get("target_return", target_return))


def _idm_config(options: TrainOptions) -> IdmConfig:
    asked = options.guidance
    given = {
        "hidden": asked.idm_hidden,
        "learning_rate": asked.idm_learning_rate,
        "batch_size": asked.idm_batch_size,
        "every": asked.idm_every,
        "bootstrap": asked.bootstrap,
    }
    given = {name: value for name, value in given.items() if value is not None}
    require_sound(given)
    at_least_one(idm_batch_size=asked.idm_batch_size, idm_every=asked.idm_every)
    return dataclasses.replace(IDM_SCALES[options.scale], **given)


def _stored_guidance(stored: dict[str, Any]) -> AnyGuidance:
    if "target_return" in stored:
        return PlanGuidanceConfig(**stored)
    schedule = stored["schedule"]
    if schedule is not None:
        values = {name: value for name, value in schedule.items() if name != "kind"}
        schedule = _STORED_SCHEDULES[schedule["kind"]](**values)
    idm = IdmConfig(**{**stored["idm"], "hidden": tuple(stored["idm"]["hidden"])})
    return GuidanceConfig(stored["policy"], schedule, idm)
