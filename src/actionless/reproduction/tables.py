"""An experiment's tables as Markdown, CSV and LaTeX, with all that a reader needs to trust them."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from actionless.files import write_durably
from actionless.reproduction.collect import Entry, entries, title_of
from actionless.reproduction.logs import LogFile
from actionless.reproduction.plan import Planned

_LATEX = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "±": r"$\pm$", "Δ": r"$\Delta$", "ε": r"$\epsilon$"} | {
    "β": r"$\beta$",
    "α": r"$\alpha$",
    "−": "$-$",
    "–": "--",
    "κ": r"$\kappa$",
}


def write_tables(planned: Planned, folder: Path, command: str) -> list[Entry]:
    """Write table.md, table.tex, table.csv (a row per cell) and runs.csv (a row per seed) from what is finished."""
    folder.mkdir(parents=True, exist_ok=True)
    found = entries(planned)
    grids = [
        _Grid(planned, value, [each for each in found if each.table == value]) for value in planned.declaration.values
    ]
    about = _about(planned, found, command)
    parts = [f"# {planned.declaration.title}", planned.declaration.about, *(each.markdown() for each in grids), about]
    write_durably(folder / "table.md", ("\n\n".join(part for part in parts if part) + "\n").encode())
    write_durably(folder / "table.tex", "\n\n".join(each.latex() for each in grids).encode() + b"\n")
    write_durably(folder / "table.csv", _cells_csv(found))
    write_durably(folder / "runs.csv", _runs_csv(found))
    return found


class _Grid:
    """One table: rows and columns of entries."""

    def __init__(self, planned: Planned, value: str, found: Sequence[Entry]):
        logs, lines = (list(dict.fromkeys(getattr(each, name) for each in found)) for name in ("log", "line"))
        by_place = {(each.log, each.line): each for each in found}
        by_log = planned.declaration.rows == "logs"
        beside = any(each.paper is not None for each in found)
        self.title = title_of(value) + "; in parentheses, the paper's" * beside
        self.head = ["log" if by_log else "", *(lines if by_log else logs)]
        self.rows = [
            [row, *(by_place.get((row, column) if by_log else (column, row)) for column in self.head[1:])]
            for row in (logs if by_log else lines)
        ]

    def _texts(self) -> list[list[str]]:
        return [
            [each.text() if isinstance(each, Entry) else "" if each is None else each for each in row]
            for row in self.rows
        ]

    def markdown(self) -> str:
        """A table with its title above."""
        lines = [self.head, ["---"] * len(self.head), *self._texts()]
        cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
        return "\n".join([f"**{self.title}**", "", *(f"| {' | '.join(line)} |" for line in cells)])

    def latex(self) -> str:
        """For a paper that loads booktabs."""
        lines = [r" & ".join(map(_latex, line)) + r" \\" for line in [self.head, *self._texts()]]
        columns = "l" + "c" * (len(self.head) - 1)
        body = [lines[0], r"\midrule", *lines[1:]]
        return "\n".join(
            [
                f"% {self.title}",
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
            ]
        )


def _about(planned: Planned, found: Sequence[Entry], command: str) -> str:
    """What stands below the tables: what is missing, which logs, and the command."""
    runs = {piece.job.out: piece for cell in planned.cells for piece in cell.pieces}
    there = {run for each in found for run in each.runs}
    seeds = max((len(cell.pieces) for cell in planned.cells), default=0)
    missing = [path.name for path in runs if path not in there]
    lines = [f"Mean ± standard error over {seeds} seeds." if seeds > 1 else "One seed: no error can be given."]
    if missing:
        lines.append(
            f"Missing are {len(missing)} of {len(runs)} runs: {', '.join(missing[:10])}{', …' * (len(missing) > 10)}."
        )
    lines.append("")
    logs: dict[str, LogFile] = {cell.log.name: cell.log for cell in planned.cells}
    lines += ["| log | fingerprint | what it is |", "| --- | --- | --- |"]
    lines += [f"| {log.name} | {log.fingerprint[:16]} | {log.about} |" for log in logs.values()]
    return "\n".join([*lines, "", f"Made by `{command}`."])


def _cells_csv(found: Sequence[Entry]) -> bytes:
    head = ["table", "value", "log", "line", "seeds", "mean", "standard_error", "low", "high", "paper", "paper_error"]
    rows = []
    for each in found:
        low, high = each.interval or (None, None)
        paper = (None, None) if each.paper is None else (each.paper.mean, each.paper.error)
        rows.append(
            [each.table, each.value, each.log, each.line, len(each.values), each.mean, each.error, low, high, *paper]
        )
    return csv_bytes(head, rows)


def _runs_csv(found: Sequence[Entry]) -> bytes:
    rows = [
        [each.value, each.log, each.line, run.name, value]
        for each in found
        for run, value in zip(each.runs, each.values, strict=True)
    ]
    return csv_bytes(["value", "log", "line", "run", "number"], rows)


def csv_bytes(head: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    """With as many digits as mean anything; nothing where there is no number."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    return text.getvalue().encode()


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
