"""Agents small enough to test."""

import jax
import jax.numpy as jnp
import numpy as np

from actionless.guidance.guided_sac import GuidedSacConfig
from actionless.online.agent import Spec, Transitions
from actionless.online.awac import AwacConfig
from actionless.online.cal_ql import CalQlConfig
from actionless.online.decqn import DecqnConfig
from actionless.online.iql import IqlConfig
from actionless.online.o3f import O3fConfig
from actionless.online.sac import SacConfig
from actionless.online.td3 import Td3Config

SPECS = {
    "td3": Spec(3, 2, None),
    "sac": Spec(3, 2, None),
    "guided sac": Spec(3, 2, None),
    "decqn": Spec(3, 2, 4),
    "iql": Spec(3, 2, None),
    "awac": Spec(3, 2, None),
    "cal-ql": Spec(3, 2, None),
    "o3f": Spec(3, 2, None),
}
CONFIGS = {
    "iql": IqlConfig(hidden=(8, 8), learning_rate=1e-2),
    "awac": AwacConfig(hidden=(8, 8), learning_rate=1e-2),
    "cal-ql": CalQlConfig(hidden=(8, 8), learning_rate=1e-2, alpha=0.1),
    "o3f": O3fConfig(hidden=(8, 8), learning_rate=1e-2, ensemble=3, candidates=20),
    "td3": Td3Config(hidden=(8, 8), learning_rate=1e-2),
    "sac": SacConfig(hidden=(8, 8), learning_rate=1e-2),
    "guided sac": GuidedSacConfig(hidden=(8, 8), learning_rate=1e-2),
    "decqn": DecqnConfig(ensemble=3, hidden=(8, 8), learning_rate=1e-2),
}


def random_batch(spec: Spec, rows: int = 32) -> Transitions:
    draw = np.random.default_rng(0)
    shape = (rows, spec.action_dim)
    actions = draw.uniform(-1, 1, shape) if spec.bins is None else draw.integers(0, spec.bins, shape)
    return Transitions(
        states=jnp.asarray(draw.normal(size=(rows, spec.state_dim)), jnp.float32),
        actions=jnp.asarray(actions, jnp.float32 if spec.bins is None else jnp.int32),
        rewards=jnp.asarray(draw.normal(size=rows), jnp.float32),
        next_states=jnp.asarray(draw.normal(size=(rows, spec.state_dim)), jnp.float32),
        discounts=jnp.asarray(draw.choice([0.0, 0.99], rows), jnp.float32),
        extra={
            "returns": jnp.asarray(draw.normal(size=rows), jnp.float32),
            "guiding": jnp.asarray(draw.normal(size=rows), jnp.float32),
        },
    )


def forward(weights, biases, inputs):
    """A network of ReLUs in NumPy."""
    x = inputs
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        x = x @ np.asarray(weight, np.float64) + np.asarray(bias, np.float64)
        x = np.maximum(x, 0) if layer + 1 < len(weights) else x
    return x


def member(ensemble, index, inputs):
    """One member of an ensemble in NumPy."""
    return forward([w[index] for w in ensemble.weights], [b[index] for b in ensemble.biases], inputs)


def leaves_equal(first, second) -> bool:
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)
