"""One HTML file with everything inside: charts by Plotly, tables, style and script."""

import base64
import gzip
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from actionless.reporting import tables
from actionless.reporting.charts import Chart, HeatMap, Line, LineChart, charts_of, colours
from actionless.reporting.curves import MOST_POINTS, MeanCurve
from actionless.reporting.diagnosis import diagnosis
from actionless.reporting.groups import Section
from actionless.reporting.records import Curve
from actionless.reporting.tables import Table
from actionless.version import __version__

_ABOUT = (
    "Thick lines are the mean of a group's seeds, at the steps that all of them have reached; bands are ± one standard "
    "error of that mean; thin lines are single seeds. A group with one seed has no band. "
    f"Except for evaluations, curves of more than {MOST_POINTS} rows are drawn as means of neighbouring rows. "
    "Click an entry of a legend to hide or show its lines, drag over a chart to zoom (on a touch screen, use "
    "its buttons), double-click to zoom out."
)
_SUMMARY = {
    "train": (
        "Returns come from evaluations without the guide: mean of the seeds ± one standard error. Best is the highest "
        "point of the mean curve; average is the area under the curve divided by its length. For guided groups, the "
        "last column shows when their mean first reached the final return of the same agent without a guide. For "
        "agents that started from a log with actions, steps count from the first step in the environment."
    ),
    "pretrain": "The last measurement: mean of the seeds ± one standard error.",
}
_HEADINGS = {"train": "online training", "pretrain": "pre-training"}
_SIGNIFICANT = 5


def render(sections: list[Section], notes: Sequence[str], command: str) -> str:
    """The HTML text of the page."""
    colour = colours(sections)
    figures: dict[str, Any] = {}
    contents, parts = [], []
    for number, section in enumerate(sections):
        charts = {f"chart-{number}-{chart.key}": chart for chart in charts_of(section, colour[section.verb])}
        figures |= {name: _plotly(chart) for name, chart in charts.items()}
        contents.append((f"section-{number}", section.title))
        parts.append(_section(f"section-{number}", section, charts, colour[section.verb]))
    for identity, title, body in _tables(sections):
        contents.append((identity, title))
        parts.append(f'<section id="{identity}"><h2>{title}</h2>{body}</section>')
    here = files("actionless.reporting")
    return Template((here / "page.html").read_text("utf-8")).substitute(
        version=__version__,
        title=html.escape(_title(sections)),
        about=_ABOUT,
        lead=html.escape(_lead(sections)),
        contents="".join(f'<a href="#{identity}">{html.escape(title)}</a>' for identity, title in contents),
        notes=_notes([*notes, *_cautions(sections)]),
        sections="\n".join(parts),
        command=html.escape(command),
        # Escaped, because a "<" could end the script element.
        charts=json.dumps(figures, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        plotly=_packed_plotly(),
        style=(here / "page.css").read_text("utf-8"),
        script=(here / "page.js").read_text("utf-8"),
    )


def _title(sections: list[Section]) -> str:
    """The environments, or the logs if there are no environments."""
    return ", ".join(section.title for section in sections if section.verb == sections[0].verb)


def _lead(sections: list[Section]) -> str:
    groups = [group for section in sections for group in section.groups]
    runs = sum(len(group.records) for group in groups)
    return f"{_count(runs, 'run')} in {_count(len(groups), 'group')}; the runs of a group differ only in their seed."


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _cautions(sections: list[Section]) -> list[str]:
    cautions = []
    for section in sections:
        for group in section.groups:
            for record in group.records:
                if record.result is None:
                    cautions.append(f"{record.path} is unfinished: shown up to {record.progress}.")
    alone = [f"{s.title}: {group.label}" for s in sections for group in s.groups if len(group.records) == 1]
    if alone:
        cautions.append(f"Only one seed, so no interval: {'; '.join(alone)}.")
    mixed = [row for row in tables.versions(sections).rows if ", " in row[1]]
    if mixed:
        cautions.append(f"The runs were made with different versions: {'; '.join(' '.join(row) for row in mixed)}.")
    return cautions


def _notes(notes: list[str]) -> str:
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f'<aside class="note"><ul>{items}</ul></aside>' if notes else ""


def _section(identity: str, section: Section, charts: dict[str, Chart], colour: dict[str, str]) -> str:
    heading = f"{html.escape(section.title)} <small>{_HEADINGS.get(section.verb, html.escape(section.verb))}</small>"
    drawn = "\n".join(_figure(name, chart) for name, chart in charts.items())
    return (
        f'<section id="{identity}"><h2>{heading}</h2>'
        f"{_table(tables.summary(section), colour)}"
        f'<p class="about">{_SUMMARY.get(section.verb, "")}</p>'
        f"{_diagnosis(section)}"
        f'<div class="charts">{drawn}</div></section>'
    )


def _diagnosis(section: Section) -> str:
    sentences = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in diagnosis(section))
    return f"<h3>What guidance did</h3><ul>{sentences}</ul>" if sentences else ""


def _figure(name: str, chart: Chart) -> str:
    return (
        f"<figure><h3>{html.escape(chart.title)}</h3><figcaption>{html.escape(chart.caption)}</figcaption>"
        f'<div class="chart" id="{html.escape(name)}" role="img" aria-label="{html.escape(chart.title)}" '
        f'style="min-height:{_height(chart)}px"></div></figure>'
    )


