"""Several seeds at once: one process per core, or all seeds in one program?

    python -m benchmarks.several_seeds [--scale cpu] [--dim 11] [--seeds 2] [--updates 50] [--repeats 5]

Compares the updates per second of all seeds together: a single-threaded process for each seed, side by side;
one process with every core that runs the seeds under `vmap`; and one that runs them one after the other. The
three take turns, and the best of each counts, so that a busy machine disturbs them alike. CPU time per update,
which other processes hardly touch, is given beside it. Prints JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import time

WAYS = ("processes", "vmap", "one after the other")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", default="cpu")
    parser.add_argument("--dim", type=int, default=11)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--updates", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--worker", choices=("one", "vmap"))
    options = parser.parse_args()
    if options.worker:
        work(options)
    else:
        print(json.dumps(compare(options), indent=2))


def compare(options: argparse.Namespace) -> dict:
    cores = len(os.sched_getaffinity(0))
    workers = {
        "processes": [start(options, "one", threads=1) for _ in range(options.seeds)],
        "vmap": [start(options, "vmap", threads=cores)],
        "one after the other": [start(options, "one", threads=cores)],
    }
    rounds: dict[str, list[float]] = {way: [] for way in WAYS}
    spent: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(options.repeats):
        for way in WAYS:
            turns = options.seeds if way == "one after the other" else 1
            began = time.perf_counter()
            cpu = sum(together(workers[way]) for _ in range(turns))
            spent[way].append(1000 * cpu / (options.seeds * options.updates))
            rounds[way].append(options.seeds * options.updates / (time.perf_counter() - began))
    for worker in (worker for group in workers.values() for worker in group):
        worker.communicate("")
    best = {way: round(max(rates), 1) for way, rates in rounds.items()}
    return {
        "scale": options.scale,
        "dim": options.dim,
        "seeds": options.seeds,
        "cores": cores,
        "updates_per_second_of_all_seeds": best,
        "cpu_milliseconds_per_update": {way: round(min(times), 2) for way, times in spent.items()},
        "all_rounds": {way: [round(rate, 1) for rate in rates] for way, rates in rounds.items()},
        "processes_over_vmap": round(best["processes"] / best["vmap"], 2),
        "processes_over_one_after_the_other": round(best["processes"] / best["one after the other"], 2),
    }


def start(options: argparse.Namespace, kind: str, threads: int) -> "subprocess.Popen[str]":
    told = [f"--{name}={value}" for name, value in vars(options).items() if value is not None]
    worker = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.several_seeds", *told, f"--worker={kind}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "NPROC": str(threads)},
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    return worker


def together(workers: "list[subprocess.Popen[str]]") -> float:
    """Have them work at the same time; the CPU seconds they took."""
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    seconds = 0.0
    for worker in workers:
        assert worker.stdout is not None
        seconds += float(worker.stdout.readline())
    return seconds


def work(options: argparse.Namespace) -> None:
    import jax
    import jax.numpy as jnp
    import numpy as np

    from actionless.offline.learner import Batch, Spec
    from actionless.offline.methods import METHODS

    method = METHODS["oso-decqn"]
    spec, config = Spec(options.dim, bins=3), method.config_at(options.scale)
    rng = np.random.default_rng(0)
    dim, size = options.dim, method.size(options.scale).batch_size
    rows = options.updates * size
    batches = Batch(
        states=jnp.asarray(rng.normal(size=(rows, dim)).astype(np.float32)),
        next_states=jnp.asarray(rng.normal(size=(rows, dim)).astype(np.float32)),
        rewards=jnp.asarray(rng.normal(size=rows).astype(np.float32)),
        masks=jnp.ones(rows),
        deltas=jnp.asarray(rng.integers(0, 3, (rows, dim)).astype(np.int8)),
    )

    def updates(learner, key, batches):
        def update(i, learner):
            batch = jax.tree.map(lambda array: jax.lax.dynamic_slice_in_dim(array, i * size, size), batches)
            return learner.update(batch, jax.random.fold_in(key, i))[0]

        return jax.lax.fori_loop(0, options.updates, update, learner)

    seeds = options.seeds if options.worker == "vmap" else 1
    keys = jax.vmap(lambda seed: jax.random.key(seed, impl="rbg"))(jnp.arange(seeds))
    learners = jax.vmap(lambda key: method.learner.create(spec, config, key))(keys)
    if options.worker == "vmap":
        # Each seed draws its own batches, as separate runs do.
        batches = jax.tree.map(lambda array: jnp.stack([jnp.roll(array, i, axis=0) for i in range(seeds)]), batches)
        run = jax.jit(jax.vmap(updates), donate_argnums=0)
    else:
        learners, keys = jax.tree.map(lambda array: array[0], learners), keys[0]
        run = jax.jit(updates, donate_argnums=0)
    learners = jax.block_until_ready(run(learners, keys, batches))
    print("ready", flush=True)
    while sys.stdin.readline():
        began = time.process_time()
        learners = jax.block_until_ready(run(learners, keys, batches))
        print(time.process_time() - began, flush=True)


if __name__ == "__main__":
    main()
