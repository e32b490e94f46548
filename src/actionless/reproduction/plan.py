"""From declarations to jobs: one run directory for each content, whatever tables it is a part of.

The name of a run directory ends in a hash of all that decides its result: settings, log, seed, what it was made from,
and the package's version. So two tables that need the same run share it, and a run of other settings is another one.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from actionless.declared import DeclaredSetting, is_switch
from actionless.errors import ActionlessError
from actionless.execution.job import Job
from actionless.guidance import kinds
from actionless.offline.methods import DEFAULT_METHOD
from actionless.reproduction.declaration import Declaration, Line, Options
from actionless.reproduction.logs import LogFile, environment_of
from actionless.settings import ScaleName, table_entry, to_json
from actionless.training import online_settings
from actionless.training.online_settings import (
    DEFAULT_AGENT,
    OnlineSettings,
    finetune_settings,
    train_settings,
)
from actionless.training.pretrain_settings import PretrainSettings, pretrain_options, resolve
from actionless.version import __version__

EVALUATE_OPTIONS = ("episodes",)
"""Options of `evaluate` that a declaration may give, all whole numbers."""

# Read off the settings classes once: a plan asks for them thousands of times.
_OPTIONS = {
    "pretrain": functools.cache(pretrain_options),
    "train": functools.cache(online_settings.train_options),
    "finetune": functools.cache(online_settings.finetune_options),
}

_AIMS = {"bc-next": "next state", "bc-diff": "difference", "bc-action": "none"}
"""What the expert model is told by the policies of a method; by all others, Δs."""

Verb = Literal["pretrain", "train", "finetune", "evaluate"]


@dataclass(frozen=True)
class Piece:
    """A job, and what is known of its content."""

    job: Job
    key: str
    verb: Verb
    title: str
    settings: PretrainSettings | OnlineSettings | None
    """None for an evaluation."""
    state_dim: int
    environment: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class Cell:
    """One line on one log: a piece for each seed."""

    line: Line
    log: LogFile
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Planned:
    """An experiment with the runs that make it."""

    declaration: Declaration
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Data:
    """The logs of a plan, and the labelled logs behind evaluations, by the declaration's names."""

    logs: Mapping[str, LogFile]
    labelled: Mapping[str, "Labelled"]


@dataclass(frozen=True)
class Labelled:
    """What an expert inverse dynamics model learns from."""

    path: str
    fingerprint: str


