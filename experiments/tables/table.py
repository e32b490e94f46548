"""Tables of what `run.py` has finished, beside the paper's numbers.

    python experiments/tables/table.py RUNS [--out FOLDER]

Prints Markdown and writes it as tables.md, the numbers of its cells as tables.csv, and one row per policy as
policies.csv; beside this file if no folder is given. What is missing is left open and named.
"""

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from run import BINS, EPSILON_LOG, EVALUATION, LOGS, SEEDS, TWO_BINS_LOG, Piece, pieces

from actionless.analysis.evaluation_folder import FIGURES
from actionless.analysis.statistics import mean_and_error
from actionless.analysis.values import rank_correlation
from actionless.analysis.verdict import Grade

Row = dict[str, Any]

COLUMNS = ("bc-action", "bc-next", "bc-diff", "bc-delta", "decqn", "oso-decqn")
TITLES = dict(zip(COLUMNS, ("BC a", "BC s'", "BC s' − s", "BC Δs", "DecQN_N", "OSO-DecQN"), strict=True))
PAPER_SCORES = {
    "hopper_medium_replay-v2": ("26.6", "5.8", "4.9", "29.2 ± 3.7", "7.7 ± 1.3", "65.7 ± 2.6"),
    "hopper_medium-v2": ("51.5", "3.5", "31.4", "47.5 ± 1.2", "1.2 ± 0.31", "55.8 ± 1.3"),
    "hopper_medium_expert-v2": ("51.3", "2.9", "15.6", "51.9 ± 2.1", "1.1 ± 0.33", "110 ± 1.3"),
    "hopper_expert-v2": ("110.6", "2.2", "9.9", "106.9 ± 2.4", "1.9 ± 0.45", "111.6 ± 0.08"),
}
PAPER_ERRORS = {
    "hopper_medium_replay-v2": ("12.1", "7.9", "0.68 ± 0.04", "11.8 ± 0.54", "0.99 ± 0.04"),
    "hopper_medium-v2": ("10.5", "1.9", "0.25 ± 0.01", "6.8 ± 1.4", "0.18 ± 0.008"),
    "hopper_medium_expert-v2": ("10.8", "6.9", "0.18 ± 0.02", "10.7 ± 0.49", "0.16 ± 0.004"),
    "hopper_expert-v2": ("11.5", "5.7", "0.15 ± 0.02", "7.2 ± 1.3", "0.12 ± 0.004"),
}
PAPER_TWO_BINS = {2: ("61.5 ± 7.27", "0.51 ± 0.02"), 3: ("65.7 ± 2.6", "0.99 ± 0.04")}
PAPER_EPSILONS = {1e-3: "107.5 ± 7.3", 1e-4: "110 ± 1.3", 1e-5: "112 ± 0.09", 1e-6: "111.7 ± 2.3"}

KEPT = (
    "return",
    "return_std",
    "score",
    "rollout_delta_error",
    "rollout_length",
    "idm_error",
    "delta_error",
    "delta_accuracy",
)


class Cell(NamedTuple):
    """One figure of one method on one log, over the seeds there are."""

    log: str
    method: str
    bins: int
    epsilon: float
    figure: str
    seeds: int
    mean: float | None
    standard_error: float | None
    paper: str

    def __str__(self) -> str:
        """Mean ± standard error, the paper's number behind it."""
        if self.mean is None:
            return f"– ({self.paper})"
        digits = 1 if self.figure == "score" else 2
        error = "" if self.standard_error is None else f" ± {self.standard_error:.{digits}f}"
        few = "" if self.seeds == len(SEEDS) else ", 1 seed"
        return f"{self.mean:.{digits}f}{error}{few} ({self.paper})"


class Table(NamedTuple):
    """One of the paper's: a title, what stands above the columns and before the lines, and the cells."""

    title: str
    columns: Sequence[str]
    lines: Sequence[tuple[str, Sequence[Cell]]]


def policies(runs: Path) -> list[Row]:
    """Every policy that has been played: its settings, its figures, and what is said of it without a task."""
    found = []
    for piece in pieces():
        path = runs / piece.name / EVALUATION / FIGURES
        if path.exists():
            figures = json.loads(path.read_text())
            found.append(piece._asdict() | {name: figures.get(name) for name in KEPT} | said_without_a_task(figures))
    return found


def said_without_a_task(figures: dict[str, Any]) -> Row:
    """The verdict's grade, and the share of the majority's mistakes avoided; nothing for BC a, which has no Δs."""
    if "verdict" not in figures:
        return {"grade": None, "skill": None}
    skill = {rule["name"]: rule["figure"] for rule in figures["verdict"]["rules"]}["beats the majority"]
    return {"grade": figures["verdict"]["grade"], "skill": skill}


def cell(rows: list[Row], figure: str, like: Piece, paper: str) -> Cell:
    """Over the seeds of the policies that differ from `like` in nothing else."""
    same = {"log": like.log, "method": like.method, "bins": like.bins, "epsilon": like.epsilon}
    chosen = [row[figure] for row in rows if same.items() <= row.items() and row[figure] is not None]
    mean, error = (None, None) if not chosen else map(float, mean_and_error(np.array(chosen, float)))
    return Cell(**same, figure=figure, seeds=len(chosen), mean=mean, standard_error=known(error), paper=paper)


