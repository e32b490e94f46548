"""Any task behind one small class: Gymnasium ids, `module:Env-v0`, and `dmc:domain-task` of the DeepMind Control Suite.

An episode is a function of its seed and the actions alone, so that a simulator needs no saving: after a kill it is
reset with the episode's seed and the actions are played again.
"""

import contextlib
import difflib
import importlib
import math
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, final

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import Shaped

from actionless.errors import ActionlessError, first_line, require_extra
from actionless.online.agent import Spec
from actionless.online.translation import Choice, Choices, Levels, Limits, Translation

SUITE = "dmc:"

_WRAP_ACTIONS = "register it with a wrapper (gymnasium.wrappers.TransformAction) and name it module:Env-v0"

State = Shaped[np.ndarray, " dim"]
Action = Shaped[np.ndarray, " actions"]


class Step(NamedTuple):
    """What a task answers to an action."""

    state: State
    reward: float
    terminated: bool
    """The task ended: no reward can follow."""
    truncated: bool
    """A time limit cut the episode off: the task would have gone on."""


def make(name: str, *, bins: int | None = None) -> "Environment":
    """The task of that name.

    Without `bins`, for agents with continuous actions. With it, for agents that choose a level in each dimension: so
    many between the limits of each action; a task that has choices of its own keeps them.
    """
    return Environment(name, _suite_task(name) if name.startswith(SUITE) else _gymnasium_task(name), bins=bins)


@final
class Environment:
    """A task that takes normalised actions: numbers in [-1, 1], or the index of a level in each dimension.

    States have the type of number of the task's observation space. Each `reset` starts an episode with a seed of its
    own, below 2³².
    """

    name: str
    spec: Spec
    translation: Translation
    """From normalised actions to the task's own."""

    def __init__(self, name: str, task: gymnasium.Env, *, bins: int | None = None):
        self.name = name
        self._task = task
        self._keys = _observation_keys(name, task.observation_space)
        self._shape = (spaces.flatdim(task.observation_space),)
        self._number = _number_type(task.observation_space)
        action_dim, choices, self.translation = _action_translation(name, task.action_space, bins)
        self.spec = Spec(self._shape[0], action_dim, choices)
        self._seed = self._steps = 0

    def reset(self, seed: int) -> State:
        """The first state of the episode with that seed."""
        self._seed, self._steps = seed, 0
        try:
            observation, _ = self._task.reset(seed=seed)
        except Exception as error:
            raise self._raised(error) from error
        return self._state(observation)

    def step(self, action: Action) -> Step:
        """What follows from an action. After a terminated or truncated step comes `reset`."""
        self._steps += 1
        try:
            observation, reward, terminated, truncated, _ = self._task.step(self.translation(action))
        except Exception as error:
            raise self._raised(error) from error
        reward = float(reward)
        if not math.isfinite(reward):
            raise ActionlessError(f"the reward is {reward} {self._place()}: check the task, or its reward wrapper")
        return Step(self._state(observation), reward, bool(terminated), bool(truncated))

    def close(self) -> None:
        """Give up what the task holds."""
        self._task.close()

    def _state(self, observation: Any) -> State:
        if self._keys is None:
            # A copy: some tasks hand out the array that their next step overwrites.
            state = np.array(observation, self._number)
        else:
            state = np.concatenate([np.ravel(observation[key]) for key in self._keys], dtype=self._number)
        if state.shape != self._shape:
            raise ActionlessError(
                f"the observation has shape {state.shape} {self._place()}, where the task's observation space has "
                f"{self._shape}: mend the task"
            )
        if not np.isfinite(state).all():
            at = int(np.argmin(np.isfinite(state)))
            raise ActionlessError(f"dimension {at} of the observation is {state[at]} {self._place()}: check the task")
        return state

    def _raised(self, error: Exception) -> ActionlessError:
        if isinstance(error, ActionlessError):
            return error
        return ActionlessError(
            f"the task raised {type(error).__name__} ({first_line(error)}) {self._place()}: mend the task; "
            "called from Python, it shows where"
        )

    def _place(self) -> str:
        return f"at step {self._steps} of an episode of '{self.name}' (seed {self._seed})"


