"""From a log to a state policy, in a run directory that can be gone on with."""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actionless.data.log import Log
from actionless.data.options import ReadOptions
from actionless.data.read import read_with
from actionless.discretise import Spacing
from actionless.errors import ActionlessError
from actionless.offline import policy_files
from actionless.offline.log_origin import Origin
from actionless.offline.planner import KIND as PLAN
from actionless.offline.planner import Planner
from actionless.offline.presets import Method, ScaleName
from actionless.offline.state_policy import ActionPolicy, Policy, StatePolicy, policy_of
from actionless.runs.directory import Manifest, Run, require_free
from actionless.runs.engine import drive
from actionless.runs.sinks import SinkName
from actionless.training.offline import OfflineTask
from actionless.training.old_runs import upgraded_config
from actionless.training.options import (
    LearnerOptions,
    LoopOptions,
    OfflineConfig,
    PretrainOptions,
    check_options,
    resolve,
)
from actionless.training.seeds import SeveralSeeds, start_seeds

_log = logging.getLogger("actionless")


def pretrain(
    data: Log | str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    method: Method = "oso-decqn",
    scale: ScaleName = "cpu",
    alpha: float | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    bins: int = 3,
    spacing: Spacing = "epsilon",
    epsilon: float = 1e-4,
    learner: LearnerOptions | None = None,
    loop: LoopOptions | None = None,
    read: ReadOptions | None = None,
    overwrite: bool = False,
    sinks: Sequence[SinkName] = (),
) -> Policy | list[Policy]:
    """Learn a state policy from a log and write the run to `out`; see `PretrainOptions` for each option.

        policy = actionless.pretrain("hopper_medium-v2.hdf5", "runs/hopper", scale="smoke")
        policy.propose(states)

    `method="bc-action"` gives an `ActionPolicy`, and needs a log read with its actions; `method="afdt"` gives a
    `Planner`. More than one of `seeds`, counted from `seed` on, gives a list of policies, each with a run of its own
    in `out/seed-N`.
    """
    options = PretrainOptions(
        method=method,
        scale=scale,
        alpha=alpha,
        steps=steps,
        batch_size=batch_size,
        seed=seed,
        bins=bins,
        spacing=spacing,
        epsilon=epsilon,
        learner=learner or LearnerOptions(),
        loop=loop or LoopOptions(),
    )
    read = read or ReadOptions()
    return pretrain_with(data, Path(out), options, read, seeds=seeds, overwrite=overwrite, sinks=sinks)


def pretrain_with(
    data: Log | str | Path | Sequence[str | Path],
    out: Path,
    options: PretrainOptions,
    read: ReadOptions,
    *,
    seeds: int = 1,
    overwrite: bool = False,
    sinks: Sequence[SinkName] = (),
) -> Policy | list[Policy]:
    """The same with the options as objects, as the command line has them."""
    require_free(out, overwrite=overwrite)
    check_options(options)
    check_seeds(options.seed, seeds)
    if isinstance(data, Log):
        require_one_seed(data, seeds)
        log, origin = data, None
    else:
        _check_actions(options.method, read)
        log, origin = read_with(data, read), Origin.of(data, read)
        for warning in log.warnings:
            _log.warning("%s: %s", log.source.path, warning)
    _require_actions_to_match(log, options.method)
    config = resolve(options, log.name, tuple(sinks), log.episode_returns if options.method == "afdt" else None)
    manifest = Manifest("pretrain", config.to_json(), options.seed, described(log, origin))
    if seeds == 1:
        task = OfflineTask(log, config, options.seed)
        with Run.create(out, manifest, overwrite=overwrite) as run:
            return _work(run, task, log)
    numbers = tuple(range(options.seed, options.seed + seeds))
    several = SeveralSeeds(numbers, config.steps, OfflineTask.headline, _memory(log, config.loop))
    del log  # Every seed's process reads its own.
    return [load_policy(path) for path in start_seeds(out, manifest, several, overwrite=overwrite)]


def resume_run(run: Run, log: Log | None = None) -> Policy:
    """Take a run to its end, on its log read again or on the one given; at its end, save its policy anew."""
    config = OfflineConfig.from_json(upgraded_config("pretrain", run.manifest.config))
    if log is None:
        log = read_again(run.path, run.manifest)
    else:
        require_same(log, run.path, run.manifest)
    return _work(run, OfflineTask(log, config, run.manifest.seed), log)


