"""From a log to a state policy, in a run directory that can be resumed."""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actionless.data.log import Log
from actionless.data.options import ReadOptions
from actionless.data.read import read as read_log
from actionless.declared import documented
from actionless.errors import ActionlessError
from actionless.offline import policy_files
from actionless.offline.learner import LogFacts, Policy, PolicyLabel
from actionless.offline.log_origin import Origin
from actionless.offline.methods import DEFAULT_METHOD
from actionless.offline.policies import load_policy
from actionless.runs.checkpoints import Checkpoints, step_of
from actionless.runs.directory import Manifest, Run, read_manifest, require_free
from actionless.runs.engine import drive
from actionless.runs.sinks import SinkName
from actionless.settings import ScaleName, Seed, check_value, from_json, to_json
from actionless.training.offline import OfflineLoop, shown_metrics
from actionless.training.pretrain_settings import (
    DEFAULT_SCALE,
    LoopSettings,
    PretrainSettings,
    pretrain_options,
    resolve,
    stored_settings,
)
from actionless.training.seeds import SeveralSeeds, start_seeds

logger = logging.getLogger("actionless")


@documented(pretrain_options())
def pretrain(
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
) -> Policy | list[Policy]:
    """Learn a state policy from a log and write the run to `out`.

        policy = actionless.pretrain("hopper_medium-v2.hdf5", "runs/hopper", scale="smoke", steps=100)
        policy.propose(states)

    A method that learns from actions gives an `ActionPolicy` and needs a log read with its actions; one that plans
    gives a `Planner`. More than one of `seeds`, counted from `seed` on, gives a list of policies, each with a run of
    its own in `out/seed-N`. Settings have the names that the flags of `actionless pretrain` have; None leaves one to
    the method, the scale and the log. Whole parts may be given too: `loop=LoopSettings(...)`, `learner=...`.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    out = Path(out)
    require_free(out, overwrite=overwrite)
    asked = resolve(method, scale, given, sinks=tuple(sinks))
    check_value("seed", seed, Seed)
    check_seeds(seed, seeds)
    log, origin = _read(data, read or ReadOptions(), asked, seeds)
    resolved = resolve(method, scale, given, LogFacts.of(log), tuple(sinks))
    manifest = Manifest("pretrain", to_json(resolved), seed, described(log, origin))
    if seeds == 1:
        loop = OfflineLoop(log, resolved, seed)
        with Run.create(out, manifest, overwrite=overwrite) as run:
            return _work(run, loop, log)
    numbers = tuple(range(seed, seed + seeds))
    several = SeveralSeeds(numbers, resolved.steps, shown_metrics(resolved), _memory(log, resolved.loop))
    del log  # Every seed's process reads its own.
    return [load_policy(path) for path in start_seeds(out, manifest, several, overwrite=overwrite)]


def resume_run(run: Run, log: Log | None = None) -> Policy:
    """Take a run to its end, on its log read again or on the one given; at its end, save its policy anew."""
    settings = stored_settings(run.path, run.manifest)
    if log is None:
        log = read_again(run.path, run.manifest)
    else:
        require_same(log, run.path, run.manifest)
    return _work(run, OfflineLoop(log, settings, run.manifest.seed), log)


def last_policies(run: str | Path, count: int) -> dict[int, Policy]:
    """What a run had learnt at the last measurements, from its checkpoints, by their step; its log is read again."""
    path = Path(run)
    manifest = read_manifest(path)
    if manifest.verb != "pretrain":
        raise ActionlessError(f"{path}: a run of '{manifest.verb}': give a run of `pretrain`")
    settings = stored_settings(path, manifest)
    checkpoints, every = Checkpoints(path / "checkpoints"), settings.loop.evaluate_every
    # A run that was stopped in between has others besides those of its measurements.
    measured = [one for one in checkpoints.paths() if step_of(one) % every == 0 or step_of(one) == settings.steps]
    kept = min(len(measured), settings.loop.last_checkpoints)
    if count > kept:
        raise ActionlessError(
            f"{path}: keeps its last {kept} checkpoint{'s' if kept > 1 else ''}, and {count} are asked for: ask for "
            f"fewer, or pre-train again with --last-checkpoints {count}"
        )
    log = read_again(path, manifest)
    loop = OfflineLoop(log, settings, manifest.seed)
    label = PolicyLabel(settings.method, log.state_names, dataclasses.asdict(manifest))
    saved = [checkpoints.load(one, loop.begin(), loop.old_names) for one in measured[-count:]]
    return {each.step: each.state.learner.policy(loop.discretiser, label) for each in saved}


def _read(
    data: Log | str | Path | Sequence[str | Path], read: ReadOptions, settings: PretrainSettings, seeds: int
) -> tuple[Log, Origin | None]:
    """The log, and where it came from. It has actions if and only if the method needs them."""
    if isinstance(data, Log):
        require_one_seed(data, seeds)
        log, origin = data, None
    else:
        _check_actions(settings, read)
        log, origin = read_log(data, read), Origin.of(data, read)
        for warning in log.warnings:
            logger.warning("%s: %s", log.source.path, warning)
    _require_actions_to_match(log, settings)
    return log, origin


def read_again(run: Path, manifest: Manifest) -> Log:
    """The log that a run learns from; refused where it is no longer the same."""
    origin = manifest.data["origin"]
    if origin is None:
        raise ActionlessError(
            f"{run}: its log was handed over from Python: `actionless.resume('{run}', log)` resumes it"
        )
    restored = from_json(Origin, origin, str(run / "run.json"))
    log = read_log(restored.data, restored.read)
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


def _check_actions(settings: PretrainSettings, read: ReadOptions) -> None:
    """Actions are read only where a method needs them and the user says so."""
    needed, method = settings.learner.declares.needs_actions, settings.method
    if read.with_actions and not needed:
        raise ActionlessError(f"{method} learns without actions: leave out --with-actions (with_actions=True)")
    if needed and not read.with_actions:
        raise ActionlessError(f"{method} imitates actions: ask for them with --with-actions (with_actions=True)")


def _require_actions_to_match(log: Log, settings: PretrainSettings) -> None:
    needed, method = settings.learner.declares.needs_actions, settings.method
    if log.actions is not None and not needed:
        raise ActionlessError(f"{log.source.path}: read with its actions, and {method} learns without: read it without")
    if log.actions is None and needed:
        raise ActionlessError(f"{log.source.path}: {method} imitates actions, and none were read: read it with_actions")


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


def _memory(log: Log, loop: LoopSettings) -> int:
    """Bytes that a process holds of a log: the log, unless it is a map that all share, and what it makes resident."""
    size = log.states.nbytes + log.next_states.nbytes
    resident = size if size <= loop.resident_gb * 1e9 else 0
    return resident + (0 if log.memory_mapped else size)


def _work(run: Run, loop: OfflineLoop, log: Log) -> Policy:
    settings = loop.settings
    outcome = drive(
        run,
        loop,
        checkpoint_every=settings.loop.evaluate_every,
        checkpoint_seconds=settings.loop.checkpoint_seconds,
        last_checkpoints=settings.loop.last_checkpoints,
        sinks=settings.sinks,
    )
    label = PolicyLabel(settings.method, log.state_names, dataclasses.asdict(run.manifest))
    policy = outcome.state.learner.policy(loop.discretiser, label)
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
