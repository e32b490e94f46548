"""A planner of the next state, which looks at the steps before and at the return still wanted."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Array, Float, Float32, Int, Real

from actionless.discretise import Normaliser
from actionless.errors import ActionlessError
from actionless.offline import policy_files
from actionless.offline.transformer import PlanNetwork
from actionless.settings import Count, Number, Positive, Settings, settings_fields, to_json
from actionless.trees import pack, unpack


@dataclass(frozen=True)
class PlanConfig(Settings):
    """What a planner must know of its network, and of the returns that it was taught with."""

    context: Count
    """Steps that it looks at, the present one among them."""
    width: Count
    blocks: Count
    return_scale: Positive = 1000.0
    """Returns are divided by it before the network sees them."""
    target_return: Number = 0.0
    """The return that is asked for at the beginning of an episode, unless another is given."""


@dataclass(frozen=True, eq=False)
class Planner:
    """Plans where an episode goes next if it is to reach a return. States are in the log's own units."""

    kind: ClassVar[str] = "plan"
    does: ClassVar[str] = "plans from many steps"
    network: PlanNetwork
    config: PlanConfig
    normaliser: Normaliser
    method: str
    state_names: tuple[str, ...]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def plan(
        self,
        states: Real[np.ndarray, "... dim"],
        rewards: Real[np.ndarray, "..."] | None = None,
        target_return: float | None = None,
    ) -> Float[np.ndarray, "... dim"]:
        """The next state of each episode: [..., dim], of states so far [..., steps, dim] and the rewards between them.

        The return that is still wanted falls by each reward; it begins with that of the run's config, unless given.
        """
        before = np.zeros((*states.shape[:-2], 0)) if rewards is None else rewards
        if (
            states.shape[-1:] != (len(self.state_names),)
            or states.ndim < 2
            or before.shape != (*states.shape[:-2], states.shape[-2] - 1)
        ):
            raise ActionlessError(
                f"states of shape {states.shape}, rewards of shape {None if rewards is None else rewards.shape}: give "
                f"[..., steps, {len(self.state_names)}] and the rewards between the states, [..., steps - 1]"
            )
        if not (np.isfinite(states).all() and np.isfinite(before).all()):
            raise ActionlessError("states or rewards to plan from are not finite: give finite numbers")
        *batch, steps, dim = states.shape
        context = self.config.context
        target = self.config.target_return if target_return is None else target_return
        paid = np.concatenate([np.zeros((*batch, 1)), np.cumsum(before, axis=-1)], axis=-1)
        z = self.normaliser.normalise(states).astype(np.float32)
        change = planned_changes(
            self.network,
            _last(context, z.reshape(-1, steps, dim)),
            _last(context, ((target - paid) / self.config.return_scale).reshape(-1, steps)),
            np.broadcast_to(np.arange(steps - context, steps, dtype=np.int32), (math.prod(batch), context)),
        )
        return self.normaliser.denormalise(z[..., -1, :] + np.asarray(change).reshape(*batch, dim))

    def save(self, directory: str | Path) -> None:
        """Write the planner so that it loads without the log."""
        arrays, _ = pack(self.network)
        normaliser = {"normaliser.mean": self.normaliser.mean, "normaliser.scale": self.normaliser.scale}
        description = {
            "kind": self.kind,
            "method": self.method,
            "config": to_json(self.config),
            "longest_episode": len(self.network.time),
            "state_names": list(self.state_names),
            "provenance": dict(self.provenance),
        }
        policy_files.write(Path(directory), description, arrays | normaliser)

    @classmethod
    def load(cls, directory: str | Path) -> "Planner":
        """The planner that was saved there, or that a run directory holds."""
        description, arrays = policy_files.read_kind(Path(directory), cls.kind, "a planner")
        normaliser = Normaliser(arrays.pop("normaliser.mean"), arrays.pop("normaliser.scale"))
        names, stored = tuple(description["state_names"]), description["config"]
        config = PlanConfig(**{name: stored[name] for name in settings_fields(PlanConfig)})  # old files hold more
        template = PlanNetwork.create(
            len(names), description["longest_episode"], config.width, config.blocks, jax.random.key(0)
        )
        network = unpack(template, arrays, {}, Path(directory))
        return cls(network, config, normaliser, description["method"], names, description["provenance"])


def _last(steps: int, rows: Float[np.ndarray, "windows given *dim"]) -> Float32[np.ndarray, "windows steps *dim"]:
    """The last so many, filled up in front with steps that nobody looks at."""
    kept = rows[:, -steps:]
    missing = [(0, 0), (steps - kept.shape[1], 0)] + [(0, 0)] * (rows.ndim - 2)
    return np.pad(kept, missing).astype(np.float32)


@jax.jit
def planned_changes(
    network: PlanNetwork,
    z: Float[Array, "windows steps dim"],
    to_go: Float[Array, "windows steps"],
    times: Int[Array, "windows steps"],
) -> Float[Array, "windows dim"]:
    """The change after each window's last step, in units of the log's spread."""
    return network(z, to_go, times)[:, -1]
