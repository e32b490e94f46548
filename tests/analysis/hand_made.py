"""A log and policies small enough to work everything out by hand."""

import jax.numpy as jnp
import numpy as np

from actionless.data.log import Log, Source
from actionless.discretise import Discretiser, Normaliser
from actionless.networks import Ensemble
from actionless.offline.state_policy import PolicyModel, StatePolicy

BINS = Discretiser(Normaliser(np.zeros(2), np.ones(2)), np.tile([-0.1, 0.1], (2, 1)), np.tile([-1.0, 0.0, 1.0], (2, 1)))


def tiny_log():
    """x goes up three times and ends in a terminal; then it goes down, up, and is truncated. y never moves."""
    x, next_x = np.array([0.0, 1.0, 2.0, 5.0, 4.0]), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    return Log(
        states=np.stack([x, np.zeros(5)], axis=1),
        next_states=np.stack([next_x, np.zeros(5)], axis=1),
        rewards=np.array([1.0, 2.0, 4.0, 8.0, 16.0]),
        terminals=np.array([False, False, True, False, False]),
        ends=np.array([False, False, True, False, True]),
        state_names=("x", "y"),
        source=Source("tiny.npz", "npz", ("states",)),
    )


def constant_policy(*members, head="logits", discretiser=BINS, **options):
    """Members that ignore the state; each is given as scores (down, same, up) of x, then of y."""
    by_bin = [np.stack([np.asarray(x), np.asarray(y)], axis=1).reshape(-1) for x, y in members]
    outputs = jnp.asarray(np.stack(by_bin), jnp.float32)
    network = Ensemble(weights=(jnp.zeros((len(members), 2, outputs.shape[1])),), biases=(outputs[:, None],))
    return StatePolicy(PolicyModel(network, discretiser, head, 1.0), "made-by-hand", ("x", "y"), **options)


def policy_with_probabilities(x, y):
    return constant_policy((np.log(x), np.log(y)))
