"""The kinds of policies, by what policy.json calls them. A kind from outside the package is one more entry."""

from pathlib import Path

from actionless.offline import policy_files
from actionless.offline.learner import Policy
from actionless.offline.planner import Planner
from actionless.offline.state_policy import ActionPolicy, StatePolicy
from actionless.settings import table_entry

POLICY_KINDS: dict[str, type[Policy]] = {kind.kind: kind for kind in (StatePolicy, ActionPolicy, Planner)}


def load_policy(directory: str | Path) -> Policy:
    """The policy that a finished run saved, or that was saved by itself."""
    description, _ = policy_files.read(Path(directory))
    return table_entry(POLICY_KINDS, description["kind"], f"{directory}: kind").load(directory)
