"""Guidance by plans, as in AF-Guide: a planner says where each step should lead, and missing it costs a reward.

It never acts. An agent that is guided so learns from this reward beside the environment's own.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int32, Int64, Real, Shaped

from actionless.discretise import Normaliser
from actionless.errors import ActionlessError
from actionless.guidance.guided_sac import GUIDING, GuidedSacConfig
from actionless.guidance.interface import Guidance, GuidanceContext, GuidanceSettings
from actionless.offline.planner import Planner, planned_changes
from actionless.online.agent import AgentSettings
from actionless.online.replay import Column
from actionless.online.sac import SacConfig
from actionless.settings import NonNegative, Number, ScaleName


@dataclass(frozen=True)
class PlansSettings(GuidanceSettings, kind="plans"):
    """What is asked of the planner, and how much its plans count."""

    target_return: Number | None = None
    """Return that the planner is asked for; if not given, that of its run."""
    guide_weight: NonNegative = 3.0
    """Weight of the guiding reward's critic beside Q; 3 as published."""

    def completed(self, guide: str, steps: int) -> "PlansSettings":  # noqa: ARG002
        """With the return that the planner's own run asked for, where no other is."""
        if self.target_return is not None:
            return self
        return dataclasses.replace(self, target_return=Planner.load(guide).config.target_return)

    def create(self, context: GuidanceContext) -> "PlanGuide":
        """A guide that has seen nothing."""
        assert self.target_return is not None
        return PlanGuide.create(Planner.load(context.guide), self.target_return, self.guide_weight)


def preset(scale: ScaleName) -> PlansSettings:  # noqa: ARG001 (the same at every scale)
    """As published."""
    return PlansSettings()


class PlanState(NamedTuple):
    """All that changes: the episode's last steps as the network takes them, and what was counted."""

    states: Float32[np.ndarray, "context dim"]
    to_go: Float32[np.ndarray, " context"]
    times: Int32[np.ndarray, " context"]
    wanted: Float[np.ndarray, ""]
    """The return that is still to come, after the newest step."""
    steps: Int64[np.ndarray, ""]
    """Since the last report."""
    missed: Float[np.ndarray, ""]


class PlanGuide(Guidance):
    """Compares what happened with what was planned."""

    headline = ("guide/missed",)
    columns = {GUIDING: Column()}  # noqa: RUF012
    state: PlanState
    """For checkpoints: arrays alone, changed in place."""

    def __init__(self, planner: Planner, target_return: float, guide_weight: float, state: PlanState):
        self.planner, self.target_return, self.guide_weight, self.state = planner, target_return, guide_weight, state

    @classmethod
    def create(cls, planner: Planner, target_return: float, guide_weight: float = 3.0) -> "PlanGuide":
        """A guide that has seen nothing; `target_return` is asked for at the beginning of each episode."""
        context = planner.config.context
        state = PlanState(
            states=np.zeros((context, len(planner.state_names)), np.float32),
            to_go=np.zeros(context, np.float32),
            times=np.zeros(context, np.int32),
            wanted=np.zeros(()),
            steps=np.zeros((), np.int64),
            missed=np.zeros(()),
        )
        return cls(planner, target_return, guide_weight, state)

    @property
    def name(self) -> str:
        """What errors call it."""
        return "plans"

    def agent_settings(self, settings: AgentSettings) -> GuidedSacConfig:
        """SAC with a critic of the guiding reward."""
        if type(settings) is not SacConfig:
            raise ActionlessError("guidance by plans works with the agent sac alone: choose --agent sac")
        return GuidedSacConfig(**vars(settings), guide_weight=self.guide_weight)

    def observe(
        self,
        state: Real[np.ndarray, " dim"],
        action: Shaped[np.ndarray, " actions"],  # noqa: ARG002
        reward: float,
        next_state: Real[np.ndarray, " dim"],
        step: int,  # noqa: ARG002
        *,
        terminated: bool = False,  # noqa: ARG002
        first: bool = False,
    ) -> Mapping[str, float | int]:
        """The guiding reward of a transition."""
        return {GUIDING: self.reward(state, reward, next_state, first=first)}

    def reward(
        self, state: Real[np.ndarray, " dim"], reward: float, next_state: Real[np.ndarray, " dim"], *, first: bool
    ) -> float:
        """−‖(s' − ŝ') / σ‖ of one transition, where ŝ' was planned; `first` where it is the first of an episode."""
        kept, planner = self.state, self.planner
        for rows in (kept.states, kept.to_go, kept.times):
            rows[:-1] = rows[1:]
        kept.wanted[...] = self.target_return if first else kept.wanted
        # Called through its class, since this is done at every step: Equinox takes 40 µs to bind a method.
        z, next_z = (Normaliser.normalise(planner.normaliser, s.astype(np.float64)) for s in (state, next_state))
        kept.states[-1] = z
        kept.to_go[-1] = kept.wanted / planner.config.return_scale
        kept.times[-1] = 0 if first else kept.times[-1] + 1
        kept.wanted[...] -= reward
        planned = planned_changes(planner.network, kept.states[None], kept.to_go[None], kept.times[None])
        missed = float(np.linalg.norm(np.asarray(planned)[0] - (next_z - z)))
        kept.steps[...] += 1
        kept.missed[...] += missed
        return -missed

    def metrics(self) -> dict[str, float]:
        """How far plans were missed since the last call."""
        steps, missed = int(self.state.steps), float(self.state.missed)
        self.state.steps[...], self.state.missed[...] = 0, 0
        return {"guide/missed": missed / steps} if steps else {}
