"""What an experiment is: a small TOML file. Lines (methods) × logs × seeds give the cells of a table or the curves.

    title = "α of OSO-DecQN on our plant"
    logs = ["plant.parquet"]
    values = ["heldout/error"]
    seeds = 3

    [[line]]
    name = "α = {alpha}"
    pretrain = { method = "oso-decqn", alpha = [1, 3, 10] }

A list in an option stands for one line for each of its values. A table with the keys `smoke`, `cpu` and `paper` stands
for a value that depends on the scale; at a scale that it lacks, the option is left out.
"""

import fnmatch
import itertools
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from actionless.errors import ActionlessError
from actionless.offline.data_sets import DATA_SETS
from actionless.settings import ScaleName, check_value

VERBS = ("pretrain", "train", "finetune", "evaluate")
"""What a line may do, in this order; the last of them gives its values."""

_TOGETHER = (("pretrain",), ("pretrain", "evaluate"), ("train",), ("pretrain", "train"), ("finetune",))
_SCALES = get_args(ScaleName)
_TYPES: Mapping[str, type] = {
    "title": str,
    "about": str,
    "environment": str,
    "logs": list,
    "values": list,
    "seeds": int,
    "curve": str,
    "rows": str,
    "computed": str,
    "line": list,
} | dict.fromkeys(VERBS, dict)
_SEEDS: Mapping[str, int] = {"smoke": 1, "cpu": 3, "paper": 5}

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """One method with its options: a column of a table, a curve of a figure."""

    name: str
    verbs: Mapping[str, Options]
    """Options of each verb that it calls, in the order of `VERBS`."""
    value: str | None = None
    """What its cells show, if not what those of the other lines do."""
    logs: tuple[str, ...] | None = None
    """The logs that it is run on, if not all."""

    @property
    def needs_log(self) -> bool:
        """An agent that learns alone needs none."""
        return tuple(self.verbs) != ("train",)


@dataclass(frozen=True)
class Declaration:
    """An experiment at one scale."""

    name: str
    title: str
    lines: tuple[Line, ...]
    logs: tuple[str, ...]
    """The paper's data sets by name (hopper-medium), or paths."""
    values: tuple[str, ...]
    """What the cells show; a table for each."""
    seeds: int = 1
    about: str = ""
    environment: str | None = None
    """Where agents act; of the paper's data sets it is known."""
    curve: str | None = None
    """The metric that a figure shows over the steps; a table alone if there is none."""
    rows: str = "logs"
    """What the rows of the tables are; the others are the columns."""
    computed: str | None = None
    """The name of what needs no runs."""
    folder: Path = field(default_factory=Path)
    """Where paths of logs begin."""

    @property
    def shipped(self) -> bool:
        """Whether it is one of the package's own."""
        return self.name in shipped_names()


