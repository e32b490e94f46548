"""Agents and scales, as data."""

from dataclasses import dataclass
from typing import Any, Literal

from jaxtyping import PRNGKeyArray

from actionless.offline.presets import ScaleName
from actionless.online.agent import Agent, Spec
from actionless.online.decqn import Decqn, DecqnConfig
from actionless.online.sac import Sac, SacConfig
from actionless.online.td3 import Td3, Td3Config

AgentName = Literal["td3", "sac", "decqn"]
AgentConfig = Td3Config | SacConfig | DecqnConfig

_CONFIGS: dict[AgentName, type[AgentConfig]] = {"td3": Td3Config, "sac": SacConfig, "decqn": DecqnConfig}
_AGENTS: dict[type, type[Agent]] = {Td3Config: Td3, SacConfig: Sac, DecqnConfig: Decqn}

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


def preset(agent: AgentName, scale: Scale) -> AgentConfig:
    """The config of an agent at a scale."""
    return _CONFIGS[agent](hidden=scale.hidden, target_rate=scale.target_rate)


def stored_config(agent: AgentName, stored: dict[str, Any]) -> AgentConfig:
    """A config that was written as JSON."""
    return _CONFIGS[agent](**{**stored, "hidden": tuple(stored["hidden"])})


def create_agent(spec: Spec, config: AgentConfig, key: PRNGKeyArray) -> Agent:
    """The agent a config belongs to."""
    return _AGENTS[type(config)].create(spec, config, key)
