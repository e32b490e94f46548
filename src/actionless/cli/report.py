"""Write one HTML page about runs that opens offline: learning curves, guidance metrics, tables of the differences.

RUN is a directory of `pretrain`, `train` or `finetune`, finished or not, with one seed or several. Runs that differ
only in their seed form one group, drawn as the mean with its standard error. Groups are named by the settings in which
they differ.

examples:
  actionless report runs/alone runs/guided --out report.html
  actionless report runs/* --out report.html --figures figures --overwrite
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from actionless.cli.output import note


@dataclasses.dataclass(frozen=True)
class Command:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """The run directories."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.html")]
    """Where to write the page."""
    figures: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """A folder for the charts as PNG and SVG, for papers."""
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        """Read the runs, write the page, print its size."""
        from actionless.reporting.report import report

        path = report(self.runs, self.out, figures=self.figures, overwrite=self.overwrite)
        note(f"wrote {path}: {path.stat().st_size:,} bytes")
