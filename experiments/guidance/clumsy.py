"""The potential along episodes of clumsy agents, by steps before they fall, with and without the distance from the log.

    python experiments/guidance/clumsy.py RUNS

RUNS is the folder of `run.py`, whose state policies are looked at. Clumsy agents are random linear policies, new for
each episode. Writes clumsy.csv and clumsy.svg beside this file. Needs matplotlib.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

from actionless.guidance.potential import Potential, PotentialSettings
from actionless.offline.state_policy import StatePolicy

HERE = Path(__file__).parent
TASKS = {"hopper": "Hopper-v5", "walker2d": "Walker2d-v5"}
LEVELS = ("medium", "replay")
BEFORE = (40, 30, 20, 15, 10, 7, 5, 3, 2, 1, 0)
EPISODES, LEAST_STEPS = 60, 45


def clumsy_episodes(task: str) -> list[np.ndarray]:
    """States of episodes that end in a fall, the last state being the fall."""
    env, rng = gymnasium.make(task), np.random.default_rng(3)
    dim, width = env.observation_space.shape[0], env.action_space.shape[0]
    episodes: list[np.ndarray] = []
    while len(episodes) < EPISODES:
        weights, bias = rng.normal(0, 0.5, (width, dim)), rng.normal(0, 0.5, width)
        state, _ = env.reset(seed=int(rng.integers(2**31)))
        states, over, fell = [state], False, False
        while not over:
            action = np.clip(np.tanh(weights @ state + bias) + 0.1 * rng.normal(size=width), -1, 1)
            state, _, fell, cut, _ = env.step(action.astype(np.float32))
            states.append(state)
            over = fell or cut
        if fell and len(states) > LEAST_STEPS:
            episodes.append(np.array(states))
    return episodes


def standard_error(values: np.ndarray) -> float:
    """Of their mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def rows(runs: Path) -> Iterator[dict[str, object]]:
    """One for each task, log and number of steps before the fall."""
    settings = PotentialSettings()
    for task, env in TASKS.items():
        episodes = clumsy_episodes(env)
        for level in LEVELS:
            policy = StatePolicy.load(runs / "guides" / f"iql-delta-{task}-{level}")
            plain, ours = Potential.of(policy, 0.0), Potential.of(policy, settings.kappa, settings.reach)
            for before in BEFORE:
                states = np.array([episode[-1 - before] for episode in episodes])
                figures = plain.of_steps(states, states)
                value, potential = plain(states), ours(states)
                yield {
                    "task": task,
                    "log": level,
                    "steps_before_the_fall": before,
                    "value": round(float(value.mean()), 1),
                    "value_error": round(standard_error(value), 1),
                    "disagreement": round(float(figures.disagreement.mean()), 2),
                    "distance": round(float(figures.distance.mean()), 3),
                    "potential": round(float(potential.mean()), 1),
                    "potential_error": round(standard_error(potential), 1),
                }


def main(runs: Path) -> None:
    """Write the table and the figure."""
    found = list(rows(runs))
    with (HERE / "clumsy.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, found[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    figure, axes = plt.subplots(1, len(TASKS) * len(LEVELS), figsize=(13, 3), sharex=True)
    for axis, (task, level) in zip(axes, ((t, lev) for t in TASKS for lev in LEVELS), strict=True):
        chosen = [row for row in found if (row["task"], row["log"]) == (task, level)]
        x = [-int(str(row["steps_before_the_fall"])) for row in chosen]
        for column, colour in (("value", "#888888"), ("potential", "#d55e00")):
            mean, error = (np.array([float(str(row[name])) for row in chosen]) for name in (column, f"{column}_error"))
            axis.plot(x, mean, color=colour, label=column)
            axis.fill_between(x, mean - 1.96 * error, mean + 1.96 * error, color=colour, alpha=0.2, linewidth=0)
        axis.set_title(f"{task}, {level} log", fontsize=10)
        axis.set_xlabel("steps to the fall")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("mean of 60 episodes, 95 % interval")
    axes[0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(HERE / "clumsy.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
