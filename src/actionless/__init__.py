"""Learn from logs that never recorded the actions, then speed up an agent that can act."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actionless.analysis.export import export
    from actionless.data.log import Log
    from actionless.data.read import read
    from actionless.discretise import Discretiser, Normaliser
    from actionless.errors import ActionlessError
    from actionless.guidance.guide import Guide
    from actionless.offline.state_policy import ActionPolicy, StatePolicy
    from actionless.online.agent_policy import AgentPolicy
    from actionless.training.pretrain import pretrain
    from actionless.training.record import record
    from actionless.training.resume import resume
    from actionless.training.train import train

__version__ = "0.1.0"

__all__ = [
    "ActionPolicy",
    "ActionlessError",
    "AgentPolicy",
    "Discretiser",
    "Guide",
    "Log",
    "Normaliser",
    "StatePolicy",
    "__version__",
    "export",
    "pretrain",
    "read",
    "record",
    "resume",
    "train",
]

# Resolved on first use, so that `actionless --help` does not wait for JAX, Polars and h5py.
_HOME = {
    "ActionPolicy": "actionless.offline.state_policy",
    "ActionlessError": "actionless.errors",
    "AgentPolicy": "actionless.online.agent_policy",
    "Discretiser": "actionless.discretise",
    "Guide": "actionless.guidance.guide",
    "Log": "actionless.data.log",
    "Normaliser": "actionless.discretise",
    "StatePolicy": "actionless.offline.state_policy",
    "export": "actionless.analysis.export",
    "pretrain": "actionless.training.pretrain",
    "read": "actionless.data.read",
    "record": "actionless.training.record",
    "resume": "actionless.training.resume",
    "train": "actionless.training.train",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'actionless' has no attribute '{name}'")