def known(value: float | None) -> float | None:
    """A single seed has no standard error."""
    return None if value is None or np.isnan(value) else value


def by_method(rows: list[Row], title: str, figure: str, paper: dict[str, tuple[str, ...]]) -> Table:
    """One of the paper's two tables; the second leaves out BC a, which proposes no Δs."""
    methods = COLUMNS[-len(paper[LOGS[0]]) :]
    lines = [
        (log, [cell(rows, figure, Piece(log, m, 0), said) for m, said in zip(methods, paper[log], strict=True)])
        for log in LOGS
    ]
    return Table(title, ["log", *(TITLES[method] for method in methods)], lines)


def score_and_error(rows: list[Row], like: Piece, paper: tuple[str, str]) -> list[Cell]:
    """Both figures of one setting."""
    return [
        cell(rows, figure, like, said) for figure, said in zip(("score", "rollout_delta_error"), paper, strict=True)
    ]


def tables(rows: list[Row]) -> list[Table]:
    """Tables 1 and 2 of the paper, 2 bins against 3, and other ε."""
    two_bins, epsilons = Piece(TWO_BINS_LOG, "oso-decqn", 0), Piece(EPSILON_LOG, "oso-decqn", 0)
    played = "Δs error when played"
    return [
        by_method(rows, "Table 1: score (the paper's)", "score", PAPER_SCORES),
        by_method(rows, f"Table 2: {played} (the paper's; random: 11)", "rollout_delta_error", PAPER_ERRORS),
        Table(
            f"OSO-DecQN on {TWO_BINS_LOG} (the paper's; random: 5.5 with 2 bins, 11 with 3)",
            ["bins", "score", played],
            [
                (str(bins), score_and_error(rows, two_bins._replace(bins=bins), paper))
                for bins, paper in PAPER_TWO_BINS.items()
            ],
        ),
        Table(
            f"OSO-DecQN on {EPSILON_LOG} (the paper's)",
            ["ε", "score", played],
            [
                (f"{epsilon:g}", score_and_error(rows, epsilons._replace(epsilon=epsilon), (score, "–")))
                for epsilon, score in PAPER_EPSILONS.items()
            ],
        ),
    ]


def orders(rows: list[Row]) -> list[list[str]]:
    """Whether `evaluate` without a task orders state policies as playing them does: on each log, and on all.

    Grades count from the worst, and equal ones share a rank.
    """
    lines = []
    for log in (*LOGS, "all"):
        chosen = [row for row in rows if row["grade"] is not None and log in (row["log"], "all")]
        returns = np.array([row["return"] for row in chosen], float)
        grades = np.array([get_args(Grade).index(row["grade"]) for row in chosen], float)
        skill = np.array([row["skill"] for row in chosen], float)
        # Of one number of bins: with fewer, errors are smaller by themselves.
        alike = [row for row in chosen if row["bins"] == BINS]
        errors = [np.array([row[name] for row in alike], float) for name in ("delta_error", "rollout_delta_error")]
        found = [correlation(grades, returns), correlation(skill, returns), correlation(*errors)]
        lines.append([log, str(len(chosen)), *found])
    return lines


def correlation(x: np.ndarray, y: np.ndarray) -> str:
    """Spearman's; nothing of fewer than three policies, or where one of the two never varies."""
    value = rank_correlation(x, y) if len(x) > 2 else np.nan
    return "–" if np.isnan(value) else f"{value:.2f}"


def markdown(title: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table."""
    head = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return "\n".join([f"**{title}**", "", *head, *("| " + " | ".join(line) + " |" for line in lines), ""])


def missing(rows: list[Row]) -> str:
    """Which policies have not been played yet."""
    wanted = list(pieces())
    there = {Piece(**{name: row[name] for name in Piece._fields}) for row in rows}
    absent = [piece.name for piece in wanted if piece not in there]
    if not absent:
        return f"Nothing is missing: all {len(wanted)} policies have been played.\n"
    return f"Missing are {len(absent)} of {len(wanted)} policies: {', '.join(absent)}.\n"


def write(path: Path, rows: Sequence[Row]) -> None:
    """As CSV, with as many digits as mean anything."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows[0])
        writer.writerows([f"{v:.6g}" if isinstance(v, float) else v for v in row.values()] for row in rows)


def main(runs: Path, out: Path) -> None:
    """Print and write what there is."""
    rows = policies(runs)
    if not rows:
        sys.exit(f"{runs}: holds no {FIGURES} yet; start run.py first")
    made = tables(rows)
    columns = ["log", "policies", "verdict and return", "held-out skill and return", "held-out and played Δs error"]
    text = "\n".join(
        [
            *(markdown(t.title, t.columns, ([name, *map(str, cells)] for name, cells in t.lines)) for t in made),
            markdown("Rank correlation of what is said without a task and what playing shows", columns, orders(rows)),
            missing(rows),
        ]
    )
    print(text, end="")
    out.mkdir(parents=True, exist_ok=True)
    (out / "tables.md").write_text(text)
    write(out / "tables.csv", [{"table": t.title} | c._asdict() for t in made for _, line in t.lines for c in line])
    write(out / "policies.csv", rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    asked = parser.parse_args()
    main(asked.runs, asked.out)
