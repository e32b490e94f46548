"""Show in which direction each variable should move from a state, how certain that is, and the expected gain.

STATES is a CSV, Parquet, Arrow or npz file with a column for each variable of the policy, or `-` for CSV on standard
input; other columns are ignored. Without STATES, the states are the last ones of the episodes in the run's log that
did not end in a terminal state. Up to 20 states are shown as tables, more as CSV.

examples:
  actionless recommend runs/plant
  actionless recommend runs/plant today.csv --json
  tail -n 1 today.csv | cat header.csv - | actionless recommend runs/plant -
"""

import dataclasses
import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from actionless.offline.recommendation import Recommendation

MOST_TABLES = 20


@dataclasses.dataclass(frozen=True)
class Command:
    run_directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run of `actionless pretrain`, or a saved state policy."""
    states: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[STATES]")] = None
    """The states to give recommendations for."""
    json: bool = False
    """Print a JSON array with one object per state."""

    def run(self) -> None:
        """Read, recommend, print."""
        from actionless.analysis.recommendation import recommend_for_run

        recommendation = recommend_for_run(self.run_directory, self.states)
        if self.json:
            objects = (json_module.dumps(state, ensure_ascii=False) for state in recommendation.to_dicts())
            print("[\n" + ",\n".join(objects) + "\n]")
        elif len(recommendation.direction) <= MOST_TABLES:
            _show(recommendation)
        else:
            _print_csv(recommendation)


def _show(recommendation: "Recommendation") -> None:
    from rich.console import Console
    from rich.table import Table

    from actionless.cli.inspection_table import printed
    from actionless.offline.recommendation import WORDS

    def fill(console: Console) -> None:
        for row, state in enumerate(recommendation.to_dicts()):
            figures = [name for name in next(iter(state.values())) if name != "direction"]
            table = Table(box=None, header_style="bold", pad_edge=False)
            table.add_column(f"state {row}")
            table.add_column("")
            for name in figures:
                table.add_column(name.replace("_", " "), justify="right")
            for variable, advice in state.items():
                cells = ["" if advice[name] is None else f"{advice[name]:.3g}" for name in figures]
                table.add_row(variable, WORDS[advice["direction"]], *cells)
            console.print(table)

    printed(fill)


def _print_csv(recommendation: "Recommendation") -> None:
    import numpy as np
    import polars as pl

    from actionless.offline.recommendation import WORDS

    columns = recommendation.columns()
    states, dim = len(recommendation.direction), len(recommendation.state_names)
    table = pl.DataFrame(
        {
            "state": np.repeat(np.arange(states), dim),
            "variable": list(recommendation.state_names) * states,
            "move": np.array([WORDS[-1], WORDS[0], WORDS[1]])[columns["direction"] + 1],
            **columns,
        }
    )
    print(table.fill_nan(None).write_csv(), end="")
