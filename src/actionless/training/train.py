"""From a task to a trained agent, guided by a state policy or not, in a run directory that can be gone on with."""

import dataclasses
import logging
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from actionless.data.environment_match import warn_if_unfamiliar
from actionless.data.log import Log
from actionless.errors import ActionlessError
from actionless.guidance.guide import Guide, GuideConfig
from actionless.guidance.planning import PlanGuide
from actionless.guidance.switch import Fixed, PaperSchedule, Schedule
from actionless.offline import policy_files
from actionless.offline.log_origin import log_of
from actionless.offline.planner import KIND as PLAN
from actionless.offline.planner import Planner
from actionless.offline.presets import ScaleName
from actionless.offline.state_policy import KIND as STATE
from actionless.offline.state_policy import StatePolicy, read_state_policy
from actionless.online.agent import Spec
from actionless.online.agent_policy import AgentPolicy
from actionless.online.environments import Environment, make
from actionless.online.presets import AgentName
from actionless.online.replay import Replay
from actionless.runs.checkpoints import Checkpoints
from actionless.runs.directory import Manifest, Run, read_manifest, require_free
from actionless.runs.engine import drive
from actionless.runs.sinks import SinkName
from actionless.training.evaluation import episode_seed
from actionless.training.old_runs import upgraded_config
from actionless.training.online import OnlineLoop
from actionless.training.online_options import (
    AgentOptions,
    AnyGuidance,
    GuidanceConfig,
    GuideOptions,
    OnlineConfig,
    OnlineLoopOptions,
    PlanGuidanceConfig,
    TrainOptions,
    check_train_options,
    guidance_config,
    plan_guidance_config,
    resolve_training,
    schedule_of,
)
from actionless.training.pretrain import check_seeds
from actionless.training.seeds import SeveralSeeds, start_seeds

SNAPSHOTS = "snapshots"
"""Where in a run directory its agent is as it was at each evaluation."""

_log = logging.getLogger("actionless")


def train(
    environment: str,
    out: str | Path,
    *,
    agent: AgentName = "td3",
    guide: str | Path | None = None,
    scale: ScaleName = "cpu",
    steps: int | None = None,
    batch_size: int | None = None,
    warm_up: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    action_bins: int = 3,
    schedule: Schedule | None = None,
    log: Log | None = None,
    learner: AgentOptions | None = None,
    guidance: GuideOptions | None = None,
    loop: OnlineLoopOptions | None = None,
    overwrite: bool = False,
    sinks: Sequence[SinkName] = (),
) -> AgentPolicy | list[AgentPolicy]:
    """Train an agent in a task and write the run to `out`; see `TrainOptions` for each option.

        agent = actionless.train("Hopper-v5", "runs/guided", guide="runs/hopper")
        agent.act(states)

    `guide` is the run (or the directory) of a state policy; its log is read again, unless given. `schedule` is any
    function from the step to β; such a run can be gone on with from Python alone. A run of afdt guides sac in the
    way of AF-Guide, and needs neither.
    """
    options = TrainOptions(
        agent=agent,
        scale=scale,
        steps=steps,
        batch_size=batch_size,
        warm_up=warm_up,
        seed=seed,
        action_bins=action_bins,
        learner=learner or AgentOptions(),
        guidance=guidance or GuideOptions(),
        loop=loop or OnlineLoopOptions(),
    )
    return train_with(
        environment,
        Path(out),
        options,
        guide,
        seeds=seeds,
        schedule=schedule,
        log=log,
        overwrite=overwrite,
        sinks=sinks,
    )


