"""One class for all environments: Gymnasium ids, `module:Env-v0`, and `dmc:domain-task` (DeepMind Control Suite).

An episode depends only on its seed and the actions. So checkpoints need no simulator state: to resume, the
environment is reset with the episode's seed and the actions are replayed.
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

from actionless.errors import ActionlessError, first_line, foreign_error, require_extra
from actionless.online.action_translation import Choice, Choices, Levels, Limits, Translation
from actionless.online.agent import Spec

SUITE = "dmc:"

_WRAP_ACTIONS = "register it with a wrapper (gymnasium.wrappers.TransformAction) and name it module:Env-v0"

State = Shaped[np.ndarray, " dim"]
Action = Shaped[np.ndarray, " actions"]


class Step(NamedTuple):
    """The result of one action."""

    state: State
    reward: float
    terminated: bool
    """The environment reached a terminal state: no reward can follow."""
    truncated: bool
    """A time limit stopped the episode, which would have continued otherwise."""


def make(name: str, *, bins: int | None = None) -> "Environment":
    """The environment of this name.

    Without `bins`, for agents with continuous actions. With `bins`, for agents with discrete actions: each continuous
    action gets this many levels between its limits; discrete actions of the environment stay as they are.
    """
    return Environment(name, _dm_control(name) if name.startswith(SUITE) else _gymnasium(name), bins=bins)


@final
class Environment:
    """An environment with normalised actions: numbers in [-1, 1], or the index of a level in each dimension.

    States have the dtype of the observation space. Each `reset` takes the seed of its episode, below 2³².
    """

    name: str
    spec: Spec
    translation: Translation
    """From normalised actions to the environment's own."""

    def __init__(self, name: str, simulator: gymnasium.Env, *, bins: int | None = None):
        self.name = name
        self._simulator = simulator
        self._keys = _observation_keys(name, simulator.observation_space)
        self._shape = (spaces.flatdim(simulator.observation_space),)
        self._dtype = _observation_dtype(simulator.observation_space)
        action_dim, choices, self.translation = _action_translation(name, simulator.action_space, bins)
        self.spec = Spec(self._shape[0], action_dim, choices)
        self._seed = self._steps = 0

    def reset(self, seed: int) -> State:
        """Start the episode with this seed and return its first state."""
        self._seed, self._steps = seed, 0
        try:
            observation, _ = self._simulator.reset(seed=seed)
        except Exception as error:
            raise self._raised(error) from error
        return self._state(observation)

    def step(self, action: Action) -> Step:
        """Take an action. After a terminated or truncated step, call `reset`."""
        self._steps += 1
        try:
            observation, reward, terminated, truncated, _ = self._simulator.step(self.translation(action))
        except Exception as error:
            raise self._raised(error) from error
        reward = float(reward)
        if not math.isfinite(reward):
            raise ActionlessError(
                f"the reward is {reward} {self._place()}: check the environment, or its reward wrapper"
            )
        return Step(self._state(observation), reward, bool(terminated), bool(truncated))

    def close(self) -> None:
        """Release the simulator."""
        self._simulator.close()

    def _state(self, observation: Any) -> State:
        if self._keys is None:
            # A copy, because some environments return an array that their next step overwrites.
            state = np.array(observation, self._dtype)
        else:
            state = np.concatenate([np.ravel(observation[key]) for key in self._keys], dtype=self._dtype)
        if state.shape != self._shape:
            raise ActionlessError(
                f"the observation has shape {state.shape} {self._place()}, but the environment's observation space has "
                f"shape {self._shape}: fix the environment"
            )
        if not np.isfinite(state).all():
            at = int(np.argmin(np.isfinite(state)))
            raise ActionlessError(
                f"dimension {at} of the observation is {state[at]} {self._place()}: check the environment"
            )
        return state

    def _raised(self, error: Exception) -> ActionlessError:
        if isinstance(error, ActionlessError):
            return error
        return foreign_error(
            f"the environment raised {type(error).__name__} ({first_line(error)}) {self._place()}",
            "fix the environment",
        )

    def _place(self) -> str:
        return f"at step {self._steps} of an episode of '{self.name}' (seed {self._seed})"


