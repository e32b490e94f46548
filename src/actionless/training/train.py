"""From an environment to a trained agent, guided or not, in a run directory that can be resumed."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import MappingProxyType
from typing import Any

from actionless.data.log import Log
from actionless.declared import documented
from actionless.errors import ActionlessError
from actionless.guidance import kinds
from actionless.guidance.interface import Guidance, GuidanceContext
from actionless.offline import policy_files
from actionless.online.agent import Spec
from actionless.online.agent_policy import AgentPolicy
from actionless.online.agents import AGENTS
from actionless.online.environments import Environment, make
from actionless.online.replay import Replay
from actionless.runs.checkpoints import Checkpoints
from actionless.runs.directory import Manifest, Run, read_manifest, require_free
from actionless.runs.engine import drive
from actionless.runs.sinks import SinkName
from actionless.settings import ScaleName, Seed, check_value, table_entry, to_json
from actionless.training.evaluation import episode_seed
from actionless.training.online import OnlineLoop
from actionless.training.online_settings import (
    DEFAULT_AGENT,
    DEFAULT_SCALE,
    OnlineSettings,
    online_settings,
    train_options,
    train_settings,
)
from actionless.training.pretrain import check_seeds
from actionless.training.seeds import SeveralSeeds, start_seeds

SNAPSHOTS = "snapshots"
"""Where a run directory keeps its agent as it was at each evaluation."""

NOTHING_GIVEN: Mapping[str, Any] = MappingProxyType({})

AskedGuidance = str | Guidance | Sequence[str | Guidance]
"""Names of kinds, separated by commas or in a list, which may hold objects of one's own too."""


@documented(train_options())
def train(
    environment: str,
    out: str | Path,
    *,
    agent: str = DEFAULT_AGENT,
    guide: str | Path | None = None,
    guidance: AskedGuidance | None = None,
    scale: ScaleName = DEFAULT_SCALE,
    seed: int = 0,
    seeds: int = 1,
    log: Log | None = None,
    overwrite: bool = False,
    sinks: Sequence[SinkName] = (),
    **settings: Any,
) -> AgentPolicy | list[AgentPolicy]:
    """Train an agent in an environment and write the run to `out`.

        agent = actionless.train("Hopper-v5", "runs/guided", guide="runs/hopper", steps=100_000)
        agent.act(states)

    `guide` is the run (or the directory) of a `pretrain`; its log is read again where it is needed, unless given.
    `guidance` names how it guides, and takes `Guidance` objects of your own, which need no guide. A run with an object
    or a function from Python can be resumed from Python alone. More than one of `seeds`, counted from `seed` on, gives
    a list of agents, each with a run of its own in `out/seed-N`. Settings have the names that the flags of `actionless
    train` have; None leaves one to the agent and the scale. Whole parts may be given too: `learner=Td3Config(...)`.
    """
    out = Path(out)
    require_free(out, overwrite=overwrite)
    check_value("seed", seed, Seed)
    check_seeds(seed, seeds)
    given = {name: value for name, value in settings.items() if value is not None}
    where = None if guide is None else str(Path(guide).absolute())
    table_entry(AGENTS, agent, "agent")
    check_value("scale", scale, ScaleName)
    parts = _guidance(guidance, given, scale, where, log)
    config = train_settings(environment, agent, scale, given, guide=where, guidance=parts, sinks=tuple(sinks))
    manifest = Manifest("train", to_json(config), seed, _described(config, log))
    if seeds > 1 and (log is not None or kinds.from_python(config.guidance)):
        raise ActionlessError(
            f"seeds={seeds}: each has a process of its own, which an object, function or log from Python does not "
            "reach: call train once for each seed"
        )
    if seeds == 1:
        with closing(_loop(config, seed, log)) as loop, Run.create(out, manifest, overwrite=overwrite) as run:
            return work(run, loop)
    # Each seed makes its own: what is wrong with it or its guide is to be known before any of them begins.
    loop = _loop(config, seed, log)
    loop.close()
    numbers = tuple(range(seed, seed + seeds))
    several = SeveralSeeds(numbers, config.all_steps, loop.headline, _memory(config, loop.spec, manifest.data))
    del loop
    return [AgentPolicy.load(path) for path in start_seeds(out, manifest, several, overwrite=overwrite)]


def resume_run(
    run: Run, log: Log | None = None, guidance: Sequence[Guidance] = (), given: Mapping[str, Any] = NOTHING_GIVEN
) -> AgentPolicy:
    """Take a run to its end; at its end, save its agent anew. What was made in Python has to be given again."""
    config = online_settings(run.path, run.manifest)
    parts = kinds.restored(config.guidance, guidance, given, str(run.path))
    config = dataclasses.replace(config, guidance=parts)
    if _described(config, log) != run.manifest.data:
        raise ActionlessError(
            f"{run.path}: its guide, or the guide's log, is not the one it began with: restore it, or start a new run"
        )
    return work(run, _loop(config, run.manifest.seed, log))