def _tables(sections: list[Section]) -> list[tuple[str, str, str]]:
    """Id, title and HTML of each table after the charts."""
    data = tables.logs(sections)
    bodies = [
        ("data", "Data", "" if data is None else _table(data)),
        ("settings", "Settings", _settings(sections)),
        ("runs", "Runs", _table(tables.runs(sections))),
        ("versions", "Versions", _table(tables.versions(sections))),
    ]
    return [body for body in bodies if body[2]]


def _settings(sections: list[Section]) -> str:
    parts = []
    for verb in dict.fromkeys(section.verb for section in sections):
        same_verb = [section for section in sections if section.verb == verb]
        different, heading = tables.settings_that_differ(same_verb), _HEADINGS.get(verb, html.escape(verb))
        if different is not None:
            parts.append(f"<p>Settings of {heading} that differ; – means that a group does not have the setting.</p>")
            parts.append(_table(different))
        common = _table(tables.settings_in_common(same_verb))
        parts.append(f"<details><summary>Settings of {heading} in common</summary>{common}</details>")
    return "".join(parts)


def _table(table: Table, colour: dict[str, str] | None = None) -> str:
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in table.header)
    rows = []
    for first, *rest in table.rows:
        swatch = f'<i class="swatch" style="background:{colour[first]}"></i>' if colour else ""
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in rest)
        rows.append(f'<tr><th scope="row">{swatch}{html.escape(first)}</th>{cells}</tr>')
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _packed_plotly() -> str:
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()


def _plotly(chart: Chart) -> dict[str, Any]:
    return _plotly_map(chart) if isinstance(chart, HeatMap) else _plotly_lines(chart)


def _height(chart: Chart) -> int:
    if isinstance(chart, HeatMap):
        return max(240, 110 + 17 * len(chart.variables))
    return 320 + 21 * max(0, len(chart.lines) - 2)


def _layout(chart: Chart, y: str) -> dict[str, Any]:
    return {
        "height": _height(chart),
        "margin": {"l": 8, "r": 10, "t": 26, "b": 8},
        "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 12},
        "xaxis": {"title": {"text": chart.x}, "automargin": True},
        "yaxis": {"title": {"text": y}, "automargin": True},
    }


def _plotly_lines(chart: LineChart) -> dict[str, Any]:
    layout = _layout(chart, chart.y) | {
        "hovermode": "x unified",
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"},
    }
    return {"data": [trace for line in chart.lines for trace in _traces(line)], "layout": layout}


def _traces(line: Line) -> list[dict[str, Any]]:
    """Band, seeds and mean of one line, with one entry in the legend that toggles all of them."""
    label = html.escape(line.label)  # Plotly interprets HTML tags in labels
    shared = {"legendgroup": label, "showlegend": False}
    silent = {**shared, "hoverinfo": "skip"}
    thin = {"color": line.colour, "width": 1, "dash": line.dash}
    seeds = [{**silent, **_points(seed), "line": thin, "opacity": 0.35} for seed in line.seeds]
    if line.mean is None:
        traces = seeds
    else:
        thick = {"color": line.colour, "width": 2.4, "dash": line.dash}
        mean = {**shared, **_points(Curve(line.mean.steps, line.mean.mean)), "line": thick}
        if line.mean.error is None:
            traces = [mean | {"hovertemplate": f"%{{y:.4~g}}<extra>{label}</extra>"}]
        else:
            mean |= {"customdata": _rounded(line.mean.error)}
            mean |= {"hovertemplate": f"%{{y:.4~g}} ± %{{customdata:.2~g}}<extra>{label}</extra>"}
            traces = [*_band(line.mean, line.mean.error, line.colour, silent), *seeds, mean]
    traces[-1] |= {"name": f"{label} ({_count(len(line.seeds), 'seed')})", "showlegend": True}
    return traces


def _band(mean: MeanCurve, error: np.ndarray, colour: str, silent: dict[str, Any]) -> list[dict[str, Any]]:
    low, high = (_points(Curve(mean.steps, mean.mean + sign * error)) for sign in (-1, 1))
    edge = {**silent, "mode": "lines", "line": {"width": 0, "color": colour}}
    return [{**low, **edge}, {**high, **edge, "fill": "tonexty", "fillcolor": f"{colour}38"}]


def _plotly_map(chart: HeatMap) -> dict[str, Any]:
    trace = {
        "type": "heatmap",
        "x": chart.steps.tolist(),
        "y": [html.escape(name) for name in chart.variables],
        "z": [_rounded(row) for row in chart.shares],
        "zmin": 0,
        "zmax": 1,
        "colorscale": "Cividis",
        "colorbar": {"title": {"text": "share", "side": "right"}, "thickness": 12, "outlinewidth": 0},
        "hovertemplate": "%{y} at %{x}: %{z:.0%}<extra></extra>",
    }
    layout = _layout(chart, "")
    # Variables are categories, even if their names are numbers.
    layout["yaxis"] |= {"type": "category", "autorange": "reversed", "dtick": 1, "tickfont": {"size": 10}}
    return {"data": [trace], "layout": layout}


def _points(curve: Curve) -> dict[str, Any]:
    mode = "lines" if len(curve.steps) > 1 else "markers"  # a line through one point is invisible
    return {"x": curve.steps.tolist(), "y": _rounded(curve.values), "mode": mode}


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.{_SIGNIFICANT}g}") for value in values]