def _gymnasium(name: str) -> gymnasium.Env:
    module, _, gymnasium_id = name.rpartition(":")
    if module:
        _import_module(module, name)
    if gymnasium_id not in gymnasium.registry:
        raise ActionlessError(
            f"no environment '{gymnasium_id}' is registered with Gymnasium"
            f"{_did_you_mean(gymnasium_id, gymnasium.registry)} (for an environment of another package write "
            "module:Env-v0, for one of the DeepMind Control Suite dmc:domain-task)"
        )
    with _without_notices_on_models():
        try:
            return gymnasium.make(gymnasium_id, disable_env_checker=True)
        except Exception as error:
            raise foreign_error(
                f"environment '{name}' cannot be made ({type(error).__name__}: {first_line(error)})",
                "fix the environment or its arguments",
            ) from error


def _import_module(module: str, name: str) -> None:
    try:
        importlib.import_module(module)
    except Exception as error:
        raise foreign_error(
            f"the module of environment '{name}' cannot be imported ({type(error).__name__}: {first_line(error)})",
            "install it, or put its folder on PYTHONPATH",
        ) from error


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = [f"'{other}'" for other in difflib.get_close_matches(name, known)]
    return f"; did you mean {' or '.join(close)}?" if close else ""


@contextlib.contextmanager
def _without_notices_on_models() -> Iterator[None]:
    """Hide notices that a user cannot act on: newer versions of the environment, deprecated syntax in its model."""
    import mujoco as typeless

    mujoco: Any = typeless  # its stubs lack the two functions used here
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


def _observation_dtype(space: spaces.Space) -> np.dtype:
    """One dtype for all states: an environment may use another in `reset` than in `step`, a checkpoint must not."""
    parts = space.values() if isinstance(space, spaces.Dict) else [space]
    return np.result_type(*(part.dtype for part in parts if part.dtype is not None))


def _observation_keys(name: str, space: spaces.Space) -> list[str] | None:
    """The keys of a dictionary observation in order; None if the observation is a vector."""
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return None
    if isinstance(space, spaces.Dict) and all(
        isinstance(part, spaces.Box) and len(part.shape) <= 1 for part in space.values()
    ):
        return list(space.keys())
    raise ActionlessError(
        f"environment '{name}' observes {_in_one_line(space)}, but states must be vectors of numbers: register it with "
        "a wrapper (gymnasium.wrappers.FlattenObservation) and name it module:Env-v0"
    )


def _action_translation(name: str, space: spaces.Space, bins: int | None) -> tuple[int, int | None, Translation]:
    """Number of dimensions, number of choices in each (None: continuous), and the translation."""
    taken = f"environment '{name}' takes actions in {_in_one_line(space)}"
    if isinstance(space, spaces.Box):
        return _vector_translation(taken, space, bins)
    if bins is None:
        raise ActionlessError(
            f"{taken}, but this agent needs continuous actions: use an agent for discrete actions (train --agent decqn)"
        )
    if isinstance(space, spaces.Discrete):
        return 1, int(space.n), Choice(int(space.start))
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1 and (space.nvec == space.nvec[0]).all():
        return len(space.nvec), int(space.nvec[0]), Choices(space.start)
    raise ActionlessError(f"{taken}, but the number of choices must be the same in each dimension: {_WRAP_ACTIONS}")


def _vector_translation(taken: str, space: spaces.Box, bins: int | None) -> tuple[int, int | None, Translation]:
    if len(space.shape) != 1:
        raise ActionlessError(f"{taken}, but actions must be vectors: {_WRAP_ACTIONS}")
    if not (space.is_bounded() and np.issubdtype(space.dtype, np.floating)):
        raise ActionlessError(f"{taken}, but actions must be real numbers with finite limits: {_WRAP_ACTIONS}")
    low, high = space.low, space.high
    if bins is None:
        return len(low), None, Limits(low, high)
    if bins < 2:
        raise ActionlessError(f"an action cannot have {bins} levels: give at least 2")
    return len(low), bins, Levels(np.linspace(low, high, bins, axis=1, dtype=low.dtype))


def _in_one_line(space: spaces.Space) -> str:
    return " ".join(str(space).split())


def _dm_control(name: str) -> gymnasium.Env:
    require_extra("dm_control", "dmc", f"environment '{name}'")
    from actionless.online.dm_control import DMControlEnvironment, tasks

    known = tasks()
    if name not in known:
        raise ActionlessError(
            f"no environment '{name}' in the DeepMind Control Suite{_did_you_mean(name, known)} "
            f"(its domains: {', '.join(dict.fromkeys(domain for domain, _ in known.values()))})"
        )
    with _without_notices_on_models():
        return DMControlEnvironment(*known[name])
