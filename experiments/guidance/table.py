"""Curves and tables of whatever `run.py` has finished.

    python experiments/guidance/table.py [RUNS]

Adds the finished runs of RUNS to curves.csv, which has every evaluation of every run. Writes table.md, ablations.md,
wrong_logs.md, table.csv (one row per agent, task, log and kind of guidance) and curves.svg beside this file. Needs
matplotlib.

Areas are means over all evaluations of a run. The interquartile mean of the runs' areas and the probability that a
guided run is above one alone have 95 % intervals, by bootstrap over runs. The score to reach is the mean of the
last three evaluations of the agents alone; the steps to it are where the mean curve of a group first reaches it.
"""

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from run import ABLATIONS, ALONE, LEVELS, WAYS, Agent, agents

from actionless.analysis.statistics import Estimate, aggregate, probability_of_improvement

HERE = Path(__file__).parent
COLOURS = dict(zip(WAYS, ("#888888", "#1b9e77", "#7570b3", "#e6ab02", "#d95f02"), strict=True))
TITLES = {ALONE: "alone", "paper": "paper's switch", "both": "potential and relabel (default)"}


class Curve(NamedTuple):
    """Evaluations of one run."""

    seed: int
    steps: np.ndarray
    returns: np.ndarray


class Group(NamedTuple):
    """Runs that differ in their seed alone."""

    agent: str
    task: str
    level: str
    way: str
    curves: list[Curve]

    @property
    def areas(self) -> np.ndarray:
        """Mean return over each run."""
        return np.array([curve.returns.mean() for curve in self.curves])

    @property
    def is_alone(self) -> bool:
        """Whether nothing but units comes from a log."""
        return Agent(self.agent, self.task, self.level, self.way, 0).is_alone

    @property
    def kind(self) -> str:
        """The table that it belongs to."""
        if self.way in ABLATIONS:
            return "ablations"
        return "wrong logs" if self.level not in LEVELS else "main"

    @property
    def mean(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps, and the mean return at each."""
        return self.curves[0].steps, np.mean([curve.returns for curve in self.curves], axis=0)

    @property
    def final(self) -> float:
        """Mean of the last three evaluations."""
        return float(np.mean([curve.returns[-3:].mean() for curve in self.curves]))

    def steps_to(self, score: float) -> int | None:
        """The first evaluation at which the mean curve is at or above a score."""
        steps, returns = self.mean
        reached = returns >= score
        return int(steps[reached.argmax()]) if reached.any() else None


def groups(runs: Path | None) -> list[Group]:
    """Of finished runs, and of those that curves.csv has from before."""
    curves = recorded()
    for agent in agents() if runs is not None else ():
        run = agent.job(runs).out
        if not (run / "result.json").is_file():
            continue
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        points = [(row["step"], round(row["eval/return"], 2)) for row in rows if "eval/return" in row]
        steps, returns = map(np.array, zip(*points, strict=True))
        curves[agent] = Curve(agent.seed, steps, returns)
    found: dict[tuple[str, str, str, str], list[Curve]] = {}
    for agent in agents():
        if agent in curves:
            found.setdefault((agent.name, agent.task, agent.level, agent.way), []).append(curves[agent])
    return [Group(*key, sorted(curves, key=lambda curve: curve.seed)) for key, curves in found.items()]


def recorded() -> dict[Agent, Curve]:
    """The curves in curves.csv."""
    file = HERE / "curves.csv"
    points: dict[Agent, list[tuple[int, float]]] = {}
    if file.exists():
        with file.open() as rows:
            for row in csv.DictReader(rows):
                agent = Agent(row["agent"], row["task"], row["log"], row["guidance"], int(row["seed"]))
                points.setdefault(agent, []).append((int(row["step"]), float(row["return"])))
    return {agent: Curve(agent.seed, *map(np.array, zip(*own, strict=True))) for agent, own in points.items()}


def alone_of(group: Group, everything: Sequence[Group]) -> Group | None:
    """The agents alone that a group is compared with."""
    return next((g for g in everything if (g.agent, g.task, g.way) == (group.agent, group.task, ALONE)), None)


def interval(estimate: Estimate, digits: int) -> str:
    """A value with its interval."""
    value, low, high = (f"{float(x):,.{digits}f}" for x in (estimate.value, estimate.low, estimate.high))
    return f"{value} ({low} to {high})"


def table(everything: Sequence[Group]) -> list[dict[str, object]]:
    """One row per group."""
    rows = []
    for group in everything:
        alone = alone_of(group, everything)
        row: dict[str, object] = {
            "agent": group.agent,
            "task": group.task,
            "log": "–" if group.is_alone else group.level,
            "guidance": TITLES.get(group.way, group.way),
            "runs": len(group.curves),
            "area of each": "; ".join(f"{area:,.0f}" for area in group.areas),
            "IQM of areas": interval(aggregate(group.areas[:, None]), 0) if len(group.curves) > 1 else "–",
            "last three evaluations": f"{group.final:,.0f}",
            "probability of improvement": "–",
            "steps to the score alone": "–",
        }
        if alone is not None:
            reached = group.steps_to(alone.final)
            row["steps to the score alone"] = "not reached" if reached is None else f"{reached:,}"
            if group.way != ALONE and min(len(group.curves), len(alone.curves)) > 1:
                better = probability_of_improvement(group.areas[:, None], alone.areas[:, None])
                row["probability of improvement"] = interval(better, 2)
        rows.append(row)
    return rows


def draw(everything: Sequence[Group]) -> None:
    """One panel per agent, task and log: the mean of each kind, and its 95 % interval where there are three runs."""
    mpl.rcParams["svg.hashsalt"] = "actionless"
    shown = [group for group in everything if group.kind == "main"]
    panels = list(dict.fromkeys((g.agent, g.task, g.level) for g in shown if not g.is_alone))
    columns = min(4, max(1, len(panels)))
    lines = max(1, -(-len(panels) // columns))
    figure, axes = plt.subplots(lines, columns, figsize=(4.2 * columns, 3.2 * lines), squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis, (agent, task, level) in zip(axes.flat, panels, strict=False):
        for group in shown:
            if (group.agent, group.task) != (agent, task) or not (group.is_alone or group.level == level):
                continue
            colour, (steps, mean) = COLOURS[group.way], group.mean
            label = f"{TITLES.get(group.way, group.way)} ({len(group.curves)})"
            axis.plot(steps / 1000, mean, color=colour, linewidth=2, label=label)
            if len(group.curves) > 2:
                returns = np.array([curve.returns for curve in group.curves])
                band = aggregate(returns[:, None], "mean", resamples=2000)
                axis.fill_between(steps / 1000, band.low, band.high, color=colour, alpha=0.2, linewidth=0)
        axis.set_title(f"{agent.upper()}, {task}, {level} log", fontsize=10)
        axis.set_xlabel("environment steps (thousands)")
        axis.set_ylabel("return in evaluation")
        low, high = axis.get_ylim()
        axis.set_ylim(low, high + 0.4 * (high - low))  # room for the legend
        axis.legend(loc="upper left", fontsize=7, frameon=False, title="mean (runs), 95 % interval", title_fontsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(HERE / "curves.svg", metadata={"Date": None})


def write(name: str, rows: Sequence[dict[str, object]]) -> None:
    """As CSV beside this file."""
    with (HERE / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_markdown(name: str, rows: Sequence[dict[str, object]]) -> None:
    """As a table beside this file; none where there is nothing to say."""
    if rows:
        lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
        (HERE / name).write_text("\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n")


def _is_reference(group: Group) -> bool:
    """What ablations and logs that mislead are compared with: alone, and the default on the medium log."""
    return group.way == ALONE or (group.way, group.level) == ("both", "medium")


def main(runs: Path | None) -> None:
    """Write everything."""
    everything = groups(runs)
    rows = table(everything)
    write("table.csv", rows)
    kinds = {g.kind for g in everything}
    write_markdown("table.md", [row for row, g in zip(rows, everything, strict=True) if g.kind == "main"])
    for kind, name in (("ablations", "ablations.md"), ("wrong logs", "wrong_logs.md")):
        tasks = {(g.agent, g.task) for g in everything if g.kind == kind}
        beside = [g.kind == kind or ((g.agent, g.task) in tasks and _is_reference(g)) for g in everything]
        if kind in kinds:
            write_markdown(name, [row for row, belongs in zip(rows, beside, strict=True) if belongs])
    points = [
        {"agent": g.agent, "task": g.task, "log": g.level, "guidance": g.way, "seed": c.seed}
        | {"step": int(step), "return": float(value)}
        for g in everything
        for c in g.curves
        for step, value in zip(c.steps, c.returns, strict=True)
    ]
    write("curves.csv", points)
    draw(everything)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
