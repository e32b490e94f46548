"""The kinds of guidance, as data; how they are chosen, described and made.

No other file names a kind but the kind's own; the charts of its metrics are in reporting/charts.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actionless.errors import ActionlessError
from actionless.guidance import normalise, plans, potential, relabel, switch
from actionless.guidance.interface import Guidance, GuidanceContext, GuidanceSettings, Mean
from actionless.offline import policy_files
from actionless.offline.planner import Planner
from actionless.offline.state_policy import StatePolicy
from actionless.online.agent import AgentSettings, Spec
from actionless.settings import (
    FromPython,
    Parts,
    ScaleName,
    Settings,
    changed,
    flat_names,
    part_names,
    table_entry,
    to_json,
)

Part = GuidanceSettings | Guidance | FromPython
"""One guidance of a run: settings of one of these kinds, an object made in Python, or what a file says of such."""


@dataclass(frozen=True)
class Kind:
    """A row of the table."""

    needs: str
    """What the policy of the guide's run must be."""
    preset: Callable[[ScaleName], GuidanceSettings]
    """Its settings at a scale."""
    in_words: Callable[[Mean], str | None] | None = None
    """What it did in some runs, from their metrics; None where they are not of this kind."""
    guides: bool = True
    """Whether it is more than a fair baseline."""


KINDS: Mapping[str, Kind] = {
    "switch": Kind(StatePolicy.kind, switch.preset, switch.in_words),
    "paper": Kind(StatePolicy.kind, switch.paper_preset),
    "potential": Kind(StatePolicy.kind, potential.preset, potential.in_words),
    "relabel": Kind(StatePolicy.kind, relabel.preset, relabel.in_words),
    "normalise": Kind(StatePolicy.kind, normalise.preset, guides=False),
    "plans": Kind(Planner.kind, plans.preset),
}


BY_DEFAULT: Mapping[str, tuple[str, ...]] = {
    StatePolicy.kind: ("potential", "relabel"),
    Planner.kind: ("plans",),
}
"""What a guide is used for unless something else is asked for, by what its policy is. For the first, see
experiments/guidance."""
BY_DEFAULT_WITHOUT_VALUES = ("relabel",)


@dataclass(frozen=True)
class Held:
    """What a guide's run holds."""

    kind: str
    """What its policy is."""
    values: bool
    """Whether that says what return to expect."""

    @classmethod
    def by(cls, guide: str) -> "Held":
        """A run, or a directory with a policy."""
        kind = policy_files.read(Path(guide))[0]["kind"]
        return cls(kind, kind == StatePolicy.kind and StatePolicy.load(guide).model.has_values)

    @property
    def used_for(self) -> tuple[str, ...]:
        """The kinds of guidance that it gives by default; none where it cannot guide."""
        if self.kind == StatePolicy.kind and not self.values:
            return BY_DEFAULT_WITHOUT_VALUES
        return BY_DEFAULT.get(self.kind, ())


def chosen(
    asked: str | Guidance | Sequence[str | Guidance] | None, guide: str | None, holds: Held | None
) -> Sequence[str | Guidance]:
    """Names of kinds and objects made in Python, in the order asked for; by default what the guide is best used for.

    `holds` is what the guide's run holds.
    """
    if asked is None and guide is not None and holds is not None:
        asked = holds.used_for
        if not asked:
            raise ActionlessError(
                f"{guide}: holds no state policy and no plans, so it cannot guide: give a run of `pretrain` whose "
                "method gives one"
            )
    if isinstance(asked, Guidance):
        asked = [asked]
    parts: Sequence[str | Guidance] = (
        [part.strip() for part in asked.split(",")] if isinstance(asked, str) else asked or ()
    )
    names = [part for part in parts if isinstance(part, str)]
    for number, part in enumerate(parts):
        if isinstance(part, str):
            _check_kind(part, guide, None if holds is None else holds.kind)
        elif not isinstance(part, Guidance):
            raise ActionlessError(f"guidance, number {number + 1}: {part!r} is neither a kind nor a Guidance object")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ActionlessError(f"guidance: '{twice[0]}' is named twice; name each kind once")
    for number, name in enumerate(names):
        for other in names[:number]:
            if same := sorted(_setting_names(name) & _setting_names(other)):
                both = f"'{other}' and '{name}' both have the setting {same[0]}"
                raise ActionlessError(f"guidance: {both}: name one of them")
    if guide is not None and not names:
        raise ActionlessError(f"{guide}: nothing uses this guide: name a kind of guidance too, or leave it out")
    return list(parts)


def _check_kind(name: str, guide: str | None, holds: str | None) -> None:
    kind = table_entry(KINDS, name, "guidance")
    if guide is None:
        raise ActionlessError(f"guidance '{name}' without a guide: name the run to be guided by (--guide RUN)")
    if kind.needs != holds:
        fitting = [f"'{other}'" for other, row in KINDS.items() if row.needs == holds]
        use = f"with it, use {' or '.join(fitting)}" if fitting else "give another run"
        raise ActionlessError(f"{guide}: does not fit guidance '{name}': {use}")


def presets(parts: Sequence[str | Guidance], scale: ScaleName) -> tuple[GuidanceSettings | Guidance, ...]:
    """The settings of each named kind at a scale; objects made in Python as they are."""
    return tuple(KINDS[part].preset(scale) if isinstance(part, str) else part for part in parts)


def _setting_names(name: str) -> set[str]:
    return set(part_names(KINDS[name].preset("cpu")))


def option_names() -> set[str]:
    """The flat names of the settings of all kinds."""
    return {name for kind in KINDS.values() for name in part_names(kind.preset("cpu"))}


