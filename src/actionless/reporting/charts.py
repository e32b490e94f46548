"""What is drawn, whoever draws it: the charts of each verb as data, and their curves from the runs."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from actionless.reporting.curves import MeanCurve, common_steps, laid_over, mean_curve, thinned
from actionless.reporting.groups import Group, Section
from actionless.reporting.records import Curve

Dash = Literal["solid", "dash"]

# Okabe and Ito's colours, which colour-blind readers tell apart; the blue a little lighter, for dark pages.
PALETTE = ("#1380c4", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6642", "#8c8c8c")

STEPS = {"train": "environment steps", "pretrain": "updates"}

_REALISED = "guide/realised/"
_MEASURED = ("eval/", "heldout/", "train/", "q/")
"""Measured at their step, where other metrics are means since the row before: these are drawn as they are."""


@dataclass(frozen=True)
class Plotted:
    """A metric, and what its line is called beside the lines of other metrics in the same chart."""

    metric: str
    name: str = ""
    dash: Dash = "solid"


@dataclass(frozen=True)
class Plan:
    """A chart to be drawn where there is something to draw."""

    key: str
    title: str
    caption: str
    y: str
    plotted: tuple[Plotted, ...]


_TRAIN = (
    Plan(
        "return",
        "Return in evaluation",
        "Mean return of the evaluation episodes: the agent's best actions, without a guide. Higher is better.",
        "return per episode",
        (Plotted("eval/return"),),
    ),
    Plan(
        "episode-return",
        "Return while learning",
        "Episodes as they were lived through, exploration and guided steps included.",
        "return per episode",
        (Plotted("episode/return"),),
    ),
    Plan(
        "guided-share",
        "Share of guided steps",
        "How many of the steps the guide took, and β, the probability it was to take each with. It is silent during "
        "the random steps at the beginning.",
        "share of steps",
        (Plotted("guided_share", "guided share"), Plotted("beta", "β", "dash")),
    ),
    Plan(
        "reward",
        "Reward of guided and own steps",
        "Mean reward of a step that the guide took, and of one that the agent took itself. Where the agent's own "
        "is higher, it has outgrown its guide, or the guide was never any good.",
        "reward per step",
        (Plotted("guide/reward", "guided"), Plotted("guide/own_reward", "own", "dash")),
    ),
    Plan(
        "idm-loss",
        "Loss of the inverse dynamics model",
        "How far its action is from the one taken (seen online), and from the agent's own in the log's states (on the "
        "log). Lower is better; the second moves as the agent does.",
        "loss",
        (Plotted("idm/online_loss", "seen online"), Plotted("idm/offline_loss", "on the log", "dash")),
    ),
    Plan(
        "realised",
        "Realised Δs",
        "How often a variable moved as the guide had proposed. Chance is a third where three directions are equally "
        "common.",
        "share of variables",
        (Plotted("guide/realised"),),
    ),
    Plan(
        "missed",
        "Distance to the plan",
        "How far steps led from where a guide of afdt had planned them to. It falls while the agent learns to follow.",
        "units of the variables' spread",
        (Plotted("guide/missed"),),
    ),
    Plan(
        "loss",
        "Loss of the agent's critic",
        "The error of its values against their own targets: it may grow with the values, and says little by itself.",
        "loss",
        (Plotted("loss"),),
    ),
    Plan(
        "q-mean",
        "Values that the agent believes in",
        "Mean Q in the training batches: what the agent expects to collect, discounted.",
        "discounted return",
        (Plotted("q_mean"),),
    ),
)

_PRETRAIN = (
    Plan(
        "accuracy",
        "Accuracy of proposed Δs",
        "Share of variables whose direction is proposed as it happened. Values learnt from rewards may rightly propose "
        "something else.",
        "share of variables",
        (Plotted("heldout/accuracy", "held out"), Plotted("train/accuracy", "training data")),
    ),
    Plan(
        "error",
        "Error of proposed Δs",
        "Distance between proposed and observed Δs, summed over the variables. Lower is closer to the log.",
        "bins per step",
        (Plotted("heldout/error", "held out"), Plotted("train/error", "training data")),
    ),
    Plan(
        "action-error",
        "Error of actions",
        "Mean distance between the policy's action and the log's. Lower is closer to the log.",
        "distance per action dimension",
        (Plotted("heldout/action_error", "held out"), Plotted("train/action_error", "training data")),
    ),
    Plan(
        "values",
        "Values beside observed returns",
        "Mean Q of the proposed Δs, and the mean discounted return that followed in the log. Q far above it "
        "is overestimated.",
        "discounted return",
        (Plotted("q/mean", "Q"), Plotted("q/data_return", "log", "dash")),
    ),
    Plan("loss", "Loss", "What is minimised: with values, TD loss + α · penalty.", "loss", (Plotted("loss"),)),
    Plan(
        "td-loss",
        "TD loss",
        "Mean squared (or Huber) error of the values against their own targets; it grows with the values.",
        "TD loss",
        (Plotted("td_loss"),),
    ),
    Plan(
        "penalty",
        "Penalty",
        "How surprising the log's own Δs are to the policy: their cross-entropy. Lower stays closer to the log.",
        "penalty in nats",
        (Plotted("penalty"),),
    ),
)

_PLANS = {"train": _TRAIN, "pretrain": _PRETRAIN}


@dataclass(frozen=True)
class Line:
    """A group's curve of one metric."""

    label: str
    colour: str
    dash: Dash
    seeds: tuple[Curve, ...]
    mean: MeanCurve | None
    """None where the seeds have no step in common."""