def train_with(
    environment: str,
    out: Path,
    options: TrainOptions,
    guide: str | Path | None = None,
    *,
    seeds: int = 1,
    schedule: Schedule | None = None,
    log: Log | None = None,
    overwrite: bool = False,
    sinks: Sequence[SinkName] = (),
) -> AgentPolicy | list[AgentPolicy]:
    """The same with the options as objects, as the command line has them."""
    require_free(out, overwrite=overwrite)
    check_train_options(options)
    check_seeds(options.seed, seeds)
    config = resolve_training(options, environment, _guidance(options, guide, schedule, log), tuple(sinks))
    manifest = Manifest("train", config.to_json(), options.seed, _described(config, log))
    if seeds == 1:
        task = _task(config, options.seed, schedule, log)
        with Run.create(out, manifest, overwrite=overwrite) as run:
            return work(run, task)
    if log is not None or (isinstance(config.guidance, GuidanceConfig) and config.guidance.schedule is None):
        raise ActionlessError(
            f"seeds={seeds}: each has a process of its own, which a schedule or log from Python does not reach: "
            "call train once for each seed"
        )
    with closing(make(config.environment, bins=config.action_bins)) as task:
        _checked(task, config, options.seed)
        if isinstance(config.guidance, GuidanceConfig):
            # Each seed makes its own: what is wrong with it or its log is to be known before any of them begins.
            _guide(config.guidance, config, task, options.seed, None, None)
        spec = task.spec
    numbers = tuple(range(options.seed, options.seed + seeds))
    several = SeveralSeeds(numbers, config.all_steps, OnlineLoop.headline, _memory(config, spec, manifest.data))
    return [AgentPolicy.load(path) for path in start_seeds(out, manifest, several, overwrite=overwrite)]


def resume_run(run: Run, log: Log | None = None, schedule: Schedule | None = None) -> AgentPolicy:
    """Take a run to its end; at its end, save its agent anew."""
    config = OnlineConfig.from_json(upgraded_config("train", run.manifest.config))
    guidance = config.guidance
    if isinstance(guidance, GuidanceConfig) and guidance.schedule is None and schedule is None:
        raise ActionlessError(
            f"{run.path}: its schedule was handed over from Python: "
            f"`actionless.resume('{run.path}', schedule=...)` goes on with it"
        )
    if _described(config, log) != run.manifest.data:
        raise ActionlessError(
            f"{run.path}: its guide, or the guide's log, is not the one it began with: restore it, or start a new run"
        )
    return work(run, _task(config, run.manifest.seed, schedule, log))


def load_policy(run: str | Path) -> AgentPolicy:
    """The agent that a finished run saved."""
    return AgentPolicy.load(run)


def replay_of(run: Path) -> Replay:
    """The transitions that a run's newest checkpoint holds."""
    manifest = read_manifest(run)
    task = _task(OnlineConfig.from_json(upgraded_config("train", manifest.config)), manifest.seed, None, None)
    saved = Checkpoints(run / "checkpoints").newest(like=task.begin())
    if saved is None:
        raise ActionlessError(f"{run}: its checkpoints are gone, and the transitions with them: train again")
    return saved.state.replay


def _guidance(
    options: TrainOptions, guide: str | Path | None, schedule: Schedule | None, log: Log | None
) -> AnyGuidance | None:
    if guide is None:
        if schedule is not None or log is not None or options.guidance != GuideOptions():
            raise ActionlessError("options of guidance without a guide: name the run to be guided by (--guide RUN)")
        return None
    if schedule is not None and options.guidance.beta is not None:
        raise ActionlessError(f"beta={options.guidance.beta} and a schedule: give one of them")
    where = str(Path(guide).absolute())
    description = policy_files.read(Path(guide))[0]
    if description["kind"] not in (STATE, PLAN):
        raise ActionlessError(
            f"{where}: holds no state policy and no plans, so it cannot guide: give a run of `pretrain`, of any method "
            "but bc-action"
        )
    if description["kind"] == PLAN:
        if schedule is not None or log is not None:
            raise ActionlessError(f"{where}: afdt never acts, and its log is not needed: leave out schedule and log")
        return plan_guidance_config(options, where, Planner.load(guide).config.target_return)
    chosen = schedule_of(options) if schedule is None else schedule
    stored = chosen if isinstance(chosen, PaperSchedule | Fixed) else None
    return guidance_config(options, where, stored)


