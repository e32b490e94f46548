"""The kinds of policies, by what policy.json calls them. A kind from outside the package is one more entry."""

from pathlib import Path

from actionless.errors import ActionlessError
from actionless.offline import policy_files
from actionless.offline.learner import Policy
from actionless.offline.planner import Planner
from actionless.offline.state_policy import ActionPolicy, StatePolicy

POLICY_KINDS: dict[str, type[Policy]] = {kind.kind: kind for kind in (StatePolicy, ActionPolicy, Planner)}


def load_policy(directory: str | Path) -> Policy:
    """The policy that a finished run saved, or that was saved by itself."""
    description, _ = policy_files.read(Path(directory))
    if description["kind"] not in POLICY_KINDS:
        raise ActionlessError(
            f"{directory}: holds a policy of {description['method']}, which is no state policy: "
            "give a run of `pretrain`"
        )
    return POLICY_KINDS[description["kind"]].load(directory)
