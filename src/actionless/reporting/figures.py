"""The charts as PNG and SVG, for papers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from actionless.errors import ActionlessError
from actionless.files import disk_trouble, written_aside
from actionless.reporting.charts import Chart, HeatMap, LineChart, charts_of, colours, slug
from actionless.reporting.groups import Section

_STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.titlesize": "medium",
    "font.size": 9,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.hashsalt": "actionless",
    "text.parse_math": False,  # a $ in a name is a $
}
_DOTS_PER_INCH = 250


def write_figures(sections: list[Section], folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Write each chart of each section as SECTION-CHART.png and .svg; return the paths."""
    colour = colours(sections)
    charts = {
        f"{slug(f'{section.verb} {section.title}')}-{chart.key}": (section, chart)
        for section in sections
        for chart in charts_of(section, colour[section.verb])
    }
    targets = {name: [folder / f"{name}.{ending}" for ending in ("png", "svg")] for name in charts}
    present = next((path for paths in targets.values() for path in paths if path.exists()), None)
    if present is not None and not overwrite:
        raise ActionlessError(f"{present}: already exists; choose another folder, or replace it with --overwrite")
    with disk_trouble(folder, "choose a writable folder for the figures"), mpl.rc_context(_STYLE):
        folder.mkdir(parents=True, exist_ok=True)
        for name, paths in targets.items():
            figure = _drawn(*charts[name])
            for path in paths:
                _save(figure, path)
    return [path for paths in targets.values() for path in paths]


def write_panels(panels: Sequence[LineChart], title: str, name: Path) -> list[Path]:
    """Write several charts side by side, with one legend, as NAME.png and NAME.svg; return the paths."""
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    paths = [name.with_name(f"{name.name}.{ending}") for ending in ("png", "svg")]
    with disk_trouble(name.parent, "choose a writable folder for the figure"), mpl.rc_context(_STYLE):
        figure = Figure(figsize=(3.8 * columns, 2.8 * rows + 0.6), layout="constrained")
        figure.suptitle(title, fontsize=11)
        for number, panel in enumerate(panels):
            _draw_axes(axes := figure.add_subplot(rows, columns, number + 1), panel)
            axes.set_title(panel.title)
            axes.set_xlabel(panel.x)
        handles = {
            text: handle for axes in figure.axes for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)
        for path in paths:
            _save(figure, path)
    return paths


def _drawn(section: Section, chart: Chart) -> Figure:
    if isinstance(chart, HeatMap):
        figure = Figure(figsize=(4.8, 1.1 + 0.16 * len(chart.variables)), layout="constrained")
        _draw_map(figure, chart)
    else:
        figure = Figure(figsize=(4.4, 2.8 + 0.17 * len(chart.lines)), layout="constrained")
        _draw_lines(figure, chart)
    axes = figure.axes[0]
    axes.set_title(f"{section.title}: {chart.title[0].lower()}{chart.title[1:]}")
    axes.set_xlabel(chart.x)
    return figure


def _save(figure: Figure, path: Path) -> None:
    with written_aside(path) as aside:
        # Without a date, the same runs give the same file.
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(aside, format=path.suffix[1:], dpi=_DOTS_PER_INCH, metadata=metadata)


def _draw_lines(figure: Figure, chart: LineChart) -> None:
    _draw_axes(figure.add_subplot(), chart)
    figure.legend(loc="outside lower center")


def _draw_axes(axes: Axes, chart: LineChart) -> None:
    for line in chart.lines:
        style: dict[str, Any] = {"color": line.colour, "linestyle": "--" if line.dash == "dash" else "-"}
        for seed in line.seeds if len(line.seeds) > 1 else ():
            axes.plot(seed.steps, seed.values, linewidth=0.6, alpha=0.35, marker=_marker(seed.steps), **style)
        if line.mean is not None:
            steps, mean, error = line.mean.steps, line.mean.mean, line.mean.error
            axes.plot(steps, mean, linewidth=1.6, marker=_marker(steps), **style)
            if error is not None:
                axes.fill_between(steps, mean - error, mean + error, color=line.colour, alpha=0.2, linewidth=0)
        count = "1 seed" if len(line.seeds) == 1 else f"{len(line.seeds)} seeds"
        axes.lines[-1].set_label(f"{line.label} ({count})")
    axes.set_ylabel(chart.y)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(6))


def _marker(steps: np.ndarray) -> str:
    return "" if len(steps) > 1 else "o"  # a line through one point is invisible


def _draw_map(figure: Figure, chart: HeatMap) -> None:
    axes = figure.add_subplot()
    axes.grid(False)
    image = axes.pcolormesh(
        chart.steps, range(len(chart.variables)), chart.shares, vmin=0, vmax=1, cmap="cividis", shading="nearest"
    )
    axes.set_yticks(range(len(chart.variables)), chart.variables)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    figure.colorbar(image, label="share of guided steps")
