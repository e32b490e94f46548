"""Speed of OSO-DecQN's update, as JSON: `python -m benchmarks.oso_decqn_update [--repeats 5]`.

Ratios, each measured in turns within one process, because machines are noisy:
the update against its limit, at the paper's size and at the `cpu` scale; useful FLOP/s against a plain float32 matmul
of the same machine; the same update in vectorised PyTorch (where it is installed); the cost at M=78 against M=17.
Useful FLOPs are those of matrix products alone: three forward passes and one backward pass, and those of what is learnt
of the log's support. The limit is these FLOPs at the rate of the hidden layers' batched product, plus the bytes that
Adam and the target network move at the bandwidth of a loop over as much memory. For one thread: `taskset -c 0`.
"""

import argparse
import importlib.util
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from actionless.offline.learner import Batch, Spec
from actionless.offline.methods import METHODS
from actionless.offline.oso_decqn import OsoDecqn, OsoDecqnConfig
from actionless.offline.support import EVERY
from benchmarks.measure import in_fresh_process, timed

ROWS, MATMUL = 20_000, 1024


@dataclass(frozen=True)
class Size:
    """One configuration to measure."""

    hidden: tuple[int, ...]
    state_dim: int
    ensemble: int = 5
    batch: int = 256
    bins: int = 3

    @property
    def flops(self) -> int:
        """Of one update: forward on s, twice on s', and backward; the inputs need no gradient. The support's networks
        see every fourth row, forward and backward."""
        layers = [2 * self.batch * self.ensemble * a * b for a, b in pairwise(self.layers)]
        support = [2 * (self.batch // EVERY) * a * b for sizes in self.support_layers for a, b in pairwise(sizes)]
        return 5 * sum(layers) - layers[0] + 3 * sum(support)

    @property
    def bytes(self) -> int:
        """Of one update: Adam reads weights, gradient and two moments, and writes all but the gradient; the target
        network is read and written."""
        moved = self.ensemble * parameters(self.layers) * (4 + 3 + 2)
        return 4 * (moved + sum(map(parameters, self.support_layers)) * (4 + 3))

    @property
    def layers(self) -> tuple[int, ...]:
        """Of each network."""
        return self.state_dim, *self.hidden, self.state_dim * self.bins

    @property
    def support_layers(self) -> tuple[tuple[int, ...], ...]:
        """Of the networks of distances and of rewards."""
        return (self.state_dim, *self.hidden, 1), (2 * self.state_dim, *self.hidden, 1)


def parameters(layers: tuple[int, ...]) -> int:
    """Weights and biases of a network."""
    return sum((a + 1) * b for a, b in pairwise(layers))


PAPER = Size((512, 512, 512), 17)


def arrays(size: Size) -> dict[str, np.ndarray]:
    """A made-up log: speed does not depend on what is learnt."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(2, ROWS, size.state_dim)).astype(np.float32)
    return {
        "states": states[0],
        "next_states": states[1],
        "rewards": rng.normal(size=ROWS).astype(np.float32),
        "masks": np.ones(ROWS, np.float32),
        "deltas": rng.integers(0, size.bins, (ROWS, size.state_dim)).astype(np.int32),
    }


def jax_updates(size: Size, updates: int) -> Callable[[], None]:
    """Many updates in one dispatch, batches drawn inside; the training loop draws them on the host."""
    config = OsoDecqnConfig(hidden=size.hidden, ensemble=size.ensemble)
    learner = OsoDecqn.create(Spec(size.state_dim, size.bins), config, jax.random.key(0, impl="rbg"))
    columns: dict[str, Any] = {name: jnp.asarray(a) for name, a in arrays(size).items()}
    data = Batch(**columns)

    def step(learner: OsoDecqn, key: jax.Array) -> tuple[OsoDecqn, dict[str, jax.Array]]:
        rows_key, update_key = jax.random.split(key)
        rows = jax.random.randint(rows_key, (size.batch,), 0, ROWS)
        return learner.update(jax.tree.map(lambda a: a[rows], data), update_key)

    @eqx.filter_jit(donate="all")
    def dispatch(learner: OsoDecqn, key: jax.Array) -> tuple[OsoDecqn, jax.Array]:
        learner, metrics = jax.lax.scan(step, learner, jax.random.split(key, updates))
        return learner, metrics["loss"].mean()

    held = [learner]

    def run() -> None:
        held[0], loss = dispatch(held[0], jax.random.key(1, impl="rbg"))
        jax.block_until_ready(loss)

    return run


def matmuls(count: int) -> Callable[[], None]:
    """Plain products of two square matrices: what this machine can do."""
    a = jnp.asarray(np.random.default_rng(0).normal(size=(MATMUL, MATMUL)) / MATMUL**0.5, jnp.float32)
    loop = jax.jit(lambda x: jax.lax.scan(lambda y, _: (y @ a, None), x, None, length=count)[0])
    return lambda: jax.block_until_ready(loop(a))


def batched_products(size: Size, count: int) -> Callable[[], None]:
    """The products that the update is made of: one per member, of two hidden layers."""
    x, w = (jnp.asarray(a) for a in batched_operands(size))
    loop = jax.jit(lambda x, w: jax.lax.scan(lambda y, _: (y @ w, None), x, None, length=count)[0])
    return lambda: jax.block_until_ready(loop(x, w))


def memory_passes(size: Size, count: int) -> Callable[[], None]:
    """x ← x / 2 + y over as many bytes as one update moves, read twice and written once."""
    x, y = jnp.zeros(size.bytes // 12), jnp.ones(size.bytes // 12)
    loop = jax.jit(lambda x, y: jax.lax.fori_loop(0, count, lambda _, x: 0.5 * x + y, x), donate_argnums=0)
    held = [x]

    def run() -> None:
        held[0] = jax.block_until_ready(loop(held[0], y))

    return run


def torch_batched_products(size: Size, count: int) -> Callable[[], None]:
    """The same in PyTorch."""
    import torch  # pyright: ignore[reportMissingImports]

    x, w = (torch.from_numpy(a) for a in batched_operands(size))

    def run() -> None:
        y = x
        for _ in range(count):
            y = torch.bmm(y, w)

    return run


def batched_operands(size: Size) -> tuple[np.ndarray, np.ndarray]:
    rng, width = np.random.default_rng(0), size.hidden[0]
    x = rng.normal(size=(size.ensemble, size.batch, width)).astype(np.float32)
    return x, (rng.normal(size=(size.ensemble, width, width)) / width**0.5).astype(np.float32)


def torch_updates(size: Size, updates: int) -> Callable[[], None]:
    """The same update as a PyTorch user would vectorise it: stacked weights, `baddbmm`, fused Adam."""
    import torch  # pyright: ignore[reportMissingImports]

    config = OsoDecqnConfig()
    data = {name: torch.from_numpy(a) for name, a in arrays(size).items()}
    data["deltas"] = data["deltas"].long()
    sizes = (size.state_dim, *size.hidden, size.state_dim * size.bins)
    layers = list(pairwise(sizes))
    shapes = [s for a, b in layers for s in ((size.ensemble, a, b), (size.ensemble, 1, b))]
    online = [
        torch.empty(s).uniform_(-(layers[i // 2][0] ** -0.5), layers[i // 2][0] ** -0.5).requires_grad_()
        for i, s in enumerate(shapes)
    ]
    target = [p.detach().clone() for p in online]
    adam = torch.optim.Adam(online, lr=config.learning_rate, fused=True)

    def forward(parameters: list, states):
        x = states.expand(size.ensemble, *states.shape)
        for i in range(0, len(parameters), 2):
            x = torch.baddbmm(parameters[i + 1], x, parameters[i])
            x = torch.relu(x) if i < len(parameters) - 2 else x
        return x.view(size.ensemble, len(states), size.state_dim, size.bins)

    def q_values(u, delta):
        return u.gather(-1, delta.expand(size.ensemble, *delta.shape)[..., None])[..., 0].mean(-1)

    def update() -> None:
        rows = torch.randint(ROWS, (size.batch,))
        states, next_states, rewards, masks, deltas = (data[name][rows] for name in data)
        with torch.no_grad():
            odds = torch.softmax(forward(online, next_states).mean(0), -1)
            drawn = torch.multinomial(odds.view(-1, size.bins), 1).view(size.batch, size.state_dim)
            y = rewards + config.discount * masks * q_values(forward(target, next_states), drawn).mean(0)
        u = forward(online, states)
        mean = u.mean(0)
        excess = torch.logsumexp(mean, -1) - mean.gather(-1, deltas[..., None])[..., 0]
        loss = (q_values(u, deltas) - y).square().mean() + config.alpha * excess.mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        with torch.no_grad():
            torch._foreach_lerp_(target, online, config.target_rate)

    def run() -> None:
        for _ in range(updates):
            update()

    return run


def product_flops(size: Size) -> int:
    """Of one batched product of two hidden layers."""
    return 2 * size.ensemble * size.batch * size.hidden[0] ** 2


def in_turns(contestants: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Best seconds of each, measured in turns after one unmeasured call that compiles.

    On one thread CPU time is read, which other processes cannot inflate; on several, wall time.
    """
    clock = time.process_time if len(os.sched_getaffinity(0)) == 1 else time.perf_counter
    for contestant in contestants.values():
        contestant()
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(repeats):
        for name, contestant in contestants.items():
            start = clock()
            contestant()
            best[name] = min(best[name], clock() - start)
    return best


def own_memory(size: Size) -> dict[str, float]:
    """By how much networks, optimiser and updates raise the peak of a process, its log and JAX itself not counted."""
    matmuls(1)()
    _, _, raised = timed(lambda: jax_updates(size, 10)())
    return {"megabytes": raised / 2**20}


def all_sizes() -> dict[str, Size]:
    method = METHODS["oso-decqn"]
    config = method.config_at("cpu")
    assert isinstance(config, OsoDecqnConfig)
    return {
        "paper": PAPER,
        "paper_78": Size((512, 512, 512), 78),
        "cpu": Size(config.hidden, 11, config.ensemble, method.size("cpu").batch_size),
    }


def measure(repeats: int, updates: int) -> dict:
    sizes = all_sizes()
    multiplications = 4 * updates
    contestants = {f"jax/{name}": jax_updates(size, updates) for name, size in sizes.items()}
    contestants["matmul"] = matmuls(multiplications)
    contestants |= {f"products/{name}": batched_products(size, multiplications) for name, size in sizes.items()}
    contestants |= {f"memory/{name}": memory_passes(size, updates) for name, size in sizes.items()}
    torch_present = importlib.util.find_spec("torch") is not None
    if torch_present:
        import torch  # pyright: ignore[reportMissingImports]

        torch.set_num_threads(len(os.sched_getaffinity(0)))
        contestants["torch products"] = torch_batched_products(PAPER, multiplications)
        contestants |= {f"torch/{name}": torch_updates(size, updates) for name, size in sizes.items()}
    best = in_turns(contestants, repeats)
    rate = multiplications * 2 * MATMUL**3 / best["matmul"]
    rates = {name: multiplications * product_flops(size) / best[f"products/{name}"] for name, size in sizes.items()}
    limits = {name: updates * size.flops / rates[name] + best[f"memory/{name}"] for name, size in sizes.items()}
    result: dict = {
        "threads": len(os.sched_getaffinity(0)),
        "matmul_gflops": rate / 1e9,
        "batched_product_gflops": {name: each / 1e9 for name, each in rates.items()},
        "memory_gb_per_second": {
            name: updates * size.bytes / best[f"memory/{name}"] / 1e9 for name, size in sizes.items()
        },
        "limit_milliseconds": {name: 1e3 * limit / updates for name, limit in limits.items()},
        "share_of_limit": {name: limit / best[f"jax/{name}"] for name, limit in limits.items()},
        "milliseconds": {name: 1e3 * s / updates for name, s in best.items() if name.startswith(("jax/", "torch/"))},
        "share_of_matmul_rate": {
            name: size.flops * updates / best[f"jax/{name}"] / rate for name, size in sizes.items()
        },
        "cost_78_over_17": best["jax/paper_78"] / best["jax/paper"],
        "own_memory_mb": {
            name: in_fresh_process("benchmarks.oso_decqn_update", "--memory-of", name)["megabytes"] for name in sizes
        },
    }
    if torch_present:
        product = multiplications * product_flops(PAPER)
        result["torch_batched_product_gflops"] = product / best["torch products"] / 1e9
        result["speed_over_torch"] = {name: best[f"torch/{name}"] / best[f"jax/{name}"] for name in sizes}
    else:
        result["speed_over_torch"] = "not measured: PyTorch is not installed (pip install torch)"
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--updates", type=int, default=10, help="updates per measurement")
    parser.add_argument("--memory-of", choices=all_sizes(), help="nothing but the memory of one size")
    options = parser.parse_args()
    memory_of = options.memory_of
    result = own_memory(all_sizes()[memory_of]) if memory_of else measure(options.repeats, options.updates)
    print(json.dumps(result, indent=2))
