"""Learn a state policy from a log: in which direction each variable should move from a state.

DATA is what `actionless inspect` takes. The policy, metrics and checkpoints are written to the directory RUN; if the
run stops, `actionless resume RUN` resumes it. Actions are not read, unless the method imitates them.

examples:
  actionless pretrain hopper_medium-v2.hdf5 --out runs/hopper
  actionless pretrain minari:mujoco/hopper/medium-v0 --out runs/hopper-bc --method bc-delta --seeds 5
  actionless pretrain hopper_medium-v2.hdf5 --out runs/plans --method afdt
  actionless pretrain plant.parquet --out runs/plant --alpha 5 --steps 10000 --epsilon 0.01 --tensorboard
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from actionless.cli.flags import Flags, flags_class
from actionless.cli.read_flags import ReadFlags
from actionless.cli.sinks import SinkFlags
from actionless.data.options import ReadOptions
from actionless.offline.methods import DEFAULT_METHOD, METHODS
from actionless.settings import ScaleName
from actionless.training.pretrain_settings import DEFAULT_SCALE, pretrain_options

if TYPE_CHECKING:
    MethodName = str
    SettingFlags = Flags
else:
    MethodName = Literal[tuple(METHODS)]
    SettingFlags = flags_class(
        pretrain_options(),
        {
            "": "How long to learn, and which change of a variable counts as `same`.",
            "learner": "Settings of the learner; in parentheses, the methods that have one, if not all do.",
            "loop": "How the loop works. Only `held_out` changes what is learnt.",
        },
    )

_METHODS_HELP = "; ".join(
    f"{name}: {method.about} (gives {' and '.join(method.gives)})" for name, method in METHODS.items()
)


@dataclasses.dataclass(frozen=True)
class Command:
    data: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DATA [DATA ...]")]
    """The log to read; see `actionless inspect --help`."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """The directory to create."""
    method: Annotated[MethodName, tyro.conf.arg(help=_METHODS_HELP)] = DEFAULT_METHOD
    scale: ScaleName = DEFAULT_SCALE
    """Preset sizes: seconds for a test, minutes on two cores, or the paper's."""
    seed: int = 0
    """Seed of the initial weights, the held-out episodes and the order of the data."""
    seeds: int = 1
    """Number of seeds, counted up from `--seed`; each is run in RUN/seed-N."""
    overwrite: bool = False
    """Replace an existing run."""
    settings: Annotated[tyro.conf.OmitArgPrefixes[SettingFlags], tyro.conf.arg(name="training")] = dataclasses.field(
        default_factory=SettingFlags
    )
    sinks: tyro.conf.OmitArgPrefixes[SinkFlags] = dataclasses.field(default_factory=SinkFlags)
    read: tyro.conf.OmitArgPrefixes[ReadFlags] = dataclasses.field(default_factory=ReadFlags)

    def run(self) -> None:
        """Learn, then print where the policy is."""
        from actionless.cli.run_summary import show_summary
        from actionless.training.pretrain import pretrain

        pretrain(
            self.data,
            self.out,
            method=self.method,
            scale=self.scale,
            seed=self.seed,
            seeds=self.seeds,
            read=ReadOptions(**self.read.given()),
            overwrite=self.overwrite,
            sinks=self.sinks.chosen,
            **self.settings.given(),
        )
        show_summary(self.out)
