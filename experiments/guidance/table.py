"""Curves and tables of whatever `run.py` has finished.

    python experiments/guidance/table.py RUNS

Writes curves.csv (every evaluation), table.md and table.csv (one row per agent, task, log and kind of guidance) and
curves.svg beside this file. Needs matplotlib.

Areas are means over all evaluations of a run. The interquartile mean of the runs' areas and the probability that a
guided run is above one alone have 95 % intervals, by bootstrap over runs. The score to reach is the mean of the
last three evaluations of the agents alone; steps to it are of the mean curve of each kind.
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
from run import ALONE, WAYS, agents

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


def groups(runs: Path) -> list[Group]:
    """Of finished runs."""
    found: dict[tuple[str, str, str, str], list[Curve]] = {}
    for agent in agents():
        run = agent.job(runs).out
        if not (run / "result.json").is_file():
            continue
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        points = [(row["step"], row["eval/return"]) for row in rows if "eval/return" in row]
        steps, returns = map(np.array, zip(*points, strict=True))
        found.setdefault((agent.name, agent.task, agent.level, agent.way), []).append(Curve(agent.seed, steps, returns))
    return [Group(*key, curves) for key, curves in found.items()]


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
            "log": "–" if group.way == ALONE else group.level,
            "guidance": TITLES.get(group.way, group.way),
            "runs": len(group.curves),
            "area": "; ".join(f"{area:,.0f}" for area in group.areas),
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
    """One panel per agent, task and log: each run thin, the mean of each kind thick."""
    mpl.rcParams["svg.hashsalt"] = "actionless"
    panels = list(dict.fromkeys((g.agent, g.task, g.level) for g in everything if g.way != ALONE))
    columns = min(3, max(1, len(panels)))
    lines = max(1, -(-len(panels) // columns))
    figure, axes = plt.subplots(lines, columns, figsize=(4.4 * columns, 3.3 * lines), squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis, (agent, task, level) in zip(axes.flat, panels, strict=False):
        for group in everything:
            if (group.agent, group.task) != (agent, task) or (group.way != ALONE and group.level != level):
                continue
            colour, (steps, mean) = COLOURS[group.way], group.mean
            for curve in group.curves:
                axis.plot(curve.steps / 1000, curve.returns, color=colour, alpha=0.25, linewidth=0.8)
            label = f"{TITLES.get(group.way, group.way)}, {len(group.curves)} seeds"
            axis.plot(steps / 1000, mean, color=colour, linewidth=2, label=label)
        axis.set_title(f"{agent.upper()}, {task}, {level} log", fontsize=10)
        axis.set_xlabel("environment steps (thousands)")
        axis.set_ylabel("return in evaluation")
        axis.legend(fontsize=7, frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(HERE / "curves.svg", metadata={"Date": None})


def write(name: str, rows: Sequence[dict[str, object]]) -> None:
    """As CSV beside this file."""
    with (HERE / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(runs: Path) -> None:
    """Write everything."""
    everything = groups(runs)
    rows = table(everything)
    write("table.csv", rows)
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    (HERE / "table.md").write_text("\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n")
    points = [
        {"agent": g.agent, "task": g.task, "log": g.level, "guidance": g.way, "seed": c.seed}
        | {"step": int(step), "return": round(float(value), 2)}
        for g in everything
        for c in g.curves
        for step, value in zip(c.steps, c.returns, strict=True)
    ]
    write("curves.csv", points)
    draw(everything)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
