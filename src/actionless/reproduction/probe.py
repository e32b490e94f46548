"""Measures one core, in the time that it works for us, so that other work on the machine counts little.

`python -m actionless.reproduction.probe '[[[256, 256], 256]]'` prints seconds as JSON.
"""

import json
import sys
import time
from collections.abc import Callable

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from actionless.networks import MLP

_VARIABLES = 17
_SECONDS = 0.4


def update_seconds(hidden: tuple[int, ...], batch: int) -> float:
    """Of a gradient step of one network."""
    network = MLP.create([_VARIABLES, *hidden, 3 * _VARIABLES], jax.random.key(0, impl="rbg"))
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(batch, _VARIABLES)), jnp.float32)

    @jax.jit
    def step(network: MLP) -> MLP:
        def loss(network: MLP) -> jax.Array:
            return jnp.square(network(rows)).mean()

        return jax.tree.map(lambda weight, slope: weight - 1e-4 * slope, network, jax.grad(loss)(network))

    held = [step(network)]

    def again() -> None:
        held[0] = jax.block_until_ready(step(held[0]))

    return _seconds_of(again)


def environment_seconds() -> float:
    """Of a step of Hopper-v5, with a decision of a compiled network."""
    environment = gymnasium.make("Hopper-v5")
    environment.reset(seed=0)
    action = np.zeros(3, np.float32)
    decide = jax.jit(lambda state: jnp.tanh(state[:3]))

    def step() -> None:
        state, _, over, cut, _ = environment.step(action)
        np.asarray(decide(jnp.asarray(state, jnp.float32)))
        if over or cut:
            environment.reset()

    seconds = _seconds_of(step)
    environment.close()
    return seconds


def _seconds_of(work: Callable[[], None]) -> float:
    work()
    calls, start = 0, time.process_time()
    while (passed := time.process_time() - start) < _SECONDS:
        work()
        calls += 1
    return passed / calls


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(
        json.dumps(
            {
                "updates": [update_seconds(tuple(hidden), batch) for hidden, batch in asked],
                "environment_step": environment_seconds(),
            }
        )
    )
