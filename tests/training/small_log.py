"""Logs small enough to learn from in a moment."""

import numpy as np

from actionless.data.log import Log, Source, default_state_names


def small_log(lengths=(30,) * 10, dim=3, seed=0, reward=1.0, with_actions=False, dtype=np.float64):
    """Random walks in which every episode has its own length; every other one ends in a terminal."""
    rng = np.random.default_rng(seed)
    walks = [rng.normal(size=(length + 1, dim)).cumsum(axis=0).astype(dtype) for length in lengths]
    count = sum(lengths)
    ends = np.zeros(count, bool)
    ends[np.cumsum(lengths) - 1] = True
    terminals = np.zeros(count, bool)
    terminals[np.cumsum(lengths)[::2] - 1] = True
    states = np.concatenate([walk[:-1] for walk in walks])
    return Log(
        states=states,
        rewards=reward * np.exp(-np.square(states[:, 0])),
        next_states=np.concatenate([walk[1:] for walk in walks]),
        terminals=terminals,
        ends=ends,
        state_names=default_state_names(dim),
        source=Source("walk.npz", "npz", ("states",)),
        actions=rng.normal(size=(count, 2)).astype(np.float32) if with_actions else None,
    )


def save(log, path):
    """Write a log as an npz file."""
    arrays = {
        "states": log.states,
        "next_states": log.next_states,
        "rewards": log.rewards,
        "terminals": log.terminals,
        "timeouts": log.ends & ~log.terminals,
    }
    np.savez(path, **arrays, **({} if log.actions is None else {"actions": log.actions}))
    return path