def require_known(names: Sequence[str], parts: Sequence[Part]) -> None:
    """Refuse a setting of guidance that none of these parts has."""
    known = flat_names(_Together(tuple(parts)))
    for name in names:
        if name not in known:
            chosen = ", ".join(str(part.kind) for part in parts if isinstance(part, GuidanceSettings))
            others = [
                f"`--guidance {other}`" for other, kind in KINDS.items() if name in part_names(kind.preset("cpu"))
            ]
            use = f"; {' or '.join(others)} has it" if others else ""
            raise ActionlessError(
                f"{name}: not an option of guidance by {chosen or 'an object from Python'}, which knows "
                f"{', '.join(sorted(known)) or 'none'}{use}"
            )


def with_settings(parts: Sequence[Part], given: Mapping[str, Any]) -> tuple[Part, ...]:
    """The parts with those settings, by flat name, that they know."""
    together = _Together(tuple(parts))
    own = {name: value for name, value in given.items() if name in flat_names(together)}
    return changed(together, own, "guidance").guidance


def completed(parts: Sequence[Part], guide: str | None, steps: int) -> tuple[Part, ...]:
    """The parts with what follows from the guide and the length of the run filled in."""
    return tuple(part.completed(guide or "", steps) if isinstance(part, GuidanceSettings) else part for part in parts)


@dataclass(frozen=True)
class _Together(Settings):
    """Gives the settings of guidance their flat names: `idm_hidden`."""

    guidance: Parts


def agent_settings(parts: Sequence[Part], settings: AgentSettings) -> AgentSettings:
    """An agent's settings as these parts need them, for run.json."""
    for part in parts:
        settings = part.agent_settings(settings) if isinstance(part, GuidanceSettings) else settings
    return settings


def from_python(parts: Sequence[Part]) -> list[str]:
    """What of this guidance was made in Python and cannot be stored, by the name that a user gives it."""
    names = ["guidance"] if any(not isinstance(part, GuidanceSettings) for part in parts) else []
    for name, (_, number, *path) in flat_names(_Together(tuple(parts))).items():
        value: Any = parts[int(number)]
        for field in path:
            value = getattr(value, str(field))
        if _is_python(value):
            names.append(name)
    return names


def _is_python(value: Any) -> bool:
    stored = to_json(value)
    return isinstance(value, FromPython) or (isinstance(stored, dict) and stored.get("kind") == "python")


def restored(
    parts: Sequence[Part], own: Sequence[Guidance], given: Mapping[str, Any], run: str
) -> tuple[GuidanceSettings | Guidance, ...]:
    """What a run's file says of its guidance, with what was made in Python given again.

    `own` are the objects in their order, `given` the settings by flat name.
    """
    lacking = [name for name in from_python(parts) if name not in given and name != "guidance"]
    if lacking:
        raise ActionlessError(
            f"{run}: its {lacking[0]} was handed over from Python: "
            f"`actionless.resume('{run}', {lacking[0]}=...)` resumes it"
        )
    if stored := [name for name in given if name not in from_python(parts)]:
        raise ActionlessError(f"{run}: {stored[0]}: run.json holds this setting already; resume it without")
    names = [part.rpartition(".")[2] for part in parts if isinstance(part, FromPython)]
    if [type(each).__qualname__.rpartition(".")[2] for each in own] != names:
        needed = f"give {', '.join(names)} again: " if names else "it has no guidance from Python: "
        call = f"`actionless.resume('{run}'{', guidance=[...]' if names else ''})`"
        raise ActionlessError(f"{run}: {needed}{call} resumes it")
    waiting = iter(own)
    filled = tuple(part if isinstance(part, GuidanceSettings) else next(waiting) for part in parts)
    return changed(_Together(filled), given, "this run's guidance").guidance


def created(parts: Sequence[Part], context: GuidanceContext) -> list[Guidance]:
    """The guidance of a run."""
    made = [part.create(context) if isinstance(part, GuidanceSettings) else part for part in parts]
    assert not any(isinstance(each, FromPython) for each in made), "what was made in Python is restored first"
    return [each for each in made if isinstance(each, Guidance)]


def sentences(mean: Mean) -> list[str]:
    """What each kind did in some runs, from their metrics."""
    said = [kind.in_words(mean) for kind in KINDS.values() if kind.in_words is not None]
    return [sentence for sentence in said if sentence is not None]


def named(stored: Sequence[Mapping[str, Any]]) -> tuple[str, bool]:
    """What a report calls the guidance that run.json holds, and whether an agent with it is a guided one."""
    known = {to_json(kind.preset("cpu"))["kind"]: name for name, kind in KINDS.items()}
    names = [known.get(str(part["kind"]), str(part.get("name", "")).rpartition(".")[2]) for part in stored]
    guides = any(name not in KINDS or KINDS[name].guides for name in names)
    if not names:
        return "alone", False
    return (f"guided by {' and '.join(names)}", True) if guides else ("alone, in the log's units", False)


def need_guide(parts: Sequence[Part]) -> bool:
    """Whether any of it is made from the guide's run."""
    return any(isinstance(part, GuidanceSettings) for part in parts)


def reads_log(parts: Sequence[Part]) -> bool:
    """Whether any of it learns from the guide's log."""
    return any(part.reads_log for part in parts if isinstance(part, GuidanceSettings))


def memory(parts: Sequence[Part], spec: Spec, kept: int, logged: int) -> int:
    """Bytes that all of it takes beside a replay of `kept` transitions, where the guide's log has `logged`."""
    return sum(part.memory(spec, kept, logged) for part in parts if isinstance(part, GuidanceSettings))
