"""The charts of each verb as data, with curves from the runs. `page.py` and `figures.py` draw them."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from actionless.reporting.curves import MeanCurve, common_steps, laid_over, mean_curve, thinned
from actionless.reporting.groups import Group, Section
from actionless.reporting.records import Curve

Dash = Literal["solid", "dash"]

# Okabe and Ito's colours, which colour-blind readers can distinguish. The blue is a little lighter, for dark pages.
PALETTE = ("#1380c4", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6642", "#8c8c8c")

STEPS = {"train": "environment steps", "pretrain": "updates"}

_REALISED = "guide/realised/"
_MEASURED = ("eval/", "heldout/", "train/", "q/")
"""Prefixes of metrics measured at a single step, which are drawn unchanged. Others are means since the last row."""


@dataclass(frozen=True)
class Plotted:
    """A metric, and the name of its line if the chart shows several metrics."""

    metric: str
    name: str = ""
    dash: Dash = "solid"


@dataclass(frozen=True)
class ChartDefinition:
    """A chart that is drawn if any run has one of its metrics."""

    key: str
    title: str
    caption: str
    y: str
    plotted: tuple[Plotted, ...]


_TRAIN = (
    ChartDefinition(
        "return",
        "Return in evaluation",
        "Mean return of the evaluation episodes: the agent's best actions, without a guide. Higher is better.",
        "return per episode",
        (Plotted("eval/return"),),
    ),
    ChartDefinition(
        "episode-return",
        "Return while learning",
        "Return of the training episodes, with exploration and guided steps.",
        "return per episode",
        (Plotted("episode/return"),),
    ),
    ChartDefinition(
        "guided-share",
        "Share of guided steps",
        "Share of steps in which the guide acted, and β, the probability that it acts. It never acts during the random "
        "steps at the start.",
        "share of steps",
        (Plotted("guided_share", "guided share"), Plotted("beta", "β", "dash")),
    ),
    ChartDefinition(
        "reward",
        "Reward of guided and own steps",
        "Mean reward of the guide's steps and of the agent's own steps. Where the agent's own is higher, the agent is "
        "now better than its guide, or the guide never helped.",
        "reward per step",
        (Plotted("guide/reward", "guided"), Plotted("guide/own_reward", "own", "dash")),
    ),
    ChartDefinition(
        "idm-loss",
        "Loss of the inverse dynamics model",
        "Distance of its action from the action taken (seen online), and from the agent's own action in the log's "
        "states (on the log). Lower is better; the second changes as the agent changes.",
        "loss",
        (Plotted("idm/online_loss", "seen online"), Plotted("idm/offline_loss", "on the log", "dash")),
    ),
    ChartDefinition(
        "realised",
        "Realised Δs",
        "How often a variable moved as the guide proposed. Chance level is one third if three directions are equally "
        "frequent.",
        "share of variables",
        (Plotted("guide/realised"),),
    ),
    ChartDefinition(
        "missed",
        "Distance to the plan",
        "Distance between the state reached and the state that a guide planned. It falls while the agent learns "
        "to follow the plan.",
        "standard deviations of the variables",
        (Plotted("guide/missed"),),
    ),
    ChartDefinition(
        "potential",
        "The potential's share of what is learnt from",
        "How much of the rewards that the agent learns from, by size, comes from the potential; and whether it is used "
        "(1) or suspended (0), because steps near the log do not pay what the log says.",
        "share",
        (Plotted("potential/share", "share"), Plotted("potential/used", "used", "dash")),
    ),
    ChartDefinition(
        "distance",
        "Distance from the log",
        "Distance from the log of the states that the agent reaches. Below 0.2 they are as close as the log's own "
        "states; above 1 the potential says little.",
        "standard deviations of each variable",
        (Plotted("potential/distance"),),
    ),
    ChartDefinition(
        "recovered",
        "Recovered actions",
        "Share of the log's rows on whose actions the models agree, and how far their actions are from the agent's own "
        "where both are known.",
        "share; error of actions in −1 … 1",
        (Plotted("relabel/agreed", "agreed on"), Plotted("relabel/error", "error", "dash")),
    ),
    ChartDefinition(
        "loss",
        "Loss of the agent's critic",
        "Error of its values against their own targets. It may grow with the values and says little by itself.",
        "loss",
        (Plotted("loss"),),
    ),
    ChartDefinition(
        "q-mean",
        "Values learned by the agent",
        "Mean Q in the training batches: the discounted return that the agent expects.",
        "discounted return",
        (Plotted("q_mean"),),
    ),
)

_PRETRAIN = (
    ChartDefinition(
        "accuracy",
        "Accuracy of proposed Δs",
        "Share of variables whose proposed direction is the one that happened. A method that learns from rewards may "
        "rightly propose something else.",
        "share of variables",
        (Plotted("heldout/accuracy", "held out"), Plotted("train/accuracy", "training data")),
    ),
    ChartDefinition(
        "error",
        "Error of proposed Δs",
        "Distance between proposed and observed Δs, summed over the variables. Lower is closer to the log.",
        "bins per step",
        (Plotted("heldout/error", "held out"), Plotted("train/error", "training data")),
    ),
    ChartDefinition(
        "action-error",
        "Error of actions",
        "Mean distance between the policy's action and the log's. Lower is closer to the log.",
        "distance per action dimension",
        (Plotted("heldout/action_error", "held out"), Plotted("train/action_error", "training data")),
    ),
    ChartDefinition(
        "values",
        "Values and observed returns",
        "Mean Q of the proposed Δs, and the mean discounted return that followed in the log. If Q is far above that "
        "return, it is overestimated.",
        "discounted return",
        (Plotted("q/mean", "Q"), Plotted("q/data_return", "log", "dash")),
    ),
    ChartDefinition(
        "loss",
        "Loss",
        "The training objective; for methods that learn values, TD loss + α · penalty.",
        "loss",
        (Plotted("loss"),),
    ),
    ChartDefinition(
        "td-loss",
        "TD loss",
        "Mean squared (or Huber) error of the values against their own targets. It grows with the values.",
        "TD loss",
        (Plotted("td_loss"),),
    ),
    ChartDefinition(
        "penalty",
        "Penalty",
        "Cross-entropy of the log's own Δs under the policy. Lower means closer to the log.",
        "penalty in nats",
        (Plotted("penalty"),),
    ),
)

_DEFINITIONS = {"train": _TRAIN, "pretrain": _PRETRAIN}


@dataclass(frozen=True)
class Line:
    """A group's curve of one metric."""

    label: str
    colour: str
    dash: Dash
    seeds: tuple[Curve, ...]
    mean: MeanCurve | None
    """None if the seeds have no step in common."""


