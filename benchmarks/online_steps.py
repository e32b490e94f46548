"""Steps per second of online learning, as JSON: `python -m benchmarks.online_steps [--repeats 5]`.

TD3 alone, TD3 with each kind of guidance and, where they are installed, the TD3 of Stable-Baselines3, alone and guided,
and that of SBX take turns within one process, on one thread, with the same networks and batch; then where a step's time
goes. Ratios are of CPU seconds, which other processes on the machine disturb least, and of wall-clock seconds.
"""

import argparse
import contextlib
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from actionless.data.log import Log, Source, default_state_names
from actionless.discretise import Discretiser
from actionless.guidance import kinds
from actionless.guidance.guide import Guide, GuideConfig
from actionless.guidance.idm import IDM_SCALES
from actionless.guidance.interface import GuidanceContext
from actionless.guidance.switch import Fixed
from actionless.offline.learner import PolicyLabel, Spec
from actionless.offline.methods import METHODS
from actionless.offline.state_policy import StatePolicy
from actionless.online.environments import make
from actionless.runs.threads import use_threads
from actionless.training import online
from actionless.training.online import OnlineLoop
from actionless.training.online_settings import train_settings

TASK, WARM_UP, BETA = "HalfCheetah-v5", 1000, 0.5
GUIDANCE = ("switch", "potential", "relabel", "potential,relabel")
ALWAYS = {"beta": BETA, "agreement": 1e9}
Turn = Callable[[int], None]


def random_log(steps: int = 5000) -> Log:
    """What random actions give: speed does not depend on what is learnt."""
    environment, rng = make(TASK), np.random.default_rng(0)
    states, rewards = [environment.reset(0)], []
    for _ in range(steps):
        after = environment.step(rng.uniform(-1, 1, environment.spec.action_dim).astype(np.float32))
        states.append(after.state)
        rewards.append(after.reward)
    ends = np.arange(steps) == steps - 1
    names, source = default_state_names(environment.spec.state_dim), Source("random", "npz", ("states",))
    rows = np.array(states)
    return Log(rows[:-1], np.array(rewards), rows[1:], np.zeros(steps, bool), ends, names, source)


def untrained_policy(log: Log, method: str = "oso-decqn") -> StatePolicy:
    """A state policy of the `cpu` scale."""
    entry = METHODS[method]
    learner = entry.learner.create(Spec(log.state_dim, 3), entry.config_at("cpu"), jax.random.key(0, impl="rbg"))
    discretiser = Discretiser.fit(log.states, log.next_states)
    policy = learner.policy(discretiser, PolicyLabel(method, log.state_names))
    assert isinstance(policy, StatePolicy)
    return policy


def ours(steps: int, guidance: str | None, folder: str) -> Turn:
    """Our loop, without evaluation; `folder` is for the guide's policy."""
    given = {"steps": steps, "warm_up": WARM_UP, "log_every": steps, "evaluate_every": steps}
    config = train_settings(TASK, "td3", "cpu", given)
    environment, guides = make(TASK), []
    if guidance is not None:
        log = random_log()
        untrained_policy(log, "iql-delta").save(folder)
        parts = kinds.presets(kinds.chosen(guidance, folder, kinds.Held.by(folder)), "cpu")
        # β stays, and rows of the log are used from the beginning: what a step costs while guidance is at work.
        settings = {name: value for name, value in ALWAYS.items() if any(hasattr(part, name) for part in parts)}
        parts = kinds.completed(kinds.with_settings(parts, settings), folder, steps)
        first = environment.reset(0)
        context = GuidanceContext(folder, TASK, environment.spec, first, steps, WARM_UP, 0, log)
        guides = kinds.created(parts, context)
    task = OnlineLoop(environment, make(TASK), config, 0, guides)
    state, step = task.begin(), 0

    def turn(count: int) -> None:
        nonlocal state, step
        until = step + count
        while step < until:
            ahead = task.advance(state, step)
            state, step = ahead.state, ahead.step
        jax.block_until_ready(state.train_state)

    return turn


def sbx() -> Turn:
    """The faster peer, in JAX."""
    import gymnasium
    from sbx import TD3  # pyright: ignore[reportMissingImports]

    model = TD3(
        "MlpPolicy",
        gymnasium.make(TASK),
        learning_rate=5e-4,
        batch_size=256,
        learning_starts=WARM_UP,
        policy_kwargs={"net_arch": [256, 256]},
    )
    return lambda count: void(model.learn(count, reset_num_timesteps=False))


