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

from actionless.errors import ActionlessError


@dataclasses.dataclass(frozen=True)
class Command:
    """What `actionless resume` takes."""

    run_directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The directory that was the run's `--out`."""

    def run(self) -> None:
        """Look what kind of run it is and go on with it."""
        from actionless.cli.run_summary import show_summary
        from actionless.runs.directory import read_manifest
        from actionless.runs.signals import stop_with_parent
        from actionless.runs.threads import use_threads

        stop_with_parent()
        manifest = read_manifest(self.run_directory)
        if manifest.verb != "pretrain":
            raise ActionlessError(f"{self.run_directory}: a run of '{manifest.verb}', which cannot be gone on with")
        use_threads(manifest.threads)
        from actionless.training.pretrain import resume
        from actionless.training.seeds import has_seeds, resume_seeds

        if has_seeds(self.run_directory):
            resume_seeds(self.run_directory)
        else:
            resume(self.run_directory)
        show_summary(self.run_directory)
