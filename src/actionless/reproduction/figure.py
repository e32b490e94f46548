"""An experiment's figure: a panel for each log, a curve for each line."""

from collections.abc import Sequence
from pathlib import Path

from actionless.analysis.scores import reference_scores
from actionless.reporting.charts import PALETTE, STEPS, Line, LineChart
from actionless.reporting.curves import mean_curve, thinned
from actionless.reporting.figures import write_panels
from actionless.reproduction.collect import curve_of
from actionless.reproduction.plan import Cell, Planned


def write_figure(planned: Planned, folder: Path) -> list[Path]:
    """Write figure.svg and figure.png from what the runs have measured so far; nothing if there is none yet."""
    metric = planned.declaration.curve
    if metric is None:
        return []
    colours = {line.name: PALETTE[number % len(PALETTE)] for number, line in enumerate(planned.declaration.lines)}
    logs = dict.fromkeys(cell.log.name for cell in planned.cells)
    panels = [
        panel
        for log in logs
        if (panel := _panel(log, [cell for cell in planned.cells if cell.log.name == log], metric, colours)).lines
    ]
    return write_panels(panels, planned.declaration.title, folder / "figure") if panels else []


def _panel(log: str, cells: Sequence[Cell], metric: str, colours: dict[str, str]) -> LineChart:
    lines = []
    for cell in cells:
        found = [curve for piece in cell.pieces if (curve := curve_of(piece, metric)) is not None]
        seeds = found if metric.startswith("eval/") else [thinned(curve) for curve in found]
        if seeds:
            lines.append(Line(cell.line.name, colours[cell.line.name], "solid", tuple(seeds), mean_curve(seeds)))
    first = cells[0].pieces[0]
    scored = (
        metric == "eval/return" and first.environment is not None and reference_scores(first.environment) is not None
    )
    return LineChart(log, log, "", STEPS["train"], "normalised score" if scored else metric, tuple(lines))
