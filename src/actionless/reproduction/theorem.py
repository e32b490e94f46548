"""The paper's theorem on a problem with known optimal values: what k bins per coordinate cost, even and uneven.

A state of M coordinates moves by s' = s + a + σε, where ε is standard normal and each coordinate of the mean increment
a may be chosen in [-H/2, H/2]. The reward of a state is Φ(y / τ), y = Σ s_i / √M: it lies between 0 and 1 and rises in
every coordinate. To push up as far as possible is therefore optimal, with all increments as with the centres of k bins,
and y makes steps of mean u = √M H/2 or u (1 - 1/k). Of uneven bins, each q times as wide as the one below it, the
uppermost alone matters: u (1 - w), where w is its share of H. The bound holds with the widest bin's share in place of
1/k, since an increment is never further from its bin's centre than half of that. A normal averaged over a normal is a
normal again, so both values are a sum: V(y) = Σ_t γ^t Φ((y + t u) / √(τ² + t σ²)).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from actionless.files import write_durably
from actionless.reproduction.tables import csv_bytes

DISCOUNT, NOISE, WIDTH = 0.9, 1.0, 1.0
STEPS = 200  # 0.9^200 is 7e-10

BASE = {"bins": 3, "dimensions": 11, "span": 0.05, "ratio": 1.0}
SWEEPS = {
    "bins": (1, 2, 3, 5, 9, 17, 33, 65, 129),
    "dimensions": (1, 2, 4, 8, 16, 32, 64, 128),
    "span": (0.00625, 0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6),
    "ratio": (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 5.0, 10.0),
}
SYMBOLS = {"bins": "k", "dimensions": "M", "span": "H", "ratio": "q"}

_normal_cdf = np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))


class Point(NamedTuple):
    """One problem, its largest gap over all states, and the bound."""

    varied: str
    bins: int
    dimensions: int
    span: float
    ratio: float
    gap: float
    bound: float


def value(places: Float[np.ndarray, " places"], drift: float) -> Float[np.ndarray, " places"]:
    """The discounted reward from each y on, when every step has this mean."""
    t = np.arange(STEPS)
    reached = (places[:, None] + t * drift) / np.sqrt(WIDTH**2 + t * NOISE**2)
    return (DISCOUNT**t * _normal_cdf(reached)).sum(axis=1)


def shares(bins: int, ratio: float = 1.0) -> np.ndarray:
    """Each bin's share of H, the lowest first."""
    widths = float(ratio) ** np.arange(bins)
    return widths / widths.sum()


def best_drift(dimensions: int, span: float, bins: int | None = None, ratio: float = 1.0) -> float:
    """The largest mean step of y: with any increment, or with the centres of bins."""
    return math.sqrt(dimensions) * span / 2 * (1 if bins is None else 1 - float(shares(bins, ratio)[-1]))


def value_gap(bins: int, dimensions: int, span: float, ratio: float = 1.0) -> float:
    """The largest of V* - V_D* over all states; beyond these y both values are flat."""
    drift = best_drift(dimensions, span)
    places = np.linspace(-30 * (1 + drift), 10, 400)
    return float((value(places, drift) - value(places, best_drift(dimensions, span, bins, ratio))).max())


def bound(bins: int, dimensions: int, span: float, ratio: float = 1.0) -> float:
    """The part of the bound that has H√M/k, k being H over the widest bin.

    Rewards span 1, and here no reward depends on the increment.
    """
    widest = float(shares(bins, ratio).max())
    return DISCOUNT / (4 * (1 - DISCOUNT) ** 2) / NOISE * span * math.sqrt(dimensions) * widest


def points() -> Iterator[Point]:
    """Each of k, M, H and q varied while the others stay."""
    for varied, values in SWEEPS.items():
        for value_ in values:
            problem = BASE | {varied: value_}
            yield Point(varied, **problem, gap=value_gap(**problem), bound=bound(**problem))


def write(folder: Path, title: str, command: str) -> None:
    """Write table.csv with every point, table.md and table.tex with the exponents, and the figure."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(points())
    write_durably(folder / "table.csv", csv_bytes(Point._fields, rows))
    head = ["", "exponent of the gap", "exponent of the bound (the paper's)", "gap / bound"]
    lines = [_summary(varied, [row for row in rows if row.varied == varied]) for varied in SWEEPS]
    table = "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * 4, *lines])
    write_durably(folder / "table.md", f"# {title}\n\n{table}\n\nMade by `{command}`.\n".encode())
    body = "\n".join(f"{' & '.join(line)} \\\\" for line in lines)
    latex = f"\\begin{{tabular}}{{lccc}}\n{' & '.join(head)} \\\\\n\\midrule\n{body}\n\\end{{tabular}}\n"
    write_durably(folder / "table.tex", latex.encode())
    draw(rows, folder)


def _summary(varied: str, rows: Sequence[Point]) -> list[str]:
    ratios = [row.gap / row.bound for row in rows]
    exponents = [f"{_slope(rows, lambda row: row.gap):.2f}", f"{_slope(rows, lambda row: row.bound):.2f}"]
    return [SYMBOLS[varied], *exponents, f"{min(ratios):.4f} to {max(ratios):.4f}"]


def _slope(rows: Sequence[Point], of: Callable[[Point], float]) -> float:
    """The exponent of a power law through these points."""
    x = [math.log(getattr(row, row.varied)) for row in rows]
    return float(np.polyfit(x, [math.log(of(row)) for row in rows], 1)[0])


def draw(rows: Sequence[Point], folder: Path) -> None:
    """Gap and bound against each of k, M, H and q, all axes logarithmic."""
    # The same file from the same numbers, with its text as text.
    with mpl.rc_context({"svg.hashsalt": "value gap", "svg.fonttype": "none"}):
        figure = Figure(figsize=(12, 3), layout="constrained")
        axes = figure.subplots(1, len(SWEEPS), sharey=True)
        for axis, varied in zip(axes, SWEEPS, strict=True):
            chosen = [row for row in rows if row.varied == varied]
            x = [getattr(row, varied) for row in chosen]
            axis.loglog(x, [row.bound for row in chosen], "--", color="grey", label="bound")
            axis.loglog(x, [row.gap for row in chosen], "o-", color="teal", label="largest V* − V_D*")
            fixed = ", ".join(f"{SYMBOLS[name]} = {BASE[name]}" for name in SWEEPS if name != varied)
            axis.set(xlabel=SYMBOLS[varied], title=fixed)
            axis.grid(alpha=0.3)
            axis.minorticks_off()
        axes[0].legend()
        figure.savefig(folder / "figure.svg", metadata={"Date": None})
        figure.savefig(folder / "figure.png", dpi=200)
