"""What pre-training costs: OSO-DecQN beside AFDT, as JSON. `python -m benchmarks.pretraining_methods [--repeats 5]`

Milliseconds of one core per update, at each scale's sizes on 17 variables (Walker2d), and what the scale's number of
updates takes. The contestants take turns within one process on one thread, and CPU time is read, which other processes
cannot inflate. Data is made up: speed does not depend on what is learnt.
"""

import argparse
import json
import os
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from actionless.offline.afdt import AfdtConfig
from actionless.offline.learner import Batch, Spec
from actionless.offline.presets import SCALES, Method, ScaleName, create_learner, length, preset
from actionless.updates import standing, updated

STATE_DIM, LONGEST, UPDATES = 17, 1000, 4
CONTESTANTS: tuple[tuple[Method, ScaleName], ...] = (
    ("oso-decqn", "cpu"),
    ("oso-decqn", "paper"),
    ("afdt", "cpu"),
    ("afdt", "paper"),
)
LOG = "walker2d_medium-v2"


def rows(count: int) -> Batch:
    """Steps of one long episode."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(2, count, STATE_DIM)).astype(np.float32)
    return Batch(
        states=jnp.asarray(states[0]),
        next_states=jnp.asarray(states[1]),
        rewards=jnp.ones(count),
        masks=jnp.ones(count),
        deltas=jnp.asarray(rng.integers(0, 3, (count, STATE_DIM)), jnp.int8),
        to_go=jnp.ones(count),
        times=jnp.full(count, LONGEST - 1, jnp.int32),
    )


def contestant(method: Method, scale: ScaleName) -> Callable[[], None]:
    """Some updates in one dispatch, as training makes them."""
    config, key = preset(method, SCALES[scale], LOG), jax.random.key(0, impl="rbg")
    _, batch_size = length(method, SCALES[scale], LOG)
    size = batch_size * (config.context if isinstance(config, AfdtConfig) else 1)
    batches = rows(UPDATES * size)
    learner = eqx.filter_jit(create_learner)(Spec(STATE_DIM, 3, longest_episode=LONGEST), config, key)
    held = [standing(learner, jax.tree.map(lambda array: array[:size], batches), key)]

    def run() -> None:
        held[0] = jax.block_until_ready(updated(held[0], batches, 0, UPDATES, key, size))

    return run


def main(repeats: int) -> None:
    """Measure in turns, after one unmeasured call that compiles."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # JAX starts its threads at its first computation
    runs = {names: contestant(*names) for names in CONTESTANTS}
    for run in runs.values():
        run()
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for names, run in runs.items():
            began = time.process_time()
            run()
            best[names] = min(best[names], (time.process_time() - began) / UPDATES)
    figures = {
        f"{method}, {scale}": {
            "ms_per_update": round(1000 * seconds, 1),
            "updates": length(method, SCALES[scale], LOG)[0],
            "core_hours": round(seconds * length(method, SCALES[scale], LOG)[0] / 3600, 2),
        }
        for (method, scale), seconds in best.items()
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    main(parser.parse_args().repeats)