class Planner:
    """Makes the pieces of several experiments; those of the same content are one."""

    def __init__(self, runs: Path, scale: ScaleName, data: Data):
        self._runs, self._data = runs, data
        self._scale: ScaleName = scale
        self.pieces: dict[str, Piece] = {}
        self._first_played: dict[str, Path] = {}

    def plan(self, declaration: Declaration, logs: Sequence[str], seeds: int) -> Planned:
        """The cells of an experiment on these of its logs."""
        cells = []
        for name in logs:
            log = self._data.logs[name]
            for line in declaration.lines:
                if line.logs is None or name in line.logs:
                    made = tuple(self._piece(declaration, line, log, seed) for seed in range(seeds))
                    cells.append(Cell(line, log, made))
        return Planned(declaration, tuple(cells))

    @property
    def jobs(self) -> list[Job]:
        """All, each after those that it needs."""
        return [piece.job for piece in self.pieces.values()]

    def _piece(self, declaration: Declaration, line: Line, log: LogFile, seed: int) -> Piece:
        where = f"{declaration.name}, line '{line.name}'"
        environment = declaration.environment or environment_of(log.name)
        last: Piece | None = None
        try:
            for verb, options in line.verbs.items():
                if verb == "pretrain":
                    last = self._pretrain(options, log, seed)
                    continue
                if environment is None:
                    raise ActionlessError(f'{log.name}: where do agents act? Add environment = "..."')
                if verb == "train":
                    last = self._train(options, environment, log, last, seed)
                elif verb == "finetune":
                    last = self._finetune(options, environment, log, seed)
                else:
                    assert last is not None
                    last = self._evaluate(options, environment, log, last, seed)
        except ActionlessError as error:
            raise ActionlessError(f"{where}: {error}") from error
        assert last is not None
        return last

    def _pretrain(self, options: Options, log: LogFile, seed: int) -> Piece:
        method, given = _named(options, "method", DEFAULT_METHOD), _typed(options, _OPTIONS["pretrain"](), ("method",))
        settings = resolve(method, self._scale, given, log.facts)
        words = ["pretrain", log.path, "--method", method, "--scale", self._scale, "--seed", str(seed)]
        words += ["--with-actions"] * settings.learner.declares.needs_actions
        words += _flags(given, _OPTIONS["pretrain"]())
        content = [to_json(settings), log.fingerprint, seed]
        title = f"{method}-{Path(log.name).stem}"
        return self._made("pretrain", title, words, content, settings, log.state_dim, None, seed, memory=log.memory)

    def _train(self, options: Options, environment: str, log: LogFile, guide: Piece | None, seed: int) -> Piece:
        agent = _named(options, "agent", DEFAULT_AGENT)
        given = _typed(options, _OPTIONS["train"](), ("agent", "guidance"))
        asked = options.get("guidance")
        if (guide is None) != (asked is None):
            raise ActionlessError('give guidance = "paper" (or another kind) where, and only where, there is pretrain')
        names = [] if asked is None else [name.strip() for name in str(asked).split(",")]
        parts: tuple[kinds.Part, ...] = tuple(
            table_entry(kinds.KINDS, name, "guidance").preset(self._scale) for name in names
        )
        own = {name: value for name, value in given.items() if name in kinds.option_names()}
        kinds.require_known(list(own), parts)
        parts = kinds.with_settings(parts, own)
        rest = {name: value for name, value in given.items() if name not in own}
        settings = train_settings(environment, agent, self._scale, rest)
        words = ["train", environment, "--agent", agent, "--scale", self._scale, "--seed", str(seed)]
        if guide is not None:
            words += ["--guide", str(guide.job.out), "--guidance", str(asked)]
        words += _flags(given, _OPTIONS["train"]())
        content = [to_json(settings), to_json(parts), None if guide is None else guide.key, seed]
        title = (
            f"{agent}-{environment}"
            if guide is None
            else f"{agent}-{str(asked).replace(',', '-')}-{Path(log.name).stem}"
        )
        after = () if guide is None else (guide.job.out,)
        settings = dataclasses.replace(settings, guidance=parts)
        return self._made("train", title, words, content, settings, log.state_dim, environment, seed, after=after)

    def _finetune(self, options: Options, environment: str, log: LogFile, seed: int) -> Piece:
        method, given = (
            _named(options, "method", online_settings.DEFAULT_METHOD),
            _typed(options, _OPTIONS["finetune"](), ("method",)),
        )
        settings = finetune_settings(environment, method, self._scale, given)
        words = ["finetune", environment, "--data", log.path, "--method", method, "--scale", self._scale]
        words += ["--seed", str(seed), *_flags(given, _OPTIONS["finetune"]())]
        content = [to_json(settings), log.fingerprint, seed]
        title = f"{method}-{Path(log.name).stem}"
        return self._made(
            "finetune", title, words, content, settings, log.state_dim, environment, seed, memory=log.memory
        )

    def _evaluate(self, options: Options, environment: str, log: LogFile, policy: Piece, seed: int) -> Piece:
        labelled = self._data.labelled[log.name]
        words = ["evaluate", str(policy.job.out), "--env", environment, "--labelled", labelled.path]
        words += ["--scale", self._scale, "--seed", str(seed), "--overwrite"]
        for name, value in options.items():
            if name not in EVALUATE_OPTIONS or isinstance(value, bool) or not isinstance(value, int):
                raise ActionlessError(
                    f"evaluate: {name} = {value!r}: choose whole numbers for {', '.join(EVALUATE_OPTIONS)}"
                )
            words += [f"--{name}", str(value)]
        content = [policy.key, environment, labelled.fingerprint, self._scale, dict(options), seed]
        assert isinstance(policy.settings, PretrainSettings)
        aim = _AIMS.get(policy.settings.method, "Δs")
        # Policies with the same units and the same kind of output share the model that finds the actions: the first
        # of them makes it, and the others wait rather than make it too.
        model = json.dumps([log.fingerprint, aim, policy.settings.bins, policy.settings.epsilon])
        first = self._first_played.get(model)
        after = (policy.job.out,) if first is None else (policy.job.out, first)
        title = policy.title
        made = self._made("evaluate", title, words, content, None, log.state_dim, environment, seed, after=after)
        self._first_played.setdefault(model, made.job.out)
        return made

    def _made(
        self,
        verb: Verb,
        title: str,
        words: Sequence[str],
        content: Any,
        settings: PretrainSettings | OnlineSettings | None,
        state_dim: int,
        environment: str | None,
        seed: int,
        *,
        after: tuple[Path, ...] = (),
        memory: int = 0,
    ) -> Piece:
        """The piece of this content; one that is planned already stays as it is."""
        key = hashlib.sha256(json.dumps([verb, __version__, content], sort_keys=True).encode()).hexdigest()
        if key not in self.pieces:
            out = self._runs / f"{verb}-{title.replace(':', '-').replace('/', '-')}-{seed}-{key[:12]}"
            job = Job(out, (*words, "--out", str(out)), after=after, memory=memory)
            self.pieces[key] = Piece(job, key, verb, title, settings, state_dim, environment, seed)
        return self.pieces[key]


def _named(options: Options, name: str, default: str) -> str:
    value = options.get(name, default)
    if not isinstance(value, str):
        raise ActionlessError(f"{name} = {value!r}: give a text")
    return value


def _typed(options: Options, known: Sequence[DeclaredSetting], apart: Sequence[str]) -> dict[str, Any]:
    """Options as keywords of the verb: a text such as "256,256" where a setting is a list of numbers."""
    by_name = {each.name: each for each in known}
    given = {}
    for name, value in options.items():
        if name not in apart:
            kinds_of_value = str(by_name[name].type) if name in by_name else ""
            if isinstance(value, str) and "tuple[int" in kinds_of_value:
                value = _numbers(name, value)
            elif type(value) is int and "float" in kinds_of_value:
                value = float(value)
            given[name] = value
    return given


def _numbers(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise ActionlessError(f"{name} = '{text}': give whole numbers separated by commas, such as '256,256'") from None


def _flags(given: Mapping[str, Any], known: Sequence[DeclaredSetting]) -> list[str]:
    """The same on the command line."""
    by_name, words = {each.name: each for each in known}, []
    switches = [each.name for each in known if each.part == "guidance"]
    for name, value in given.items():
        flag, setting = name.replace("_", "-"), by_name[name]
        if is_switch(setting, switches):
            words += [f"--{flag}" if value else f"--no-{flag}"] * (value != setting.default)
        else:
            words += [f"--{flag}", _shown(value)]
    return words


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
