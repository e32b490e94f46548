"""Learn a state policy from a log: which way each variable should move from here.

DATA is what `actionless inspect` takes. RUN becomes a directory with the policy, the metrics and checkpoints;
`actionless resume RUN` goes on with it if it stops. Actions are not read, but for `--method bc-action`.

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
    """What to read; see `actionless inspect --help`."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """The directory to make."""
    options: Annotated[tyro.conf.OmitArgPrefixes[PretrainOptions], tyro.conf.arg(name="training")] = dataclasses.field(
        default_factory=PretrainOptions
    )
    seeds: int = 1
    """Run so many seeds, from `--seed` on, each in RUN/seed-N."""
    sinks: tyro.conf.OmitArgPrefixes[SinkFlags] = dataclasses.field(default_factory=SinkFlags)
    overwrite: bool = False
    """Replace the run that is there."""
    read: tyro.conf.OmitArgPrefixes[ReadOptions] = dataclasses.field(default_factory=ReadOptions)

    def run(self) -> None:
        """Learn, say where the policy is."""
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
