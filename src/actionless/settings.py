"""Settings: frozen dataclasses that check themselves, and their form in JSON.

A setting is declared once: a field with its bounds, its default and one line of help.

    @dataclass(frozen=True)
    class Td3Config(Settings, kind="td3"):
        discount: Fraction = 0.99
        \"\"\"γ: what a reward one step later is worth.\"\"\"

The flags of the command line, the keywords in Python, run.json and the error messages come from that declaration.
"""

import ast
import dataclasses
import difflib
import functools
import inspect
import math
import numbers
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from actionless.errors import ActionlessError

SettingsType = TypeVar("SettingsType", bound="Settings")
Value = TypeVar("Value")

ScaleName = Literal["smoke", "cpu", "paper"]
"""Preset sizes: seconds for a test, minutes on two cores, or the paper's."""

_PYTHON = "python"
"""The kind that stands in JSON for an object that cannot be stored, such as a user's function."""


@dataclass(frozen=True)
class Bounds:
    """The numbers that a field accepts. None: no bound, but the number must be finite."""

    low: int | float | None = None
    high: int | float | None = None
    above: bool = False
    """`low` itself is refused."""
    below: bool = False
    """`high` itself is refused."""

    def accept(self, value: int | float) -> bool:
        """Whether a finite number lies within the bounds."""
        high_enough = self.low is None or value > self.low or (value == self.low and not self.above)
        low_enough = self.high is None or value < self.high or (value == self.high and not self.below)
        return math.isfinite(value) and high_enough and low_enough

    def advice(self, *, whole: bool) -> str:
        """What to choose, for an error message."""
        low = None if self.low is None else f"{'above' if self.above else 'at least'} {self.low:.12g}"
        high = None if self.high is None else f"{'below' if self.below else 'at most'} {self.high:.12g}"
        if low and high:
            plain = not (self.above or self.below)
            between = f"between {self.low:.12g} and {self.high:.12g}" if plain else f"{low} and {high}"
            return f"choose a {'whole ' if whole else ''}number {between}"
        if whole:
            return f"choose {low or high or 'a whole number'}"
        return f"choose a finite number{f' {low or high}'.replace(' at', ' of at') if low or high else ''}"


class _Derived:
    """Marks a field that the program fills in: neither a flag nor a keyword sets it."""


Count = Annotated[int, Bounds(low=1)]
"""At least 1."""
Whole = Annotated[int, Bounds(low=0)]
"""At least 0."""
Fraction = Annotated[float, Bounds(low=0, high=1)]
"""From 0 to 1, both included."""
Positive = Annotated[float, Bounds(low=0, above=True)]
"""Finite and above 0."""
NonNegative = Annotated[float, Bounds(low=0)]
"""Finite and at least 0."""
Number = Annotated[float, Bounds()]
"""Finite."""
Seed = Annotated[int, Bounds(low=0, high=2**32 - 1)]
Derived = Annotated[Value, _Derived()]
"""`Derived[int]`: filled in by the program."""


class AutoMark:
    """Marks a field whose default the scale, the method or the run decides."""


Auto = Annotated[Value, AutoMark()]
"""`Auto[int]`: shown to users with the default `auto`, whatever it is in one case."""


class _Parts:
    """Marks a field that holds several groups of settings."""


Parts = Annotated[tuple[Any, ...], _Parts()]
"""Several groups of settings; what is made in Python, and is no `Settings`, may stand among them."""


class Settings:
    """Base of every settings class. Fields are checked against their annotations when an object is made.

    `kind` names the class in JSON; a class that may stand where others may stand too needs one. Relations between
    fields are checked in `check`.
    """

    kind: ClassVar[str | None] = None
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __init_subclass__(cls, kind: str | None = None):
        cls.kind = kind
        if kind is None:
            return
        taken = _KINDS.get(kind)
        if kind == _PYTHON or (taken is not None and _full_name(taken) != _full_name(cls)):
            raise ValueError(f"kind '{kind}' of {_full_name(cls)} is taken: choose another")
        _KINDS[kind] = cls

    def __post_init__(self) -> None:
        """Refuse what is out of bounds, naming the field and what to choose."""
        for name, hint in _hints(type(self)).items():
            given = getattr(self, name)
            value = _plain(given, hint)
            if value is not given:
                object.__setattr__(self, name, value)
            check_value(name, value, hint)
        self.check()

    def check(self) -> None:
        """Refuse fields that do not fit together. Nothing to check unless a class says so."""


