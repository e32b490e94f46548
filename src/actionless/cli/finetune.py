"""Learn from a log with actions, then in its environment: methods to compare learning without actions with.

ENV is a Gymnasium id, `module:Env-v0`, or `dmc:domain-task`, with continuous actions. The agent learns from the log
for `--offline-steps` updates. Then it acts for `--steps` steps, with one update per step from the log and its own
experience. The agent, metrics and checkpoints are written to the directory RUN; if the run stops,
`actionless resume RUN` resumes it.

examples:
  actionless finetune Hopper-v5 --data hopper_medium-v2.hdf5 --out runs/iql
  actionless finetune Hopper-v5 --data hopper_medium-v2.hdf5 --method cal-ql --out runs/cal-ql --seeds 5
  actionless finetune Hopper-v5 --data minari:mujoco/hopper/medium-v0 --steps 0 --out runs/offline-alone
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from actionless.cli.sinks import SinkFlags
from actionless.data.options import ReadOptions
from actionless.training.finetune_options import FinetuneOptions


@dataclasses.dataclass(frozen=True)
class Command:
    """What `actionless finetune` takes."""

    environment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """The environment."""
    data: Annotated[str, tyro.conf.arg(metavar="LABELLED")]
    """A log of that environment with actions: a file, a glob or minari:ID."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """The directory to create."""
    options: Annotated[tyro.conf.OmitArgPrefixes[FinetuneOptions], tyro.conf.arg(name="training")] = dataclasses.field(
        default_factory=FinetuneOptions
    )
    seeds: int = 1
    """Number of seeds, counted up from `--seed`; each is run in RUN/seed-N."""
    sinks: tyro.conf.OmitArgPrefixes[SinkFlags] = dataclasses.field(default_factory=SinkFlags)
    overwrite: bool = False
    """Replace an existing run."""
    read: tyro.conf.OmitArgPrefixes[ReadOptions] = dataclasses.field(default_factory=ReadOptions)

    def run(self) -> None:
        """Learn, then print the agent's returns."""
        from actionless.cli.run_summary import show_summary
        from actionless.training.finetune import finetune_with

        finetune_with(
            self.environment,
            self.data,
            self.out,
            self.options,
            self.read,
            seeds=self.seeds,
            overwrite=self.overwrite,
            sinks=self.sinks.chosen,
        )
        show_summary(self.out)
