"""AWAC from a labelled log once more, in PyTorch, sharing no code with ours.

    python experiments/rivals/peer_awac.py walker2d_medium-v2.hdf5 Walker2d-v5 --seed 0 --out peer_awac.csv

Needs an environment of its own: pip install torch==2.13.0 h5py 'gymnasium[mujoco]' 'mujoco>=3.17,<4'

The settings are those of `actionless finetune --method awac`. Writes a row for every 5,000 updates: the critics' mean
loss since the row before, and the mean return of ten episodes of the policy's mean.
"""

import argparse
import csv
import itertools
from pathlib import Path

import gymnasium
import h5py
import numpy as np
import torch
from torch import nn

BATCH, DISCOUNT, RATE, TARGET_RATE, INVERSE_TEMPERATURE, MOST_WEIGHT = 256, 0.99, 3e-4, 5e-3, 3.0, 100.0
EVERY, EPISODES = 5_000, 10


def network(inputs: int, outputs: int) -> nn.Sequential:
    """Three hidden layers of 256."""
    sizes = (inputs, 256, 256, 256)
    layers = [part for pair in itertools.pairwise(sizes) for part in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(256, outputs))


class Awac:
    """Policy, two critics and their targets."""

    def __init__(self, state_dim: int, action_dim: int):
        self.policy, self.log_std = network(state_dim, action_dim), nn.Parameter(torch.zeros(action_dim))
        self.critics, self.targets = (
            nn.ModuleList(network(state_dim + action_dim, 1) for _ in range(2)) for _ in range(2)
        )
        self.targets.load_state_dict(self.critics.state_dict())
        self.policy_optimiser = torch.optim.Adam([*self.policy.parameters(), self.log_std], RATE)
        self.critic_optimiser = torch.optim.Adam(self.critics.parameters(), RATE)

    def distribution(self, states: torch.Tensor) -> torch.distributions.Normal:
        """Of actions."""
        return torch.distributions.Normal(torch.tanh(self.policy(states)), self.log_std.clamp(-5, 2).exp())

    def act(self, states: torch.Tensor) -> torch.Tensor:
        """The likeliest actions."""
        return self.distribution(states).mean

    def smallest(self, critics: nn.ModuleList, states: torch.Tensor, actions: torch.Tensor | None) -> torch.Tensor:
        """The least Q of the actions, or of some that the policy draws."""
        if actions is None:
            actions = self.distribution(states).sample().clamp(-1, 1)
        both = torch.cat([states, actions], dim=1)
        return torch.stack([critic(both)[:, 0] for critic in critics]).min(dim=0).values

    def update(self, states, actions, rewards, next_states, terminals) -> float:
        """One step of the critics, one of the policy; returns the critics' loss."""
        with torch.no_grad():
            target = rewards + DISCOUNT * (1 - terminals) * self.smallest(self.targets, next_states, None)
        both = torch.cat([states, actions], dim=1)
        loss = sum(((critic(both)[:, 0] - target) ** 2).mean() for critic in self.critics)
        self.critic_optimiser.zero_grad()
        loss.backward()
        self.critic_optimiser.step()
        with torch.no_grad():
            advantages = self.smallest(self.critics, states, actions) - self.smallest(self.critics, states, None)
            weights = (INVERSE_TEMPERATURE * advantages).exp().clamp(max=MOST_WEIGHT)
        policy_loss = -(weights * self.distribution(states).log_prob(actions).sum(dim=1)).mean()
        self.policy_optimiser.zero_grad()
        policy_loss.backward()
        self.policy_optimiser.step()
        with torch.no_grad():
            for target_weight, weight in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
                target_weight.lerp_(weight, TARGET_RATE)
        return float(loss)


def main() -> None:
    """Learn, and play every so often."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--updates", type=int, default=25_000)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(asked.seed)
    rng = np.random.default_rng(asked.seed)
    with h5py.File(asked.log) as file:
        names = ("observations", "actions", "rewards", "next_observations", "terminals")
        states, actions, rewards, next_states, terminals = (file[name][:].astype(np.float32) for name in names)
    centre, spread = states.mean(axis=0), states.std(axis=0)
    rows = [(states - centre) / spread, actions, rewards, (next_states - centre) / spread, terminals]
    rows = [torch.from_numpy(column) for column in rows]
    agent = Awac(states.shape[1], actions.shape[1])
    task = gymnasium.make(asked.task)

    def play(seed: int) -> float:
        state, _ = task.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            with torch.no_grad():
                action = agent.act(torch.from_numpy(((state - centre) / spread).astype(np.float32))[None])[0]
            state, reward, terminated, truncated, _ = task.step(action.numpy())
            total, over = total + float(reward), terminated or truncated
        return total

    with asked.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("updates", "loss", "return"))
        losses = []
        for update in range(1, asked.updates + 1):
            chosen = torch.from_numpy(rng.integers(0, len(states), BATCH))
            losses.append(agent.update(*(column[chosen] for column in rows)))
            if update % EVERY == 0:
                returned = np.mean([play(1000 + episode) for episode in range(EPISODES)])
                writer.writerow((update, round(float(np.mean(losses)), 2), round(float(returned), 1)))
                file.flush()
                losses = []


if __name__ == "__main__":
    main()