_KINDS: dict[str, type[Settings]] = {}


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def check_value(name: str, value: Any, hint: Any) -> None:
    """Refuse a value that its annotation does not allow."""
    bare, bounds = _unwrapped(hint)
    origin = get_origin(bare)
    if origin in (Union, types.UnionType):
        _check_union(name, value, get_args(bare))
    elif origin is Literal:
        if value not in get_args(bare):
            raise ActionlessError(f"{name}={value!r}: choose {', '.join(map(repr, get_args(bare)))}")
    elif origin is tuple and get_args(bare)[1:] == (...,):
        if not isinstance(value, tuple):
            raise ActionlessError(f"{name}={value!r}: choose a list of values")
        for number, part in enumerate(value, start=1):
            check_value(f"{name}, number {number}", part, get_args(bare)[0])
    elif bare is int or bare is float:
        _check_number(name, value, bare, bounds or Bounds())
    elif is_part(bare) and not isinstance(value, bare):
        raise ActionlessError(f"{name}={value!r}: give settings of the class {bare.__name__}")
    elif isinstance(bare, type) and bare in (bool, str) and not isinstance(value, bare):
        raise ActionlessError(f"{name}={value!r}: choose {'true or false' if bare is bool else 'a text'}")


def _check_union(name: str, value: Any, options: tuple[Any, ...]) -> None:
    if value is None and types.NoneType in options:
        return
    refusals = []
    for option in options:
        if option is not types.NoneType:
            try:
                check_value(name, value, option)
            except ActionlessError as error:
                refusals.append(error)
            else:
                return
    raise refusals[0]


def _check_number(name: str, value: Any, kind: type, bounds: Bounds) -> None:
    whole = kind is int
    is_number = isinstance(value, int) or (not whole and isinstance(value, float))
    if isinstance(value, bool) or not is_number or not bounds.accept(value):
        advice = bounds.advice(whole=whole)
        if whole and not isinstance(value, int):
            advice = advice.replace("choose at", "choose a whole number of at")
        raise ActionlessError(f"{name}={value!r}: {advice}")


def table_entry(table: Mapping[str, Value], name: str, what: str) -> Value:
    """The entry of a table of methods, agents or kinds. A name that it lacks is refused with those that it has."""
    if name not in table:
        raise ActionlessError(f"{what}={name!r}: choose {', '.join(map(repr, table))}")
    return table[name]


# Flat names: what a user calls a setting, wherever it is stored.


def flat_names(settings: Settings) -> dict[str, tuple[str | int, ...]]:
    """Every setting that a user may choose, by its name on the command line, and the path of fields to it.

    The fields of a part (`loop`, `learner`, each of several `guidance`) keep their names; those of a part of a part are
    prefixed by its name (`idm_hidden`).
    """
    found: dict[str, tuple[str | int, ...]] = {}
    for name, path in _flat(settings, (), ""):
        if name in found:
            raise ValueError(f"two settings are called '{name}': {found[name]} and {path}")
        found[name] = path
    return found


def _flat(settings: Settings, path: tuple[str | int, ...], prefix: str) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    for name, hint in _hints(type(settings)).items():
        if _is_derived(hint):
            continue
        value, here = getattr(settings, name), (*path, name)
        inner = f"{name}_" if path else ""
        if is_part(hint):
            yield from _flat(value, here, inner)
        elif _holds_parts(hint):
            for number, part in enumerate(value):
                if isinstance(part, Settings):
                    yield from _flat(part, (*here, number), inner)
        else:
            yield prefix + name, here


def part_names(part: Settings) -> dict[str, tuple[str | int, ...]]:
    """The same for a group of settings within others, such as a learner: the path begins in the group."""
    return {name: path[1:] for name, path in _flat(part, ("",), "")}


