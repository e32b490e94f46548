"""Group runs that differ only in their seed, and find the settings in which the groups differ."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actionless.guidance.kinds import named
from actionless.reporting.records import Curve, Record

_NO_EFFECT_ON_RESULTS = ("sinks", "loop.checkpoint_seconds", "loop.resident_gb", "loop.snapshots")


@dataclass(frozen=True)
class Group:
    """Runs with the same settings and different seeds."""

    label: str
    settings: dict[str, Any]
    records: tuple[Record, ...]
    guided: bool = False
    """Whether something learnt offline helped its agents, beyond units."""

    def curves(self, metric: str) -> list[Curve]:
        """The curve of a metric in each run that has it."""
        return [record.metrics[metric] for record in self.records if metric in record.metrics]

    @property
    def from_log(self) -> int:
        """Number of updates that its runs make before their first step in the environment."""
        return self.records[0].from_log

    @property
    def unfinished(self) -> int:
        """Number of runs that are not finished."""
        return sum(record.result is None for record in self.records)


@dataclass(frozen=True)
class Section:
    """Groups that can share a chart: same verb, and same environment or same log.

    Runs of `finetune` are in the same section as runs of `train`, because they act in the same environment.
    """

    verb: str
    title: str
    groups: tuple[Group, ...]


def make_sections(records: Sequence[Record]) -> tuple[list[Section], list[str]]:
    """Sections in order (training by environment, then pre-training by log), and notes about runs left out."""
    grouped: dict[str, list[Record]] = {}
    notes = []
    for record in sorted(records, key=lambda record: record.manifest.seed):
        group = grouped.setdefault(json.dumps([record.manifest.verb, _settings(record)], sort_keys=True), [])
        twin = next((other for other in group if other.manifest.seed == record.manifest.seed), None)
        if twin is None:
            group.append(record)
        else:
            notes.append(f"{record.path} has the same settings and seed as {twin.path} and is left out.")
    by_topic: dict[tuple[str, str], list[list[Record]]] = {}
    for group in grouped.values():
        by_topic.setdefault((_section_verb(group[0]), _topic(group[0])), []).append(group)
    ordered = sorted(by_topic.items(), key=lambda item: (item[0][0] != "train", item[0]))
    titles = _titles([groups[0][0] for _, groups in ordered])
    sections = [
        Section(verb, title, _labelled(groups)) for title, ((verb, _), groups) in zip(titles, ordered, strict=True)
    ]
    return sections, notes


def differing(groups: Sequence[Group]) -> list[str]:
    """Names of the settings that differ between groups. Guidance's own are named, so the list of kinds is left out."""
    return [name for name in _differing([group.settings for group in groups]) if name != "guidance"]


def log_of(record: Record) -> dict[str, Any]:
    """What run.json says about the log that the run or its guide was trained on; empty if there is none."""
    data = record.manifest.data
    return data.get("guide", {}).get("data", {}) if "fingerprint" not in data else data


def _settings(record: Record) -> dict[str, Any]:
    settings = _flat(record.manifest.config)
    for name in _NO_EFFECT_ON_RESULTS:
        settings.pop(name, None)
    if isinstance(settings.get("guide"), str):
        # Each seed of an agent may use another seed of the guide.
        settings["guide"] = re.sub(r"/seed-\d+(/policy)?$", "/seed-*", settings["guide"])
    log = log_of(record)
    if log:
        settings["log.fingerprint"], settings["log.read"] = str(log.get("fingerprint"))[:16], log.get("read")
    if "guide" in record.manifest.data:
        settings["guide.method"] = record.manifest.data["guide"].get("method")
    return settings


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
            # Several of a kind of thing, such as guidance: each by the name of its kind.
            value = {str(part.get("kind", number)): part for number, part in enumerate(value)}
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _section_verb(record: Record) -> str:
    return "train" if record.manifest.verb == "finetune" else record.manifest.verb


def _topic(record: Record) -> str:
    """What runs must have in common to share a chart: the environment, or else the log."""
    return str(record.manifest.config.get("environment") or log_of(record).get("fingerprint", ""))


def _titles(records: list[Record]) -> list[str]:
    """The environment, or the name of the log; logs with the same name also show their fingerprints."""
    titles = [str(r.manifest.config.get("environment") or Path(log_of(r).get("path") or "log").stem) for r in records]
    pairs = [(_section_verb(record), title) for record, title in zip(records, titles, strict=True)]
    return [
        title if pairs.count(pair) == 1 else f"{title} ({_topic(record)[:8]})"
        for title, pair, record in zip(titles, pairs, records, strict=True)
    ]


def _labelled(groups: list[list[Record]]) -> tuple[Group, ...]:
    settings = [_settings(group[0]) for group in groups]
    kinds = [_kind(group[0]) for group in groups]
    names = [_name(group[0]) for group in groups]
    name_is_enough = len(set(kinds)) == 1 and not kinds[0][1]
    labels = names if name_is_enough else [f"{name} {kind}" for name, (kind, _) in zip(names, kinds, strict=True)]
    for name in _differing(settings):
        if len(set(labels)) == len(labels):
            break
        longer = [
            f"{label}, {name.rpartition('.')[2]} {shown(values.get(name))}"
            for label, values in zip(labels, settings, strict=True)
        ]
        if len(set(longer)) > len(set(labels)):
            labels = longer
    guided = [guided for _, guided in kinds]
    labelled = [Group(*parts) for parts in zip(labels, settings, map(tuple, groups), guided, strict=True)]
    return tuple(sorted(labelled, key=lambda group: group.label))


def _name(record: Record) -> str:
    config = record.manifest.config
    return str(config.get("agent") or config.get("method") or record.manifest.verb)


def _kind(record: Record) -> tuple[str, bool]:
    """How its agent learns, and whether it is guided."""
    if record.manifest.verb == "finetune":
        return "with actions", False
    return named(record.manifest.config.get("guidance") or [])


def _differing(settings: Sequence[dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for values in settings for name in values)
    return [name for name in names if len({json.dumps(values.get(name)) for values in settings}) > 1]


def shown(value: Any) -> str:
    """A setting as text for a table."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(shown(part) for part in value)
    return f"{value:,}" if isinstance(value, int) else str(value)