def _described(config: OnlineConfig, log: Log | None) -> dict[str, Any]:
    """What run.json says of the guide: which weights, and the log behind them and beside them."""
    guidance = config.guidance
    if guidance is None:
        return {}
    description = _description(guidance)
    data = description["provenance"].get("data", {})
    beside = data.get("fingerprint") if log is None else log.fingerprint
    bootstraps = isinstance(guidance, GuidanceConfig) and guidance.idm.bootstrap
    return {
        "guide": {"method": description["method"], "weights_sha256": description["weights_sha256"], "data": data},
        "bootstrap_fingerprint": beside if bootstraps else None,
    }


def _description(guidance: AnyGuidance) -> dict[str, Any]:
    """What the guide's files say of it."""
    if isinstance(guidance, PlanGuidanceConfig):
        return policy_files.read(Path(guidance.policy))[0]
    return read_state_policy(guidance.policy)[0]


def _task(config: OnlineConfig, seed: int, schedule: Schedule | None, log: Log | None) -> OnlineLoop:
    environment, evaluation = (make(config.environment, bins=config.action_bins) for _ in range(2))
    _checked(environment, config, seed)
    guidance, guide = config.guidance, None
    if isinstance(guidance, PlanGuidanceConfig):
        guide = PlanGuide.create(Planner.load(guidance.policy), guidance.target_return)
    elif guidance is not None:
        guide = _guide(guidance, config, environment, seed, schedule, log)
    return OnlineLoop(environment, evaluation, config, seed, guide)


def _checked(environment: Environment, config: OnlineConfig, seed: int) -> None:
    """A task whose first state is as it says, and which the guide knows: before anything is written."""
    environment.reset(episode_seed(seed, 0))
    if config.guidance is not None:
        variables = len(_description(config.guidance)["state_names"])
        if variables != environment.spec.state_dim:
            raise ActionlessError(
                f"{config.guidance.policy}: proposes changes of {variables} variables, and {config.environment} has "
                f"{environment.spec.state_dim}: pre-train on a log of this task"
            )


def _guide(
    guidance: GuidanceConfig,
    config: OnlineConfig,
    environment: Environment,
    seed: int,
    schedule: Schedule | None,
    log: Log | None,
) -> Guide:
    policy = StatePolicy.load(guidance.policy)
    if guidance.idm.bootstrap and log is None:
        log = log_of(policy, guidance.policy)
    guide = Guide.create(
        policy,
        action_dim=environment.spec.action_dim,
        bins=environment.spec.bins,
        steps=config.steps,
        log=log if guidance.idm.bootstrap else None,
        schedule=guidance.schedule if schedule is None else schedule,
        config=GuideConfig(idm=guidance.idm),
        seed=seed,
    )
    if guide.log is not None:
        warn_if_unfamiliar(guide.log, environment.reset(episode_seed(seed, 0)), environment.name)
    if 0 < guide.end <= config.warm_up:
        _log.warning(
            "the guide never acts: the first %d steps are random (warm_up), and from step %d on β is 0: "
            "choose more steps, or fewer random ones",
            config.warm_up,
            guide.end,
        )
    return guide


def _memory(config: OnlineConfig, spec: Spec, described: dict[str, Any]) -> int:
    """Bytes of the replay, and of a guide that acts: its own, and the log that it reads."""
    row = 4 * (2 * spec.state_dim + spec.action_dim) + 6
    if not isinstance(config.guidance, GuidanceConfig):
        return config.replay_size * row
    transitions = described["guide"]["data"].get("transitions", 0)
    return 2 * config.replay_size * row + 16 * transitions * spec.state_dim


def work(run: Run, task: OnlineLoop) -> AgentPolicy:
    """Take a run to its end from wherever it stands, and save its agent."""
    if task.config.loop.snapshots:
        task.snapshots = run.path / SNAPSHOTS
    with closing(task):
        outcome = drive(
            run,
            task,
            checkpoint_every=task.config.evaluate_every,
            checkpoint_seconds=task.config.loop.checkpoint_seconds,
            sinks=task.config.sinks,
        )
    policy = task.policy(outcome.state, dataclasses.asdict(run.manifest))
    policy.save(run.path / policy_files.FOLDER)
    if run.result() is None:
        run.finish(outcome.result)
    return policy
