"""Go on with a run that stopped: after Ctrl-C, a crash, a full disk or a power cut.

The run ends as if it had never stopped, to the last bit (on the same machine and versions). A run of several
seeds goes on with every seed that is not finished.

examples:
  actionless resume runs/hopper
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro


@dataclasses.dataclass(frozen=True)
class Command:
    """What `actionless resume` takes."""

    run_directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The directory that was the run's `--out`."""

    def run(self) -> None:
        """Go on with it on as many threads as it began with."""
        from actionless.cli.run_summary import show_summary
        from actionless.runs.directory import read_manifest
        from actionless.runs.threads import use_threads

        use_threads(read_manifest(self.run_directory).threads)
        from actionless.training.resume import resume

        resume(self.run_directory)
        show_summary(self.run_directory)
