"""Every setting that a verb takes, read off its settings classes: for its flags and for its signature in Python."""

import dataclasses
import functools
import inspect
import operator
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from actionless.settings import AutoMark, Settings, field_help, flat_names, marked, part_names, settings_fields

Function = TypeVar("Function", bound=Callable[..., Any])


class _Auto:
    """Stands for a default that the scale, the method or the log decides."""

    def __repr__(self) -> str:
        return "auto"


AUTO = _Auto()


@dataclass(frozen=True)
class Alternative:
    """One of several parts that may stand in the same place, such as one of several learners."""

    examples: Sequence[Settings]
    """The part as it is at each scale."""
    hidden: Collection[str] = ()
    """Settings of it that are not to be chosen."""
    auto: Collection[str] = ()
    """Settings that something else than the scale decides."""


@dataclass(frozen=True)
class DeclaredSetting:
    """One setting by its flat name."""

    name: str
    type: Any
    default: Any
    """AUTO where it is not the same everywhere."""
    help: str
    part: str = ""
    """The group that it belongs to, such as `loop`."""
    known_to: str = ""
    """The alternatives that know it, in words; empty where all do."""

    @property
    def explained(self) -> str:
        """The help text, and who knows the setting where not everybody does."""
        return f"{self.help} ({self.known_to})".strip() if self.known_to else self.help


def is_switch(setting: DeclaredSetting, switches: Collection[str] = ()) -> bool:
    """Whether its flag stands alone (`--x`, `--no-x`) rather than before a word (`--x true`).

    So it is for what is true or false by default and belongs to no alternative, or is named among `switches`.
    """
    decided = setting.type is bool and setting.default is not AUTO
    return decided and (not setting.known_to or setting.name in switches)


def declared_settings(
    example: Settings, alternatives: Mapping[str, Mapping[str, Alternative]]
) -> tuple[DeclaredSetting, ...]:
    """Those of a settings class, in the order of its fields.

    `alternatives` are the parts that may stand in a field, by the field and by their names.
    """
    found: dict[str, DeclaredSetting] = {}
    for name, path in flat_names(example).items():
        part = str(path[0]) if len(path) > 1 else ""
        if (part or name) not in alternatives:
            found[name] = _declared(name, example, path, part)
    for part, choices in alternatives.items():
        found |= _of_alternatives(part, choices)
    return tuple(found.values())


def documented(settings: Sequence[DeclaredSetting]) -> Callable[[Function], Function]:
    """Make a function's `**settings` visible: in its signature, and in its documentation with their help texts."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        vars(function)["__signature__"] = signature.replace(parameters=[*own, *map(_parameter, settings)])
        entries = "\n".join(map(_entry, settings))
        function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nSettings:\n{entries}"
        return function

    return decorate


def _of_alternatives(part: str, choices: Mapping[str, Alternative]) -> dict[str, DeclaredSetting]:
    by_name: dict[str, dict[str, DeclaredSetting]] = {}
    for owner, choice in choices.items():
        for name, path in part_names(choice.examples[0]).items():
            if name not in choice.hidden:
                declared = [_declared(name, example, path, part) for example in choice.examples]
                one = _merged(declared, "")
                by_name.setdefault(name, {})[owner] = (
                    dataclasses.replace(one, default=AUTO) if name in choice.auto else one
                )
    return {name: _merged(list(known.values()), _in_words(known, choices)) for name, known in by_name.items()}


def _merged(declared: Sequence[DeclaredSetting], known_to: str) -> DeclaredSetting:
    """One setting of all, with a default where they agree on it."""
    first = declared[0]
    different = [each.type for each in declared if each.type != first.type]
    return dataclasses.replace(
        first,
        type=functools.reduce(operator.or_, different, first.type),
        default=first.default if all(each.default == first.default for each in declared) else AUTO,
        known_to=known_to,
    )


def _in_words(known: Collection[str], choices: Collection[str]) -> str:
    others = [name for name in choices if name not in known]
    if not others:
        return ""
    return f"all but {', '.join(others)}" if len(others) < len(known) else ", ".join(known)


def _declared(name: str, example: Settings, path: Sequence[str | int], part: str) -> DeclaredSetting:
    owner: Any = example
    for step in path[:-1]:
        owner = owner[step] if isinstance(step, int) else getattr(owner, step)
    cls, last = type(owner), str(path[-1])
    default = AUTO if last in marked(cls, AutoMark) else getattr(owner, last)
    return DeclaredSetting(name, settings_fields(cls)[last], default, field_help(cls).get(last, ""), part)


def _parameter(setting: DeclaredSetting) -> inspect.Parameter:
    decided = setting.default is not AUTO
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=setting.default if decided else None,
        annotation=setting.type if decided else setting.type | None,
    )


def _entry(setting: DeclaredSetting) -> str:
    lead = f"  {setting.name} = {setting.default!r}: "
    return textwrap.fill(lead + setting.explained, width=100, subsequent_indent="      ")
