"""Write a state policy as one ONNX file that proposes Δs without this package.

States go in as they are logged: the normaliser is inside, and so is the choice of the best Δs. The file names its
variables, method and log in its metadata. docs/analysis.md has a program that runs it.

examples:
  actionless export runs/tank --out tank.onnx
  actionless export runs/tank --out tank.onnx --overwrite
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from actionless.cli.output import note


@dataclasses.dataclass(frozen=True)
class Command:
    """What `actionless export` takes."""

    run_directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run directory of `actionless pretrain`."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.onnx")]
    """Where to write."""
    overwrite: bool = False
    """Replace what is there."""

    def run(self) -> None:
        """Load, write, say what was written."""
        from actionless.analysis.export import export

        path = export(self.run_directory, self.out, overwrite=self.overwrite)
        note(f"wrote {path}: {path.stat().st_size:,} bytes")
