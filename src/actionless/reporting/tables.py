"""The tables of the report, as rows of text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from actionless.reporting.charts import STEPS
from actionless.reporting.curves import MeanCurve, mean_curve
from actionless.reporting.groups import Group, Section, differing, log_of, shown
from actionless.reporting.records import Curve

_NONE = "–"

_PRETRAIN_COLUMNS = (
    ("heldout/accuracy", "held-out accuracy"),
    ("train/accuracy", "training accuracy"),
    ("heldout/error", "held-out Δs error"),
    ("heldout/action_error", "held-out action error"),
    ("q/mean", "Q"),
    ("q/data_return", "return of the log"),
    ("loss", "loss"),
)


@dataclass(frozen=True)
class Table:
    """A header, and rows of the same width. The first column names the row."""

    header: list[str]
    rows: list[list[str]]


def summary(section: Section) -> Table:
    """One row of results per group."""
    return _train_summary(section) if section.verb == "train" else _pretrain_summary(section)


def _train_summary(section: Section) -> Table:
    guided = any(group.guided for group in section.groups)
    from_log = any(group.from_log for group in section.groups)
    header = ["group", "seeds", "steps", "final return", "best of the mean", "average return (area)"]
    header += ["return from the log alone"] * from_log + ["steps to match the unguided agent's final return"] * guided
    rows = []
    for group in section.groups:
        curve = mean_curve([since_acting(curve) for curve in group.curves("eval/return")])
        row = [group.label, seeds_of(group), f"{max(0, min(record.step for record in group.records)):,}"]
        row += [_NONE] * 3 if curve is None else [_with_error(curve, -1), _best(curve), number(area(curve))]
        if from_log:
            row.append(_NONE if curve is None or curve.steps[0] != 0 else _with_error(curve, 0))
        rows.append([*row, _steps_to_unguided_return(group, section)] if guided else row)
    return Table(header, rows)


def since_acting(curve: Curve) -> Curve:
    """Without the measurements from before the agent's first step in the environment, except the last one."""
    acting = curve.steps >= 0
    return Curve(curve.steps[acting], curve.values[acting])


def _pretrain_summary(section: Section) -> Table:
    columns = [(m, title) for m, title in _PRETRAIN_COLUMNS if any(group.curves(m) for group in section.groups)]
    rows = []
    for group in section.groups:
        row = [group.label, seeds_of(group), f"{min(record.step for record in group.records):,}"]
        curves = [mean_curve(group.curves(metric)) for metric, _ in columns]
        rows.append(row + [_NONE if curve is None else _with_error(curve, -1) for curve in curves])
    return Table(["group", "seeds", STEPS.get(section.verb, "steps"), *(title for _, title in columns)], rows)


def area(curve: MeanCurve) -> float:
    """Area under the curve divided by its length in steps: the average return during training."""
    span = float(curve.steps[-1] - curve.steps[0])
    return float(np.trapezoid(curve.mean, curve.steps)) / span if span else float(curve.mean[-1])


def steps_to_reach(curve: MeanCurve, level: float) -> int | None:
    """The first step at which the mean reached `level`."""
    reached = np.flatnonzero(curve.mean >= level)
    return int(curve.steps[reached[0]]) if len(reached) else None


def _steps_to_unguided_return(group: Group, section: Section) -> str:
    """Steps to reach the final return of the finished group that differs in its guidance alone.

    One that sees states in the same units is preferred: what units gain is not counted as guidance.
    """
    if not group.guided:
        return _NONE
    same = [o for o in section.groups if not (o.guided or o.unfinished) and _unguided(o) == _unguided(group)]
    alone = max(same, key=lambda o: _in_units(o) == _in_units(group), default=None)
    ours, theirs = mean_curve(group.curves("eval/return")), mean_curve(alone.curves("eval/return")) if alone else None
    if ours is None or theirs is None:
        return _NONE
    step = steps_to_reach(ours, float(theirs.mean[-1]))
    return f"not reached ({number(theirs.mean[-1])})" if step is None else f"{step:,} of {theirs.steps[-1]:,}"


def _in_units(group: Group) -> bool:
    return bool(group.settings.get("learner.standardise"))


def _unguided(group: Group) -> dict[str, Any]:
    """The settings that have nothing to do with guidance, or with what it changes of the agent."""
    ignored = ("guidance.", "guide.", "log.")
    changed = ("guide", "guidance", "learner.standardise", "learner.layer_norm")
    return {k: value for k, value in group.settings.items() if not k.startswith(ignored) and k not in changed}


def seeds_of(group: Group) -> str:
    """Number of seeds, and how many of them are unfinished."""
    return f"{len(group.records)}" + (f", {group.unfinished} unfinished" if group.unfinished else "")


def _with_error(curve: MeanCurve, index: int) -> str:
    value = number(curve.mean[index])
    return value if curve.error is None else f"{value} ± {number(curve.error[index])}"


def _best(curve: MeanCurve) -> str:
    index = int(curve.mean.argmax())
    return f"{number(curve.mean[index])} at {curve.steps[index]:,}"


def number(value: float) -> str:
    """Three significant digits, or all digits before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def settings_that_differ(sections: Sequence[Section]) -> Table | None:
    """One row per setting, one column per group; None if there is only one group or nothing differs."""
    named = [(f"{section.title}: {group.label}", group) for section in sections for group in section.groups]
    names = differing([group for _, group in named])
    if not names:
        return None
    rows = [[name, *(shown(group.settings.get(name)) for _, group in named)] for name in names]
    return Table(["setting", *(title for title, _ in named)], rows)


def settings_in_common(sections: Sequence[Section]) -> Table:
    """The settings that are the same in every group."""
    groups = [group for section in sections for group in section.groups]
    names = [name for name in groups[0].settings if name not in differing(groups)]
    return Table(["setting", "value"], [[name, shown(groups[0].settings[name])] for name in names])


def logs(sections: Sequence[Section]) -> Table | None:
    """All logs that were used for training; None if there are none."""
    used: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for section in sections:
        for group in section.groups:
            log = log_of(group.records[0])
            if log:
                _, users = used.setdefault(str(log.get("fingerprint")), (log, []))
                users.append(f"{section.title}: {group.label}")
    rows = [[*_described(log), "; ".join(users)] for log, users in used.values()]
    header = ["log", "format", "transitions", "episodes", "read from it", "fingerprint", "used by"]
    return Table(header, rows) if rows else None


def _described(log: dict[str, Any]) -> list[str]:
    return [shown(log.get(name)) for name in ("path", "format", "transitions", "episodes", "read", "fingerprint")]


def runs(sections: Sequence[Section]) -> Table:
    """All runs, with their progress."""
    rows = []
    for section in sections:
        for group in section.groups:
            for record in group.records:
                done = record.result
                state = "finished" if done else f"unfinished: {record.progress}"
                seconds = f"{done.seconds:,.0f} s" if done else _NONE
                seed, threads = shown(record.manifest.seed), shown(record.manifest.threads)
                rows.append([str(record.path), f"{section.title}: {group.label}", seed, state, seconds, threads])
    return Table(["run", "group", "seed", "state", "time", "threads"], rows)


def versions(sections: Sequence[Section]) -> Table:
    """Package versions of the runs."""
    records = [record for section in sections for group in section.groups for record in group.records]
    names = dict.fromkeys(name for record in records for name in record.manifest.versions)
    found = {name: sorted({record.manifest.versions.get(name, _NONE) for record in records}) for name in names}
    return Table(["package", "version"], [[name, ", ".join(several)] for name, several in found.items()])
