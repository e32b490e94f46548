"""Write runs as one HTML page that needs no network: learning curves, the guide at work, tables of what differs.

RUN is a directory of `pretrain` or `train`, finished or not, of one seed or several. Runs that differ in nothing but
their seed become one group, drawn as a mean with its standard error; groups are named by what sets them apart.

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
    """What `actionless report` takes."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """The run directories."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.html")]
    """Where to write the page."""
    figures: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """A folder for the charts as PNG and SVG, for papers."""
    overwrite: bool = False
    """Replace what is there."""

    def run(self) -> None:
        """Read, write, say what was written."""
        from actionless.reporting.report import report

        path = report(self.runs, self.out, figures=self.figures, overwrite=self.overwrite)
        note(f"wrote {path}: {path.stat().st_size:,} bytes")
