"""Optax's Adam and Polyak average beside ones written by hand: `python -m benchmarks.optimiser [--repeats 30]`.

The whole update of OSO-DecQN and TD3 at both scales, and Adam with the Polyak average alone. Updates run as in
training: many in one dispatch, the state donated. The contestants take turns within one process on one thread, and CPU
time is read, which other processes hardly inflate. Optax runs twice, so that the noise can be seen: its two ratios
would be equal without it. Data is made up: speed does not depend on what is learnt.
"""

import argparse
import contextlib
import functools
import inspect
import json
import math
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from actionless import updates
from actionless.networks import Ensemble
from actionless.offline import oso_decqn
from actionless.offline.learner import Batch
from actionless.offline.learner import Spec as LogSpec
from actionless.offline.oso_decqn import OsoDecqn, OsoDecqnConfig
from actionless.online import td3
from actionless.online.agent import Spec, Transitions
from actionless.online.td3 import Td3, Td3Config
from actionless.optimise import Adam, polyak

Run = Callable[[], None]

ACTION_DIM, BINS, MEMBERS, BATCH, RATE = 6, 3, 5, 256, 1e-3


@dataclass(frozen=True)
class Size:
    """How large networks are at a scale."""

    state_dim: int
    hidden: tuple[int, ...]
    updates: int
    """Of one dispatch."""


SIZES = {"cpu": Size(11, (256, 256), 20), "paper": Size(17, (512, 512, 512), 4)}


class ByHand(eqx.Module):
    """Adam in as few operations as it can be written with."""

    first: Any
    second: Any
    count: Int[Array, ""]
    learning_rate: float = eqx.field(static=True)

    @classmethod
    def create(cls, parameters: Any, learning_rate: float) -> "ByHand":
        first, second = (jax.tree.map(jnp.zeros_like, parameters) for _ in range(2))
        return cls(first, second, jnp.zeros((), jnp.int32), learning_rate)

    def step(self, parameters: Any, gradient: Any) -> tuple[Any, "ByHand"]:
        count = self.count + 1
        first = jax.tree.map(lambda m, g: m + 0.1 * (g - m), self.first, gradient)
        second = jax.tree.map(lambda v, g: v + 0.001 * (g * g - v), self.second, gradient)
        rate = self.learning_rate / -jnp.expm1(count.astype(jnp.float32) * math.log(0.9))
        root = jax.lax.rsqrt(-jnp.expm1(count.astype(jnp.float32) * math.log(0.999)))
        moved = jax.tree.map(lambda p, m, v: p - rate * m / (root * jnp.sqrt(v) + 1e-8), parameters, first, second)
        return moved, ByHand(first, second, count, self.learning_rate)


def polyak_by_hand(slow: Any, fast: Any, rate: float) -> Any:
    return jax.tree.map(lambda s, f: s + rate * (f - s), slow, fast)


@contextlib.contextmanager
def written_by_hand():
    """Learners that are made and compiled meanwhile use no Optax in their steps."""
    with contextlib.ExitStack() as stack:
        for module in (oso_decqn, td3):
            stack.enter_context(patch.object(module, "Adam", ByHand))
            stack.enter_context(patch.object(module, "polyak", polyak_by_hand))
        yield


def random_states(rows: int, state_dim: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).normal(size=(rows, state_dim)), jnp.float32)


def oso_decqn_updates(size: Size) -> Run:
    rows, dim = BATCH * size.updates, size.state_dim
    states = random_states(rows + 1, dim)
    batches = Batch(
        states=states[:-1],
        next_states=states[1:],
        rewards=jnp.ones(rows),
        masks=jnp.ones(rows),
        deltas=jnp.ones((rows, dim), jnp.int8),
    )
    config = OsoDecqnConfig(ensemble=MEMBERS, hidden=size.hidden)
    learner = OsoDecqn.create(LogSpec(dim, BINS), config, jax.random.key(0, impl="rbg"))
    return in_one_dispatch(learner, batches, size.updates)


