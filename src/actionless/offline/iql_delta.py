"""IQL over Δs: V by expectile regression, and the log's Δs imitated where they did better than V.

Neither needs an action, nor a Q over Δs.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Float32, PRNGKeyArray

from actionless.data.log import Log, returns_to_go
from actionless.discretise import Discretiser
from actionless.networks import Ensemble
from actionless.offline.imitation import log_likelihood
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
from actionless.offline.state_policy import PolicyModel, StatePolicy, measured_proposals, measured_values
from actionless.offline.support import SupportLearner
from actionless.optimise import Adam, polyak
from actionless.settings import Count, Fraction, NonNegative, Positive
from actionless.updates import Metrics

RETURNS = "returns"
"""The column of the log's discounted returns, which V may be fitted to."""


@dataclass(frozen=True)
class IqlDeltaConfig(LearnerConfig, kind="iql-delta"):
    """How V is learnt, and how much its advantages count in imitation."""

    expectile: Fraction = 0.5
    """0.5 is the value of the log's behaviour; larger values estimate the better behaviour in the log."""
    advantage_weight: NonNegative = 1.0
    """w: the imitation weight of a Δs is exp(w · advantage / standard deviation of advantages); 0: all are equal."""
    weight_limit: Positive = 20.0
    """Largest imitation weight."""
    ensemble: Count = 10
    """Networks of V."""
    hidden: tuple[Count, ...] = (512, 512, 512)
    """Sizes of the hidden layers."""
    learning_rate: NonNegative = 1e-4
    """Step size of Adam."""
    discount: Fraction = 0.99
    """γ: the weight of a reward one step later."""
    target_rate: Fraction = 1e-3
    """τ: share of each network of V that enters its target network at each update."""
    monte_carlo: bool = False
    """Fit V to the log's own returns, not to r + γV(s')."""

    @property
    def declares(self) -> Declaration:
        """A state policy and values."""
        discount = self.discount

        def returns(log: Log) -> Float32[np.ndarray, " rows"]:
            return returns_to_go(log.rewards, log.ends, discount).astype(np.float32)

        return Declaration(
            gives=("state policy", "values"),
            columns={RETURNS: returns} if self.monte_carlo else {},
            discount=discount,
            shown=("accuracy", "error", "q/mean", "q/data_return"),
        )


class Networks(eqx.Module):
    """What is learnt."""

    deltas: Ensemble
    """One network, whose outputs are logits of bins."""
    values: Ensemble


class IqlDelta(OfflineLearner):
    """Networks of Δs and V, and the slow copy of V."""

    network: Networks
    target_values: Ensemble
    optimiser: Adam
    support: SupportLearner
    spec: Spec = eqx.field(static=True)
    config: IqlDeltaConfig = eqx.field(static=True)

    @classmethod
    def create(cls, spec: Spec, config: IqlDeltaConfig, key: PRNGKeyArray) -> "IqlDelta":
        """A learner that has learnt nothing."""
        delta_key, value_key, support_key = jax.random.split(key, 3)
        networks = Networks(
            deltas=Ensemble.create(1, (spec.state_dim, *config.hidden, spec.state_dim * spec.bins), delta_key),
            values=Ensemble.create(config.ensemble, (spec.state_dim, *config.hidden, 1), value_key),
        )
        return cls(
            network=networks,
            target_values=jax.tree.map(jnp.copy, networks.values),
            optimiser=Adam.create(networks, config.learning_rate),
            support=SupportLearner.create(spec.state_dim, config.hidden, config.learning_rate, support_key),
            spec=spec,
            config=config,
        )

    def td_target(self, batch: Batch) -> Float[Array, "members batch"]:
        """Each member's own r + γV̄(s'), so that members agree on the log alone."""
        if self.config.monte_carlo:
            return jnp.broadcast_to(batch.extra[RETURNS], (self.config.ensemble, len(batch.rewards)))
        after = self.target_values(batch.next_states)[..., 0]
        return batch.rewards[None] + self.config.discount * batch.masks[None] * after

    def loss(
        self, networks: Networks, batch: Batch, target: Float[Array, "members batch"]
    ) -> tuple[Float[Array, ""], Metrics]:
        """Expectile loss of V, and weighted cross-entropy of Δs."""
        config = self.config
        now = self.target_values(batch.states)[..., 0]
        values = networks.values(batch.states)[..., 0]
        value_loss = expectile_loss(target - values, config.expectile).mean()
        metrics = {"value_loss": value_loss, "v_mean": values.mean()}
        weights = imitation_weights((target - now).mean(axis=0), config)
        logits = by_bin(networks.deltas(batch.states), self.spec)
        delta_loss = weighted_cross_entropy(logits, batch, weights)
        loss = value_loss + delta_loss
        return loss, {"loss": loss, "delta_loss": delta_loss, **metrics}

    def update(self, batch: Batch, key: PRNGKeyArray) -> tuple["IqlDelta", Metrics]:
        """One step of Adam, then the slow copy of V follows."""
        gradient, metrics = eqx.filter_grad(self.loss, has_aux=True)(self.network, batch, self.td_target(batch))
        network, optimiser = self.optimiser.step(self.network, gradient)
        values = self.target_values(batch.states)[..., 0].mean(axis=0)
        support, support_metrics = self.support.update(batch, values, key)
        learner = IqlDelta(
            network=network,
            target_values=polyak(self.target_values, network.values, self.config.target_rate),
            optimiser=optimiser,
            support=support,
            spec=self.spec,
            config=self.config,
        )
        return learner, metrics | support_metrics | {"gradient_norm": optax.tree.norm(gradient)}

    def measure(self, data: Batch, discretiser: Discretiser, returns: Returns | None) -> dict[str, float]:
        """Accuracy and error of the proposals, and V against the log's own returns."""
        model = self._model(discretiser)
        metrics = measured_proposals(model, data) | measured_values(model, data, 1.0)
        if returns is None:
            return metrics
        return metrics | {"q/data_return": returns.mean, "q/overestimation": metrics["q/mean"] - returns.mean}

    def policy(self, discretiser: Discretiser, label: PolicyLabel) -> StatePolicy:
        """Proposes the likeliest Δs; its values are the slow copy's, which wavers less."""
        return StatePolicy.of(self._model(discretiser), label)

    def _model(self, discretiser: Discretiser) -> PolicyModel:
        deltas, support = self.network.deltas, self.support.support
        return PolicyModel(deltas, discretiser, "logits", 1.0, value_network=self.target_values, support=support)


def expectile_loss(error: Float[Array, "members batch"], expectile: float) -> Float[Array, "members batch"]:
    """|τ − 1(u < 0)| u², times two: at τ = 0.5 the squared error."""
    return 2 * jnp.where(error < 0, 1 - expectile, expectile) * jnp.square(error)


def imitation_weights(advantages: Float[Array, " batch"], config: IqlDeltaConfig) -> Float[Array, " batch"]:
    """exp(w · A / σ(A)), cut off: the same for rewards of any unit."""
    unit = advantages.std() + 1e-8
    weights = jnp.minimum(jnp.exp(config.advantage_weight * advantages / unit), config.weight_limit)
    return jax.lax.stop_gradient(weights / weights.mean())


def weighted_cross_entropy(
    logits: Float[Array, "1 batch bins dim"], batch: Batch, weights: Float[Array, " batch"]
) -> Float[Array, ""]:
    """Of each dimension's bin on its own."""
    return -(weights * log_likelihood(logits, batch)[0].mean(axis=1)).mean()
