"""Learn a state policy from a log: in which direction each variable should move from a state.

DATA is what `actionless inspect` takes. The policy, metrics and checkpoints are written to the directory RUN; if the
run stops, `actionless resume RUN` resumes it. Actions are not read, except with `--method bc-action`.

examples:
  actionless pretrain hopper_medium-v2.hdf5 --out runs/hopper
  actionless pretrain minari:mujoco/hopper/medium-v0 --out runs/hopper-bc --method bc-delta --seeds 5
  actionless pretrain hopper_medium-v2.hdf5 --out runs/plans --method afdt
  actionless pretrain plant.parquet --out runs/plant --alpha 5 --steps 10000 --epsilon 0.01 --tensorboard
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from actionless.cli.sinks import SinkFlags
from actionless.data.options import ReadOptions
from actionless.training.options import PretrainOptions


@dataclasses.dataclass(frozen=True)
class Command:
    """What `actionless pretrain` takes."""

    data: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DATA [DATA ...]")]
    """The log to read; see `actionless inspect --help`."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """The directory to create."""
    options: Annotated[tyro.conf.OmitArgPrefixes[PretrainOptions], tyro.conf.arg(name="training")] = dataclasses.field(
        default_factory=PretrainOptions
    )
    seeds: int = 1
    """Number of seeds, counted up from `--seed`; each is run in RUN/seed-N."""
    sinks: tyro.conf.OmitArgPrefixes[SinkFlags] = dataclasses.field(default_factory=SinkFlags)
    overwrite: bool = False
    """Replace an existing run."""
    read: tyro.conf.OmitArgPrefixes[ReadOptions] = dataclasses.field(default_factory=ReadOptions)

    def run(self) -> None:
        """Learn, then print where the policy is."""
        from actionless.cli.run_summary import show_summary
        from actionless.training.pretrain import pretrain_with

        pretrain_with(
            self.data,
            self.out,
            self.options,
            self.read,
            seeds=self.seeds,
            overwrite=self.overwrite,
            sinks=self.sinks.chosen,
        )
        show_summary(self.out)