def load_policy(run: str | Path) -> Policy:
    """The policy that a finished run saved, or that was saved by itself."""
    description, _ = policy_files.read(Path(run))
    return {"action": ActionPolicy, PLAN: Planner}.get(description["kind"], StatePolicy).load(run)


def read_again(run: Path, manifest: Manifest) -> Log:
    """The log that a run learns from; refused where it is no longer the same."""
    origin = manifest.data["origin"]
    if origin is None:
        raise ActionlessError(
            f"{run}: its log was handed over from Python: `actionless.resume('{run}', log)` goes on with it"
        )
    restored = Origin.from_json(origin)
    log = read_with(restored.data, restored.read)
    require_same(log, run, manifest)
    return log


def check_seeds(first: int, seeds: int) -> None:
    """Refuse seeds that are none, or beyond the last."""
    if seeds < 1:
        raise ActionlessError(f"seeds={seeds}: choose at least 1")
    if first + seeds > 2**32:
        raise ActionlessError(f"seeds={seeds}: from seed {first} on there are {2**32 - first}; choose a smaller seed")


def require_one_seed(log: Log, seeds: int) -> None:
    """Refuse several seeds of a log that is in this process alone."""
    if seeds > 1:
        raise ActionlessError(
            f"{log.source.path}: handed over from Python, and each of {seeds} seeds has a process that reads the log "
            "by itself: give the file instead, or call once for each seed"
        )


def _check_actions(method: Method, read: ReadOptions) -> None:
    """Only bc-action reads actions, and says so."""
    if read.with_actions and method != "bc-action":
        raise ActionlessError(f"{method} learns without actions: leave out --with-actions (with_actions=True)")
    if method == "bc-action" and not read.with_actions:
        raise ActionlessError("bc-action imitates actions: ask for them with --with-actions (with_actions=True)")


def _require_actions_to_match(log: Log, method: Method) -> None:
    """The log as read has actions if and only if bc-action is to learn from it."""
    if log.actions is not None and method != "bc-action":
        raise ActionlessError(f"{log.source.path}: read with its actions, and {method} learns without: read it without")
    if log.actions is None and method == "bc-action":
        raise ActionlessError(
            f"{log.source.path}: bc-action imitates actions, and none were read: read it with_actions"
        )


def described(log: Log, origin: Origin | None) -> dict[str, Any]:
    """What run.json says of the log."""
    return {
        "fingerprint": log.fingerprint,
        "path": log.source.path,
        "format": log.source.format,
        "read": list(log.source.read),
        "transitions": len(log),
        "episodes": len(log.episode_stops),
        "origin": None if origin is None else dataclasses.asdict(origin),
    }


def _memory(log: Log, loop: LoopOptions) -> int:
    """Bytes that a process holds of a log: the log, unless it is a map that all share, and what it makes resident."""
    size = log.states.nbytes + log.next_states.nbytes
    resident = size if size <= loop.resident_gb * 1e9 else 0
    return resident + (0 if log.memory_mapped else size)


def _work(run: Run, task: OfflineTask, log: Log) -> Policy:
    outcome = drive(
        run,
        task,
        checkpoint_every=task.config.loop.evaluate_every,
        checkpoint_seconds=task.config.loop.checkpoint_seconds,
        sinks=task.config.sinks,
    )
    policy = policy_of(
        outcome.state.learner,
        task.discretiser,
        method=task.config.method,
        state_names=log.state_names,
        provenance=dataclasses.asdict(run.manifest),
    )
    policy.save(run.path / policy_files.FOLDER)
    if run.result() is None:
        run.finish(outcome.result)
    return policy


def require_same(log: Log, run: Path, manifest: Manifest) -> None:
    """Refuse a log that is not the one a run began with."""
    if log.fingerprint != manifest.data["fingerprint"]:
        raise ActionlessError(
            f"{log.source.path}: the log has changed since {run} began (fingerprint {log.fingerprint[:16]}, was "
            f"{manifest.data['fingerprint'][:16]}): restore it, or start a new run"
        )
