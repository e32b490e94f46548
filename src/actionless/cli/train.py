"""Train an agent in an environment, with or without guidance by a state policy.

ENV is a Gymnasium id, `module:Env-v0`, or `dmc:domain-task`. With `--guide` the log of a `pretrain` run helps the
agent: by default its values become part of the reward, and its steps, with actions that are recovered during training,
part of every batch. `--guidance paper` follows the state policy in some steps instead, as the paper does. A run of
`--method afdt` rewards `--agent sac` for following its plans. Evaluations and returns never contain guidance. The
agent, metrics and checkpoints are written to the directory RUN; if the run stops, `actionless resume RUN` resumes it.

examples:
  actionless train Hopper-v5 --out runs/alone
  actionless train Hopper-v5 --guide runs/hopper --out runs/guided --seeds 5
  actionless train Hopper-v5 --guide runs/hopper --guidance paper --out runs/paper
  actionless train Hopper-v5 --agent sac --guide runs/plans --target-return 3600 --out runs/af-guide
  actionless train dmc:cheetah-run --agent decqn --guide runs/cheetah --steps 100000 --out runs/cheetah-guided
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from actionless.cli.flags import Flags, flags_class
from actionless.cli.sinks import SinkFlags
from actionless.guidance.kinds import KINDS
from actionless.online.agents import AGENTS
from actionless.settings import ScaleName
from actionless.training.online_settings import DEFAULT_AGENT, DEFAULT_SCALE, train_options

if TYPE_CHECKING:
    AgentName = str
    SettingFlags = Flags
else:
    AgentName = Literal[tuple(AGENTS)]
    SettingFlags = flags_class(
        train_options(),
        {
            "": "How long the agent learns.",
            "learner": "Settings of the agent; in parentheses, the agents that have one, if not all do.",
            "guidance": "How an agent is guided; in parentheses, the kinds of guidance that have a setting.",
            "loop": "How the loop works. Only `updates_together` changes what is learnt.",
        },
        switches=[each.name for each in train_options() if each.part == "guidance"],
    )

_GUIDANCE_HELP = (
    f"Kinds of guidance in their order, separated by commas ({', '.join(KINDS)}); if not given, "
    "`potential,relabel`, or what the guide's run allows."
)


@dataclasses.dataclass(frozen=True)
class Command:
    environment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """The environment."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """The directory to create."""
    agent: AgentName = DEFAULT_AGENT
    """TD3 and SAC for continuous actions; DecQN_N for discrete actions, or continuous actions in bins."""
    guide: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """A `pretrain` run, or a saved policy or planner."""
    guidance: Annotated[str | None, tyro.conf.arg(metavar="KIND,KIND", help=_GUIDANCE_HELP)] = None
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

    def run(self) -> None:
        """Train, then print the agent's returns."""
        from actionless.cli.run_summary import show_summary
        from actionless.training.train import train

        train(
            self.environment,
            self.out,
            agent=self.agent,
            guide=self.guide,
            guidance=self.guidance,
            scale=self.scale,
            seed=self.seed,
            seeds=self.seeds,
            overwrite=self.overwrite,
            sinks=self.sinks.chosen,
            **self.settings.given(),
        )
        show_summary(self.out)