def is_part(hint: Any) -> bool:
    """Whether a field is a group of settings. One that may also be None is a single setting."""
    bare, _ = _unwrapped(hint)
    return bare is Settings or (isinstance(bare, type) and issubclass(bare, Settings))


def _holds_parts(hint: Any) -> bool:
    return _has_mark(hint, _Parts)


def changed(
    settings: SettingsType, given: Mapping[str, Any], owner: str, *, fixed: tuple[str, ...] = ()
) -> SettingsType:
    """Settings with those changes, by flat name. A name that `owner` does not know, or has fixed, is refused."""
    known = {name: path for name, path in flat_names(settings).items() if name not in fixed}
    parts = {name: (name,) for name, hint in _hints(type(settings)).items() if is_part(hint)}
    changes: dict[tuple[str | int, ...], tuple[str, Any]] = {}
    for name, value in given.items():
        path = known.get(name, parts.get(name))
        if path is None:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ActionlessError(f"{name}: not an option of {owner}, which knows {', '.join(sorted(known))}{hint}")
        changes[path] = (name, value)
    return _replaced(settings, changes)


def _replaced(holder: Any, changes: Mapping[tuple[str | int, ...], tuple[str, Any]]) -> Any:
    """A copy with the value at the end of each path. All are set before relations between fields are checked."""
    inner: dict[str | int, dict[tuple[str | int, ...], tuple[str, Any]]] = {}
    values: dict[str, Any] = {}
    for (first, *rest), (name, value) in changes.items():
        if rest:
            inner.setdefault(first, {})[tuple(rest)] = (name, value)
        else:
            assert isinstance(first, str)
            hint = _hints(type(holder))[first]
            values[first] = _plain(value, hint)
            check_value(name, values[first], hint)  # here, where the user's name for it is known
    if isinstance(holder, tuple):
        return tuple(_replaced(part, inner[i]) if i in inner else part for i, part in enumerate(holder))
    for name, part in inner.items():
        values[str(name)] = _replaced(values.get(str(name), getattr(holder, str(name))), part)
    return dataclasses.replace(holder, **values)


def _plain(value: Any, hint: Any = None) -> Any:
    """Lists as tuples, numbers of NumPy as Python's; where texts are listed, one text with commas stands for them."""
    if isinstance(value, list):
        return tuple(map(_plain, value))
    if isinstance(value, str) and plain_type(hint) == tuple[str, ...]:
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) and not isinstance(value, int | float) else value


