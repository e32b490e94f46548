"""What `finetune` takes, and what a run makes of it."""

import math
from dataclasses import dataclass, field

from actionless.data.log import Log
from actionless.errors import ActionlessError
from actionless.online.presets import (
    LABELLED_SCALES,
    LOG_SHARES,
    REPLAY_LIMIT,
    RETURN_SPREADS,
    AgentConfig,
    LabelledName,
    labelled_preset,
)
from actionless.runs.sinks import SinkName
from actionless.settings import ScaleName
from actionless.training.online_options import (
    OnlineConfig,
    OnlineLoopOptions,
    check_loop,
    check_seed,
    departed,
    evaluation_interval,
    require_sinks,
)
from actionless.training.options import at_least_one, require_choices, require_sound


@dataclass(frozen=True)
class LabelledOptions:
    """Departures from what method and scale set; None keeps it. Not every method knows every one."""

    hidden: tuple[int, ...] | None = None
    """Sizes of the hidden layers."""
    learning_rate: float | None = None
    """Step size of Adam; in cal-ql, that of the critics."""
    policy_learning_rate: float | None = None
    """That of the policy (cal-ql)."""
    discount: float | None = None
    """γ: what a reward one step later is worth."""
    target_rate: float | None = None
    """τ: how fast target networks follow."""
    expectile: float | None = None
    """0.5 values the mean of what was done, close to 1 the best of it (iql)."""
    inverse_temperature: float | None = None
    """How much more actions are imitated that turned out better (iql, awac)."""
    most_weight: float | None = None
    """How many times an action counts at most (iql, awac)."""
    alpha: float | None = None
    """How strongly values of actions outside the data are held down (cal-ql)."""
    penalty_every: int | None = None
    """Measure that on every so-many-th transition of a batch alone; 1 as published, 8 at `cpu` scale (cal-ql)."""
    ensemble: int | None = None
    """Number of critics (o3f)."""
    candidates: int | None = None
    """Actions among which the one to try is chosen (o3f)."""
    exploration_noise: float | None = None
    """Standard deviation of these around the policy's action (o3f)."""


@dataclass(frozen=True)
class FinetuneOptions:
    """What to learn with and for how long; None leaves it to the scale."""

    method: LabelledName = "iql"
    """IQL values the better part of what was done, AWAC what its policy does; Cal-QL distrusts what was not done,
    O3F what its critics disagree about."""
    scale: ScaleName = "cpu"
    """Preset sizes: seconds for a test, minutes on two cores, or the paper's."""
    offline_steps: int | None = None
    """Updates from the log before the first step in the task."""
    steps: int | None = None
    """Steps in the task, with an update for each; 0 learns from the log alone."""
    batch_size: int | None = None
    """Transitions in each update."""
    reward_scale: float | None = None
    """Rewards are multiplied by it, in the log and in the task; if not given, 1, or for iql what sets the log's best
    and worst episode 1,000 apart."""
    seed: int = 0
    """Decides the initial weights, the episodes and everything that is drawn."""
    learner: LabelledOptions = field(default_factory=LabelledOptions)
    loop: OnlineLoopOptions = field(default_factory=OnlineLoopOptions)


def check_finetune_options(options: FinetuneOptions) -> None:
    """Refuse what cannot work, before any data is read. Python checks no annotation, so choices are checked too."""
    require_choices(options, "method", "scale")
    _learner_config(options)
    offline_steps, steps = _phases(options)
    for name, count in (("offline_steps", offline_steps), ("steps", steps)):
        if count < 0:
            raise ActionlessError(f"{name}={count}: choose at least 0")
    if offline_steps + steps == 0:
        raise ActionlessError("offline_steps=0 and steps=0: nothing is to be learnt; choose at least 1 of either")
    at_least_one(batch_size=options.batch_size)
    if options.reward_scale is not None:
        require_sound({"reward_scale": options.reward_scale})
    check_seed(options.seed)
    check_loop(options.loop)


def resolve_finetuning(
    options: FinetuneOptions, environment: str, log: Log, sinks: tuple[SinkName, ...] = ()
) -> OnlineConfig:
    """Options with the gaps filled in by the scale and the log."""
    require_sinks(sinks)
    offline_steps, steps = _phases(options)
    batch_size = LABELLED_SCALES[options.scale].batch_size if options.batch_size is None else options.batch_size
    return OnlineConfig(
        environment=environment,
        agent=options.method,
        scale=options.scale,
        steps=steps,
        batch_size=batch_size,
        warm_up=0,
        replay_size=max(1, min(REPLAY_LIMIT, steps)),
        action_bins=None,
        evaluate_every=evaluation_interval(options.loop, offline_steps + steps),
        learner=_learner_config(options),
        loop=options.loop,
        sinks=sinks,
        offline_steps=offline_steps,
        log_share=LOG_SHARES.get(options.method),
        reward_scale=_reward_scale(options, log),
    )


def _phases(options: FinetuneOptions) -> tuple[int, int]:
    """Updates from the log, then steps in the task."""
    scale = LABELLED_SCALES[options.scale]
    return (
        scale.offline_steps if options.offline_steps is None else options.offline_steps,
        scale.steps if options.steps is None else options.steps,
    )


def _reward_scale(options: FinetuneOptions, log: Log) -> float:
    if options.reward_scale is not None:
        return options.reward_scale
    if options.method not in RETURN_SPREADS:
        return 1.0
    worst, best = float(log.episode_returns.min()), float(log.episode_returns.max())
    if math.isclose(worst, best):
        raise ActionlessError(
            f"{log.source.path}: {options.method} scales rewards by the spread of the episodes' returns, and all are "
            f"{best:.6g}: say what to multiply rewards by (--reward-scale, 1 leaves them as they are)"
        )
    return RETURN_SPREADS[options.method] / (best - worst)


def _learner_config(options: FinetuneOptions) -> AgentConfig:
    base = labelled_preset(options.method, LABELLED_SCALES[options.scale])
    return departed(base, options.learner, options.method)
