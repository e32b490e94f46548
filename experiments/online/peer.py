"""Stable-Baselines3's TD3 and SAC with our sizes and settings: the peer of our unguided agents.

Needs an environment of its own: pip install torch==2.13.0 stable-baselines3 'gymnasium[mujoco]' 'mujoco>=3.17,<4'

    python experiments/online/peer.py td3 HalfCheetah-v5 --seed 0 --out peer/td3-HalfCheetah-v5-0.csv

Writes one row per evaluation: the mean return of ten episodes of the deterministic policy.
"""

import argparse
import csv
import time
from pathlib import Path

import gymnasium
import numpy as np
import torch
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import NormalActionNoise

EVERY, EPISODES = 5000, 10


class Evaluation(BaseCallback):
    """Every 5,000 steps, in an environment of its own."""

    def __init__(self, environment: str, seed: int):
        super().__init__()
        self.environment, self.seed = gymnasium.make(environment), seed
        self.rows: list[dict[str, float]] = []
        self.began, self.evaluating = time.perf_counter(), 0.0

    def _on_step(self) -> bool:
        if self.num_timesteps % EVERY == 0:
            began = time.perf_counter()
            returns = [self._episode(10_000 + self.seed * 1000 + i) for i in range(EPISODES)]
            self.evaluating += time.perf_counter() - began
            seconds = time.perf_counter() - self.began - self.evaluating
            self.rows.append({"step": self.num_timesteps, "return": float(np.mean(returns)), "seconds": seconds})
            print(self.rows[-1], flush=True)
        return True

    def _episode(self, seed: int) -> float:
        observation, _ = self.environment.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            action, _ = self.model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = self.environment.step(action)
            total, over = total + float(reward), terminated or truncated
        return total


def main() -> None:
    """Train one agent and write its curve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agent", choices=("td3", "sac"))
    parser.add_argument("environment")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    environment = gymnasium.make(asked.environment)
    same = {
        "learning_starts": 1000,
        "batch_size": 256,
        "tau": 0.005,
        "gamma": 0.99,
        "train_freq": 1,
        "gradient_steps": 1,
        "policy_kwargs": {"net_arch": [256, 256]},
        "seed": asked.seed,
        "device": "cpu",
    }
    if asked.agent == "td3":
        width = environment.action_space.shape[0]
        noise = NormalActionNoise(np.zeros(width), 0.1 * np.ones(width))
        model = TD3("MlpPolicy", environment, learning_rate=5e-4, action_noise=noise, **same)
    else:
        model = SAC("MlpPolicy", environment, learning_rate=3e-4, **same)
    evaluation = Evaluation(asked.environment, asked.seed)
    model.learn(asked.steps, callback=evaluation)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    with asked.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["step", "return", "seconds"])
        writer.writeheader()
        writer.writerows(evaluation.rows)


if __name__ == "__main__":
    main()
