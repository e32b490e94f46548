"""AF-Guide at work: a planner says where each step should lead, and how far the agent misses it is a reward.

It never acts. An agent that is guided so learns from the reward beside its task's own.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int32, Int64, Real

from actionless.discretise import Normaliser
from actionless.offline.planner import Planner, planned_changes


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


@dataclass(frozen=True, eq=False)
class PlanGuide:
    """Compares what happened with what was planned."""

    planner: Planner
    target_return: float
    """What is asked for at the beginning of each episode."""
    state: PlanState
    """For checkpoints: arrays alone, changed in place."""

    @classmethod
    def create(cls, planner: Planner, target_return: float) -> "PlanGuide":
        """A guide that has seen nothing."""
        context = planner.config.context
        state = PlanState(
            states=np.zeros((context, len(planner.state_names)), np.float32),
            to_go=np.zeros(context, np.float32),
            times=np.zeros(context, np.int32),
            wanted=np.zeros(()),
            steps=np.zeros((), np.int64),
            missed=np.zeros(()),
        )
        return cls(planner, target_return, state)

    def reward(
        self, state: Real[np.ndarray, " dim"], reward: float, next_state: Real[np.ndarray, " dim"], *, begins: bool
    ) -> float:
        """−‖(s' − ŝ') / σ‖ of one transition, where ŝ' was planned; `begins` where it is the first of an episode."""
        kept, planner = self.state, self.planner
        for rows in (kept.states, kept.to_go, kept.times):
            rows[:-1] = rows[1:]
        kept.wanted[...] = self.target_return if begins else kept.wanted
        # Called through its class, since this is done at every step: Equinox takes 40 µs to bind a method.
        z, next_z = (Normaliser.normalise(planner.normaliser, s.astype(np.float64)) for s in (state, next_state))
        kept.states[-1] = z
        kept.to_go[-1] = kept.wanted / planner.config.return_scale
        kept.times[-1] = 0 if begins else kept.times[-1] + 1
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

    def restore(self, state: PlanState) -> None:
        """Go on from a `state` that was saved."""
        for mine, given in zip(self.state, state, strict=True):
            mine[...] = given
