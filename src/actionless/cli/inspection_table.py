"""Print an inspection: the main figures first, then a row for each variable."""

import math
from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from actionless.analysis.inspection import Dimension, Inspection

WIDTH_OF_A_FILE = 1000


def show(inspection: Inspection) -> None:
    """Print the whole inspection."""
    printed(lambda console: _fill(console, inspection))


def printed(fill: Callable[[Console], None]) -> None:
    """Print to standard output what `fill` writes to a console."""
    # Names come from files, so nothing in them is markup. A pipe or a file has no width to keep to.
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDTH_OF_A_FILE
    # Rendered first and then printed: rich would turn a closed pipe into an exit code of its own.
    with console.capture() as capture:
        fill(console)
    print(capture.get(), end="")


def _fill(console: Console, inspection: Inspection) -> None:
    console.print(Text(inspection.name, "bold"), f" {inspection.format}, read {', '.join(inspection.read)}")
    console.print(_overview(inspection))
    console.print(_dimensions(inspection))
    console.print(
        f"Δs at ε = {inspection.epsilon:g} of a variable's spread; suggested ε: {inspection.suggested_epsilon:g}"
    )
    console.print(f"fingerprint {inspection.fingerprint[:16]}")
    for warning in inspection.warnings:
        console.print(Text("warning:", "yellow"), warning)


def _overview(inspection: Inspection) -> Table:
    table = Table.grid(padding=(0, 2))
    returns, lengths, rewards = inspection.returns, inspection.lengths, inspection.rewards
    mapped = ", memory-mapped" if inspection.memory_mapped else ""
    table.add_row("transitions", f"{inspection.transitions:,} of {inspection.state_dim} variables{mapped}")
    table.add_row(
        "episodes",
        f"{inspection.episodes:,}: {inspection.terminals:,} ended by a terminal, "
        f"{inspection.timeouts:,} by a time limit or cut",
    )
    table.add_row("length", f"{_number(lengths['min'])} to {_number(lengths['max'])}, median {_number(lengths['q50'])}")
    table.add_row(
        "return",
        f"{_number(returns['mean'])} ± {_number(returns['std'])}, {_number(returns['min'])} to "
        f"{_number(returns['max'])}; quarter points {_number(returns['q25'])}, {_number(returns['q50'])}, "
        f"{_number(returns['q75'])}",
    )
    table.add_row(
        "reward",
        f"{_number(rewards['mean'])} ± {_number(rewards['std'])}, "
        f"{_number(rewards['min'])} to {_number(rewards['max'])}",
    )
    return table


def _dimensions(inspection: Inspection) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("variable")
    for name in ("min", "max", "mean", "std", "↓ down", "same", "↑ up"):
        table.add_column(name, justify="right")
    table.add_column("")
    for d in inspection.dimensions:
        shares = [f"{100 * share:.1f}%" for share in (d.down, d.same, d.up)]
        table.add_row(d.name, *map(_number, (d.min, d.max, d.mean, d.std)), *shares, _remark(d))
    return table


def _remark(dimension: Dimension) -> str:
    if dimension.constant:
        return "constant"
    return f"same as {dimension.duplicate_of}" if dimension.duplicate_of else ""


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "beyond 1e308"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
