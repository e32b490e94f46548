"""Imitation of the log: BC Δs, BC s', BC s' - s, and BC a where the log was read with its actions."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from actionless.discretise import Discretiser
from actionless.errors import ActionlessError
from actionless.networks import Ensemble
from actionless.offline.learner import (
    Batch,
    Declaration,
    LearnerConfig,
    OfflineLearner,
    PolicyLabel,
    Returns,
    Spec,
    by_bin,
)
from actionless.offline.state_policy import ActionPolicy, Head, PolicyModel, StatePolicy, measured_proposals
from actionless.optimise import Adam, polyak
from actionless.settings import Count, Fraction, NonNegative
from actionless.updates import Metrics

Target = Literal["delta", "next_state", "difference", "action"]

_HEADS: dict[Target, Head] = {
    "delta": "logits",
    "next_state": "next_state",
    "difference": "difference",
}


@dataclass(frozen=True)
class ImitationConfig(LearnerConfig, kind="imitation"):
    """What is imitated, with a network of the body that OSO-DecQN has."""

    target: Target = "delta"
    """Δs by cross-entropy; the next state, its difference (both normalised) or the action by regression."""
    ensemble: Count = 1
    """Number of networks."""
    hidden: tuple[Count, ...] = (512, 512, 512)
    """Sizes of the hidden layers."""
    learning_rate: NonNegative = 1e-4
    """Step size of Adam."""
    average_rate: Fraction = 1e-3
    """Share of the network that enters the moving average of its weights at each update; 0 keeps no average."""

    @property
    def declares(self) -> Declaration:
        """Imitation looks at no reward. Actions are needed where they are what is imitated."""
        if self.target != "action":
            return Declaration()
        return Declaration(
            gives=("action policy",),
            needs_actions=True,
            score="action_error",
            lower_is_better=True,
            shown=("action_error",),
        )


class Imitation(OfflineLearner):
    """Networks fitted to the log; the members of an ensemble differ in their initial weights."""

    network: Ensemble
    optimiser: Adam
    spec: Spec = eqx.field(static=True)
    config: ImitationConfig = eqx.field(static=True)
    average: Ensemble | None = None

    @classmethod
    def create(cls, spec: Spec, config: ImitationConfig, key: PRNGKeyArray) -> "Imitation":
        """A learner that has learnt nothing."""
        sizes = (spec.state_dim, *config.hidden, _outputs(spec, config.target))
        network = Ensemble.create(config.ensemble, sizes, key)
        optimiser = Adam.create(network, config.learning_rate)
        average = jax.tree.map(jnp.copy, network) if config.average_rate else None
        return cls(network=network, optimiser=optimiser, spec=spec, config=config, average=average)

    def loss(self, network: Ensemble, batch: Batch) -> tuple[Float[Array, ""], Metrics]:
        """Cross-entropy or squared error, averaged over members, batch and dimensions."""
        outputs = network(batch.states)
        match self.config.target:
            case "delta":
                loss = cross_entropy(by_bin(outputs, self.spec), batch)
            case "next_state":
                loss = squared_error(outputs, batch.next_states)
            case "difference":
                loss = squared_error(outputs, batch.next_states - batch.states)
            case "action":
                assert batch.actions is not None
                loss = squared_error(outputs, batch.actions)
        return loss, {"loss": loss}

    def update(self, batch: Batch, key: PRNGKeyArray) -> tuple["Imitation", Metrics]:  # noqa: ARG002 (nothing is drawn)
        """One step of Adam, then the average follows."""
        gradient, metrics = eqx.filter_grad(self.loss, has_aux=True)(self.network, batch)
        network, optimiser = self.optimiser.step(self.network, gradient)
        average = None if self.average is None else polyak(self.average, network, self.config.average_rate)
        learner = dataclasses.replace(self, network=network, optimiser=optimiser, average=average)
        return learner, metrics | {"gradient_norm": optax.tree.norm(gradient)}

    def measure(self, data: Batch, discretiser: Discretiser, returns: Returns | None) -> dict[str, float]:  # noqa: ARG002
        """Accuracy and error of the proposals, or how far actions miss."""
        if self.config.target == "action":
            return {"action_error": float(_action_error(self.network, data))}
        return measured_proposals(self._model(discretiser), data)

    def policy(self, discretiser: Discretiser, label: PolicyLabel) -> StatePolicy | ActionPolicy:
        """Does what the log did."""
        if self.config.target == "action":
            return ActionPolicy(self.network, discretiser.normaliser, *label, average=self.average)
        return StatePolicy.of(self._model(discretiser), label, average=self.average)

    def _model(self, discretiser: Discretiser) -> PolicyModel:
        return PolicyModel(self.network, discretiser, _HEADS[self.config.target], 1.0)


@eqx.filter_jit
def _action_error(network: Ensemble, data: Batch) -> Float[Array, ""]:
    assert data.actions is not None
    return jnp.abs(network(data.states).mean(axis=0) - data.actions).mean()


def cross_entropy(logits: Float[Array, "members batch bins dim"], batch: Batch) -> Float[Array, ""]:
    """Of each dimension's bin on its own."""
    return -log_likelihood(logits, batch).mean()


def log_likelihood(logits: Float[Array, "members batch bins dim"], batch: Batch) -> Float[Array, "members batch dim"]:
    """Of the bin that each dimension's change fell into."""
    bins = jnp.arange(logits.shape[2], dtype=batch.deltas.dtype)
    label = (batch.deltas[:, None] == bins[None, :, None]).astype(logits.dtype)
    return (jax.nn.log_softmax(logits, axis=2) * label[None]).sum(axis=2)


def squared_error(
    outputs: Float[Array, "members batch outputs"], target: Float[Array, "batch outputs"]
) -> Float[Array, ""]:
    """Mean over everything."""
    return jnp.square(outputs - target[None]).mean()


def _outputs(spec: Spec, target: Target) -> int:
    if target != "action":
        return spec.state_dim * (spec.bins if target == "delta" else 1)
    if spec.action_dim is None:
        raise ActionlessError("bc-action imitates actions, and this log was read without: read it with_actions")
    return spec.action_dim
