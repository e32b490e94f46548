"""Guidance by a switch: now and then the agent follows a state policy, through an inverse dynamics model."""

import dataclasses
import logging
from dataclasses import dataclass
from typing import Any

from actionless.errors import ActionlessError
from actionless.guidance.guide import Guide, GuideConfig
from actionless.guidance.idm import IDM_SCALES
from actionless.guidance.interface import GuidanceContext, GuidanceSettings, Mean
from actionless.guidance.schedule import Fixed, PaperSchedule, Schedule
from actionless.online.agent import AgentSettings, Spec
from actionless.settings import Derived, Fraction, FromPython, ScaleName

logger = logging.getLogger("actionless")


@dataclass(frozen=True)
class SwitchSettings(GuideConfig, GuidanceSettings, kind="switch"):
    """How often the guide acts, and how its inverse dynamics model learns."""

    beta: Fraction | None = None
    """Probability of following the guide, the same at every step; if not given, it falls from 0.5 to 0 halfway, as in
    the paper."""
    schedule: PaperSchedule | Fixed | Schedule | FromPython | None = None
    """Any function from the environment step to that probability (from Python alone)."""
    normalise: Derived[bool] = True
    """The agent sees states in units of the log's spread."""

    def check(self) -> None:
        """Refuse two answers to one question."""
        if self.beta is not None and self.schedule is not None:
            raise ActionlessError(f"beta={self.beta} and a schedule: give one of them")
        if not (self.schedule is None or callable(self.schedule) or isinstance(self.schedule, FromPython)):
            raise ActionlessError(f"schedule={self.schedule!r}: give a function from the step to a probability")

    def completed(self, guide: str, steps: int) -> "SwitchSettings":  # noqa: ARG002
        """With the paper's schedule, stretched to this run, where none was asked for."""
        if self.beta is not None or self.schedule is not None:
            return self
        return dataclasses.replace(self, schedule=PaperSchedule().for_run(steps))

    @property
    def reads_log(self) -> bool:
        """The inverse dynamics model is bootstrapped with it."""
        return self.bootstrap

    def agent_settings(self, settings: AgentSettings) -> AgentSettings:
        """States in units of the log's spread, if asked for."""
        return dataclasses.replace(settings, standardise=settings.standardise or self.normalise)

    def memory(self, spec: Spec, kept: int, logged: int) -> int:
        """The transitions that the inverse dynamics model learns from, and the log."""
        return (
            min(kept, self.capacity) * (4 * (2 * spec.state_dim + spec.action_dim) + 6) + 16 * logged * spec.state_dim
        )

    def create(self, context: GuidanceContext) -> Guide:
        """A guide that has learnt nothing."""
        policy = context.policy
        guide = Guide.create(
            policy,
            action_dim=context.spec.action_dim,
            bins=context.spec.bins,
            steps=context.steps,
            log=context.log_of_guide if self.bootstrap else None,
            schedule=self._schedule(),
            config=self,
            seed=context.seed,
        )
        if self.normalise:
            guide.normaliser = policy.model.discretiser.normaliser
        if 0 < guide.end <= context.warm_up:
            logger.warning(
                "the guide never acts: the first %d steps are random (warm_up), and from step %d on β is 0: "
                "choose more steps, or fewer random ones",
                context.warm_up,
                guide.end,
            )
        return guide

    def _schedule(self) -> Any:
        return self.schedule if self.beta is None else Fixed(self.beta)


def preset(scale: ScaleName) -> SwitchSettings:
    """The inverse dynamics model of a scale."""
    return SwitchSettings(idm=IDM_SCALES[scale])


@dataclass(frozen=True)
class PaperSettings(SwitchSettings, kind="paper-switch"):
    """The switch to the letter of the paper: its agents see states as they are."""

    normalise: Derived[bool] = False


def paper_preset(scale: ScaleName) -> PaperSettings:
    """The inverse dynamics model of a scale."""
    return PaperSettings(idm=IDM_SCALES[scale])


def in_words(mean: Mean) -> str | None:
    """What it did in some runs."""
    guided, own, share = mean("guide/reward"), mean("guide/own_reward"), mean("guided_share")
    if guided is None or own is None or share is None:
        return None
    compared = "more" if guided > own else "less"
    return f"guided steps, {share:.0%} of all, paid {compared} than the agent's own: {guided:.3g} against {own:.3g}."
