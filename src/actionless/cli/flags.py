"""Flags read off the settings that a verb declares: each has the setting's name, type, default and help text."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import tyro

from actionless.declared import AUTO, DeclaredSetting, is_switch


class Flags:
    """Base of the classes that `flags_class` makes. A flag that was not given is None."""

    def given(self) -> dict[str, Any]:
        """What the user chose, by the flat names of the settings."""
        found: dict[str, Any] = {}
        for field in dataclasses.fields(self):  # pyright: ignore[reportArgumentType] (every subclass is a dataclass)
            value = getattr(self, field.name)
            if isinstance(value, Flags):
                found |= value.given()
            elif value != field.default:
                found[field.name] = value
        return found


def flags_class(
    settings: Sequence[DeclaredSetting], titles: Mapping[str, str], *, switches: Collection[str] = ()
) -> type[Flags]:
    """A dataclass for tyro with a flag for each setting, and a group of flags for each part.

    `titles` say above each group what is in it; "" stands for what belongs to no part. Settings that are true or false
    take a word (`--x true`), or are switches (`--x`, `--no-x`) where they belong to no alternative or `switches` names
    them.
    """
    settings = [each for each in settings if _fits_in_words(each.type)]
    parts = dict.fromkeys(setting.part for setting in settings)
    groups = {part: [each for each in settings if each.part == part] for part in parts}
    fields: list[Any] = [_flag(setting, switches) for setting in groups.pop("", [])]
    for part, members in groups.items():
        cls = _made(f"{part.capitalize()}Flags", [_flag(each, switches) for each in members], titles[part])
        fields.append((part, tyro.conf.OmitArgPrefixes[cls], dataclasses.field(default_factory=cls)))
    return _made("SettingFlags", fields, titles[""])


def _fits_in_words(hint: Any) -> bool:
    """Whether a command line can express it; a function, for one, can be given from Python alone."""
    if get_origin(hint) in (Union, UnionType, tuple):
        return all(part is ... or _fits_in_words(part) for part in get_args(hint))
    return hint in (int, float, str, bool, NoneType) or get_origin(hint) is Literal


def _made(name: str, fields: Sequence[Any], title: str) -> type[Flags]:
    return dataclasses.make_dataclass(name, fields, bases=(Flags,), frozen=True, namespace={"__doc__": title})


def _flag(setting: DeclaredSetting, switches: Collection[str]) -> tuple[str, Any, Any]:
    if is_switch(setting, switches):
        turn_off = f" --no-{setting.name.replace('_', '-')} turns it off." if setting.default else ""
        annotated = Annotated[bool, tyro.conf.arg(help=setting.explained + turn_off)]
        return setting.name, annotated, dataclasses.field(default=setting.default)
    hint = f"(default: {_shown(setting)})"
    annotated = Annotated[setting.type | None, tyro.conf.arg(help=setting.explained, help_behavior_hint=hint)]
    return setting.name, annotated, dataclasses.field(default=None)


def _shown(setting: DeclaredSetting) -> str:
    """The default as it would be written on the command line."""
    default = setting.default
    if default is None or default == ():
        names = setting.type in (str | None, tuple[str, ...])
        return "none" if names else str(AUTO)
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
