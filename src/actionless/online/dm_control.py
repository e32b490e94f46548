"""Tasks of the DeepMind Control Suite as Gymnasium environments, with flattened observations."""

import math
import warnings
from collections.abc import Mapping
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import spaces

from actionless.errors import ActionlessError, first_line

with warnings.catch_warnings():
    # The import warns if there is no display, but nothing is drawn here.
    warnings.simplefilter("ignore")
    from dm_control import suite
    from dm_control.rl.control import PhysicsError


def tasks() -> dict[str, tuple[str, str]]:
    """Domain and task of each environment name, such as `dmc:cheetah-run`."""
    return {f"dmc:{domain}-{task}": (domain, task) for domain, task in suite.ALL_TASKS}


@final
class DMControlEnvironment(gymnasium.Env):
    """One task of the suite. An episode depends only on its seed and the actions."""

    def __init__(self, domain: str, task: str):
        # Some models (lqr) are random; with a fixed seed, every process builds the same one.
        self._suite = suite.load(domain, task, task_kwargs={"random": 0})
        _never_draw(self._suite.physics)
        self._name = f"dmc:{domain}-{task}"
        size = sum(math.prod(part.shape) for part in self._suite.observation_spec().values())
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float64)
        limits = self._suite.action_spec()
        self.action_space = spaces.Box(limits.minimum, limits.maximum, limits.shape, limits.dtype.type)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Start an episode; `seed` has the same effect as in `suite.load`."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self._suite.task.random.seed(seed)
        return _flat(self._suite.reset().observation), {}

    def step(self, action: np.ndarray):
        """Take a step. A discount of 0 means terminated; at the time limit the discount stays 1."""
        try:
            step = self._suite.step(action)
        except PhysicsError as error:
            raise ActionlessError(f"the simulation of '{self._name}' became unstable: {first_line(error)}") from error
        terminated = step.discount == 0
        return _flat(step.observation), step.reward, terminated, step.last() and not terminated, {}


def _never_draw(physics: Any) -> None:
    """Remove the rendering contexts: one task (quadruped-escape) asks for them, which would open a display."""
    physics.__class__ = type(physics.__class__.__name__, (physics.__class__,), {"contexts": None})


def _flat(observation: Mapping[str, Any]) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in observation.values()])
