"""Run every step on a small bundled log: pre-train a state policy, train agents with and without it, write a report.

The log holds states and rewards of HalfCheetah-v5, but no actions. The runs and report.html are written to DIR. The
demo takes about five minutes on two cores. `--quick` takes less than a minute: long enough to see that everything
works, too short for agents to learn.

examples:
  actionless demo
  actionless demo --quick --out quick-demo
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro


@dataclasses.dataclass(frozen=True)
class Command:
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("actionless-demo")
    """The directory to create."""
    quick: bool = False
    """Take less than a minute, to see that everything works."""
    overwrite: bool = False
    """Replace an existing demo."""

    def run(self) -> None:
        """Run the demo, then print where its report is."""
        from actionless.demo import FULL, QUICK, demo

        demo(self.out, QUICK if self.quick else FULL, overwrite=self.overwrite)
        if self.quick:
            print("This was too short for agents to learn. `actionless demo` shows what guidance does.")
