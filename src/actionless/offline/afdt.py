"""AFDT: the action-free decision transformer of AF-Guide, which plans the next state on the way to a return."""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from actionless.offline.learner import Batch, Head, OfflineLearner, Spec
from actionless.offline.transformer import PlanNetwork, is_step
from actionless.optimise import Adam
from actionless.updates import Metrics

MOST_TIMES = 4096
"""Steps of an episode that are told apart by their number: a recording without a break may have millions."""


@dataclass(frozen=True)
class AfdtConfig:
    """The published settings."""

    context: int = 20
    """Steps that the network looks at, the present one among them."""
    width: int = 128
    blocks: int = 3
    dropout: float = 0.1
    learning_rate: float = 1e-4
    warm_up: int = 10_000
    """Updates over which the learning rate rises from nothing."""
    weight_decay: float = 1e-4
    most_gradient: float = 0.25
    """Longer gradients are shortened to this length."""
    return_scale: float = 1000.0
    """Returns are divided by it before the network sees them."""
    target_return: float = 0.0
    """The return that is asked for at the beginning of an episode, where the policy plans by itself."""

    @property
    def discount(self) -> None:
        """Returns are summed up as they are, and no value is learnt."""
        return None


class Windows(NamedTuple):
    """Steps that follow each other; the last of each window is always one of its episode, the first may not be."""

    states: Float[Array, "windows steps dim"]
    changes: Float[Array, "windows steps dim"]
    to_go: Float[Array, "windows steps"]
    times: Int[Array, "windows steps"]
    inside: Bool[Array, "windows steps"]

    @classmethod
    def of(cls, batch: Batch, config: AfdtConfig) -> "Windows":
        """Rows that lie one behind the other, as many to a window as the network looks at."""
        assert batch.to_go is not None and batch.times is not None
        shape = (-1, config.context)
        times = batch.times.reshape(shape)
        return cls(
            states=batch.states.reshape(*shape, batch.states.shape[1]),
            changes=(batch.next_states - batch.states).reshape(*shape, batch.states.shape[1]),
            to_go=batch.to_go.reshape(shape) / config.return_scale,
            times=times,
            inside=is_step(times),
        )


class Afdt(OfflineLearner):
    """A transformer fitted to the log."""

    network: PlanNetwork
    optimiser: Adam
    spec: Spec = eqx.field(static=True)
    config: AfdtConfig = eqx.field(static=True)

    @classmethod
    def create(cls, spec: Spec, config: AfdtConfig, key: PRNGKeyArray) -> "Afdt":
        """A learner that has learnt nothing."""
        times = min(spec.longest_episode, MOST_TIMES)
        network = PlanNetwork.create(spec.state_dim, times, config.width, config.blocks, key)
        optimiser = Adam.create(
            network,
            config.learning_rate,
            warm_up=config.warm_up,
            weight_decay=config.weight_decay,
            max_grad_norm=config.most_gradient,
        )
        return cls(network=network, optimiser=optimiser, spec=spec, config=config)

    def loss(self, network: PlanNetwork, windows: Windows, key: PRNGKeyArray) -> Float[Array, ""]:
        """How far the planned changes are from those that came, over all steps of the windows and all dimensions."""
        planned = network(windows.states, windows.to_go, windows.times, self.config.dropout, key)
        missed = jnp.abs(planned - windows.changes).mean(axis=2)
        return jnp.where(windows.inside, missed, 0.0).sum() / windows.inside.sum(dtype=jnp.float32)

    def update(self, batch: Batch, key: PRNGKeyArray) -> tuple["Afdt", Metrics]:
        """One step of AdamW along the clipped gradient."""
        loss, gradient = eqx.filter_value_and_grad(self.loss)(self.network, Windows.of(batch, self.config), key)
        network, optimiser = self.optimiser.step(self.network, gradient)
        learner = Afdt(network=network, optimiser=optimiser, spec=self.spec, config=self.config)
        return learner, {"loss": loss, "gradient_norm": optax.tree.norm(gradient)}

    def planned(self, batch: Batch) -> Float[Array, "windows dim"]:
        """The changes that come after each window's last step."""
        windows = Windows.of(batch, self.config)
        return self.network(windows.states, windows.to_go, windows.times)[:, -1]

    @property
    def head(self) -> Head:
        """A change of state, from the steps before it."""
        return "plan"

    @property
    def temperature(self) -> float:
        """It gives no probabilities."""
        return 1.0

    @property
    def value_scale(self) -> float:
        """It learns no values."""
        return 1.0
