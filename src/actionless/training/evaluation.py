"""What an agent is worth in its environment: whole episodes of its best actions, no exploration, no guide."""

import numpy as np
from jaxtyping import Float

from actionless.errors import ActionlessError
from actionless.online.agent import Act
from actionless.online.environments import Environment
from actionless.randomness import generator

MOST_STEPS = 100_000
"""Of one episode: an environment without an end would never be evaluated."""


def episode_seed(seed: int, number: int) -> int:
    """The seed that an episode is reset with. Evaluation counts its episodes from -1 down."""
    # A counter has no sign: episodes of evaluation lie beyond any that training reaches.
    return int(generator(seed, "episodes", number % 2**63).integers(2**31))


def returns_of(environment: Environment, act: Act, episodes: int, seed: int) -> Float[np.ndarray, " episodes"]:
    """The return of each of so many episodes, the same ones for the same seed."""
    return np.array([_return_of(environment, act, episode_seed(seed, -1 - i)) for i in range(episodes)])


def _return_of(environment: Environment, act: Act, seed: int) -> float:
    state, total = environment.reset(seed), 0.0
    for _ in range(MOST_STEPS):
        step = environment.step(act(state[None])[0])
        state, total = step.state, total + step.reward
        if step.terminated or step.truncated:
            return total
    raise ActionlessError(
        f"{environment.name}: an episode has no end after {MOST_STEPS:,} steps; register it with max_episode_steps"
    )
