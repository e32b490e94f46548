"""TD3 in one file, as CleanRL writes its agents, guided by a log: what is new is one line, marked NEW.

    python examples/single_file_td3.py HalfCheetah-v5 runs/halfcheetah --steps 20000

Needs PyTorch. `runs/halfcheetah` is a run of `actionless pretrain --method iql-delta`; without it the agent is alone.
"""

import argparse
import copy

import gymnasium
import numpy as np
import torch
from torch import nn

import actionless

WARM_UP, BATCH, GAMMA, RATE, NOISE = 1_000, 256, 0.99, 5e-3, 0.1


def network(inputs: int, outputs: int) -> nn.Sequential:
    """Two hidden layers."""
    return nn.Sequential(nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, outputs))


class Replay:
    """The newest transitions."""

    def __init__(self, size: int, state_dim: int, action_dim: int):
        self.columns = [np.zeros((size, width), np.float32) for width in (state_dim, action_dim, 1, state_dim, 1)]
        self.added = 0

    def add(self, *values: np.ndarray | float) -> None:
        """State, action, reward, next state, and whether the episode ended in a terminal."""
        for column, value in zip(self.columns, values, strict=True):
            column[self.added % len(column)] = value
        self.added += 1

    def sample(self, rng: np.random.Generator) -> list[torch.Tensor]:
        """A batch."""
        rows = rng.integers(0, min(self.added, len(self.columns[0])), BATCH)
        return [torch.as_tensor(column[rows]) for column in self.columns]


def main() -> None:
    """Train, and print the true return of each episode."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env")
    parser.add_argument("guide", nargs="?", help="a run whose policy has values; alone without it")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    torch.manual_seed(asked.seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(asked.seed)

    def make() -> gymnasium.Env:
        env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make(asked.env))  # inside: true returns
        return gymnasium.wrappers.RescaleAction(env, np.float32(-1), np.float32(1))

    envs = gymnasium.vector.SyncVectorEnv([make], autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    if asked.guide:
        envs = actionless.PotentialReward(envs, asked.guide, discount=GAMMA)  # NEW: rewards with the log's values

    state_dim, action_dim = envs.single_observation_space.shape[0], envs.single_action_space.shape[0]
    actor = nn.Sequential(network(state_dim, action_dim), nn.Tanh())
    critics = nn.ModuleList(network(state_dim + action_dim, 1) for _ in range(2))
    slow_actor, slow_critics = copy.deepcopy(actor), copy.deepcopy(critics)
    actor_optimiser, critic_optimiser = (torch.optim.Adam(part.parameters(), 3e-4) for part in (actor, critics))
    replay = Replay(asked.steps, state_dim, action_dim)

    states, _ = envs.reset(seed=asked.seed)
    for step in range(asked.steps):
        if step < WARM_UP:
            actions = rng.uniform(-1, 1, (1, action_dim))
        else:
            with torch.no_grad():
                best = actor(torch.as_tensor(states, dtype=torch.float32)).numpy()
            actions = np.clip(best + NOISE * rng.normal(size=best.shape), -1, 1)
        next_states, rewards, terminated, truncated, info = envs.step(actions.astype(np.float32))
        over = bool(terminated[0] or truncated[0])
        reached = info["final_obs"][0] if over else next_states[0]
        if over:
            print(step + 1, float(info["final_info"]["episode"]["r"][0]))
        replay.add(states[0], actions[0], rewards[0], reached, float(terminated[0]))
        states = next_states
        if step < WARM_UP:
            continue

        s, a, r, after, ended = replay.sample(rng)
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(a)).clamp(-0.5, 0.5)
            inputs = torch.cat([after, (slow_actor(after) + noise).clamp(-1, 1)], 1)
            target = r + GAMMA * (1 - ended) * torch.min(*(critic(inputs) for critic in slow_critics))
        loss = sum(nn.functional.mse_loss(critic(torch.cat([s, a], 1)), target) for critic in critics)
        critic_optimiser.zero_grad()
        loss.backward()
        critic_optimiser.step()
        if step % 2 == 0:
            actor_optimiser.zero_grad()
            (-critics[0](torch.cat([s, actor(s)], 1)).mean()).backward()
            actor_optimiser.step()
            with torch.no_grad():
                for slow, fast in ((slow_actor, actor), (slow_critics, critics)):
                    for old, new in zip(slow.parameters(), fast.parameters(), strict=True):
                        old.lerp_(new, RATE)


if __name__ == "__main__":
    main()
