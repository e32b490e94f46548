"""The potential for every library: a Gymnasium wrapper that adds its part to each reward.

Works with any agent, on-policy ones included, and knows nothing of it but its discount.
"""

from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from jaxtyping import Bool, Float, Real

from actionless.discretise import Normaliser
from actionless.errors import ActionlessError
from actionless.guidance.interface import OwnSteps
from actionless.guidance.potential import NEXT_POTENTIAL, POTENTIAL, Potential, PotentialGuidance, PotentialSettings
from actionless.offline.state_policy import StatePolicy

TRUE_REWARD, TRUE_RETURN = "true_reward", "true_return"
"""In `info`: the environment's own reward at every step, and the sum of an episode's where it ends."""

_DEFAULTS = PotentialSettings()


class PotentialReward(gymnasium.Wrapper, RecordConstructorArgs):
    """Rewards with a potential's part: r + γΦ(s') − Φ(s), where Φ is the value that a log taught.

        env = actionless.PotentialReward(gymnasium.make("HalfCheetah-v5"), "runs/halfcheetah")
        SAC("MlpPolicy", env).learn(20_000)

    A vector environment gets a vector wrapper. `guide` is the run (or the directory) of a policy that has values.
    `discount` has to be the agent's own γ: only then is the best policy still the best. Observations are normalised
    by the log, unless `normalise` is False. The environment's own reward is `info["true_reward"]`, and an episode's
    own return `info["true_return"]` where it ends. Nothing is added while the rewards of steps near the log differ
    from the log's: `env.shaping.metrics()` says so.
    """

    def __new__(cls, env: Any, *arguments: Any, **named: Any) -> Any:
        """The wrapper that the environment needs."""
        if isinstance(env, VectorEnv):
            return VectorPotentialReward(env, *arguments, **named)
        return super().__new__(cls)

    def __init__(
        self,
        env: gymnasium.Env,
        guide: str | Path | StatePolicy,
        *,
        discount: float = 0.99,
        kappa: float = _DEFAULTS.kappa,
        reach: float = _DEFAULTS.reach,
        normalise: bool = True,
    ):
        RecordConstructorArgs.__init__(
            self, guide=guide, discount=discount, kappa=kappa, reach=reach, normalise=normalise
        )
        gymnasium.Wrapper.__init__(self, env)
        self.shaping = Shaping(
            guide, env.observation_space, discount=discount, kappa=kappa, reach=reach, normalise=normalise
        )
        if normalise:
            self.observation_space = _unbounded(env.observation_space)
        self._state, self._return = np.zeros(0), 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The first observation."""
        state, info = self.env.reset(seed=seed, options=options)
        self._state, self._return = np.array(state), 0.0
        return self.shaping.seen(state), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """A step whose reward has the potential's part."""
        state, reward, terminated, truncated, info = self.env.step(action)
        added = self.shaping.added(self._state[None], state[None], np.array([reward], float), np.array([terminated]))
        shaped = float(reward) + float(added[0])
        self._state = np.array(state)
        self._return += float(reward)
        info = {**info, TRUE_REWARD: float(reward)}
        if terminated or truncated:
            info[TRUE_RETURN] = self._return
        return self.shaping.seen(state), shaped, terminated, truncated, info


