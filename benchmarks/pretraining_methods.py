"""What learning from a log costs, with actions and without, as JSON.

    python -m benchmarks.pretraining_methods [--repeats 5] [--methods oso-decqn,iql-delta]

Milliseconds of one core per update, at each scale's sizes on Walker2d's 17 state and 6 action variables, and what the
scale's number of updates takes; and the share of OSO-DecQN's update. The contestants take turns within one process on
one thread, and CPU time is read, which other processes hardly inflate. Data is made up: speed does not depend on what
is learnt.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from actionless.offline.learner import Batch, Spec
from actionless.offline.methods import METHODS
from actionless.online.agent import RETURNS, Transitions
from actionless.online.agent import Spec as TaskSpec
from actionless.online.agents import LABELLED, LABELLED_SCALES, create_agent, labelled_preset
from actionless.settings import ScaleName
from actionless.updates import Learner, train_state, updated

STATE_DIM, ACTION_DIM, LONGEST, UPDATES = 17, 6, 1000, 4
WITHOUT_ACTIONS = ("oso-decqn", "iql-delta", "afdt")
WITH_ACTIONS = tuple(LABELLED)
COMPARED: tuple[ScaleName, ...] = ("cpu", "paper")
LOG = "walker2d_medium-v2"


class Contestant(NamedTuple):
    """A learner, and what it learns from."""

    learner: Learner
    batches: Any
    """Rows of so many updates, one behind the other."""
    rows: int
    """Of one update."""
    updates: int
    """Of the whole of learning from a log."""

    def runner(self) -> Callable[[], None]:
        """Some updates in one dispatch, as training makes them."""
        key = jax.random.key(0, impl="rbg")
        held = [train_state(self.learner, jax.tree.map(lambda array: array[: self.rows], self.batches), key)]

        def run() -> None:
            held[0] = jax.block_until_ready(updated(held[0], self.batches, 0, UPDATES, key, self.rows))

        return run


def without_actions(name: str, scale: ScaleName) -> Contestant:
    """On steps of one long episode."""
    method = METHODS[name]
    config, size = method.config_at(scale), method.size(scale)
    rows = size.batch_size * config.declares.window
    rng, count = np.random.default_rng(0), UPDATES * rows
    batches = Batch(
        **two_states(rng, count),
        rewards=jnp.ones(count),
        masks=jnp.ones(count),
        deltas=jnp.asarray(rng.integers(0, 3, (count, STATE_DIM)), jnp.int8),
        extra={"to_go": jnp.ones(count), "times": jnp.full(count, LONGEST - 1, jnp.int32)},
    )
    spec, key = Spec(STATE_DIM, 3, longest_episode=LONGEST), jax.random.key(0, impl="rbg")
    return Contestant(eqx.filter_jit(method.learner.create)(spec, config, key), batches, rows, size.steps_for(LOG))


def with_actions(method: str, scale: ScaleName) -> Contestant:
    """On transitions that need not belong together."""
    sizes = LABELLED_SCALES[scale]
    rng, count = np.random.default_rng(0), UPDATES * sizes.batch_size
    batches = Transitions(
        **two_states(rng, count),
        actions=jnp.asarray(rng.uniform(-1, 1, (count, ACTION_DIM)), jnp.float32),
        rewards=jnp.ones(count),
        discounts=jnp.full(count, 0.99),
        extra={RETURNS: jnp.ones(count)},
    )
    spec, key = TaskSpec(STATE_DIM, ACTION_DIM, None), jax.random.key(0, impl="rbg")
    agent = eqx.filter_jit(create_agent)(spec, labelled_preset(method, scale), key)
    return Contestant(agent, batches, sizes.batch_size, sizes.offline_steps)


def two_states(rng: np.random.Generator, count: int) -> dict[str, jax.Array]:
    """States and next states."""
    return {name: jnp.asarray(rng.normal(size=(count, STATE_DIM)), jnp.float32) for name in ("states", "next_states")}


def main(repeats: int, methods: tuple[str, ...]) -> None:
    """Measure in turns, after one unmeasured call that compiles."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # JAX starts its threads at its first computation
    contestants = {
        (method, scale): contestant
        for scale in COMPARED
        for method, contestant in (
            *((method, without_actions(method, scale)) for method in WITHOUT_ACTIONS if method in methods),
            *((method, with_actions(method, scale)) for method in WITH_ACTIONS if method in methods),
        )
    }
    runs = {names: contestant.runner() for names, contestant in contestants.items()}
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
            "ms_per_update": round(1000 * seconds, 2),
            "updates": contestants[method, scale].updates,
            "core_hours": round(seconds * contestants[method, scale].updates / 3600, 3),
        }
        | ({"share_of_oso_decqn": round(seconds / rival, 3)} if (rival := best.get(("oso-decqn", scale))) else {})
        for (method, scale), seconds in best.items()
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--methods", default=",".join((*WITHOUT_ACTIONS, *WITH_ACTIONS)))
    arguments = parser.parse_args()
    main(arguments.repeats, tuple(arguments.methods.split(",")))
