"""Our agents and Stable-Baselines3's from the same weights, on the same batches: the largest difference in a weight.

    python experiments/online/same_updates.py td3
    python experiments/online/same_updates.py sac

Needs what peer.py needs, and actionless.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.logger import configure
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from actionless.networks import Ensemble
from actionless.online import sac as our_sac
from actionless.online.agent import Spec, Transitions
from actionless.online.td3 import Td3, Td3Config

BATCH, STATE, ACTION = 256, 17, 6
TASK, HIDDEN, SIZES = "HalfCheetah-v5", (256, 256), {"net_arch": [256, 256]}


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


def batches(updates: int) -> Iterator[tuple[ReplayBufferSamples, Transitions]]:
    """The same numbers for both."""
    rng = np.random.default_rng(0)
    for _ in range(updates):
        states, next_states = rng.normal(size=(2, BATCH, STATE)).astype(np.float32)
        actions = rng.uniform(-1, 1, (BATCH, ACTION)).astype(np.float32)
        rewards = rng.normal(size=BATCH).astype(np.float32)
        theirs = ReplayBufferSamples(
            observations=torch.tensor(states),
            actions=torch.tensor(actions),
            next_observations=torch.tensor(next_states),
            dones=torch.zeros(BATCH, 1),
            rewards=torch.tensor(rewards[:, None]),
        )
        yield theirs, Transitions(*map(jnp.asarray, (states, actions, rewards, next_states)), jnp.full(BATCH, 0.99))


def compare(agent: Any, peer: Any, differences: Callable[[Any], str]) -> None:
    """Twenty updates of both."""
    peer.set_logger(configure(None, []))
    peer.replay_buffer = handed = Handed()
    update = jax.jit(lambda agent, batch, key: agent.update(batch, key))
    for number, (theirs, ours) in enumerate(batches(20), start=1):
        handed.samples = theirs
        peer.train(1, BATCH)
        agent, _ = update(agent, ours, jax.random.key(0, impl="rbg"))
        if number in (1, 2, 20):
            print(f"after {number} updates: {differences(agent)}")


def td3() -> None:
    """Without noise on the target's actions, which each would draw by itself."""
    config = Td3Config(hidden=HIDDEN, target_rate=0.005, policy_noise=0.0)
    agent = Td3.create(Spec(STATE, ACTION, None), config, jax.random.key(0, impl="rbg"))
    peer = TD3("MlpPolicy", TASK, learning_rate=5e-4, policy_kwargs=SIZES, target_policy_noise=1e-12, device="cpu")
    critics, actor = list(peer.critic.q_networks), [peer.actor.mu]
    copy(agent.critics.networks, critics)
    copy(agent.delayed.actor.ensemble, actor)
    peer.critic_target.load_state_dict(peer.critic.state_dict())
    peer.actor_target.load_state_dict(peer.actor.state_dict())

    def differences(agent: Td3) -> str:
        found = difference(agent.critics.networks, critics), difference(agent.delayed.actor.ensemble, actor)
        return f"critics {found[0]:.1e}, actor {found[1]:.1e}"

    compare(agent, peer, differences)


def sac() -> None:
    """With the same noise in the actions of both."""
    noise = np.random.default_rng(1).normal(size=(BATCH, ACTION)).astype(np.float32)
    our_sac.sample = lambda actor, states, _: our_sac.squash(*our_sac.gaussian(actor, states), jnp.asarray(noise))
    torch.distributions.Normal.rsample = lambda self, *_: self.mean + self.stddev * torch.tensor(noise)
    config = our_sac.SacConfig(hidden=HIDDEN, target_rate=0.005)
    agent = our_sac.Sac.create(Spec(STATE, ACTION, None), config, jax.random.key(0, impl="rbg"))
    peer = SAC("MlpPolicy", TASK, learning_rate=3e-4, policy_kwargs=SIZES, device="cpu")
    critics = list(peer.critic.q_networks)
    copy(agent.critics.networks, critics)
    peer.critic_target.load_state_dict(peer.critic.state_dict())
    hidden, heads = [peer.actor.latent_pi], ([peer.actor.mu], [peer.actor.log_std])

    def parts(agent: our_sac.Sac) -> tuple[Ensemble, Ensemble, Ensemble]:
        """Hidden layers, and the last one cut into mean and spread, which are two layers there."""
        *weights, last = agent.actor.ensemble.weights
        *biases, last_bias = agent.actor.ensemble.biases
        cuts = (slice(None, ACTION), slice(ACTION, None))
        mean, spread = (Ensemble((last[..., cut],), (last_bias[..., cut],)) for cut in cuts)
        return Ensemble(tuple(weights), tuple(biases)), mean, spread

    for ours, theirs in zip(parts(agent), (hidden, *heads), strict=True):
        copy(ours, theirs)

    def differences(agent: our_sac.Sac) -> str:
        actor = max(difference(o, t) for o, t in zip(parts(agent), (hidden, *heads), strict=True))
        temperature = abs(float(agent.log_temperature) - peer.log_ent_coef.item())
        found = difference(agent.critics.networks, critics)
        return f"critics {found:.1e}, actor {actor:.1e}, temperature {temperature:.1e}"

    compare(agent, peer, differences)


if __name__ == "__main__":
    {"td3": td3, "sac": sac}[sys.argv[1]]()
