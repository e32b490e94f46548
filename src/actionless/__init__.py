"""Learn from logs that never recorded the actions, then speed up an agent that can act."""

import importlib
from typing import TYPE_CHECKING, Any

from actionless.version import __version__

if TYPE_CHECKING:
    from actionless.analysis.export import export
    from actionless.data.log import Log
    from actionless.data.options import ReadOptions
    from actionless.data.read import read
    from actionless.discretise import Discretiser, Normaliser
    from actionless.errors import ActionlessError
    from actionless.guidance.guide import Guide, GuideConfig
    from actionless.guidance.idm import IdmConfig
    from actionless.guidance.interface import Guidance
    from actionless.guidance.potential_reward import PotentialReward
    from actionless.guidance.relabel import RelabelSettings
    from actionless.guidance.schedule import Fixed, PaperSchedule
    from actionless.offline.planner import Planner
    from actionless.offline.state_policy import ActionPolicy, StatePolicy
    from actionless.online.agent_policy import AgentPolicy
    from actionless.reporting.report import report
    from actionless.reproduction.reproduce import reproduce
    from actionless.training.finetune import finetune
    from actionless.training.online_settings import OnlineLoopSettings
    from actionless.training.pretrain import pretrain
    from actionless.training.pretrain_settings import LoopSettings
    from actionless.training.record import record
    from actionless.training.resume import resume
    from actionless.training.train import train

__all__ = [
    "ActionPolicy",
    "ActionlessError",
    "AgentPolicy",
    "Discretiser",
    "Fixed",
    "Guidance",
    "Guide",
    "GuideConfig",
    "IdmConfig",
    "Log",
    "LoopSettings",
    "Normaliser",
    "OnlineLoopSettings",
    "PaperSchedule",
    "Planner",
    "PotentialReward",
    "ReadOptions",
    "RelabelSettings",
    "StatePolicy",
    "__version__",
    "export",
    "finetune",
    "pretrain",
    "read",
    "record",
    "report",
    "reproduce",
    "resume",
    "train",
]

# Resolved on first use, so that `actionless --help` does not wait for JAX, Polars and h5py.
_HOME = {
    "ActionPolicy": "actionless.offline.state_policy",
    "ActionlessError": "actionless.errors",
    "AgentPolicy": "actionless.online.agent_policy",
    "Discretiser": "actionless.discretise",
    "Fixed": "actionless.guidance.schedule",
    "Guidance": "actionless.guidance.interface",
    "Guide": "actionless.guidance.guide",
    "GuideConfig": "actionless.guidance.guide",
    "RelabelSettings": "actionless.guidance.relabel",
    "IdmConfig": "actionless.guidance.idm",
    "Log": "actionless.data.log",
    "LoopSettings": "actionless.training.pretrain_settings",
    "Normaliser": "actionless.discretise",
    "OnlineLoopSettings": "actionless.training.online_settings",
    "PaperSchedule": "actionless.guidance.schedule",
    "Planner": "actionless.offline.planner",
    "PotentialReward": "actionless.guidance.potential_reward",
    "ReadOptions": "actionless.data.options",
    "StatePolicy": "actionless.offline.state_policy",
    "export": "actionless.analysis.export",
    "finetune": "actionless.training.finetune",
    "pretrain": "actionless.training.pretrain",
    "read": "actionless.data.read",
    "record": "actionless.training.record",
    "report": "actionless.reporting.report",
    "reproduce": "actionless.reproduction.reproduce",
    "resume": "actionless.training.resume",
    "train": "actionless.training.train",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        from actionless.errors import require_supported_system

        require_supported_system()
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'actionless' has no attribute '{name}'")
