"""Curves and a table from what `run.py` and `peer.py` left.

    python experiments/online/table.py RUNS PEER

Writes curves.csv (every evaluation), table.csv (one row per run) and curves.svg beside this file. Needs matplotlib.
"""

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
WAYS = {"alone": "#888888", "guided": "#d95f02", "stable-baselines3": "#1b9e77"}


class Curve(NamedTuple):
    """Evaluations of one run."""

    agent: str
    task: str
    way: str
    seed: int
    steps: np.ndarray
    returns: np.ndarray

    @property
    def area(self) -> float:
        """Mean return over the run: the area under the curve, divided by its length."""
        return float(self.returns.mean())


def our_curves(runs: Path) -> Iterator[Curve]:
    """Of finished runs."""
    for result in sorted(runs.glob("*/result.json")):
        run = result.parent
        agent, *task, way, seed = run.name.split("-")
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        found = [(row["step"], row["eval/return"]) for row in rows if "eval/return" in row]
        steps, returns = map(np.array, zip(*found, strict=True))
        yield Curve(agent, "-".join(task), way, int(seed), steps, returns)


def peer_curves(folder: Path) -> Iterator[Curve]:
    """Of Stable-Baselines3."""
    for file in sorted(folder.glob("*.csv")):
        agent, *task, seed = file.stem.split("-")
        with file.open() as opened:
            rows = list(csv.DictReader(opened))
        steps, returns = (np.array([float(row[name]) for row in rows]) for name in ("step", "return"))
        yield Curve(agent, "-".join(task), "stable-baselines3", int(seed), steps.astype(int), returns)


def steps_to(curve: Curve, score: float) -> int | None:
    """The first evaluation at or above a score."""
    reached = curve.returns >= score
    return int(curve.steps[reached.argmax()]) if reached.any() else None


def table(curves: Sequence[Curve]) -> list[dict[str, object]]:
    """One row per run; the score to reach is the mean of the unguided runs' last three evaluations."""
    rows = []
    for curve in curves:
        alone = [c for c in curves if (c.agent, c.task, c.way) == (curve.agent, curve.task, "alone")]
        score = float(np.mean([c.returns[-3:].mean() for c in alone])) if alone else float("nan")
        rows.append(
            {
                "agent": curve.agent,
                "task": curve.task,
                "way": curve.way,
                "seed": curve.seed,
                "steps": int(curve.steps[-1]),
                "mean_return": round(curve.area, 1),
                "last_three": round(float(curve.returns[-3:].mean()), 1),
                "best": round(float(curve.returns.max()), 1),
                "unguided_final": round(score, 1),
                "steps_to_unguided_final": steps_to(curve, score) or "",
            }
        )
    return rows


def draw(curves: Sequence[Curve]) -> None:
    """One panel per agent and task: each run thin, the mean of each way thick."""
    mpl.rcParams["svg.hashsalt"] = "actionless"
    panels = sorted({(curve.agent, curve.task) for curve in curves}, key=lambda panel: (panel[0] != "td3", panel))
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(4.2 * columns, 3.2 * lines), squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis, (agent, task) in zip(axes.flat, panels, strict=False):
        for way, colour in WAYS.items():
            group = [c for c in curves if (c.agent, c.task, c.way) == (agent, task, way)]
            for curve in group:
                axis.plot(curve.steps / 1000, curve.returns, color=colour, alpha=0.35, linewidth=0.9)
            if group:
                shared = min(len(curve.steps) for curve in group)
                mean = np.mean([curve.returns[:shared] for curve in group], axis=0)
                label = f"{way} ({len(group)} {'seed' if len(group) == 1 else 'seeds'})"
                axis.plot(group[0].steps[:shared] / 1000, mean, color=colour, linewidth=2, label=label)
        axis.set_title(f"{agent.upper()}, {task}", fontsize=10)
        axis.set_xlabel("environment steps (thousands)")
        axis.set_ylabel("return of the agent alone")
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


def main(runs: Path, peer: Path) -> None:
    """Write everything."""
    curves = [*our_curves(runs), *peer_curves(peer)]
    points = [
        {"agent": c.agent, "task": c.task, "way": c.way, "seed": c.seed, "step": int(s), "return": round(float(r), 2)}
        for c in curves
        for s, r in zip(c.steps, c.returns, strict=True)
    ]
    write("curves.csv", points)
    write("table.csv", table(curves))
    draw(curves)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
