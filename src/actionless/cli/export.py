"""Write a state policy as one ONNX file, which proposes Δs without this package.

Its input is states in the units of the log: the file contains the normaliser and the choice of the best Δs. Its
metadata names the variables, the method and the log. docs/analysis.md has a program that runs it.

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
    run_directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run directory of `actionless pretrain`."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.onnx")]
    """The file to write."""
    overwrite: bool = False
    """Replace an existing file."""

    def run(self) -> None:
        """Load the policy, write the file, print its size."""
        from actionless.analysis.export import export

        path = export(self.run_directory, self.out, overwrite=self.overwrite)
        note(f"wrote {path}: {path.stat().st_size:,} bytes")
