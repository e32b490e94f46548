"""A small log of a real simulator."""

import numpy as np

from actionless.online.environments import make


def write_random_log(path, episodes):
    """Random actions in Hopper, with the actions; returns the path."""
    task, rng = make("Hopper-v5"), np.random.default_rng(0)
    rows = {name: [] for name in ("states", "actions", "rewards", "next_states", "terminals")}
    for episode in range(episodes):
        state, over = task.reset(episode), False
        while not over:
            action = rng.uniform(-1, 1, 3).astype(np.float32)
            after = task.step(action)
            over = after.terminated
            for name, value in zip(rows, (state, action, after.reward, after.state, over), strict=True):
                rows[name].append(value)
            state = after.state
    np.savez(path, **{name: np.array(column) for name, column in rows.items()})
    return path
