"""Policies, logs and guides small enough to work by hand."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from actionless.data.log import Log, Source, default_state_names
from actionless.discretise import Discretiser, Normaliser
from actionless.guidance.guide import Guide, GuideConfig
from actionless.guidance.idm import IdmConfig
from actionless.networks import Ensemble
from actionless.offline.state_policy import PolicyModel, StatePolicy

SMALL = GuideConfig(IdmConfig(hidden=(16, 16), batch_size=8, every=1))
SMALL_ALONE = dataclasses.replace(SMALL, bootstrap=False)


def constant_policy(outputs, head):
    """Says the same in every state, whose normalised values are the values themselves."""
    normaliser = Normaliser(np.zeros(2), np.ones(2))
    discretiser = Discretiser(normaliser, np.tile([-0.1, 0.1], (2, 1)), np.tile([-1.0, 0.0, 1.0], (2, 1)))
    biases = jnp.asarray(outputs, jnp.float32)[None, None]
    network = Ensemble(weights=(jnp.zeros((1, 2, biases.shape[2])),), biases=(biases,))
    return StatePolicy(PolicyModel(network, discretiser, head, 1.0), "by-hand", ("s0", "s1"))


# Utilities are (down s0, down s1), (same s0, same s1), (up s0, up s1).
UP_AND_DOWN = constant_policy([0, 1, 0, 0, 1, 0], "utilities")


def walk_log(dim=2, rows=50, seed=0):
    states = np.random.default_rng(seed).normal(size=(rows + 1, dim)).cumsum(axis=0)
    ends = np.arange(rows) == rows - 1
    return Log(
        states=states[:-1],
        rewards=np.zeros(rows),
        next_states=states[1:],
        terminals=np.zeros(rows, bool),
        ends=ends,
        state_names=default_state_names(dim),
        source=Source("walk.npz", "npz", ("states",)),
    )


def small_guide(schedule=None, *, log=None, config=None, **options):
    if config is None:
        config = SMALL_ALONE if log is None else SMALL
    options = {"action_dim": 2, "steps": 100} | options
    return Guide.create(UP_AND_DOWN, log=log, schedule=schedule, config=config, **options)