def load_policy(run: str | Path) -> AgentPolicy:
    """The agent that a finished run saved."""
    return AgentPolicy.load(run)


def replay_of(run: Path) -> Replay:
    """The transitions that a run's newest checkpoint holds."""
    manifest = read_manifest(run)
    config = online_settings(run, manifest)
    config = dataclasses.replace(config, guidance=kinds.restored(config.guidance, (), {}, str(run)))
    with closing(_loop(config, manifest.seed, None)) as loop:
        saved = Checkpoints(run / "checkpoints").newest(like=loop.begin(), old_names=loop.old_names)
    if saved is None:
        raise ActionlessError(f"{run}: its checkpoints are gone, and the transitions with them: train again")
    return saved.state.replay


def _guidance(
    asked: AskedGuidance | None, given: Mapping[str, Any], scale: ScaleName, guide: str | None, log: Log | None
) -> tuple[kinds.Part, ...]:
    """The settings that the chosen kinds of guidance have at this scale, and the objects made in Python."""
    own = [name for name in given if name in kinds.option_names()]
    if guide is None and asked is None and (own or log is not None):
        raise ActionlessError(f"{own[0] if own else 'log'}: guidance options require --guide")
    holds = None if guide is None else kinds.Held.by(guide)
    parts = kinds.presets(kinds.chosen(asked, guide, holds), scale)
    kinds.require_known(own, parts)
    if log is not None and not kinds.reads_log(kinds.with_settings(parts, given)):
        raise ActionlessError(f"{guide}: its log is not needed by this guidance: leave it out")
    return parts


def _described(config: OnlineSettings, log: Log | None) -> dict[str, Any]:
    """What run.json says of the guide: which weights, and the log behind them and beside them."""
    if config.guide is None:
        return {}
    description = policy_files.read(Path(config.guide))[0]
    data = description["provenance"].get("data", {})
    beside = data.get("fingerprint") if log is None else log.fingerprint
    return {
        "guide": {"method": description["method"], "weights_sha256": description["weights_sha256"], "data": data},
        "bootstrap_fingerprint": beside if kinds.reads_log(config.guidance) else None,
    }


def _loop(config: OnlineSettings, seed: int, log: Log | None) -> OnlineLoop:
    """All that a run needs, made and checked before anything is written."""
    with ExitStack() as stack:
        environment, evaluation = (
            stack.enter_context(closing(make(config.environment, bins=config.action_bins))) for _ in range(2)
        )
        first = environment.reset(episode_seed(seed, 0))
        _check_guide(config, environment)
        context = GuidanceContext(
            guide=config.guide or "",
            environment=environment.name,
            spec=environment.spec,
            first_state=first,
            steps=config.steps,
            warm_up=config.warm_up,
            seed=seed,
            log=log,
        )
        loop = OnlineLoop(environment, evaluation, config, seed, kinds.created(config.guidance, context))
        stack.pop_all()
    return loop


def _check_guide(config: OnlineSettings, environment: Environment) -> None:
    if config.guide is None or not kinds.need_guide(config.guidance):
        return
    variables = len(policy_files.read(Path(config.guide))[0]["state_names"])
    if variables != environment.spec.state_dim:
        raise ActionlessError(
            f"{config.guide}: proposes changes of {variables} variables, and {config.environment} has "
            f"{environment.spec.state_dim}: pre-train on a log of this environment"
        )


def _memory(config: OnlineSettings, spec: Spec, described: dict[str, Any]) -> int:
    """Bytes of the replay, and of the guidance."""
    row = 4 * (2 * spec.state_dim + spec.action_dim) + 6
    logged = described.get("guide", {}).get("data", {}).get("transitions", 0)
    return config.replay_size * row + kinds.memory(config.guidance, spec, config.replay_size, logged)


def work(run: Run, loop: OnlineLoop) -> AgentPolicy:
    """Take a run to its end from wherever it stands, and save its agent."""
    if loop.config.loop.snapshots:
        loop.snapshots = run.path / SNAPSHOTS
    with closing(loop):
        outcome = drive(
            run,
            loop,
            checkpoint_every=loop.config.evaluate_every,
            checkpoint_seconds=loop.config.loop.checkpoint_seconds,
            sinks=loop.config.sinks,
        )
    policy = loop.policy(outcome.state, dataclasses.asdict(run.manifest))
    policy.save(run.path / policy_files.FOLDER)
    if run.result() is None:
        run.finish(outcome.result)
    return policy
