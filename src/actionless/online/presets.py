"""Agents and scales, as data."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from jaxtyping import PRNGKeyArray

from actionless.online.agent import Agent, Spec
from actionless.online.awac import Awac, AwacConfig
from actionless.online.cal_ql import CalQl, CalQlConfig
from actionless.online.decqn import Decqn, DecqnConfig
from actionless.online.guided_sac import GuidedSac, GuidedSacConfig
from actionless.online.iql import Iql, IqlConfig
from actionless.online.o3f import O3f, O3fConfig
from actionless.online.sac import Sac, SacConfig
from actionless.online.standardise import Standardised
from actionless.online.td3 import Td3, Td3Config
from actionless.settings import ScaleName

AgentName = Literal["td3", "sac", "decqn"]
LabelledName = Literal["iql", "awac", "cal-ql", "o3f"]
"""Agents that begin with a log of states and actions."""
AnyName = AgentName | LabelledName

LabelledConfig = IqlConfig | AwacConfig | CalQlConfig | O3fConfig
AgentConfig = Td3Config | SacConfig | GuidedSacConfig | DecqnConfig | LabelledConfig

_CONFIGS: dict[AnyName, type[AgentConfig]] = {
    "td3": Td3Config,
    "sac": SacConfig,
    "decqn": DecqnConfig,
    "iql": IqlConfig,
    "awac": AwacConfig,
    "cal-ql": CalQlConfig,
    "o3f": O3fConfig,
}
_AGENTS: dict[type, type[Agent]] = {
    Td3Config: Td3,
    SacConfig: Sac,
    GuidedSacConfig: GuidedSac,
    DecqnConfig: Decqn,
    IqlConfig: Iql,
    AwacConfig: Awac,
    CalQlConfig: CalQl,
    O3fConfig: O3f,
}

LOG_SHARES: dict[LabelledName, float] = {"cal-ql": 0.5}
"""Of each batch, where log and experience do not count by their sizes."""

RETURN_SPREADS: dict[LabelledName, float] = {"iql": 1000.0}
"""How far the log's best episode is above its worst once rewards are scaled, where published runs scale them."""

REPLAY_LIMIT = 1_000_000
"""Transitions kept at most; a shorter run keeps them all."""


@dataclass(frozen=True)
class Scale:
    """How large the networks are and how long they learn."""

    steps: int
    warm_up: int
    """Steps of random actions before the agent acts and learns."""
    batch_size: int
    hidden: tuple[int, ...]
    target_rate: float


SCALES: dict[ScaleName, Scale] = {
    "smoke": Scale(2_000, 200, 64, (32, 32), 1e-2),
    "cpu": Scale(50_000, 1_000, 256, (256, 256), 5e-3),
    "paper": Scale(1_000_000, 10_000, 256, (512, 512, 512), 1e-3),
}


@dataclass(frozen=True)
class LabelledScale:
    """How long agents learn from a log and then in the task, and how large their networks are."""

    offline_steps: int
    steps: int
    batch_size: int
    hidden: tuple[int, ...] | None
    """None: as published for each."""
    penalty_every: int = 1
    """Cal-QL values 30 actions for each transition on which it measures its penalty: most of its time."""


LABELLED_SCALES: dict[ScaleName, LabelledScale] = {
    "smoke": LabelledScale(500, 500, 64, (32, 32)),
    "cpu": LabelledScale(25_000, 50_000, 256, None, penalty_every=8),
    "paper": LabelledScale(1_000_000, 250_000, 256, None),
}


def preset(agent: AgentName, scale: Scale) -> AgentConfig:
    """The config of an agent at a scale."""
    return _CONFIGS[agent](hidden=scale.hidden, target_rate=scale.target_rate)


def labelled_preset(agent: LabelledName, scale: LabelledScale) -> AgentConfig:
    """The config of an agent that begins with a log, at a scale."""
    config = _CONFIGS[agent]() if scale.hidden is None else _CONFIGS[agent](hidden=scale.hidden)
    if isinstance(config, CalQlConfig):
        return dataclasses.replace(config, penalty_every=scale.penalty_every)
    return config


def stored_config(agent: AnyName, stored: dict[str, Any]) -> AgentConfig:
    """A config that was written as JSON."""
    kind = GuidedSacConfig if "guide_weight" in stored else _CONFIGS[agent]
    return kind(**{**stored, "hidden": tuple(stored["hidden"])})


def create_agent(spec: Spec, config: AgentConfig, key: PRNGKeyArray) -> Agent:
    """The agent a config belongs to; where it begins with a log, one that sees states in units of the log's spread."""
    kind = _AGENTS[type(config)]
    if isinstance(config, LabelledConfig):
        return Standardised.create(spec, (kind, config), key)
    return kind.create(spec, config, key)
