"""From a task to a trained agent, guided by a state policy or not, in a run directory that can be gone on with."""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actionless.data.log import Log
from actionless.data.read import read_with
from actionless.errors import ActionlessError
from actionless.guidance.guide import Guide, GuideConfig
from actionless.guidance.switch import Fixed, PaperSchedule, Schedule
from actionless.offline.policy_files import FOLDER
from actionless.offline.presets import ScaleName
from actionless.offline.state_policy import StatePolicy
from actionless.online.agent_policy import AgentPolicy
from actionless.online.environments import Environment, make
from actionless.online.presets import AgentName
from actionless.online.replay import Replay
from actionless.runs.checkpoints import Checkpoints
from actionless.runs.directory import Manifest, Run, read_manifest, require_free
from actionless.runs.engine import drive
from actionless.runs.sinks import SinkName
from actionless.training.online import OnlineTask
from actionless.training.online_options import (
    AgentOptions,
    GuideOptions,
    OnlineConfig,
    OnlineLoopOptions,
    TrainOptions,
    check_train_options,
    guidance_config,
    resolve_training,
    schedule_of,
)
from actionless.training.pretrain import Origin, check_seeds
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
    function from the step to β; such a run can be gone on with from Python alone.
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
    asked = None
    if guide is not None:
        chosen = schedule_of(options) if schedule is None else schedule
        stored = chosen if isinstance(chosen, PaperSchedule | Fixed) else None
        asked = guidance_config(options, str(Path(guide).absolute()), stored)
    elif schedule is not None or log is not None or options.guidance != GuideOptions():
        raise ActionlessError("options of guidance without a guide: name the run of a state policy (--guide RUN)")
    config = resolve_training(options, environment, asked, tuple(sinks))
    task, described = _task(config, options.seed, schedule, log)
    manifest = Manifest("train", config.to_json(), options.seed, described)
    if seeds == 1:
        with Run.create(out, manifest, overwrite=overwrite) as run:
            return _work(run, task)
    if schedule is not None or log is not None:
        raise ActionlessError(
            f"seeds={seeds}: each has a process of its own, which a schedule or log from Python does not reach: "
            "call train once for each seed"
        )
    numbers = tuple(range(options.seed, options.seed + seeds))
    several = SeveralSeeds(numbers, config.steps, OnlineTask.headline, task.memory)
    return [AgentPolicy.load(path) for path in start_seeds(out, manifest, several, overwrite=overwrite)]


def go_on(run: Run, log: Log | None = None, schedule: Schedule | None = None) -> AgentPolicy:
    """Take a run to its end; at its end, save its agent anew."""
    config = OnlineConfig.from_json(run.manifest.config)
    guidance = config.guidance
    if guidance is not None and guidance.schedule is None and schedule is None:
        raise ActionlessError(
            f"{run.path}: its schedule was handed over from Python: "
            f"`actionless.resume('{run.path}', schedule=...)` goes on with it"
        )
    task, described = _task(config, run.manifest.seed, schedule, log)
    if described != run.manifest.data:
        raise ActionlessError(f"{run.path}: its guide has changed since it began: restore it, or start a new run")
    return _work(run, task)


def load_policy(run: str | Path) -> AgentPolicy:
    """The agent that a finished run saved."""
    return AgentPolicy.load(run)


def replay_of(run: Path) -> Replay:
    """The transitions that a run's newest checkpoint holds."""
    manifest = read_manifest(run)
    task, _ = _task(OnlineConfig.from_json(manifest.config), manifest.seed, None, None)
    saved = Checkpoints(run / "checkpoints").newest(like=task.begin())
    if saved is None:
        raise ActionlessError(f"{run}: its checkpoints are gone, and the transitions with them: train again")
    return saved.state.replay


def _task(
    config: OnlineConfig, seed: int, schedule: Schedule | None, log: Log | None
) -> tuple[OnlineTask, dict[str, Any]]:
    """What is to be done, and what run.json says of the guide."""
    environment, evaluation = (make(config.environment, bins=config.action_bins) for _ in range(2))
    guide, described = None, dict[str, Any]()
    if config.guidance is not None:
        policy = StatePolicy.load(config.guidance.policy)
        guide = _guide(policy, config, environment, seed, schedule, log)
        described = {"guide": {"method": policy.method, "data": policy.provenance.get("data", {})}}
    return OnlineTask(environment, evaluation, config, seed, guide), described


def _guide(
    policy: StatePolicy, config: OnlineConfig, environment: Environment, seed: int, schedule: Schedule | None,
    log: Log | None,
) -> Guide:  # fmt: skip
    guidance, spec = config.guidance, environment.spec
    assert guidance is not None
    if policy.model.discretiser.dim != spec.state_dim:
        raise ActionlessError(
            f"{guidance.policy}: proposes changes of {policy.model.discretiser.dim} variables, and "
            f"{config.environment} has {spec.state_dim}: pre-train on a log of this task"
        )
    if guidance.idm.bootstrap and log is None:
        log = _log_of(policy, guidance.policy)
    return Guide.create(
        policy,
        action_dim=spec.action_dim,
        bins=spec.bins,
        steps=config.steps,
        log=log if guidance.idm.bootstrap else None,
        schedule=guidance.schedule if schedule is None else schedule,
        config=GuideConfig(idm=guidance.idm),
        seed=seed,
    )


def _log_of(policy: StatePolicy, where: str) -> Log:
    """The log that a policy was trained on, read again without its actions."""
    data = policy.provenance.get("data", {})
    if not data.get("origin"):
        raise ActionlessError(
            f"{where}: does not say where its log is, which the inverse dynamics model learns from too: "
            "give it (log=... in Python), or leave it out with --no-bootstrap"
        )
    origin = Origin.from_json(data["origin"])
    log = read_with(origin.data, dataclasses.replace(origin.read, with_actions=False))
    if log.fingerprint != data["fingerprint"]:
        raise ActionlessError(
            f"{log.source.path}: has changed since {where} was trained on it: restore it, or train with --no-bootstrap"
        )
    return log


def _work(run: Run, task: OnlineTask) -> AgentPolicy:
    if task.config.loop.snapshots:
        task.snapshots = run.path / SNAPSHOTS
    outcome = drive(
        run,
        task,
        checkpoint_every=task.config.evaluate_every,
        checkpoint_seconds=task.config.loop.checkpoint_seconds,
        sinks=task.config.sinks,
    )
    policy = task.policy(outcome.state, dataclasses.asdict(run.manifest))
    policy.save(run.path / FOLDER)
    if run.result() is None:
        run.finish(outcome.result)
    return policy
