"""The inverse dynamics model: the action that makes a state change as proposed, learnt online and from scratch.

L(φ) = |a - I(s, Δs)| over what happened online + |π(s_off) - I(s_off, Δs_off)| over the log, whose missing actions
are filled in by what the agent would do there now.
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, Int64, PRNGKeyArray, Real, Shaped

from actionless.networks import MLP
from actionless.online.agent import Rows
from actionless.optimise import Adam
from actionless.settings import Count, Positive, ScaleName, Settings
from actionless.updates import Metrics


@dataclass(frozen=True)
class IdmSpec:
    """What an inverse dynamics model must know of states, Δs and actions."""

    state_dim: int
    delta_bins: int | None
    """Bins of Δs; None where changes or next states are asked for in numbers, as analysis alone does."""
    action_dim: int
    action_bins: int | None = None
    """Choices in each action dimension; None where actions are continuous, in [-1, 1]."""


@dataclass(frozen=True)
class IdmConfig(Settings):
    """How the inverse dynamics model learns."""

    hidden: tuple[Count, ...] = (256, 256)
    """Hidden layers of the inverse dynamics model."""
    learning_rate: Positive = 1e-3
    """Step size of Adam for the inverse dynamics model."""
    batch_size: Count = 128
    """Batch size of the inverse dynamics model: transitions in each term of its loss."""
    every: Count = 4
    """Environment steps between two updates of the inverse dynamics model."""


IDM_SCALES: dict[ScaleName, IdmConfig] = {
    "smoke": IdmConfig(hidden=(32, 32), batch_size=64),
    "cpu": IdmConfig(),
    "paper": IdmConfig(hidden=(512, 512, 512), batch_size=512, every=1),
}


class Examples(NamedTuple):
    """What to learn from: normalised states, the bins of their Δs, and the actions that belong to them."""

    states: Float[Rows, "batch dim"]
    deltas: Real[Rows, "batch dim"]
    actions: Shaped[Rows, "batch actions"]


class Ring(NamedTuple):
    """The newest transitions: normalised states, the bins of their Δs or their changes in numbers, actions."""

    states: Float32[np.ndarray, "capacity dim"]
    deltas: Real[np.ndarray, "capacity dim"]
    actions: Shaped[np.ndarray, "capacity actions"]
    added: Int64[np.ndarray, ""]

    @classmethod
    def create(cls, capacity: int, spec: IdmSpec) -> "Ring":
        """An empty one. Memory that was never written takes no room."""
        return cls(
            states=np.zeros((capacity, spec.state_dim), np.float32),
            deltas=np.zeros((capacity, spec.state_dim), np.float32 if spec.delta_bins is None else np.int8),
            actions=np.zeros((capacity, spec.action_dim), np.float32 if spec.action_bins is None else np.int32),
            added=np.zeros((), np.int64),
        )

    @property
    def stored(self) -> int:
        """Transitions in it."""
        return min(int(self.added), len(self.states))

    def add(
        self,
        states: Float[np.ndarray, "rows dim"],
        deltas: Real[np.ndarray, "rows dim"],
        actions: Shaped[np.ndarray, "rows actions"],
    ) -> None:
        """Put transitions in, in place of the oldest where it is full."""
        places = (int(self.added) + np.arange(len(states))) % len(self.states)
        self.states[places], self.deltas[places], self.actions[places] = states, deltas, actions
        self.added[...] += len(states)

    def rows(self, places: Int[np.ndarray, " rows"]) -> Examples:
        """Those at these places."""
        return Examples(self.states[places], self.deltas[places], self.actions[places])


class IdmBatch(NamedTuple):
    """Transitions seen online; states of the log, unless bootstrapping is off."""

    online: Examples
    offline: Examples | None


class ActionNetwork(eqx.Module):
    """The part of the model that acts."""

    mlp: MLP
    spec: IdmSpec = eqx.field(static=True)

    @classmethod
    def create(cls, spec: IdmSpec, hidden: tuple[int, ...], key: PRNGKeyArray) -> "ActionNetwork":
        """A network that takes a state and its Δs."""
        outputs = spec.action_dim * (spec.action_bins or 1)
        return cls(MLP.create((2 * spec.state_dim, *hidden, outputs), key), spec)

    def act(
        self, states: Float[Array, "batch dim"], deltas: Real[Array, "batch dim"]
    ) -> Shaped[Array, "batch actions"]:
        """The action for each normalised state and the bins of its Δs."""
        if self.spec.action_bins is None:
            return self._squashed(states, deltas)
        return self._logits(states, deltas).argmax(axis=1).astype(jnp.int32)

    def error(self, examples: Examples) -> Float[Array, ""]:
        """|a - I(s, Δs)|, or the cross-entropy of the action's bins; a mean over batch and dimensions."""
        states, deltas, actions = map(jnp.asarray, examples)
        if self.spec.action_bins is None:
            return jnp.abs(self._squashed(states, deltas) - actions).mean()
        chances = jax.nn.log_softmax(self._logits(states, deltas), axis=1)
        return -jnp.take_along_axis(chances, actions[:, None], axis=1).mean()

    def _squashed(self, states: Array, deltas: Array) -> Float[Array, "batch actions"]:
        return jnp.tanh(self._outputs(states, deltas))

    def _logits(self, states: Array, deltas: Array) -> Float[Array, "batch bins actions"]:
        return self._outputs(states, deltas).reshape(len(states), -1, self.spec.action_dim)

    def _outputs(self, states: Array, deltas: Array) -> Float[Array, "batch outputs"]:
        aim = deltas.astype(states.dtype)
        if self.spec.delta_bins is not None:
            aim = aim * (2 / (self.spec.delta_bins - 1)) - 1
        return self.mlp(jnp.concatenate([states, aim], axis=1))


class InverseDynamics(eqx.Module):
    """The network and its optimiser."""

    network: ActionNetwork
    optimiser: Adam

    @classmethod
    def create(cls, spec: IdmSpec, config: IdmConfig, key: PRNGKeyArray) -> "InverseDynamics":
        """A model that has learnt nothing."""
        network = ActionNetwork.create(spec, config.hidden, key)
        return cls(network, Adam.create(network, config.learning_rate))

    def act(
        self, states: Float[Array, "batch dim"], deltas: Real[Array, "batch dim"]
    ) -> Shaped[Array, "batch actions"]:
        """The action for each normalised state and the bins of its Δs."""
        return self.network.act(states, deltas)

    def loss(self, network: ActionNetwork, batch: IdmBatch) -> tuple[Float[Array, ""], Metrics]:
        """The online term, and the bootstrapped one where there is one."""
        online = network.error(batch.online)
        if batch.offline is None:
            return online, {"idm/loss": online, "idm/online_loss": online}
        offline = network.error(batch.offline)
        loss = online + offline
        return loss, {"idm/loss": loss, "idm/online_loss": online, "idm/offline_loss": offline}

    def update(self, batch: IdmBatch, key: PRNGKeyArray) -> tuple["InverseDynamics", Metrics]:  # noqa: ARG002
        """One step of Adam."""
        gradient, metrics = eqx.filter_grad(self.loss, has_aux=True)(self.network, batch)
        return InverseDynamics(*self.optimiser.step(self.network, gradient)), metrics
