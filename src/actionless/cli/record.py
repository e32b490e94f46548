"""Make a log of a task with an agent of our own, in D4RL's layout, actions and reference scores included.

The agent is trained first, in a run directory of its own (`--run`): name the same for each level, and it is trained
once. A run that stopped is gone on with. `random` needs no agent, and trains none unless a `--run` is named.

levels:
  random   actions by chance
  medium   the first agent, by its evaluations, that is a third of the way from random to expert
  expert   the best agent of the run
  replay   what the run lived through until it was medium

examples:
  actionless record Hopper-v5 --level medium --steps 100000 --run runs/hopper --out hopper-medium.hdf5
  actionless record Hopper-v5 --level replay --steps 100000 --run runs/hopper --out hopper-replay.hdf5
  actionless record dmc:cheetah-run --agent decqn --level expert --steps 100000 --out cheetah-expert.hdf5
"""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from actionless.online.presets import AgentName
from actionless.settings import ScaleName


@dataclasses.dataclass(frozen=True)
class Command:
    """What `actionless record` takes."""

    environment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """The task."""
    level: Literal["random", "medium", "expert", "replay"]
    """How good the agent is that is watched."""
    steps: int
    """Transitions to record."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """The HDF5 file to write."""
    run_: Annotated[Path | None, tyro.conf.arg(name="run", metavar="RUN")] = None
    """Where the agent is, or will be, trained; if not given, FILE.run."""
    agent: AgentName = "td3"
    """TD3 and SAC for continuous actions; DecQN_N for choices, or for continuous actions in bins."""
    scale: ScaleName = "cpu"
    """Preset sizes of the training: seconds for a test, minutes on two cores, or the paper's."""
    train_steps: int | None = None
    """Steps of the training; if not given, the scale's."""
    action_bins: int = 3
    """Choices in each dimension where decqn meets continuous actions."""
    seed: int = 0
    """Decides the training, the episodes and everything that is drawn."""
    overwrite: bool = False
    """Replace the file that is there; the run is kept."""

    def run(self) -> None:
        """Record, say what it holds."""
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
