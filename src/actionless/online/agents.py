"""The table of agents, and their sizes at each scale."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import PRNGKeyArray

from actionless.online.agent import Agent, AgentSettings, Spec
from actionless.online.awac import AwacConfig
from actionless.online.cal_ql import CalQlConfig
from actionless.online.decqn import DecqnConfig
from actionless.online.iql import IqlConfig
from actionless.online.o3f import O3fConfig
from actionless.online.sac import SacConfig
from actionless.online.standardise import Standardised
from actionless.online.td3 import Td3Config
from actionless.settings import ScaleName, table_entry

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

    def applied(self, config: AgentSettings) -> AgentSettings:
        """These settings with the sizes of this scale."""
        return dataclasses.replace(config, hidden=self.hidden, target_rate=self.target_rate)


SCALES: dict[ScaleName, Scale] = {
    "smoke": Scale(2_000, 200, 64, (32, 32), 1e-2),
    "cpu": Scale(50_000, 1_000, 256, (256, 256), 5e-3),
    "paper": Scale(1_000_000, 10_000, 256, (512, 512, 512), 1e-3),
}


@dataclass(frozen=True)
class LabelledScale:
    """How long agents learn from a log and then in the environment, and how large their networks are."""

    offline_steps: int
    steps: int
    batch_size: int
    hidden: tuple[int, ...] | None
    """None: as published for each."""


LABELLED_SCALES: dict[ScaleName, LabelledScale] = {
    "smoke": LabelledScale(500, 500, 64, (32, 32)),
    "cpu": LabelledScale(25_000, 50_000, 256, None),
    "paper": LabelledScale(1_000_000, 250_000, 256, None),
}


@dataclass(frozen=True)
class AgentMethod:
    """An agent that learns by acting alone."""

    config: type[AgentSettings]
    bins_actions: bool = False
    """Whether it needs continuous actions in bins."""


@dataclass(frozen=True)
class LabelledMethod:
    """An agent that begins with a log of states and actions."""

    config: type[AgentSettings]
    log_share: float | None = None
    """The share of log rows in each batch; None draws evenly from the log and the agent's own transitions."""
    return_spread: float | None = None
    """Rewards are scaled so that the log's best and worst episode are this far apart; None leaves them as they are."""
    at_scale: Mapping[ScaleName, Mapping[str, Any]] = field(default_factory=dict)
    """What a scale changes beside the sizes."""


AGENTS: dict[str, AgentMethod] = {
    "td3": AgentMethod(Td3Config),
    "sac": AgentMethod(SacConfig),
    "decqn": AgentMethod(DecqnConfig, bins_actions=True),
}

LABELLED: dict[str, LabelledMethod] = {
    "iql": LabelledMethod(IqlConfig, return_spread=1000.0),
    "awac": LabelledMethod(AwacConfig),
    # Cal-QL values 30 actions for each transition on which it measures its penalty: most of its time.
    "cal-ql": LabelledMethod(CalQlConfig, log_share=0.5, at_scale={"cpu": {"penalty_every": 8}}),
    "o3f": LabelledMethod(O3fConfig),
}


def preset(agent: str, scale: ScaleName) -> AgentSettings:
    """The settings of an agent at a scale."""
    return SCALES[scale].applied(table_entry(AGENTS, agent, "agent").config())


def labelled_preset(method: str, scale: ScaleName) -> AgentSettings:
    """The settings of an agent that begins with a log, at a scale."""
    entry, hidden = table_entry(LABELLED, method, "method"), LABELLED_SCALES[scale].hidden
    config = dataclasses.replace(entry.config(), **entry.at_scale.get(scale, {}))
    return config if hidden is None else dataclasses.replace(config, hidden=hidden)


def create_agent(spec: Spec, config: AgentSettings, key: PRNGKeyArray) -> Agent:
    """An agent that has learnt nothing."""
    return Standardised.create(spec, config, key) if config.standardise else config.create(spec, key)