def _gymnasium_task(name: str) -> gymnasium.Env:
    module, _, task = name.rpartition(":")
    if module:
        _import_tasks(module, name)
    if task not in gymnasium.registry:
        raise ActionlessError(
            f"no task '{task}' is registered with Gymnasium{_did_you_mean(task, gymnasium.registry)} "
            "(tasks of other packages are named module:Env-v0, those of the DeepMind Control Suite dmc:domain-task)"
        )
    with _without_notices_on_models():
        try:
            return gymnasium.make(task, disable_env_checker=True)
        except Exception as error:
            raise ActionlessError(
                f"task '{name}' cannot be made: {type(error).__name__}: {first_line(error)}"
            ) from error


def _import_tasks(module: str, name: str) -> None:
    try:
        importlib.import_module(module)
    except Exception as error:
        raise ActionlessError(
            f"the module of task '{name}' cannot be imported ({type(error).__name__}: {first_line(error)}): install "
            "it, or put its folder on PYTHONPATH"
        ) from error


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = [f"'{other}'" for other in difflib.get_close_matches(name, known)]
    return f"; did you mean {' or '.join(close)}?" if close else ""


@contextlib.contextmanager
def _without_notices_on_models() -> Iterator[None]:
    """Keep to ourselves what the user of a task cannot change: that newer versions exist, how its model is written."""
    import mujoco as typeless

    mujoco: Any = typeless  # its stubs leave out the two functions needed
    usual = mujoco.get_mju_user_warning()

    def show(message: str) -> None:
        if "deprecated" not in message:
            print(f"MuJoCo: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)
        mujoco.set_mju_user_warning(show)
        try:
            yield
        finally:
            mujoco.set_mju_user_warning(usual)


def _number_type(space: spaces.Space) -> np.dtype:
    """Of the whole observation: a task may differ in it between `reset` and `step`, a checkpoint must not."""
    parts = space.values() if isinstance(space, spaces.Dict) else [space]
    return np.result_type(*(part.dtype for part in parts if part.dtype is not None))


def _observation_keys(name: str, space: spaces.Space) -> list[str] | None:
    """The parts of a dictionary in their order; None where the observation is one vector."""
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return None
    if isinstance(space, spaces.Dict) and all(
        isinstance(part, spaces.Box) and len(part.shape) <= 1 for part in space.values()
    ):
        return list(space.keys())
    raise ActionlessError(
        f"task '{name}' observes {_in_one_line(space)}, and states here are vectors of numbers: register it with a "
        "wrapper (gymnasium.wrappers.FlattenObservation) and name it module:Env-v0"
    )


def _action_translation(name: str, space: spaces.Space, bins: int | None) -> tuple[int, int | None, Translation]:
    """Dimensions, choices in each (None: continuous), and how a normalised action becomes one of the task's."""
    taken = f"task '{name}' takes actions in {_in_one_line(space)}"
    if isinstance(space, spaces.Box):
        return _vector_translation(taken, space, bins)
    if bins is None:
        raise ActionlessError(
            f"{taken}, and this agent needs continuous actions: take one that chooses (train --agent decqn)"
        )
    if isinstance(space, spaces.Discrete):
        return 1, int(space.n), Choice(int(space.start))
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1 and (space.nvec == space.nvec[0]).all():
        return len(space.nvec), int(space.nvec[0]), Choices(space.start)
    raise ActionlessError(f"{taken}, and choices must be as many in each dimension: {_WRAP_ACTIONS}")


def _vector_translation(taken: str, space: spaces.Box, bins: int | None) -> tuple[int, int | None, Translation]:
    if len(space.shape) != 1:
        raise ActionlessError(f"{taken}, and actions here are vectors: {_WRAP_ACTIONS}")
    if not (space.is_bounded() and np.issubdtype(space.dtype, np.floating)):
        raise ActionlessError(f"{taken}, and actions here are real numbers with finite limits: {_WRAP_ACTIONS}")
    low, high = space.low, space.high
    if bins is None:
        return len(low), None, Limits(low, high)
    if bins < 2:
        raise ActionlessError(f"an action cannot have {bins} levels: give at least 2")
    return len(low), bins, Levels(np.linspace(low, high, bins, axis=1, dtype=low.dtype))


def _in_one_line(space: spaces.Space) -> str:
    return " ".join(str(space).split())


def _suite_task(name: str) -> gymnasium.Env:
    require_extra("dm_control", "dmc", f"task '{name}'")
    from actionless.online.suite import SuiteTask, tasks

    known = tasks()
    if name not in known:
        raise ActionlessError(
            f"no task '{name}' in the DeepMind Control Suite{_did_you_mean(name, known)} "
            f"(its domains: {', '.join(dict.fromkeys(domain for domain, _ in known.values()))})"
        )
    with _without_notices_on_models():
        return SuiteTask(*known[name])
