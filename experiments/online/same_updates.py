"""Our TD3 and Stable-Baselines3's from the same weights, on the same batches: the largest difference in a weight.

    python experiments/online/same_updates.py

Needs what peer.py needs, and actionless. Without noise on the target's actions, which each would draw by itself.
"""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import torch
from stable_baselines3 import TD3
from stable_baselines3.common.logger import configure
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from actionless.networks import Ensemble
from actionless.online.agent import Spec, Transitions
from actionless.online.td3 import Td3, Td3Config

BATCH, STATE, ACTION = 256, 17, 6


class Handed:
    """Stands for a replay buffer: gives the batch it was given."""

    samples: ReplayBufferSamples

    def sample(self, *_: object, **__: object) -> ReplayBufferSamples:
        """The batch."""
        return self.samples


def linears(network: torch.nn.Module) -> list[torch.nn.Linear]:
    """The layers that have weights."""
    return [layer for layer in network.modules() if isinstance(layer, torch.nn.Linear)]


def copy(ours: Ensemble, theirs: list[torch.nn.Module]) -> None:
    """Our weights into their networks."""
    with torch.no_grad():
        for member, network in enumerate(theirs):
            for layer, weight, bias in zip(linears(network), ours.weights, ours.biases, strict=True):
                layer.weight.copy_(torch.tensor(np.asarray(weight[member]).T))
                layer.bias.copy_(torch.tensor(np.asarray(bias[member, 0])))


def difference(ours: Ensemble, theirs: list[torch.nn.Module]) -> float:
    """The largest over all weights."""
    return max(
        float(np.abs(np.asarray(weight[member]).T - layer.weight.detach().numpy()).max())
        for member, network in enumerate(theirs)
        for layer, weight in zip(linears(network), ours.weights, strict=True)
    )


def main() -> None:
    """Twenty updates of both."""
    spec, config = Spec(STATE, ACTION, None), Td3Config(hidden=(256, 256), target_rate=0.005, policy_noise=0.0)
    agent = Td3.create(spec, config, jax.random.key(0, impl="rbg"))
    peer = TD3(
        "MlpPolicy",
        gymnasium.make("HalfCheetah-v5"),
        learning_rate=5e-4,
        policy_kwargs={"net_arch": [256, 256]},
        target_policy_noise=1e-12,
        device="cpu",
    )
    peer.set_logger(configure(None, []))
    critics, actor = list(peer.critic.q_networks), [peer.actor.mu]
    copy(agent.critics.networks, critics)
    copy(agent.delayed.actor.ensemble, actor)
    peer.critic_target.load_state_dict(peer.critic.state_dict())
    peer.actor_target.load_state_dict(peer.actor.state_dict())
    peer.replay_buffer = handed = Handed()
    update, rng = jax.jit(lambda agent, batch, key: agent.update(batch, key)), np.random.default_rng(0)
    for number in range(1, 21):
        states, next_states = rng.normal(size=(2, BATCH, STATE)).astype(np.float32)
        actions = rng.uniform(-1, 1, (BATCH, ACTION)).astype(np.float32)
        rewards = rng.normal(size=BATCH).astype(np.float32)
        handed.samples = ReplayBufferSamples(
            observations=torch.tensor(states),
            actions=torch.tensor(actions),
            next_observations=torch.tensor(next_states),
            dones=torch.zeros(BATCH, 1),
            rewards=torch.tensor(rewards[:, None]),
        )
        peer.train(1, BATCH)
        batch = Transitions(*map(jnp.asarray, (states, actions, rewards, next_states)), jnp.full(BATCH, 0.99))
        agent, _ = update(agent, batch, jax.random.key(0, impl="rbg"))
        if number in (1, 2, 20):
            found = difference(agent.critics.networks, critics), difference(agent.delayed.actor.ensemble, actor)
            print(f"after {number} updates: critics {found[0]:.1e}, actor {found[1]:.1e}")


if __name__ == "__main__":
    main()
