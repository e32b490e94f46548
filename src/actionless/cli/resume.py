"""Resume a run that stopped: after Ctrl-C, a crash, a full disk or a power cut.

The result is bit-identical to that of a run that never stopped (on the same machine, with the same versions). In a run
of several seeds, every seed that is not finished is resumed.

examples:
  actionless resume runs/hopper
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro


@dataclasses.dataclass(frozen=True)
class Command:
    run_directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run directory: what was given as `--out`."""

    def run(self) -> None:
        """Resume with as many threads as the run started with."""
        from actionless.cli.run_summary import show_summary
        from actionless.runs.directory import read_manifest
        from actionless.runs.threads import use_threads

        use_threads(read_manifest(self.run_directory).threads)
        from actionless.training.resume import resume

        resume(self.run_directory)
        show_summary(self.run_directory)
