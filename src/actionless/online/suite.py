"""Tasks of the DeepMind Control Suite as Gymnasium tasks, their observations flattened in order."""

import math
import warnings
from collections.abc import Mapping
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import spaces

from actionless.errors import ActionlessError, first_line

with warnings.catch_warnings():
    # It looks for a display, and complains where there is none; nothing is drawn here.
    warnings.simplefilter("ignore")
    from dm_control import suite
    from dm_control.rl.control import PhysicsError


def tasks() -> dict[str, tuple[str, str]]:
    """Domain and task by name: `dmc:cheetah-run`."""
    return {f"dmc:{domain}-{task}": (domain, task) for domain, task in suite.ALL_TASKS}


@final
class SuiteTask(gymnasium.Env):
    """One task, whose episodes depend on nothing but their seeds and actions."""

    def __init__(self, domain: str, task: str):
        # Some models are drawn when they are built (lqr): with a fixed seed, every process builds the same one.
        self._suite = suite.load(domain, task, task_kwargs={"random": 0})
        _never_draw(self._suite.physics)
        self._name = f"dmc:{domain}-{task}"
        size = sum(math.prod(part.shape) for part in self._suite.observation_spec().values())
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float64)
        limits = self._suite.action_spec()
        self.action_space = spaces.Box(limits.minimum, limits.maximum, limits.shape, limits.dtype.type)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """The first observation; `seed` as `suite.load` would take it."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self._suite.task.random.seed(seed)
        return _flat(self._suite.reset().observation), {}

    def step(self, action: np.ndarray):
        """The suite's only way to end a task is a discount of 0; its time limit leaves it at 1."""
        try:
            step = self._suite.step(action)
        except PhysicsError as error:
            raise ActionlessError(f"the simulation of '{self._name}' went astray: {first_line(error)}") from error
        terminated = step.discount == 0
        return _flat(step.observation), step.reward, terminated, step.last() and not terminated, {}


def _never_draw(physics: Any) -> None:
    """One task (quadruped-escape) asks whether there is a picture to refresh, and the asking opens a display."""
    physics.__class__ = type(physics.__class__.__name__, (physics.__class__,), {"contexts": None})


def _flat(observation: Mapping[str, Any]) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in observation.values()])