def td3_updates(size: Size) -> Run:
    rows, dim = BATCH * size.updates, size.state_dim
    states = random_states(rows + 1, dim)
    batches = Transitions(
        states=states[:-1],
        next_states=states[1:],
        actions=jnp.zeros((rows, ACTION_DIM)),
        rewards=jnp.ones(rows),
        discounts=jnp.full(rows, 0.99),
    )
    agent = Td3.create(Spec(dim, ACTION_DIM, None), Td3Config(hidden=size.hidden), jax.random.key(0, impl="rbg"))
    return in_one_dispatch(agent, batches, size.updates)


def in_one_dispatch(learner: Any, batches: Any, count: int) -> Run:
    """Some updates as training makes them. A program of its own: what is patched is no part of JAX's cache."""
    key = jax.random.key(0, impl="rbg")
    held = [updates.train_state(learner, jax.tree.map(lambda array: array[:BATCH], batches), key)]
    loop: Any = functools.partial(inspect.unwrap(updates.updated))
    dispatch = jax.jit(loop, static_argnums=5, donate_argnums=0)

    def run() -> None:
        held[0] = jax.block_until_ready(dispatch(held[0], batches, 0, count, key, BATCH))

    run()
    return run


def steps_alone(size: Size, adam: Any, average: Any) -> Run:
    """Adam and the Polyak average of OSO-DecQN's networks, along one gradient."""
    layers = (size.state_dim, *size.hidden, size.state_dim * BINS)
    network, target, gradient = (
        Ensemble.create(MEMBERS, layers, key) for key in jax.random.split(jax.random.key(0), 3)
    )

    def step(_: Any, state: Any) -> Any:
        network, target, optimiser = state
        network, optimiser = optimiser.step(network, gradient)
        return network, average(target, network, RATE), optimiser

    dispatch = jax.jit(lambda state: jax.lax.fori_loop(0, size.updates, step, state), donate_argnums=0)
    held = [(network, target, adam.create(network, RATE))]

    def run() -> None:
        held[0] = jax.block_until_ready(dispatch(held[0]))

    run()
    return run


def contestants(name: str, size: Size) -> dict[str, Run]:
    if name == "steps alone":
        make = functools.partial(steps_alone, size)
        return {"by hand": make(ByHand, polyak_by_hand), "optax": make(Adam, polyak), "optax again": make(Adam, polyak)}
    learner = {"oso-decqn": oso_decqn_updates, "td3": td3_updates}[name]
    with written_by_hand():
        by_hand = learner(size)
    return {"by hand": by_hand, "optax": learner(size), "optax again": learner(size)}


def in_turns(runs: dict[str, Run], repeats: int) -> dict[str, list[float]]:
    """CPU seconds of each call; another begins in every round."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    order = list(runs)
    for _ in range(repeats):
        for name in order:
            began = time.process_time()
            runs[name]()
            seconds[name].append(time.process_time() - began)
        order = order[1:] + order[:1]
    return seconds


def compared(name: str, size: Size, repeats: int) -> dict[str, Any]:
    seconds = in_turns(contestants(name, size), repeats)
    by_hand = seconds["by hand"]
    return {
        contestant: {
            "ms_per_update": round(1e3 * statistics.median(own) / size.updates, 3),
            "ratio_of_medians": round(statistics.median(own) / statistics.median(by_hand), 3),
            # Less disturbed than the median, and unlike the minimum not the luck of one call.
            "ratio_of_first_deciles": round(float(np.quantile(own, 0.1) / np.quantile(by_hand, 0.1)), 3),
        }
        for contestant, own in seconds.items()
    }


def main(repeats: int) -> None:
    os.environ["NPROC"] = "1"  # what XLA asks for the size of its thread pool, at its first computation
    result = {
        f"{name}, {scale}": compared(name, size, repeats)
        for scale, size in SIZES.items()
        for name in ("steps alone", "oso-decqn", "td3")
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30)
    main(parser.parse_args().repeats)
