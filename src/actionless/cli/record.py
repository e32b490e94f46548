"""Train an agent in an environment and record a log with it, in D4RL's format, with actions and reference scores.

The agent is trained first, in its own run directory (`--run`). Give the same directory for each level to train it only
once. A run that stopped is resumed. `random` needs no agent and trains none unless `--run` is given.

levels:
  random   random actions
  medium   the first agent whose evaluation is a third of the way from random to expert
  expert   the best agent of the run
  replay   the steps of the run until it reached medium

examples:
  actionless record Hopper-v5 --level medium --steps 100000 --run runs/hopper --out hopper-medium.hdf5
  actionless record Hopper-v5 --level replay --steps 100000 --run runs/hopper --out hopper-replay.hdf5
  actionless record dmc:cheetah-run --agent decqn --level expert --steps 100000 --out cheetah-expert.hdf5
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from actionless.online.agents import AGENTS
from actionless.settings import ScaleName
from actionless.training.online_settings import DEFAULT_AGENT, DEFAULT_SCALE
from actionless.training.record import Level

if TYPE_CHECKING:
    AgentName = str
else:
    AgentName = Literal[tuple(AGENTS)]


@dataclasses.dataclass(frozen=True)
class Command:
    environment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """The environment."""
    level: Level
    """How good the recorded agent is."""
    steps: int
    """Number of transitions to record."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """The HDF5 file to write."""
    run_: Annotated[Path | None, tyro.conf.arg(name="run", metavar="RUN")] = None
    """The run directory in which the agent is trained; by default FILE.run."""
    agent: AgentName = DEFAULT_AGENT
    """TD3 and SAC take continuous actions; DecQN_N takes discrete actions, or bins of continuous ones."""
    scale: ScaleName = DEFAULT_SCALE
    """Preset sizes of the training: seconds for a test, minutes on two cores, or the paper's."""
    train_steps: int | None = None
    """Number of training steps; by default that of the scale."""
    action_bins: int | None = None
    """Number of bins per action dimension when decqn acts in an environment with continuous actions."""
    seed: int = 0
    """Seed of the training, of the episodes and of all random choices."""
    overwrite: bool = False
    """Replace an existing file; the run is kept."""

    def run(self) -> None:
        """Record, then print the size and returns of the log."""
        from actionless.data.recording import read_metadata
        from actionless.training.record import record

        record(
            self.environment,
            self.out,
            level=self.level,
            steps=self.steps,
            run=self.run_,
            agent=self.agent,
            scale=self.scale,
            train_steps=self.train_steps,
            action_bins=self.action_bins,
            seed=self.seed,
            overwrite=self.overwrite,
        )
        about = read_metadata(self.out)
        expert = f", expert {about['expert_return']:.4g}" if "expert_return" in about else ""
        print(
            f"{self.out}: {about['steps']:,} transitions in {about['episodes']:,} episodes, "
            f"mean return {about['mean_return']:.4g} (random {about['random_return']:.4g}{expert})"
        )
