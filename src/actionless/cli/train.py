"""Train an agent in a task, alone or guided by a state policy.

ENV is a Gymnasium id, `module:Env-v0`, or `dmc:domain-task`. With `--guide` the agent follows the state policy of a
`pretrain` run in some steps, by an inverse dynamics model that is learnt on the way; a run of `--method afdt` pays
`--agent sac` for following its plans instead. Evaluation is always of the agent alone. RUN becomes a directory with
the agent, the metrics and checkpoints; `actionless resume RUN` goes on.

examples:
  actionless train Hopper-v5 --out runs/alone
  actionless train Hopper-v5 --guide runs/hopper --out runs/guided --seeds 5
  actionless train Hopper-v5 --agent sac --guide runs/plans --target-return 3600 --out runs/af-guide
  actionless train dmc:cheetah-run --agent decqn --guide runs/cheetah --steps 100000 --out runs/cheetah-guided
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from actionless.cli.sinks import SinkFlags
from actionless.training.online_options import TrainOptions


@dataclasses.dataclass(frozen=True)
class Command:
    """What `actionless train` takes."""

    environment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """The task."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """The directory to make."""
    guide: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """The run, or the directory, of a state policy or of a planner (afdt)."""
    options: Annotated[tyro.conf.OmitArgPrefixes[TrainOptions], tyro.conf.arg(name="training")] = dataclasses.field(
        default_factory=TrainOptions
    )
    seeds: int = 1
    """Run so many seeds, from `--seed` on, each in RUN/seed-N."""
    sinks: tyro.conf.OmitArgPrefixes[SinkFlags] = dataclasses.field(default_factory=SinkFlags)
    overwrite: bool = False
    """Replace the run that is there."""

    def run(self) -> None:
        """Train, say what the agent is worth."""
        from actionless.cli.run_summary import show_summary
        from actionless.training.train import train_with

        train_with(
            self.environment,
            self.out,
            self.options,
            self.guide,
            seeds=self.seeds,
            overwrite=self.overwrite,
            sinks=self.sinks.chosen,
        )
        show_summary(self.out)
