"""Go the whole way on a small bundled log: pre-train a state policy, train agents alone and guided by it, report.

The log holds states and rewards of HalfCheetah-v5 and no actions. DIR gets the runs and report.html. About five minutes
on two cores; `--quick` shows the same way in under a minute, too short for anything to be learnt.

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
    """What `actionless demo` takes."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("actionless-demo")
    """The directory to make."""
    quick: bool = False
    """Under a minute, to see that everything works."""
    overwrite: bool = False
    """Replace the demo that is there."""

    def run(self) -> None:
        """Run it."""
        from actionless.demo import FULL, QUICK, demo

        demo(self.out, QUICK if self.quick else FULL, overwrite=self.overwrite)
        if self.quick:
            print("Far too short for agents to learn: this was the way. `actionless demo` shows what guidance does.")
