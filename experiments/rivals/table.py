"""The table and the figure of what `run.py` has finished.

    python experiments/rivals/table.py RUNS [--out FOLDER]

Prints Markdown and writes it as table.md, one row per run as runs.csv, every evaluation in the task as curves.csv and
the figure as curves.svg; beside this file if no folder is given. Runs that these files have and RUNS does not stay in
them, so that the comparison may grow on several machines; runs of another length (`run.py --steps`) need a folder of
their own. What is missing is named. What learning from a log costs was measured by
itself, for all methods at once, by `python -m benchmarks.pretraining_methods`, and is in cost.json.
"""

import argparse
import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from run import GUIDES, LABELLED, LOGS, OFFLINE, TASK, Piece, pieces

from actionless.analysis.scores import reference_scores

TITLES = {
    "td3-alone": "TD3",
    "td3-guided": "TD3 guided by OSO-DecQN",
    "sac-alone": "SAC",
    "sac-guided": "AF-Guide (SAC)",
    "iql": "IQL",
    "awac": "AWAC",
    "o3f": "O3F",
    "cal-ql": "Cal-QL",
}
COLOURS = dict(
    zip(
        TITLES,
        ("#888888", "#d95f02", "#bbbbbb", "#7570b3", "#1b9e77", "#66a61e", "#e7298a", "#a6761d"),
        strict=True,
    )
)


PUBLISHED = {
    "walker2d_medium-v2": {"iql": "78.3 (CORL 80.9 ± 3.2)", "awac": "(CORL 66.5 ± 26.0)"},
    "hopper_medium-v2": {"iql": "66.3 (CORL 67.5 ± 3.8)", "awac": "(CORL 74.5 ± 9.1)"},
    "halfcheetah_medium-v2": {"iql": "47.4 (CORL 48.3 ± 0.2)", "awac": "(CORL 49.5 ± 0.6)"},
}
"""By the paper on IQL, and what CORL measured again of both methods: the last scores in its README."""


LEARNERS = {f"{agent}-guided": method for method, agent in GUIDES.items()} | {method: method for method in LABELLED}
"""What learns from the log."""


class Key(NamedTuple):
    """What tells one run from the others."""

    way: str
    log: str | None
    """None for agents that know no log, which stand beside those of every log."""
    seed: int

    @classmethod
    def of(cls, piece: Piece) -> "Key":
        """Of the run that a piece makes."""
        *name, seed = piece.name.removeprefix("offline-").split("-")
        log = next((log for log in (*LOGS, *OFFLINE) if log in piece.name), None)
        agent = name[0] in GUIDES.values()
        return cls("-".join(name[:2]) if agent else "-".join(name).removesuffix(f"-{log}"), log, int(seed))


class Run(NamedTuple):
    """One agent, from its first step in the task on."""

    key: Key
    steps: np.ndarray
    returns: np.ndarray
    offline_return: float | None
    """What the log alone taught, of agents that can act by then."""
    updates: int
    """Before the first step in the task: of pre-training, or from the labelled log."""

    @property
    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps and returns, from what the log alone taught on."""
        if self.offline_return is None:
            return self.steps, self.returns
        return np.append(0, self.steps), np.append(self.offline_return, self.returns)

    @property
    def mean(self) -> float:
        """Over the run in the task."""
        return float(self.returns.mean())

    @property
    def end(self) -> float:
        """Of the last three evaluations."""
        return float(self.returns[-3:].mean())


def agents(folder: Path) -> list[Piece]:
    """The pieces that make an agent: all but pre-training without actions, whose figures are those of the guided."""
    return [piece for piece in pieces(Path(), folder) if not piece.name.startswith(tuple(GUIDES))]


def finished(folder: Path) -> Iterator[Run]:
    """Those that `run.py` has made here."""
    for piece in agents(folder):
        run = folder / piece.name
        if not (run / "result.json").exists():
            continue
        offline = config_of(run).get("offline_steps", 0)
        evaluations = [(row["step"], row["eval/return"]) for row in rows(run / "metrics.jsonl") if "eval/return" in row]
        steps, returns = map(np.array, zip(*evaluations, strict=True))
        acting = steps > offline
        yield Run(
            key=Key.of(piece),
            steps=steps[acting] - offline,
            returns=returns[acting],
            offline_return=float(returns[steps == offline][0]) if offline else None,
            updates=config_of(folder / piece.after[0])["steps"] if piece.after else offline,
        )


def written(folder: Path) -> Iterator[Run]:
    """Those that an earlier call has left in the files."""
    if not (folder / "runs.csv").exists():
        return
    points: dict[Key, list[tuple[int, float]]] = {}
    for row in csv_rows(folder / "curves.csv"):
        points.setdefault(key_of(row), []).append((int(row["step"]), float(row["return"])))
    for row in csv_rows(folder / "runs.csv"):
        curve = np.array(points.get(key_of(row), [])).reshape(-1, 2)
        yield Run(
            key=key_of(row),
            steps=curve[:, 0].astype(int),
            returns=curve[:, 1],
            offline_return=optional(row["return_before_acting"]),
            updates=int(row["updates_before_acting"]),
        )


def optional(text: str) -> float | None:
    """A number, or nothing."""
    return float(text) if text else None


def key_of(row: dict[str, str]) -> Key:
    """Of a row of either file."""
    return Key(row["method"], row["log"] or None, int(row["seed"]))


def csv_rows(path: Path) -> list[dict[str, str]]:
    """A file with a header."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def rows(path: Path) -> list[dict[str, Any]]:
    """A file with an object in each line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def config_of(run: Path) -> dict[str, Any]:
    """A run's settings."""
    return json.loads((run / "run.json").read_text())["config"]


