"""Learn from a log with actions, then continue in its environment: methods to compare with learning without actions.

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
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from actionless.cli.flags import Flags, flags_class
from actionless.cli.read_flags import ReadFlags
from actionless.cli.sinks import SinkFlags
from actionless.data.options import ReadOptions
from actionless.online.agents import LABELLED
from actionless.settings import ScaleName
from actionless.training.online_settings import DEFAULT_METHOD, DEFAULT_SCALE, finetune_options

if TYPE_CHECKING:
    MethodName = str
    SettingFlags = Flags
else:
    MethodName = Literal[tuple(LABELLED)]
    SettingFlags = flags_class(
        finetune_options(),
        {
            "": "How long the agent learns from the log, then in the environment.",
            "learner": "Settings of the agent; in parentheses, the methods that have one, if not all do.",
            "loop": "How the loop works. Only `updates_together` changes what is learnt.",
        },
    )


@dataclasses.dataclass(frozen=True)
class Command:
    environment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """The environment."""
    data: Annotated[str, tyro.conf.arg(metavar="LABELLED")]
    """A log of that environment with its actions: a file, a glob or minari:ID."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """The directory to create."""
    method: MethodName = DEFAULT_METHOD
    """IQL: expectile regression. AWAC: advantage-weighted imitation. Cal-QL: SAC with a CQL penalty, calibrated by
    Monte-Carlo returns. O3F: SAC with several critics, optimistic exploration."""
    scale: ScaleName = DEFAULT_SCALE
    """Preset sizes: seconds for a test, minutes on two cores, or the paper's."""
    seed: int = 0
    """Seed of the initial weights, the episodes and all random choices."""
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
        """Learn, then print the agent's returns."""
        from actionless.cli.run_summary import show_summary
        from actionless.training.finetune import finetune

        finetune(
            self.environment,
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
