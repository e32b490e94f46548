"""Learn a state policy from a log: which way each variable should move from here.

DATA is what `actionless inspect` takes. RUN becomes a directory with the policy, the metrics and checkpoints;
`actionless resume RUN` goes on with it if it stops. Actions are not read, but for `--method bc-action`.

examples:
  actionless pretrain hopper_medium-v2.hdf5 --out runs/hopper
  actionless pretrain minari:mujoco/hopper/medium-v0 --out runs/hopper-bc --method bc-delta --seeds 5
  actionless pretrain plant.parquet --out runs/plant --alpha 5 --steps 10000 --epsilon 0.01 --tensorboard
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from actionless.cli.output import show_warnings
from actionless.data.options import ReadOptions
from actionless.errors import ActionlessError
from actionless.training.options import PretrainOptions

if TYPE_CHECKING:
    from actionless.runs.sinks import SinkName


@dataclasses.dataclass(frozen=True)
class Command:
    """What `actionless pretrain` takes."""

    data: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DATA [DATA ...]")]
    """What to read; see `actionless inspect --help`."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """The directory to make."""
    options: tyro.conf.OmitArgPrefixes[PretrainOptions] = dataclasses.field(default_factory=PretrainOptions)
    seeds: int = 1
    """Run so many seeds, from `--seed` on, each in RUN/seed-N."""
    tensorboard: bool = False
    """Log to TensorBoard as well, under RUN/tensorboard."""
    wandb: bool = False
    """Log to Weights & Biases as well."""
    overwrite: bool = False
    """Replace the run that is there."""
    read: tyro.conf.OmitArgPrefixes[ReadOptions] = dataclasses.field(default_factory=ReadOptions)

    def run(self) -> None:
        """Read, learn, say where the policy is."""
        from actionless.cli.run_summary import show_summary
        from actionless.data.read import read_with
        from actionless.runs.directory import require_free
        from actionless.training.options import check_options, resolve
        from actionless.training.pretrain import (
            Origin,
            check_actions,
            described,
            pretrain_log,
            require_actions_to_match,
        )
        from actionless.training.seeds import pretrain_seeds

        require_free(self.out, overwrite=self.overwrite)
        check_options(self.options)
        check_actions(self.options.method, self.read)
        if self.seeds < 1:
            raise ActionlessError(f"seeds={self.seeds}: choose at least 1")
        log = read_with(self.data, self.read)
        show_warnings(log)
        origin = Origin.of(self.data, self.read)
        if self.seeds == 1:
            pretrain_log(log, self.out, self.options, origin, overwrite=self.overwrite, sinks=self._sinks())
        else:
            require_actions_to_match(log, self.options.method)
            config, data = resolve(self.options, log.name, self._sinks()), described(log, origin)
            del log  # Every seed's process reads its own.
            seeds = range(self.options.seed, self.options.seed + self.seeds)
            pretrain_seeds(config, data, self.out, seeds, overwrite=self.overwrite)
        show_summary(self.out)

    def _sinks(self) -> "tuple[SinkName, ...]":
        chosen: list[SinkName] = []
        if self.tensorboard:
            chosen.append("tensorboard")
        if self.wandb:
            chosen.append("wandb")
        return tuple(chosen)