def milliseconds_per_update() -> dict[str, float]:
    """Of one core, by method, at the scale of these runs."""
    measured = json.loads((Path(__file__).parent / "cost.json").read_text())
    return {method: measured[f"{method}, cpu"]["ms_per_update"] for method in LEARNERS.values()}


def table(runs: Sequence[Run], milliseconds: dict[str, float]) -> str:
    """One line per way and log, with each seed's figures: two are too few for an interval."""
    reference = reference_scores(TASK)
    assert reference is not None
    lines = [
        "| method | log | knows actions | updates before acting | minutes of a core | return before acting (score) "
        "| mean over the run | last three (score) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for way, title in TITLES.items():
        for log in (None, *LOGS):
            group = [run for run in runs if run.key[:2] == (way, log)]
            if not group:
                continue

            def scored(values: Sequence[float]) -> str:
                return ", ".join(f"{value:,.0f} ({reference.score(value):z.0f})" for value in values)

            before = [run.offline_return for run in group if run.offline_return is not None]
            first = group[0]
            cells = [
                title,
                "–" if log is None else log.removeprefix("walker2d_").removesuffix("-v2").replace("_", "-"),
                "yes" if way in LABELLED else "no",
                f"{first.updates:,}" if first.updates else "–",
                f"{first.updates * milliseconds[LEARNERS[way]] / 60_000:.1f}" if first.updates else "–",
                scored(before) or "–",
                ", ".join(f"{run.mean:,.0f}" for run in group),
                scored([run.end for run in group]),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def offline_table(runs: Sequence[Run]) -> str:
    """Scores after learning from the log alone, beside those published for D4RL's own log and a million updates."""
    lines = []
    for log, published in PUBLISHED.items():
        reference = reference_scores(OFFLINE.get(log, TASK))
        assert reference is not None
        for method, score in published.items():
            group = [run for run in runs if run.key[:2] == (method, log)]
            if group:
                scores = ", ".join(f"{reference.score(run.offline_return):.1f}" for run in group)
                lines.append(f"| {log} | {TITLES[method]} | {group[0].updates:,} | {scores} | {score} |")
    if not lines:
        return ""
    header = ["| log | method | updates | score | published |", "| --- | --- | --- | --- | --- |"]
    return "\n".join(["", *header, *lines]) + "\n"


def draw(runs: Sequence[Run], out: Path) -> None:
    """A column for each log; above all methods, below those that know no actions. Seeds thin, their mean thick."""
    mpl.rcParams["svg.hashsalt"] = "actionless"
    rows = {"those that know no actions": [run for run in runs if run.key.way not in LABELLED]}
    if any(run.key.way in LABELLED for run in runs):
        rows = {"all methods": runs, **rows}
    figure, axes = plt.subplots(
        len(rows), len(LOGS), figsize=(11, 0.5 + 3.25 * len(rows)), sharex=True, sharey="row", squeeze=False
    )
    for row, (title, shown) in zip(axes, rows.items(), strict=True):
        for axis, log in zip(row, LOGS, strict=True):
            for way, method in TITLES.items():
                curves = [run.curve for run in shown if run.key.way == way and run.key.log in (None, log)]
                for steps, returns in curves:
                    axis.plot(steps / 1000, returns, color=COLOURS[way], alpha=0.35, linewidth=0.8)
                if curves:
                    mean = np.mean([returns for _, returns in curves], axis=0)
                    axis.plot(curves[0][0] / 1000, mean, color=COLOURS[way], linewidth=2, label=method)
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_title(f"{log.replace('_', '-')}: {title}", fontsize=10)
        row[0].set_ylabel(f"return in {TASK}, the agent alone", fontsize=9)
    for axis in axes[-1]:
        axis.set_xlabel("steps in the task (thousands)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.05 + 0.02 * len(rows), 1, 1))
    figure.savefig(out / "curves.svg", metadata={"Date": None})


def write(path: Path, header: str, rows: Iterator[tuple[Any, ...]]) -> None:
    """As CSV, with nothing where a figure is missing."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header.split())
        writer.writerows(rows)


def main() -> None:
    """Write everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="what run.py has made")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="where tables and figure go")
    asked = parser.parse_args()
    found = {run.key: run for source in (written(asked.out), finished(asked.runs)) for run in source}
    keys = {Key.of(piece): piece.name for piece in agents(asked.runs)}
    runs = [found[key] for key in {**keys, **found} if key in found]
    lengths = sorted({int(run.steps[-1]) for run in runs if len(run.steps)})
    if len(lengths) > 1:
        parser.error(f"runs of {' and '.join(map(str, lengths))} steps, which is no comparison: give others an --out")
    asked.out.mkdir(parents=True, exist_ok=True)
    text = table(runs, milliseconds_per_update()) + offline_table(runs)
    print(text)
    (asked.out / "table.md").write_text(text)
    write(
        asked.out / "runs.csv",
        "method log seed updates_before_acting return_before_acting mean_return last_three",
        (
            (
                *run.key,
                run.updates,
                None if run.offline_return is None else round(run.offline_return, 2),
                *((round(run.mean, 1), round(run.end, 1)) if len(run.steps) else (None, None)),
            )
            for run in runs
        ),
    )
    write(
        asked.out / "curves.csv",
        "method log seed step return",
        (
            (*run.key, int(step), round(float(value), 2))
            for run in runs
            for step, value in zip(run.steps, run.returns, strict=True)
        ),
    )
    draw(runs, asked.out)
    missing = [name for key, name in keys.items() if key not in found]
    if missing:
        print(f"Missing are {len(missing)} runs: {', '.join(missing)}.")


if __name__ == "__main__":
    main()