@dataclass(frozen=True)
class LineChart:
    """The curves of several groups over steps."""

    key: str
    title: str
    caption: str
    x: str
    y: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class HeatMap:
    """A share per variable and step."""

    key: str
    title: str
    caption: str
    x: str
    steps: Int[np.ndarray, " steps"]
    variables: tuple[str, ...]
    shares: Float[np.ndarray, "variables steps"]


Chart = LineChart | HeatMap


def colours(sections: list[Section]) -> dict[str, dict[str, str]]:
    """For each verb, one colour per label, the same in all its sections."""
    chosen = {}
    for verb in dict.fromkeys(section.verb for section in sections):
        labels = sorted({group.label for section in sections for group in section.groups if section.verb == verb})
        chosen[verb] = {label: PALETTE[index % len(PALETTE)] for index, label in enumerate(labels)}
    return chosen


def charts_of(section: Section, colour: dict[str, str]) -> list[Chart]:
    """The charts for which the section's runs have metrics."""
    charts: list[Chart] = []
    x = STEPS.get(section.verb, "steps")
    if any(group.from_log for group in section.groups):
        x += "; below 0, updates from the log"
    for definition in _DEFINITIONS.get(section.verb, ()):
        lines = [
            _line(group, plotted, colour[group.label], with_name=_present(section, definition) > 1)
            for group in section.groups
            for plotted in definition.plotted
            if group.curves(plotted.metric)
        ]
        if lines:
            charts.append(
                LineChart(definition.key, definition.title, definition.caption, x, definition.y, tuple(lines))
            )
        if definition.key == "realised":
            charts += [chart for group in section.groups if (chart := _heat_map(group, len(section.groups), x))]
    return charts


def _present(section: Section, definition: ChartDefinition) -> int:
    return sum(any(group.curves(plotted.metric) for group in section.groups) for plotted in definition.plotted)


def _line(group: Group, plotted: Plotted, colour: str, *, with_name: bool) -> Line:
    curves = group.curves(plotted.metric)
    seeds = curves if plotted.metric.startswith(_MEASURED) else [thinned(curve) for curve in curves]
    label = f"{group.label}: {plotted.name}" if with_name else group.label
    shade = colour if plotted.dash == "solid" else _muted(colour)
    return Line(label, shade, plotted.dash, tuple(seeds), mean_curve(seeds))


def _muted(colour: str) -> str:
    """Half-way to grey: a group's two metrics may cross, and dashes alone do not distinguish them well."""
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
    caption = "How often each variable moved as proposed in guided steps; mean of the seeds."
    return HeatMap(f"realised-{slug(group.label)}", title, caption, x, steps, variables, shares)


def slug(text: str) -> str:
    """The letters and digits of a text, joined by hyphens: safe as a file name."""
    return "-".join("".join(letter if letter.isalnum() else " " for letter in text).split())
