"""From a log with actions to an agent that continues to learn in its environment: the online loop, begun offline."""

import dataclasses
import logging
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from actionless.data.environment_match import warn_if_unfamiliar
from actionless.data.log import Log
from actionless.data.options import ReadOptions
from actionless.data.read import read as read_log
from actionless.declared import documented
from actionless.offline.log_origin import Origin
from actionless.online.agent_policy import AgentPolicy
from actionless.online.environments import Environment, make
from actionless.online.labelled_log import LabelledLog
from actionless.runs.directory import Manifest, Run, require_free
from actionless.runs.sinks import SinkName
from actionless.settings import ScaleName, Seed, check_value, to_json
from actionless.training.evaluation import episode_seed
from actionless.training.online import HEADLINE, OnlineLoop
from actionless.training.online_settings import (
    DEFAULT_METHOD,
    DEFAULT_SCALE,
    OnlineSettings,
    finetune_options,
    finetune_settings,
    online_settings,
)
from actionless.training.pretrain import check_seeds, described, read_again, require_one_seed, require_same
from actionless.training.seeds import SeveralSeeds, start_seeds
from actionless.training.train import load_policy, work

__all__ = ["finetune", "load_policy", "resume_run"]

logger = logging.getLogger("actionless")


@documented(finetune_options())
def finetune(
    environment: str,
    data: Log | str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    method: str = DEFAULT_METHOD,
    scale: ScaleName = DEFAULT_SCALE,
    seed: int = 0,
    seeds: int = 1,
    read: ReadOptions | None = None,
    overwrite: bool = False,
    sinks: Sequence[SinkName] = (),
    **settings: Any,
) -> AgentPolicy | list[AgentPolicy]:
    """Learn from a log with actions, then in its environment; write the run to `out`.

        agent = actionless.finetune("Hopper-v5", "hopper_medium-v2.hdf5", "runs/iql", method="iql")
        agent.act(states)

    Such agents need what the rest of this library does without, the actions: they are here to compare with. Settings
    have the names that the flags of `actionless finetune` have; None leaves one to the method, the scale and the log.
    """
    settings = {name: value for name, value in settings.items() if value is not None}
    out = Path(out)
    require_free(out, overwrite=overwrite)
    finetune_settings(environment, method, scale, settings, sinks=tuple(sinks))  # refused before any data is read
    check_value("seed", seed, Seed)
    check_seeds(seed, seeds)
    if isinstance(data, Log):
        require_one_seed(data, seeds)
        log, origin = data, None
    else:
        read = dataclasses.replace(read or ReadOptions(), with_actions=True)
        log, origin = read_log(data, read), Origin.of(data, read)
        for warning in log.warnings:
            logger.warning("%s: %s", log.source.path, warning)
    config = finetune_settings(environment, method, scale, settings, log=log, sinks=tuple(sinks))
    manifest = Manifest("finetune", to_json(config), seed, described(log, origin))
    if seeds == 1:
        with closing(_loop(config, seed, log)) as loop, Run.create(out, manifest, overwrite=overwrite) as run:
            return work(run, loop)
    with closing(make(environment)) as made:
        _labelled(config, seed, log, made)
    numbers = tuple(range(seed, seed + seeds))
    several = SeveralSeeds(numbers, config.all_steps, HEADLINE, _memory(config, log))
    del log  # Every seed's process reads its own.
    return [load_policy(path) for path in start_seeds(out, manifest, several, overwrite=overwrite)]


def resume_run(run: Run, log: Log | None = None) -> AgentPolicy:
    """Take a run to its end, on its log read again or on the one given; at its end, save its agent anew."""
    if log is None:
        log = read_again(run.path, run.manifest)
    else:
        require_same(log, run.path, run.manifest)
    return work(run, _loop(online_settings(run.path, run.manifest), run.manifest.seed, log))


def _loop(config: OnlineSettings, seed: int, log: Log) -> OnlineLoop:
    """All that a run needs, made and checked before anything is written."""
    with ExitStack() as stack:
        environment, evaluation = (stack.enter_context(closing(make(config.environment))) for _ in range(2))
        labelled = _labelled(config, seed, log, environment)
        stack.pop_all()
    return OnlineLoop(environment, evaluation, config, seed, labelled=labelled)


def _labelled(config: OnlineSettings, seed: int, log: Log, environment: Environment) -> LabelledLog:
    first = environment.reset(episode_seed(seed, 0))  # refused before anything is written
    labelled = LabelledLog.of(log, environment, config.learner.discount, config.reward_scale)
    warn_if_unfamiliar(log, first, environment.name)
    return labelled


def _memory(config: OnlineSettings, log: Log) -> int:
    """Bytes of the log, unless it is a map that all share, of its returns, and of the replay."""
    assert log.actions is not None
    read = 0 if log.memory_mapped else log.states.nbytes + log.next_states.nbytes + log.actions.nbytes
    row = 4 * (2 * log.state_dim + log.actions.shape[1]) + 10
    return read + 4 * len(log) + row * config.replay_size