@dataclass(frozen=True)
class LineChart:
    """Curves of groups over steps."""

    key: str
    title: str
    caption: str
    x: str
    y: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class HeatMap:
    """A share for each variable over steps."""

    key: str
    title: str
    caption: str
    x: str
    steps: Int[np.ndarray, " steps"]
    variables: tuple[str, ...]
    shares: Float[np.ndarray, "variables steps"]


Chart = LineChart | HeatMap


def colours(sections: list[Section]) -> dict[str, dict[str, str]]:
    """For each verb, one colour for a label, whichever of its sections the label stands in."""
    chosen = {}
    for verb in dict.fromkeys(section.verb for section in sections):
        labels = sorted({group.label for section in sections for group in section.groups if section.verb == verb})
        chosen[verb] = {label: PALETTE[index % len(PALETTE)] for index, label in enumerate(labels)}
    return chosen


def charts_of(section: Section, colour: dict[str, str]) -> list[Chart]:
    """The charts that the section's runs have metrics for."""
    charts: list[Chart] = []
    x = STEPS.get(section.verb, "steps")
    if any(group.from_log for group in section.groups):
        x += "; below 0, updates from the log"
    for plan in _PLANS.get(section.verb, ()):
        lines = [
            _line(group, plotted, colour[group.label], with_name=_present(section, plan) > 1)
            for group in section.groups
            for plotted in plan.plotted
            if group.curves(plotted.metric)
        ]
        if lines:
            charts.append(LineChart(plan.key, plan.title, plan.caption, x, plan.y, tuple(lines)))
        if plan.key == "realised":
            charts += [chart for group in section.groups if (chart := _heat_map(group, len(section.groups), x))]
    return charts


def _present(section: Section, plan: Plan) -> int:
    return sum(any(group.curves(plotted.metric) for group in section.groups) for plotted in plan.plotted)


def _line(group: Group, plotted: Plotted, colour: str, *, with_name: bool) -> Line:
    curves = group.curves(plotted.metric)
    seeds = curves if plotted.metric.startswith(_MEASURED) else [thinned(curve) for curve in curves]
    label = f"{group.label}: {plotted.name}" if with_name else group.label
    shade = colour if plotted.dash == "solid" else _muted(colour)
    return Line(label, shade, plotted.dash, tuple(seeds), mean_curve(seeds))


def _muted(colour: str) -> str:
    """Half-way to grey: a group's second metric crosses its first, and dashes alone do not part them."""
    parts = [(int(colour[start : start + 2], 16) + 0x88) // 2 for start in (1, 3, 5)]
    return "#" + "".join(f"{part:02x}" for part in parts)


def _heat_map(group: Group, groups: int, x: str) -> HeatMap | None:
    names = dict.fromkeys(name for record in group.records for name in record.metrics if name.startswith(_REALISED))
    curves = {name: [thinned(curve) for curve in group.curves(name)] for name in names}
    steps = common_steps([curve for several in curves.values() for curve in several])
    if len(steps) == 0:
        return None
    shares = np.stack([laid_over(several, steps).mean(axis=0) for several in curves.values()])
    variables = tuple(name.removeprefix(_REALISED) for name in names)
    title = "Realised Δs of each variable" + (f": {group.label}" if groups > 1 else "")
    caption = "How often each variable moved as proposed, in guided steps; the mean of the seeds."
    return HeatMap(f"realised-{slug(group.label)}", title, caption, x, steps, variables, shares)


def slug(text: str) -> str:
    """Letters and digits, fit for the name of a file."""
    return "-".join("".join(letter if letter.isalnum() else " " for letter in text).split())
