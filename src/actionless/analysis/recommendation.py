"""Recommendations of a run's policy: for given states, or for the last states of its log."""

from pathlib import Path

import numpy as np
from jaxtyping import Float

from actionless.analysis.diagnostics import manifest_of
from actionless.data.log import Log
from actionless.data.states import States, read_states
from actionless.errors import ActionlessError
from actionless.offline.recommendation import Recommendation
from actionless.offline.state_policy import StatePolicy
from actionless.training.pretrain import read_again


def recommend_for_run(run: str | Path, source: str | None = None) -> Recommendation:
    """Recommend for the states in a file, on standard input (`-`), or for the last states of the run's log."""
    policy = StatePolicy.load(run)
    asked = States(latest_states(_log_of(policy, run))) if source is None else read_states(source, policy.state_names)
    return policy.recommend(asked.states, asked.next_states)


def latest_states(log: Log) -> Float[np.ndarray, "episodes dim"]:
    """The final state of each episode that did not end in a terminal state."""
    last = log.episode_stops - 1
    not_terminal = last[~np.asarray(log.terminals[last])]
    if len(not_terminal) == 0:
        raise ActionlessError(
            f"{log.source.path}: every episode ends in a terminal state, so there is nothing to recommend: give STATES"
        )
    return np.asarray(log.next_states[not_terminal])


def _log_of(policy: StatePolicy, run: str | Path) -> Log:
    manifest = manifest_of(policy, run)
    if manifest.data["origin"] is None:
        raise ActionlessError(f"{run}: its log was passed in from Python, so it cannot be read again: give STATES")
    return read_again(Path(run), manifest)
