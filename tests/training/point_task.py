"""A small task to learn in a moment: push a point to the origin. Registered as `point_task:Point-v0`."""

import gymnasium
import numpy as np
from gymnasium import spaces

from actionless.data.log import Log, Source, default_state_names


class Point(gymnasium.Env):
    """Two coordinates, moved by the action; it ends in a terminal when the point leaves the square."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(-2.0, 2.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 2)
        return self.place, {}

    def step(self, action):
        self.place = self.place + 0.1 * action
        return self.place, float(-np.abs(self.place).sum()), bool(np.abs(self.place).max() > 1.5), False, {}


class Forgetful(Point):
    """Draws its first state anew at each reset, whatever the seed."""

    drawn = 0

    def reset(self, *, seed=None, options=None):
        Forgetful.drawn += 1
        return super().reset(seed=Forgetful.drawn)


class Mixed(Point):
    """Begins with less precise numbers than it continues with, against what its space says."""

    def reset(self, *, seed=None, options=None):
        state, about = super().reset(seed=seed)
        return state.astype(np.float32), about


class Broken(Point):
    """Raises in its third step."""

    steps = 0

    def step(self, action):
        self.steps += 1
        if self.steps == 3:
            raise KeyError("valve")
        return super().step(action)


gymnasium.register("Mixed-v0", Mixed, max_episode_steps=15)
gymnasium.register("Broken-v0", Broken, max_episode_steps=15)
gymnasium.register("Point-v0", Point, max_episode_steps=15)
gymnasium.register("Forgetful-v0", Forgetful, max_episode_steps=15)


def point_log(episodes=20, length=15, seed=0):
    """Episodes of a point on its way to the origin, no actions kept."""
    rng = np.random.default_rng(seed)
    places = np.zeros((episodes, length + 1, 2))
    places[:, 0] = rng.uniform(-1, 1, (episodes, 2))
    for t in range(length):
        push = np.clip(-5 * places[:, t] + rng.normal(0, 0.5, (episodes, 2)), -2, 2)
        places[:, t + 1] = places[:, t] + 0.1 * push
    ends = np.tile(np.arange(length) == length - 1, episodes)
    next_states = places[:, 1:].reshape(-1, 2)
    return Log(
        states=places[:, :-1].reshape(-1, 2),
        rewards=-np.abs(next_states).sum(axis=1),
        next_states=next_states,
        terminals=np.zeros(len(ends), bool),
        ends=ends,
        state_names=default_state_names(2),
        source=Source("point.npz", "npz", ("states",)),
    )