def shipped_names() -> list[str]:
    """The experiments of the package: theorem first, then tables and figures in the order of their names."""
    names = [file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml")]
    return sorted(names, key=lambda name: (name != "theorem", not name.startswith("table"), name))


def load(name: str, scale: ScaleName) -> Declaration:
    """An experiment by its name, or from a user's file."""
    check_value("scale", scale, ScaleName)
    if name in shipped_names():
        file = _folder() / f"{name}.toml"
        return parsed(file.read_text(encoding="utf-8"), name, scale, f"{name}.toml")
    path = Path(name)
    if path.suffix != ".toml":
        raise ActionlessError(f"{name}: no such experiment; choose {', '.join(shipped_names())}, or give a FILE.toml")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ActionlessError(f"{name}: {getattr(error, 'strerror', None) or error}; give a TOML file") from error
    return parsed(text, path.stem, scale, name, path.parent)


def parsed(text: str, name: str, scale: ScaleName, where: str, folder: Path = Path()) -> Declaration:
    """Read a declaration; `where` names the file in errors."""
    try:
        stored = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ActionlessError(f"{where}: {error}; correct the TOML") from error
    _check_keys(stored, _TYPES, where)
    stored = {key: _at_scale(value, scale) for key, value in stored.items() if key != "line"} | {
        "line": stored.get("line", [])
    }
    _check_types(stored, where)
    if "title" not in stored:
        raise ActionlessError(f'{where}: no title; add a line such as title = "α on our plant"')
    shared = {verb: stored[verb] for verb in VERBS if verb in stored}
    lines = [line for each in stored["line"] for line in _lines(each, shared, scale, where)]
    declared = Declaration(
        name=name,
        title=stored["title"],
        lines=tuple(lines),
        logs=_expanded(map(str, stored.get("logs") or ())),
        values=tuple(map(str, stored.get("values", ()))),
        seeds=stored.get("seeds", _SEEDS[scale]),
        about=stored.get("about", "").strip(),
        environment=stored.get("environment"),
        curve=stored.get("curve"),
        rows=stored.get("rows", "logs"),
        computed=stored.get("computed"),
        folder=folder,
    )
    _check(declared, where)
    return declared


def _folder() -> Any:
    return resources.files("actionless.reproduction") / "declared"


def _lines(stored: Any, shared: Mapping[str, Options], scale: ScaleName, where: str) -> Iterator[Line]:
    """The lines that an entry stands for: one for each choice from the lists in its options."""
    if not isinstance(stored, dict) or not isinstance(stored.get("name"), str):
        raise ActionlessError(f'{where}: every [[line]] needs a name; add name = "..."')
    name = stored["name"]
    _check_keys(stored, ("name", "value", "logs", *VERBS), f"{where}, line '{name}'")
    verbs: dict[str, Options] = {}
    for verb in (verb for verb in VERBS if verb in stored):
        if not isinstance(stored[verb], dict):
            raise ActionlessError(f"{where}, line '{name}': {verb}: give a table of options, such as {{ steps = 100 }}")
        chosen = {**shared.get(verb, {}), **stored[verb]}
        here = {key: _at_scale(value, scale) for key, value in chosen.items()}
        verbs[verb] = {key: value for key, value in here.items() if value is not None}
    if tuple(verbs) not in _TOGETHER:
        ways = "; ".join(" then ".join(each) for each in _TOGETHER)
        raise ActionlessError(f"{where}, line '{name}': {' then '.join(verbs) or 'no verb'}; choose one of: {ways}")
    varied = [(verb, key) for verb, options in verbs.items() for key in options if isinstance(options[key], list)]
    logs = _at_scale(stored.get("logs"), scale)
    for choice in itertools.product(*(verbs[verb][key] for verb, key in varied)):
        mine = {verb: dict(options) for verb, options in verbs.items()}
        for (verb, key), value in zip(varied, choice, strict=True):
            mine[verb][key] = value
        every = {key: value for options in mine.values() for key, value in options.items()}
        try:
            full = name.format(**every)
        except (KeyError, IndexError, ValueError) as error:
            raise ActionlessError(f"{where}: line '{name}': {{{error.args[0]}}} is no option of the line") from error
        if full == name and varied:
            full = ", ".join([name, *(f"{key} {value}" for (_, key), value in zip(varied, choice, strict=True))])
        yield Line(full, mine, stored.get("value"), None if logs is None else _expanded(logs))


def _expanded(logs: Iterable[str]) -> tuple[str, ...]:
    """`hopper-*` stands for the paper's data sets of that name."""
    return tuple(name for log in logs for name in fnmatch.filter(DATA_SETS, log) or [log])


def _at_scale(value: Any, scale: ScaleName) -> Any:
    if isinstance(value, dict) and value and value.keys() <= set(_SCALES):
        return value.get(scale)
    return value


def _check_keys(stored: Mapping[str, Any], known: Sequence[str] | Mapping[str, Any], where: str) -> None:
    if unknown := [key for key in stored if key not in known]:
        raise ActionlessError(f"{where}: '{unknown[0]}' is no key of a declaration; choose {', '.join(known)}")


def _check_types(stored: Mapping[str, Any], where: str) -> None:
    titles = {str: "a text", list: "a list", int: "a whole number", dict: "a table"}
    for key, value in stored.items():
        kind = _TYPES[key]
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise ActionlessError(f"{where}: {key} = {value!r}: give {titles[kind]}")  # pyright: ignore


def _check(declared: Declaration, where: str) -> None:
    if declared.computed is not None:
        return
    if not declared.lines:
        raise ActionlessError(f"{where}: no lines; add at least one [[line]] with a name and a verb")
    if not declared.logs:
        raise ActionlessError(f"{where}: no logs; add logs = [...] with files or the paper's data sets")
    if not declared.values:
        raise ActionlessError(f'{where}: no values; add values = ["score"] or a metric of metrics.jsonl')
    for line, other in itertools.combinations(declared.lines, 2):
        shared = set(line.logs or declared.logs) & set(other.logs or declared.logs)
        if line.name == other.name and shared:
            raise ActionlessError(f"{where}: two lines are called '{line.name}'; name what differs, such as {{method}}")
    if declared.rows not in ("logs", "lines"):
        raise ActionlessError(f"{where}: rows = '{declared.rows}': choose 'logs' or 'lines'")
    if declared.seeds < 1:
        raise ActionlessError(f"{where}: seeds = {declared.seeds}: choose at least 1")
