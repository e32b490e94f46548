"""A run's score in an environment: the mean over its seeds, its last checkpoints and their episodes.

One checkpoint of one seed says little: the return of a deterministic policy changes from one checkpoint to the next by
more than methods differ.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from actionless.analysis.rollouts import EnvironmentFigures, Rollouts, evaluate_in_environment
from actionless.analysis.statistics import mean_over_episodes
from actionless.data.log import Log
from actionless.errors import ActionlessError
from actionless.offline.learner import Policy
from actionless.offline.policies import load_policy
from actionless.offline.state_policy import ActionPolicy, StatePolicy
from actionless.runs.directory import read_manifest
from actionless.runs.several_seeds import has_several_seeds, seed_paths
from actionless.settings import ScaleName
from actionless.training.pretrain import last_policies

Weights = Literal["last", "averaged"]
"""Those of the network that learns, or their moving average, as in a target network."""


class Played(NamedTuple):
    """One policy's episodes."""

    seed: int | None
    """None for a policy that was saved by itself."""
    step: int | None
    """Of its checkpoint; None for the policy at the end of the run."""
    figures: EnvironmentFigures


@dataclass(frozen=True)
class RunFigures:
    """The episodes of all seeds and checkpoints of a run; as many checkpoints, and episodes of each, for every seed."""

    weights: Weights
    played: tuple[Played, ...]

    @property
    def returns(self) -> Float[np.ndarray, "seeds episodes"]:
        """Means over checkpoints, which begin the same episodes: the successive ones of a run are not independent."""
        seeds = dict.fromkeys(each.seed for each in self.played)
        by_seed = [[each.figures.rollouts.returns for each in self.played if each.seed == seed] for seed in seeds]
        return np.array(by_seed).mean(axis=1)

    def to_dict(self) -> dict[str, Any]:
        """The keys of `EnvironmentFigures`, for all episodes together, with 95% intervals and each checkpoint's own."""
        pooled = self._pooled()
        estimate = mean_over_episodes(self.returns)
        interval = [float(estimate.low), float(estimate.high)]
        reference = pooled.reference
        return pooled.to_dict() | {
            "return_interval": interval,
            "score_interval": None if reference is None else [reference.score(end) for end in interval],
            "weights": self.weights,
            "checkpoints": [
                {"seed": each.seed, "step": each.step}
                | {name: each.figures.to_dict()[name] for name in ("return", "score", "rollout_delta_error")}
                for each in self.played
            ],
        }

    def _pooled(self) -> EnvironmentFigures:
        """As if one policy had played every episode."""
        figures = [each.figures for each in self.played]
        returns, lengths, errors = zip(*(each.rollouts for each in figures), strict=True)
        rollouts = Rollouts(
            np.concatenate(returns), np.concatenate(lengths), None if errors[0] is None else np.concatenate(errors)
        )
        idm_errors = [each.idm_error for each in figures if each.idm_error is not None]
        first = figures[0]
        idm_error = float(np.mean(idm_errors)) if idm_errors else None
        return EnvironmentFigures(first.environment, rollouts, first.reference, first.state_names, idm_error)


def evaluate_run(
    run: str | Path,
    environment: str,
    labelled: Log,
    *,
    last: int | None = None,
    weights: Weights = "last",
    scale: ScaleName = "cpu",
    components: int = 0,
    episodes: int = 10,
    seed: int = 0,
    cache: Path | None = None,
) -> RunFigures:
    """Run the policies of a run in an environment: of each of its seeds, and of its last checkpoints.

        labelled = actionless.read("hopper_medium_expert-v2.hdf5", with_actions=True)
        figures = evaluate_run("runs/hopper", "Hopper-v5", labelled, last=5, episodes=20).to_dict()

    Without `last`, it is the policy at the end of the run alone. All policies play the same episodes.
    """
    if last is not None and last < 1:
        raise ActionlessError(f"last={last}: choose at least 1")
    played = []
    for number, step, policy in _policies(Path(run), last):
        chosen = policy
        if weights == "averaged":
            if not isinstance(policy, StatePolicy | ActionPolicy):
                raise ActionlessError(f"{run}: {policy.method} {policy.does} and has no averaged weights")
            chosen = policy.averaged()
        figures = evaluate_in_environment(
            chosen,
            environment,
            labelled,
            scale=scale,
            components=components,
            episodes=episodes,
            seed=seed,
            cache=cache,
        )
        played.append(Played(number, step, figures))
    return RunFigures(weights, tuple(played))


def seeds_of(run: Path) -> list[Path]:
    """The runs of each seed, where a run holds several; else the run, or the saved policy, itself."""
    if (run / "run.json").is_file() and has_several_seeds(manifest := read_manifest(run)):
        return seed_paths(run, manifest)
    return [run]


def _policies(run: Path, last: int | None) -> Iterator[tuple[int | None, int | None, Policy]]:
    for path in seeds_of(run):
        number = read_manifest(path).seed if (path / "run.json").is_file() else None
        if last is None:
            yield number, None, load_policy(path)
        else:
            for step, policy in last_policies(path, last).items():
                yield number, step, policy
