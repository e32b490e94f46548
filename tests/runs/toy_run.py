"""A task small enough to follow by hand, with every kind of state a run can hold; also a script to kill."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from actionless.runs.directory import Manifest, Run
from actionless.runs.engine import Advance, Loop, Outcome, drive


@dataclass(frozen=True)
class RandomWalk(Loop[dict[str, Any]]):
    """A walk on the line: JAX noise, NumPy noise, and a replay that is written in place."""

    steps: int = 60
    dispatch: int = 5
    seconds: float = 0.0
    nan_at: int | None = None
    bad_weight_at: int | None = None
    silent: bool = False
    """Whether every other dispatch has no metrics, as one that ends by the clock has none."""
    score: str = "eval/height"
    lower_is_better: bool = False
    headline: tuple[str, ...] = ("loss",)

    def begin(self) -> dict[str, Any]:
        return {
            "weights": jnp.zeros(3),
            "key": jax.random.key(7, impl="rbg"),
            "generator": np.random.default_rng(7),
            "replay": np.zeros((self.steps, 3), np.float32),
            "moved": 0,
        }

    def advance(self, state: dict[str, Any], step: int) -> Advance[dict[str, Any]]:
        time.sleep(self.seconds)
        end = min(step + self.dispatch, self.steps)
        key, draw = jax.random.split(state["key"])
        shift = state["generator"].normal()
        weights = state["weights"] + jax.random.normal(draw, (3,)) + jnp.float32(shift)
        state["replay"][step:end] = np.asarray(weights)
        loss = float("nan") if self.nan_at == end else float(jnp.square(weights).mean())
        metrics = {"loss": loss, "moved": float(state["moved"])}
        if end % 10 == 0:
            metrics["eval/height"] = float(weights[0])
        if self.bad_weight_at == end:
            weights = weights.at[0].set(jnp.inf)
        after = {**state, "weights": weights, "key": key, "moved": state["moved"] + end - step}
        return Advance(after, end, {} if self.silent and end % 10 else metrics)


def new_run(path: Path, **options: Any) -> Run:
    return Run.create(path, Manifest("toy", {"rate": 1}, seed=7, data={"fingerprint": "abc"}), **options)


def work(run: Run, task: RandomWalk) -> Outcome[dict[str, Any]]:
    outcome = drive(run, task, checkpoint_every=10)
    run.finish(outcome.result)
    return outcome


if __name__ == "__main__":
    path = Path(sys.argv[1])
    with Run.open(path) if path.exists() else new_run(path) as run:
        try:
            work(run, RandomWalk(seconds=float(sys.argv[2])))
        except KeyboardInterrupt:
            sys.exit(130)
