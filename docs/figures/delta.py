"""The figure of docs/concepts.md that shows what Δs is: two variables of the bundled log, and below each its Δs.

    python docs/figures/delta.py

Writes delta.svg beside this file.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

import actionless

LOG = Path(__file__).parents[2] / "examples" / "heated_tank.parquet"
SHOWN = ("level", "demand")
MINUTES = 40
WIDTH, LEFT, RIGHT = 440, 52, 10
CURVE, STRIP, BETWEEN, TOP = 96, 44, 34, 28

# Blue and vermilion after Okabe and Ito; the position says the same as the colour.
STYLE = """
    text { font: 14px system-ui, sans-serif; fill: #333; }
    .small { font-size: 12px; }
    .curve { fill: none; stroke: #333; stroke-width: 1.5; }
    .dot { fill: #333; }
    .rule { stroke: #bbb; }
    .up { fill: #d55e00; } .same { fill: #888; } .down { fill: #0072b2; }
    @media (prefers-color-scheme: dark) {
      text { fill: #ddd; } .curve { stroke: #ddd; } .dot { fill: #ddd; } .rule { stroke: #555; }
      .up { fill: #ff8c42; } .same { fill: #999; } .down { fill: #56b4e9; }
    }
"""


def across(minute: float) -> float:
    """Where a minute is, from left to right."""
    return LEFT + (WIDTH - LEFT - RIGHT) * minute / MINUTES


def curve(name: str, values: Float[np.ndarray, " minutes"], top: float) -> list[str]:
    """The variable itself, from its lowest to its highest value here."""
    low, high = float(values.min()), float(values.max())
    points = [(across(t), top + CURVE * (high - v) / (high - low)) for t, v in enumerate(values.tolist())]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in points)
    return [
        f'<text x="{LEFT}" y="{top - 12}">{name}</text>',
        *(
            f'<text class="small" x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{value:.2f}</text>'
            for y, value in ((top, high), (top + CURVE, low))
        ),
        f'<polyline class="curve" points="{line}"/>',
        dots,
    ]


def strip(deltas: Int[np.ndarray, " steps"], top: float) -> list[str]:
    """Δs of each step: a bar that goes up or down, or a short one that does neither."""
    middle, half = top + STRIP / 2, STRIP / 2 - 2
    shapes = {1: ("up", middle - half, half), 0: ("same", middle - 3, 6), -1: ("down", middle, half)}
    width = 0.7 * (across(1) - across(0))
    parts = [
        f'<text class="small" x="{LEFT - 10}" y="{y}" text-anchor="end">{word}</text>'
        for y, word in ((top + 9, "up"), (middle + 4, "same"), (top + STRIP, "down"))
    ]
    parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{middle}" y2="{middle}"/>')
    for t, delta in enumerate(deltas.tolist()):
        kind, y, height = shapes[delta]
        x = across(t + 0.5) - width / 2
        parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}"/>')
    return parts


def drawing() -> str:
    """The first minutes of the log's first batch."""
    log = actionless.read(LOG)
    discretiser = actionless.Discretiser.fit(log.states, log.next_states)
    deltas = discretiser.delta(log.states[:MINUTES], log.next_states[:MINUTES])
    parts, top = [], TOP
    for name in SHOWN:
        column = log.state_names.index(name)
        parts += curve(name, log.states[: MINUTES + 1, column], top)
        parts += strip(deltas[:, column], top + CURVE + 12)
        top += CURVE + 12 + STRIP + BETWEEN
    marks = [
        f'<text class="small" x="{across(t):.1f}" y="{top - 8}" text-anchor="middle">{t}</text>'
        for t in range(0, MINUTES - 9, 10)
    ]
    end = f'<text class="small" x="{WIDTH - RIGHT}" y="{top - 8}" text-anchor="end">minutes</text>'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}">'
    return "\n".join([opening, f"<style>{STYLE}</style>", *parts, *marks, end, "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(drawing())
