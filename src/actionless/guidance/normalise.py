"""No guidance but the log's units: the agent sees states as every guided agent does, and nothing else of the log.

What an agent gains by units alone is not to be counted as what it gains by guidance: compare with this one.
"""

import dataclasses
from dataclasses import dataclass

from actionless.discretise import Normaliser
from actionless.guidance.interface import Guidance, GuidanceContext, GuidanceSettings
from actionless.online.agent import AgentSettings
from actionless.settings import ScaleName


@dataclass(frozen=True)
class NormaliseSettings(GuidanceSettings, kind="normalise"):
    """The kind `normalise`. It has no options."""

    def agent_settings(self, settings: AgentSettings) -> AgentSettings:
        """States in units of the log's spread."""
        return dataclasses.replace(settings, standardise=True)

    def create(self, context: GuidanceContext) -> "Normalise":
        """The log's units."""
        return Normalise(context.policy.model.discretiser.normaliser)


def preset(scale: ScaleName) -> NormaliseSettings:  # noqa: ARG001 (the same at every scale)
    """The same at every scale."""
    return NormaliseSettings()


class Normalise(Guidance):
    """States in units of a log's spread."""

    def __init__(self, normaliser: Normaliser):
        self.normaliser = normaliser

    @property
    def name(self) -> str:
        """What errors call it."""
        return "normalise"
