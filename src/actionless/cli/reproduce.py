"""Make a table or figure of the paper, or of your own sweep: plan the runs, do what is missing, write the result.

NAME is an experiment of `--list`, `all`, or a TOML file of your own. Each result is a folder OUT/NAME with tables
(Markdown, CSV, LaTeX) beside the paper's numbers, figures (SVG, PNG) and an interactive page. Runs stand in OUT/runs;
experiments share those with the same settings, log and version. Stop it at any time and call it again: what is
finished is kept, what stopped is resumed.

examples:
  actionless reproduce --list
  actionless reproduce table-1 --scale smoke --data-from-record
  actionless reproduce table-1 table-2 --data logs --tasks hopper --seeds 2 --workers 2
  actionless reproduce figure-1 --data logs --dry-run
  actionless reproduce my_sweep.toml
  actionless reproduce table-1 --data logs --ray auto
  actionless reproduce table-1 --data logs --slurm > table-1.sh
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from actionless.errors import ActionlessError
from actionless.settings import ScaleName


@dataclasses.dataclass(frozen=True)
class Command:
    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME [NAME ...]")] = ()
    """Experiments of the package, `all` of them, or TOML files."""
    list: bool = False
    """Show the experiments, and what each takes on this machine."""
    scale: ScaleName = "cpu"
    """Preset sizes: seconds for a test, minutes on two cores for each run, or the paper's."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="LOGS")] = None
    """A folder with the logs, under the names that D4RL and factorised DMC give them."""
    data_from_record: bool = False
    """Make logs that the folder lacks with our own agents. Without a folder, they are put into OUT/recorded."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("reproduced")
    """The folder for runs and results."""
    seeds: int | None = None
    """Number of seeds, counted from 0. If not given, the experiment's own: mostly 1, 3 and 5 by scale."""
    tasks: tuple[str, ...] = ()
    """Only logs of these robots or environments, or these logs: hopper, Hopper-v5, hopper-medium."""
    workers: int | None = None
    """Runs side by side, each on one core. If not given, as many as there are cores."""
    ray: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """Run on the Ray cluster at this address (auto: the one that this machine belongs to)."""
    slurm: bool = False
    """Print a script for SLURM instead of running."""
    dry_run: bool = False
    """Print the plan instead of running: runs, hours of a core, disk."""

    def run(self) -> None:
        """Show, plan or reproduce."""
        from actionless.cli.reproduction_table import show_experiments, show_plan
        from actionless.reproduction.reproduce import (
            ReproduceSettings,
            chosen_executor,
            experiments_of,
            listing,
            reproduce,
        )

        if self.list:
            show_experiments(listing())
            return
        if self.slurm and self.dry_run:
            raise ActionlessError("--slurm and --dry-run: give one of them")
        data = None if self.data is None else str(self.data)
        settings = ReproduceSettings(self.scale, data, self.data_from_record, self.seeds, self.tasks)
        if self.dry_run or self.slurm:
            experiments = experiments_of(self.names, self.out, settings, chosen_executor(self.workers, self.ray))
            if self.slurm:
                print(experiments.slurm_script(), end="")
            else:
                show_plan(experiments)
            return
        for folder in reproduce(self.names, out=self.out, settings=settings, workers=self.workers, ray=self.ray):
            print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
