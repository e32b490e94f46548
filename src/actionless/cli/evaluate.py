"""Say whether a policy is any good: from a log alone, and where there is a task, by playing in it.

Without `--data` a state policy is measured on the episodes of its own log that were held out from training, otherwise
on the log given: how well its Δs agree with what happened, whether its probabilities and Q can be believed, whether
what it proposes was ever seen to happen, and a verdict in words with the numbers behind it.

With `--env` it is also played in that task. An inverse dynamics model trained on `--labelled`, a log with actions,
finds the actions; a policy of bc-action acts by itself.

examples:
  actionless evaluate runs/hopper
  actionless evaluate runs/plant --data 'later/*.parquet' --state-columns 'temp_*,flow' --reward-column yield --json
  actionless evaluate runs/hopper --env Hopper-v5 --labelled hopper_medium_expert-v2.hdf5
"""

import dataclasses
import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from actionless.data.options import ReadOptions
from actionless.errors import ActionlessError
from actionless.settings import ScaleName

if TYPE_CHECKING:
    from actionless.analysis.rollouts import EnvironmentFigures
    from actionless.offline.learner import Policy


@dataclasses.dataclass(frozen=True)
class Command:
    """What `actionless evaluate` takes."""

    run_directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run of `actionless pretrain`, or a saved policy."""
    data: Annotated[str | None, tyro.conf.arg(metavar="HELD_OUT")] = None
    """A log to measure on: a file, a glob or minari:ID. If not given, the run's own held-out episodes."""
    env: Annotated[str | None, tyro.conf.arg(metavar="ENV")] = None
    """A task to play in as well."""
    labelled: Annotated[str | None, tyro.conf.arg(metavar="DATA")] = None
    """A log of that task with actions."""
    scale: ScaleName = "cpu"
    """Size of the inverse dynamics model and of its training."""
    episodes: int = 10
    """Episodes to play."""
    seed: int = 0
    """Decides how these episodes begin."""
    json: bool = False
    """Print everything as one JSON object."""
    read: tyro.conf.OmitArgPrefixes[ReadOptions] = dataclasses.field(default_factory=ReadOptions)

    def run(self) -> None:
        """Measure, play, print."""
        self._check()
        from actionless.analysis.diagnostics import diagnose_run
        from actionless.offline.policies import load_policy
        from actionless.offline.state_policy import ActionPolicy

        policy = None if self.env is None else load_policy(self.run_directory)
        acts = isinstance(policy, ActionPolicy)
        if acts and self.data is not None:
            raise ActionlessError(f"{self.run_directory}: {policy.method} proposes no Δs to compare: leave out --data")
        diagnosis = None if acts else diagnose_run(self.run_directory, self.data, self.read)
        played = None if policy is None else self._played(policy)
        if self.json:
            figures = {"delta_accuracy": None, "delta_error": None} if diagnosis is None else diagnosis.to_dict()
            figures |= {} if played is None else played.to_dict()
            print(json_module.dumps(figures, indent=2, ensure_ascii=False))
            return
        from actionless.cli.evaluation_table import show

        show(diagnosis, played)

    def _check(self) -> None:
        if (self.env is None) != (self.labelled is None):
            raise ActionlessError("--env and --labelled go together: the task, and a log of it with actions")
        if self.data is None and self.labelled is None and self.read != ReadOptions():
            raise ActionlessError(
                "options of how to read a log go with --data or --labelled: the run's own log is read as for training"
            )

    def _played(self, policy: "Policy") -> "EnvironmentFigures":
        from actionless.analysis.rollouts import evaluate_in_environment
        from actionless.data.read import read_with

        assert self.env is not None and self.labelled is not None
        labelled = read_with(self.labelled, dataclasses.replace(self.read, with_actions=True))
        return evaluate_in_environment(
            policy, self.env, labelled, scale=self.scale, episodes=self.episodes, seed=self.seed
        )
