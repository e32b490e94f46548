"""Tables of what `run.py` has finished, beside the paper's numbers.

    python experiments/tables/table.py RUNS

Prints Markdown, and writes tables.csv (one row per policy) beside this file.
"""

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from run import BINS, EPSILON_LOG, FIGURES, LOGS, TWO_BINS_LOG, Piece, pieces

from actionless.analysis.statistics import mean_and_error
from actionless.analysis.values import rank_correlation

Row = dict[str, str | float | None]

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


def rows(runs: Path) -> list[Row]:
    """Of every policy that has been played."""
    found = []
    for piece in pieces():
        path = runs / piece.name / FIGURES
        if path.exists():
            figures = json.loads(path.read_text())
            grade = figures["verdict"]["grade"] if "verdict" in figures else None
            found.append(piece._asdict() | {name: figures.get(name) for name in KEPT} | {"verdict": grade})
    return found


def cell(table: list[Row], figure: str, like: Piece, paper: str) -> str:
    """Mean ± standard error over the seeds there are, the paper's number behind it."""
    same = {"log": like.log, "method": like.method, "bins": like.bins, "epsilon": like.epsilon}
    chosen = [row[figure] for row in table if same.items() <= row.items() and row[figure] is not None]
    if not chosen:
        return f"– ({paper})"
    mean, error = mean_and_error(np.array(chosen, float))
    digits = 1 if figure == "score" else 2
    return f"{mean:.{digits}f}" + ("" if np.isnan(error) else f" ± {error:.{digits}f}") + f" ({paper})"


def markdown(title: str, columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table."""
    head = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return "\n".join([f"**{title}**", "", *head, *("| " + " | ".join(line) + " |" for line in lines), ""])


def by_method(table: list[Row], title: str, figure: str, paper: dict[str, tuple[str, ...]]) -> str:
    """One of the paper's two tables; the second leaves out BC a, which proposes no Δs."""
    methods = COLUMNS[-len(paper[LOGS[0]]) :]
    lines = []
    for log in LOGS:
        cells = [cell(table, figure, Piece(log, m, 0), said) for m, said in zip(methods, paper[log], strict=True)]
        lines.append([log, *cells])
    return markdown(title, ["log", *(TITLES[method] for method in methods)], lines)


def two_bins(table: list[Row]) -> str:
    """OSO-DecQN with 2 and with 3 bins."""
    lines = [
        [
            str(bins),
            cell(table, "score", Piece(TWO_BINS_LOG, "oso-decqn", 0, bins=bins), score),
            cell(table, "rollout_delta_error", Piece(TWO_BINS_LOG, "oso-decqn", 0, bins=bins), error),
        ]
        for bins, (score, error) in PAPER_TWO_BINS.items()
    ]
    return markdown(f"OSO-DecQN on {TWO_BINS_LOG}", ["bins", "score", "Δs error"], lines)


def epsilons(table: list[Row]) -> str:
    """OSO-DecQN with other thresholds."""
    lines = [
        [
            f"{epsilon:g}",
            cell(table, "score", Piece(EPSILON_LOG, "oso-decqn", 0, epsilon=epsilon), score),
            cell(table, "rollout_delta_error", Piece(EPSILON_LOG, "oso-decqn", 0, epsilon=epsilon), "–"),
        ]
        for epsilon, score in PAPER_EPSILONS.items()
    ]
    return markdown(f"OSO-DecQN on {EPSILON_LOG}", ["ε", "score", "Δs error"], lines)


def without_an_environment(table: list[Row]) -> str:
    """Whether the held-out error orders state policies as playing them does."""
    lines = []
    for log in (*LOGS, "all"):
        # Of one number of bins: with fewer, errors are smaller by themselves.
        alike = [row for row in table if row["bins"] == BINS and row["delta_error"] is not None]
        chosen = [row for row in alike if log in ("all", row["log"])]
        if len(chosen) < 3:
            continue
        figures = {name: np.array([row[name] for row in chosen], float) for name in KEPT}
        against = [rank_correlation(figures["delta_error"], figures[name]) for name in ("rollout_delta_error", "score")]
        lines.append([log, str(len(chosen)), *(f"{value:.2f}" for value in against)])
    columns = ["log", "policies", "with the Δs error when played", "with the score"]
    return markdown("Rank correlation of the held-out Δs error", columns, lines)


def main(runs: Path) -> None:
    """Print and write what there is."""
    table = rows(runs)
    if not table:
        sys.exit(f"{runs}: holds no {FIGURES} yet; start run.py first")
    print(by_method(table, "Table 1: score (the paper's)", "score", PAPER_SCORES))
    print(by_method(table, "Table 2: Δs error when played (the paper's)", "rollout_delta_error", PAPER_ERRORS))
    print(two_bins(table))
    print(epsilons(table))
    print(without_an_environment(table))
    with (Path(__file__).parent / "tables.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0].keys())
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
