"""Train an agent in an environment, with or without guidance by a state policy.

ENV is a Gymnasium id, `module:Env-v0`, or `dmc:domain-task`. With `--guide` the agent follows the state policy of a
`pretrain` run in some steps; an inverse dynamics model, learnt during training, finds the actions. A run of
`--method afdt` instead rewards `--agent sac` for following its plans. Evaluations always run the agent without
guidance. The agent, metrics and checkpoints are written to the directory RUN; if the run stops,
`actionless resume RUN` resumes it.

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
    """The environment."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """The directory to create."""
    guide: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """A `pretrain` run, or a saved state policy or planner (afdt)."""
    options: Annotated[tyro.conf.OmitArgPrefixes[TrainOptions], tyro.conf.arg(name="training")] = dataclasses.field(
        default_factory=TrainOptions
    )
    seeds: int = 1
    """Number of seeds, counted up from `--seed`; each is run in RUN/seed-N."""
    sinks: tyro.conf.OmitArgPrefixes[SinkFlags] = dataclasses.field(default_factory=SinkFlags)
    overwrite: bool = False
    """Replace an existing run."""

    def run(self) -> None:
        """Train, then print the agent's returns."""
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