def field_help(cls: type) -> dict[str, str]:
    """The text below each field of a class and of its bases, on one line."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            found |= _own_help(base)
    return found


@functools.cache
def _own_help(cls: type) -> dict[str, str]:
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):  # of a class that was typed at a prompt
        return {}
    body = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(help_text))):
                found[name] = " ".join(help_text.split())
    return found


def settings_fields(cls: type[Settings]) -> dict[str, Any]:
    """The annotations of the fields that a user may choose, without bounds."""
    return {name: plain_type(hint) for name, hint in _hints(cls).items() if not _is_derived(hint)}


def marked(cls: type[Settings], mark: type) -> tuple[str, ...]:
    """Names of the fields whose annotation carries an object of the class `mark`."""
    return tuple(name for name, hint in _hints(cls).items() if _has_mark(hint, mark))


def plain_type(hint: Any) -> Any:
    """An annotation without its bounds, at any depth."""
    bare, _ = _unwrapped(hint)
    if get_origin(bare) in (Union, types.UnionType):
        return functools.reduce(lambda a, b: a | b, map(plain_type, get_args(bare)))
    if get_origin(bare) is tuple:
        return tuple[tuple(part if part is ... else plain_type(part) for part in get_args(bare))]
    return bare


# JSON: every object with a kind carries it, so that reading needs no guess.


def to_json(value: Any) -> Any:
    """Plain values for a JSON file. What cannot be stored, such as a function, is marked as made in Python."""
    if isinstance(value, Settings):
        stored = {name: to_json(getattr(value, name)) for name in _hints(type(value))}
        return stored if value.kind is None else {"kind": value.kind, **stored}
    if isinstance(value, Mapping):
        return {str(name): to_json(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(part) for part in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.name, "values": value.tolist()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    made_of = value if hasattr(value, "__qualname__") else type(value)
    return {
        "kind": _PYTHON,
        "name": f"{made_of.__module__}.{made_of.__qualname__}",
    }


def from_json(cls: Callable[..., Value], stored: Any, where: str) -> Value:
    """The object that `to_json` stored. `where` names the file in errors. A field that is missing has its default."""
    return _decoded(cls, stored, where)


class FromPython(str):
    """Stands for an object that was handed over from Python, which JSON cannot hold: the name of its class."""


def _decoded(hint: Any, stored: Any, where: str) -> Any:
    bare, _ = _unwrapped(hint)
    if isinstance(stored, dict) and stored.get("kind") == _PYTHON:
        return FromPython(stored.get("name", ""))
    if get_origin(bare) in (Union, types.UnionType):
        return _decoded_union(get_args(bare), stored, where)
    if isinstance(stored, dict) and "kind" in stored:
        cls = _KINDS.get(str(stored["kind"]))
        if is_part(bare) and cls is not None and not issubclass(cls, bare):
            raise ActionlessError(
                f"{where}: '{stored['kind']}' stands where a {bare.__name__} should be: restore the file"
            )
        if cls is None:
            raise ActionlessError(
                f"{where}: kind '{stored['kind']}' is not known here: it comes from a newer version, or from code that "
                "has to be imported first"
            )
        return _object(cls, {name: part for name, part in stored.items() if name != "kind"}, where)
    if isinstance(bare, type) and dataclasses.is_dataclass(bare):
        return _object(bare, stored, where)
    if getattr(bare, "array_type", None) is np.ndarray:  # an annotation such as `Float[np.ndarray, "rows"]`
        return _array(stored, where)
    if get_origin(bare) is tuple and isinstance(stored, list):
        return tuple(_decoded(get_args(bare)[0], part, where) for part in stored)
    return stored


def _array(stored: Any, where: str) -> np.ndarray:
    try:
        return np.array(stored["values"], stored["dtype"])
    except (KeyError, TypeError, ValueError) as error:
        raise ActionlessError(f"{where}: {stored!r} stands where an array should be: restore the file") from error


def _decoded_union(options: tuple[Any, ...], stored: Any, where: str) -> Any:
    if stored is None:
        return None
    structured = [option for option in options if _holds_structure(option)]
    if isinstance(stored, dict | list) and structured:
        return _decoded(structured[0], stored, where)
    return stored


def _holds_structure(option: Any) -> bool:
    bare, _ = _unwrapped(option)
    return dataclasses.is_dataclass(bare) or get_origin(bare) is tuple or bare is Settings


def _object(cls: type, stored: Any, where: str) -> Any:
    if not isinstance(stored, dict):
        raise ActionlessError(f"{where}: {stored!r} stands where settings should be: restore the file")
    hints = _hints(cls)
    if unknown := sorted(stored.keys() - hints.keys()):
        raise ActionlessError(f"{where}: '{unknown[0]}' is not a setting of {cls.__name__}: restore the file")
    required = [
        field.name
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if missing := [name for name in required if name not in stored]:
        raise ActionlessError(f"{where}: the setting '{missing[0]}' is missing: restore the file")
    try:
        return cls(**{name: _decoded(hints[name], part, where) for name, part in stored.items()})
    except ActionlessError as error:
        raise error if str(error).startswith(where) else ActionlessError(f"{where}: {error}") from error


def _unwrapped(hint: Any) -> tuple[Any, Bounds | None]:
    """The type itself, and its bounds where it has any."""
    if get_origin(hint) is not Annotated:
        return hint, None
    bare, *notes = get_args(hint)
    inner, bounds = _unwrapped(bare)
    return inner, next((note for note in notes if isinstance(note, Bounds)), bounds)


def _is_derived(hint: Any) -> bool:
    return _has_mark(hint, _Derived)


def _has_mark(hint: Any, mark: type) -> bool:
    return get_origin(hint) is Annotated and any(isinstance(note, mark) for note in get_args(hint)[1:])


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    """The annotations of a dataclass's fields, with their bounds."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
