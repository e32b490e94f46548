"""From a log with actions to an agent that goes on learning in its task: the online loop, begun offline."""

import dataclasses
import logging
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from actionless.data.environment_match import warn_if_unfamiliar
from actionless.data.log import Log
from actionless.data.options import ReadOptions
from actionless.data.read import read_with
from actionless.offline.log_origin import Origin
from actionless.offline.presets import ScaleName
from actionless.online.agent_policy import AgentPolicy
from actionless.online.environments import Environment, make
from actionless.online.labelled_log import LabelledLog
from actionless.online.presets import LabelledName
from actionless.runs.directory import Manifest, Run, require_free
from actionless.runs.sinks import SinkName
from actionless.training.evaluation import episode_seed
from actionless.training.finetune_options import (
    FinetuneOptions,
    LabelledOptions,
    check_finetune_options,
    resolve_finetuning,
)
from actionless.training.old_runs import upgraded_config
from actionless.training.online import OnlineLoop
from actionless.training.online_options import OnlineConfig, OnlineLoopOptions
from actionless.training.pretrain import check_seeds, described, read_again, require_one_seed, require_same
from actionless.training.seeds import SeveralSeeds, start_seeds
from actionless.training.train import load_policy, work

__all__ = ["finetune", "finetune_with", "load_policy", "resume_run"]

_log = logging.getLogger("actionless")


def finetune(
    environment: str,
    data: Log | str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    method: LabelledName = "iql",
    scale: ScaleName = "cpu",
    offline_steps: int | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    reward_scale: float | None = None,
    seed: int = 0,
    seeds: int = 1,
    learner: LabelledOptions | None = None,
    loop: OnlineLoopOptions | None = None,
    read: ReadOptions | None = None,
    overwrite: bool = False,
    sinks: Sequence[SinkName] = (),
) -> AgentPolicy | list[AgentPolicy]:
    """Learn from a log with actions, then in its task; write the run to `out`. See `FinetuneOptions` for each option.

        agent = actionless.finetune("Hopper-v5", "hopper_medium-v2.hdf5", "runs/iql", method="iql")
        agent.act(states)

    Such agents need what the rest of this library does without, the actions: they are here to compare with.
    """
    options = FinetuneOptions(
        method=method,
        scale=scale,
        offline_steps=offline_steps,
        steps=steps,
        batch_size=batch_size,
        reward_scale=reward_scale,
        seed=seed,
        learner=learner or LabelledOptions(),
        loop=loop or OnlineLoopOptions(),
    )
    read = read or ReadOptions()
    return finetune_with(environment, data, Path(out), options, read, seeds=seeds, overwrite=overwrite, sinks=sinks)


def finetune_with(
    environment: str,
    data: Log | str | Path | Sequence[str | Path],
    out: Path,
    options: FinetuneOptions,
    read: ReadOptions,
    *,
    seeds: int = 1,
    overwrite: bool = False,
    sinks: Sequence[SinkName] = (),
) -> AgentPolicy | list[AgentPolicy]:
    """The same with the options as objects, as the command line has them."""
    require_free(out, overwrite=overwrite)
    check_finetune_options(options)
    check_seeds(options.seed, seeds)
    if isinstance(data, Log):
        require_one_seed(data, seeds)
        log, origin = data, None
    else:
        read = dataclasses.replace(read, with_actions=True)
        log, origin = read_with(data, read), Origin.of(data, read)
        for warning in log.warnings:
            _log.warning("%s: %s", log.source.path, warning)
    config = resolve_finetuning(options, environment, log, tuple(sinks))
    manifest = Manifest("finetune", config.to_json(), options.seed, described(log, origin))
    if seeds == 1:
        task = _task(config, options.seed, log)
        with Run.create(out, manifest, overwrite=overwrite) as run:
            return work(run, task)
    with closing(make(environment)) as task:
        _labelled(config, options.seed, log, task)
    numbers = tuple(range(options.seed, options.seed + seeds))
    several = SeveralSeeds(numbers, config.all_steps, OnlineLoop.headline, _memory(config, log))
    del log  # Every seed's process reads its own.
    return [load_policy(path) for path in start_seeds(out, manifest, several, overwrite=overwrite)]


def resume_run(run: Run, log: Log | None = None) -> AgentPolicy:
    """Take a run to its end, on its log read again or on the one given; at its end, save its agent anew."""
    if log is None:
        log = read_again(run.path, run.manifest)
    else:
        require_same(log, run.path, run.manifest)
    return work(
        run, _task(OnlineConfig.from_json(upgraded_config("finetune", run.manifest.config)), run.manifest.seed, log)
    )


def _task(config: OnlineConfig, seed: int, log: Log) -> OnlineLoop:
    environment, evaluation = (make(config.environment) for _ in range(2))
    return OnlineLoop(environment, evaluation, config, seed, labelled=_labelled(config, seed, log, environment))


def _labelled(config: OnlineConfig, seed: int, log: Log, environment: Environment) -> LabelledLog:
    first = environment.reset(episode_seed(seed, 0))  # a task that does not work is known before anything is written
    labelled = LabelledLog.of(log, environment, config.learner.discount, config.reward_scale)
    warn_if_unfamiliar(log, first, environment.name)
    return labelled


def _memory(config: OnlineConfig, log: Log) -> int:
    """Bytes of the log, unless it is a map that all share, of its transitions as learnt from, and of the replay."""
    assert log.actions is not None
    read = 0 if log.memory_mapped else log.states.nbytes + log.next_states.nbytes
    row = 4 * (2 * log.state_dim + log.actions.shape[1]) + 10
    return read + row * (len(log) + config.replay_size)