class VectorPotentialReward(VectorWrapper):
    """The same for several environments at once."""

    def __init__(
        self,
        env: VectorEnv,
        guide: str | Path | StatePolicy,
        *,
        discount: float = 0.99,
        kappa: float = _DEFAULTS.kappa,
        reach: float = _DEFAULTS.reach,
        normalise: bool = True,
    ):
        super().__init__(env)
        single = env.single_observation_space
        self.shaping = Shaping(guide, single, discount=discount, kappa=kappa, reach=reach, normalise=normalise)
        self._mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        if normalise:
            self.single_observation_space = _unbounded(single)
            self.observation_space = _unbounded(env.observation_space)
        self._states, self._returns = np.zeros((env.num_envs, *(single.shape or ()))), np.zeros(env.num_envs)
        self._over = np.zeros(env.num_envs, bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The first observations; with a mask (AutoresetMode.DISABLED), of those that begin anew."""
        states, info = self.env.reset(seed=seed, options=options)  # pyright: ignore[reportArgumentType]
        begun = np.ones(self.num_envs, bool) if options is None else options.get("reset_mask", True)
        self._states = np.array(states)
        self._returns, self._over = np.where(begun, 0.0, self._returns), self._over & ~np.asarray(begun)
        return self.shaping.seen(states), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """A step of each, whose rewards have the potential's part."""
        states, rewards, terminated, truncated, info = self.env.step(actions)
        reached = np.array(states)
        over = terminated | truncated
        if self._mode == AutoresetMode.SAME_STEP and over.any():
            # The environments that ended already show the first state of their next episode.
            reached[over] = np.stack([np.asarray(final) for final in info["final_obs"][over]])
        # In the step after an end, nothing happens but a reset.
        begins = self._over if self._mode == AutoresetMode.NEXT_STEP else np.zeros_like(over)
        shaped, made = np.array(rewards, float), ~begins
        if made.any():
            shaped[made] += self.shaping.added(self._states[made], reached[made], shaped[made], terminated[made])
        self._returns = np.where(begins, 0.0, self._returns) + rewards
        info = {**info, TRUE_REWARD: np.array(rewards), f"_{TRUE_REWARD}": np.ones(self.num_envs, bool)}
        if over.any():
            info |= {TRUE_RETURN: np.where(over, self._returns, 0.0), f"_{TRUE_RETURN}": np.array(over)}
        if self._mode == AutoresetMode.SAME_STEP:
            self._returns = np.where(over, 0.0, self._returns)
        self._states, self._over = np.array(states), over
        return self.shaping.seen(states), shaped, terminated, truncated, info


class Shaping:
    """What both wrappers share: what Φ adds to rewards, as long as the log fits, and the units of observations."""

    def __init__(
        self,
        guide: str | Path | StatePolicy,
        observations: spaces.Space,
        *,
        discount: float,
        kappa: float,
        reach: float,
        normalise: bool,
    ):
        policy = guide if isinstance(guide, StatePolicy) else StatePolicy.load(guide)
        where = "the guide" if isinstance(guide, StatePolicy) else str(guide)
        names = policy.state_names
        if not (isinstance(observations, spaces.Box) and observations.shape == (len(names),)):
            raise ActionlessError(
                f"{where}: values states of {len(names)} variables ({', '.join(names[:8])}"
                f"{', …' if len(names) > 8 else ''}), and the environment observes {observations}: pre-train on a log "
                "of this environment, or flatten what it observes (gymnasium.wrappers.FlattenObservation)"
            )
        if not 0 <= discount <= 1:
            raise ActionlessError(f"discount={discount}: choose a number from 0 to 1, the agent's own")
        self.policy, self.discount = policy, discount
        settings = PotentialSettings(kappa=kappa, reach=reach)
        self._potential = Potential.of(policy, settings.kappa, settings.reach)
        self._guidance = PotentialGuidance(self._potential, settings)
        self._guidance.discount = discount
        self._steps = 0
        self.normaliser = self._potential.normaliser if normalise else None

    def potential(self, states: Real[np.ndarray, "batch dim"]) -> Float[np.ndarray, " batch"]:
        """Φ of each state."""
        return self._potential(states).astype(np.float64)

    def added(
        self,
        states: Real[np.ndarray, "steps dim"],
        next_states: Real[np.ndarray, "steps dim"],
        rewards: Real[np.ndarray, " steps"],
        terminals: Bool[np.ndarray, " steps"],
    ) -> Float[np.ndarray, " steps"]:
        """γΦ(s') − Φ(s) of steps in the environment; nothing while the log does not fit."""
        nothing = np.zeros((len(states), 0))
        own = OwnSteps(self._steps, states, nothing, rewards, next_states, terminals)
        self._steps += len(states)
        columns = self._guidance.observe_together(own)
        if not self._guidance.state.check.fits:
            return np.zeros(len(states))
        after = np.where(terminals, 0.0, columns[NEXT_POTENTIAL].astype(np.float64))
        return self.discount * after - columns[POTENTIAL]

    def metrics(self) -> dict[str, float]:
        """Of the steps since the last call, as `actionless train` reports them."""
        return self._guidance.metrics()

    def seen(self, states: Real[np.ndarray, "*batch dim"]) -> Real[np.ndarray, "*batch dim"]:
        """What the agent observes."""
        if self.normaliser is None:
            return states
        return Normaliser.normalise(self.normaliser, states).astype(np.float32)

    def unseen(self, observations: Real[np.ndarray, "*batch dim"]) -> Real[np.ndarray, "*batch dim"]:
        """The environment's own states, of what the agent observed."""
        if self.normaliser is None:
            return observations
        return Normaliser.denormalise(self.normaliser, observations.astype(np.float64))


def _unbounded(space: spaces.Space | None) -> spaces.Box:
    assert space is not None and space.shape is not None
    return spaces.Box(-np.inf, np.inf, space.shape, np.float32)
