"""Measure how good a policy is: on a log and, with `--env`, in an environment.

A state policy is measured on the log `--data`, or else on the held-out episodes of its own log: how well its Δs agree
with the log, how well its probabilities and Q values are calibrated, whether similar states in the log ever moved as
it proposes, and a verdict in words with its numbers.

With `--env` the policy also acts in that environment. An inverse dynamics model, trained on the log with actions
`--labelled`, finds the actions; a policy that gives actions itself needs none. One checkpoint of one seed says little:
`--last 5` takes the mean over the last five checkpoints (pre-train with `--last-checkpoints 5`), and a run of several
seeds is evaluated as a whole. Intervals are 95%, by bootstrap over seeds and episodes.

examples:
  actionless evaluate runs/hopper
  actionless evaluate runs/plant --data 'later/*.parquet' --state-columns 'temp_*,flow' --reward-column yield --json
  actionless evaluate runs/hopper --env Hopper-v5 --labelled hopper_medium_expert-v2.hdf5
  actionless evaluate runs/hopper --env Hopper-v5 --labelled hopper_medium_expert-v2.hdf5 --last 5 --weights averaged
"""

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from actionless.cli.read_flags import ReadFlags
from actionless.data.options import ReadOptions
from actionless.errors import ActionlessError
from actionless.settings import ScaleName

if TYPE_CHECKING:
    from actionless.analysis.run_scores import RunFigures


@dataclasses.dataclass(frozen=True)
class Command:
    run_directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run of `actionless pretrain`, or a saved policy."""
    data: Annotated[str | None, tyro.conf.arg(metavar="HELD_OUT")] = None
    """A log to measure on: a file, a glob or minari:ID. If not given, the run's own held-out episodes."""
    env: Annotated[str | None, tyro.conf.arg(metavar="ENV")] = None
    """An environment to act in as well."""
    labelled: Annotated[str | None, tyro.conf.arg(metavar="DATA")] = None
    """A log of that environment with actions."""
    last: Annotated[int | None, tyro.conf.arg(metavar="K")] = None
    """In the environment, take the last K checkpoints of each seed. If not given, the policy at the end alone."""
    weights: Literal["last", "averaged"] = "last"
    """In the environment, use the network that learns, or the moving average of its weights."""
    scale: ScaleName = "cpu"
    """Size of the inverse dynamics model and number of its updates."""
    components: int = 0
    """Of a mixture density that finds the actions, for logs where several actions have the same Δs; 0: a regression."""
    episodes: int = 10
    """Number of episodes in the environment, of each checkpoint."""
    seed: int = 0
    """Seed of these episodes."""
    json: bool = False
    """Print everything as one JSON object."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Also write FOLDER/figures.json, which is what `--json` prints, and then FOLDER/result.json."""
    overwrite: bool = False
    """Replace the evaluation that is in FOLDER."""
    read: tyro.conf.OmitArgPrefixes[ReadFlags] = dataclasses.field(default_factory=ReadFlags)

    def run(self) -> None:
        """Measure on the log, then in the environment, and print."""
        began = time.perf_counter()
        self._check()
        from actionless.analysis.diagnostics import diagnose_run
        from actionless.analysis.evaluation_folder import as_json, write_evaluation

        read = ReadOptions(**self.read.given())
        diagnosis = diagnose_run(self.run_directory, self.data, read) if self._is_diagnosed() else None
        played = None if self.env is None else self._played()
        figures = {"delta_accuracy": None, "delta_error": None} if diagnosis is None else diagnosis.to_dict()
        figures |= {} if played is None else played.to_dict()
        if self.out is not None:
            write_evaluation(self.out, figures, time.perf_counter() - began)
        if self.json:
            print(as_json(figures), end="")
            return
        from actionless.cli.evaluation_table import show

        show(diagnosis, played)

    def _check(self) -> None:
        from actionless.analysis.evaluation_folder import require_free_folder

        if self.out is not None:
            require_free_folder(self.out, overwrite=self.overwrite)
        if (self.env is None) != (self.labelled is None):
            raise ActionlessError("--env requires --labelled (a log of that environment with actions), and the reverse")
        if self.env is None and (self.last is not None or self.weights != "last"):
            raise ActionlessError("--last and --weights require --env (the environment to act in)")
        if self.data is None and self.labelled is None and self.read.given():
            raise ActionlessError(
                "options for reading a log require --data or --labelled: the run's own log is read as for training"
            )

    def _is_diagnosed(self) -> bool:
        """Whether there is one policy that proposes Δs, to be measured on a log."""
        from actionless.analysis.run_scores import seeds_of
        from actionless.offline.policies import load_policy
        from actionless.offline.state_policy import ActionPolicy

        if self.env is None:
            return True
        if len(seeds := seeds_of(self.run_directory)) > 1:
            if self.data is not None:
                raise ActionlessError(
                    f"{self.run_directory}: holds the runs of {len(seeds)} seeds, which are measured on a log one by "
                    f"one: remove --data, or give one of them, such as {seeds[0]}"
                )
            return False
        policy = load_policy(self.run_directory)
        if isinstance(policy, ActionPolicy) and self.data is not None:
            raise ActionlessError(f"{self.run_directory}: {policy.method} proposes no Δs to compare: remove --data")
        return not isinstance(policy, ActionPolicy)

    def _played(self) -> "RunFigures":
        from actionless.analysis.run_scores import evaluate_run
        from actionless.data.read import read

        assert self.env is not None and self.labelled is not None
        labelled = read(self.labelled, ReadOptions(**self.read.given()), with_actions=True)
        return evaluate_run(
            self.run_directory,
            self.env,
            labelled,
            last=self.last,
            weights=self.weights,
            scale=self.scale,
            components=self.components,
            episodes=self.episodes,
            seed=self.seed,
        )