def stable_baselines(guided: bool) -> Turn:
    """The peer with our sizes, by itself or with our guide."""
    import gymnasium
    import torch  # pyright: ignore[reportMissingImports]
    from stable_baselines3 import TD3  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.noise import NormalActionNoise  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    environment = gymnasium.make(TASK)
    width = environment.action_space.shape[0]  # pyright: ignore[reportOptionalSubscript]
    model = TD3(
        "MlpPolicy",
        environment,
        learning_rate=5e-4,
        batch_size=256,
        learning_starts=WARM_UP,
        train_freq=1,
        gradient_steps=1,
        action_noise=NormalActionNoise(np.zeros(width), 0.1 * np.ones(width)),
        policy_kwargs={"net_arch": [256, 256]},
        device="cpu",
    )
    callback = None
    if guided:
        from actionless.guidance.sb3 import GuideCallback

        log, config = random_log(), GuideConfig(idm=IDM_SCALES["cpu"])
        callback = GuideCallback(untrained_policy(log), log=log, schedule=Fixed(BETA), config=config)
    return lambda count: void(model.learn(count, callback=callback, reset_num_timesteps=False))


def void(_: Any) -> None:
    """Drop a result."""


def seconds(turn: Turn, count: int) -> tuple[float, float]:
    """CPU and wall-clock seconds per step."""
    cpu, wall = time.process_time(), time.perf_counter()
    turn(count)
    return (time.process_time() - cpu) / count, (time.perf_counter() - wall) / count


def parts(turn: Turn, count: int) -> dict[str, float]:
    """CPU milliseconds of a guided step in each part of it."""
    spent: dict[str, float] = {}
    learn = Guide.learn

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*arguments: Any, **named: Any) -> Any:
            began = time.process_time()
            result = jax.block_until_ready(function(*arguments, **named))
            if function is learn:
                jax.block_until_ready(arguments[0].state.learning)
            spent[name] = spent.get(name, 0.0) + time.process_time() - began
            return result

        return measured

    places = (
        (online.Environment, "step", "environment"),
        (online, "explore", "acting"),
        (Guide, "propose", "proposing"),
        (Guide, "observe", "observing"),
        (Guide, "learn", "inverse dynamics updates"),
        (OnlineLoop, "_batches", "sampling"),
        (online, "updated", "agent updates"),
    )
    kept = [getattr(home, attribute) for home, attribute, _ in places]
    for (home, attribute, name), function in zip(places, kept, strict=True):
        setattr(home, attribute, timed(name, function))
    whole = seconds(turn, count)[0]
    for (home, attribute, _), function in zip(places, kept, strict=True):
        setattr(home, attribute, function)
    per_step = {name: 1e3 * total / count for name, total in spent.items()}
    return per_step | {"everything": 1e3 * whole}


def main() -> None:
    """Measure in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=500)
    asked = parser.parse_args()
    use_threads(1)
    online._SECONDS_PER_DISPATCH = 0.0  # a turn ends where it is asked to
    length = WARM_UP + 1000 + (asked.repeats + 2) * asked.steps
    with tempfile.TemporaryDirectory() as folder:
        turns = {"alone": ours(length, None, folder)} | {kind: ours(length, kind, folder) for kind in GUIDANCE}
    if importlib.util.find_spec("stable_baselines3"):
        turns["stable_baselines3"] = stable_baselines(guided=False)
        turns["stable_baselines3_guided"] = stable_baselines(guided=True)
    if importlib.util.find_spec("sbx"):
        turns["sbx"] = sbx()
    # MuJoCo leaves its complaints in a file where it is called.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for turn in turns.values():
            turn(WARM_UP + 500)
        taken = [{name: seconds(turn, asked.steps) for name, turn in turns.items()} for _ in range(asked.repeats)]
        where = parts(turns["switch"], asked.steps)
    print(json.dumps(summary(taken) | {"milliseconds_of_a_step_with_the_switch": where}, indent=2))


def summary(taken: list[dict[str, tuple[float, float]]]) -> dict[str, Any]:
    """Medians over the turns; ratios are medians of the ratios within a turn."""

    def ratio(slow: str, fast: str, clock: int) -> float:
        return statistics.median(turn[slow][clock] / turn[fast][clock] for turn in taken)

    def both(slow: str, fast: str) -> dict[str, float]:
        return {"cpu": ratio(slow, fast, 0), "wall": ratio(slow, fast, 1)}

    found: dict[str, Any] = {
        "steps_per_second": {name: 1 / statistics.median(turn[name][1] for turn in taken) for name in taken[0]},
        "cost_over_alone": {kind: both(kind, "alone") for kind in GUIDANCE},
    }
    if "stable_baselines3" in taken[0]:
        ours = ("alone", *GUIDANCE)
        found["speed_over_stable_baselines3"] = {name: both("stable_baselines3", name) for name in ours}
        found["guided_stable_baselines3_cost"] = both("stable_baselines3_guided", "stable_baselines3")
    if "sbx" in taken[0]:
        found["speed_over_sbx"] = {name: both("sbx", name) for name in ("alone", *GUIDANCE)}
    return found


if __name__ == "__main__":
    main()
