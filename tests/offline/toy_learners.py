"""Small logs and learners that the tests of this package share."""

import jax
import jax.numpy as jnp
import numpy as np

from actionless.discretise import Discretiser
from actionless.offline.afdt import AfdtConfig
from actionless.offline.imitation import ImitationConfig
from actionless.offline.iql_delta import IqlDeltaConfig
from actionless.offline.learner import Batch, Spec
from actionless.offline.methods import METHODS
from actionless.offline.oso_decqn import OsoDecqnConfig

SPEC = Spec(state_dim=3, bins=3, action_dim=2, longest_episode=9)

SMALL = {"hidden": (16, 16), "learning_rate": 1e-3, "ensemble": 2}

CONFIGS = {
    "oso-decqn": OsoDecqnConfig(alpha=1.0, **SMALL),
    "oso-decqn-every-other-choice": OsoDecqnConfig(
        alpha=1.0, loss="huber", logits="scaled", penalty_on="members", target="min", mask_terminals=False, **SMALL
    ),
    "decqn": OsoDecqnConfig(alpha=0.0, reward_scale=0.1, **SMALL),
    "iql-delta": IqlDeltaConfig(**SMALL),
    "bc-delta": ImitationConfig("delta", **SMALL),
    "bc-next": ImitationConfig("next_state", **SMALL),
    "bc-diff": ImitationConfig("difference", **SMALL),
    "bc-action": ImitationConfig("action", **SMALL),
    "afdt": AfdtConfig(context=4, width=16, blocks=2, learning_rate=1e-3, warm_up=10),
}


def create_learner(spec, config, key):
    """The learner that a config belongs to."""
    learners = {type(method.config): method.learner for method in METHODS.values()}
    return learners[type(config)].create(spec, config, key)


def random_batch(seed=0, rows=32, spec=SPEC):
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(rows, spec.state_dim)).astype(np.float32)
    return Batch(
        states=jnp.asarray(states),
        next_states=jnp.asarray(states + rng.normal(size=states.shape).astype(np.float32) * np.float32(0.1)),
        rewards=jnp.asarray(rng.normal(size=rows), jnp.float32),
        masks=jnp.asarray(rng.random(rows) > 0.2, jnp.float32),
        deltas=jnp.asarray(rng.integers(0, spec.bins, states.shape), jnp.int32),
        actions=jnp.asarray(rng.normal(size=(rows, spec.action_dim or 1)), jnp.float32),
        extra={
            "to_go": jnp.asarray(rng.normal(size=rows), jnp.float32),
            "times": jnp.arange(rows, dtype=jnp.int32) % 8,
        },
    )


def random_discretiser(bins=3, dim=3, seed=0):
    rng = np.random.default_rng(seed)
    states = rng.normal(2, 3, (200, dim))
    spacing = "epsilon" if bins <= 3 else "quantile"
    return Discretiser.fit(states, states + rng.normal(size=states.shape), bins=bins, spacing=spacing)


def leaves_equal(a, b):
    return all(jax.tree.leaves(jax.tree.map(lambda x, y: bool((x == y).all()), a, b)))
