"""IQL over Δs: V by expectile regression, and the log's Δs imitated where they did better than V.

Neither needs an action, nor a Q over Δs. The networks of V can learn in turn: an update then costs the same for any
number of them. Each has seen other batches, so that they agree on the log alone.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Float32, Int, PRNGKeyArray

from actionless.data.log import Log, returns_to_go
from actionless.discretise import Discretiser
from actionless.errors import ActionlessError
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
    at_once: Count | None = 1
    """How many of them learn in each update, in turn; a divisor of ensemble. From Python, None: all."""
    hidden: tuple[Count, ...] = (512, 512, 512)
    """Sizes of the hidden layers."""
    learning_rate: NonNegative = 1e-4
    """Step size of Adam."""
    discount: Fraction = 0.99
    """γ: the weight of a reward one step later."""
    target_rate: Fraction = 1e-3
    """τ: share of each network of V that enters its target network at each update, whether it learns in it or not."""
    average_rate: Fraction = 1e-3
    """Share of the network of Δs that enters the moving average of its weights at each update; 0 keeps no average."""
    monte_carlo: bool = False
    """Fit V to the log's own returns, not to r + γV(s')."""

    def check(self) -> None:
        """All networks have the same number of turns."""
        if self.ensemble % self.learning:
            raise ActionlessError(f"at_once={self.at_once}: choose a divisor of ensemble, which is {self.ensemble}")

    @property
    def learning(self) -> int:
        """Networks of V that learn in an update."""
        return self.ensemble if self.at_once is None else self.at_once

    @property
    def turns(self) -> int:
        """Updates until each network of V has learnt once."""
        return self.ensemble // self.learning

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


class Turn:
    """Which networks of V learn in an update."""

    def __init__(self, update: Int[Array, ""], config: IqlDeltaConfig):
        self._turn, self._turns, self._count = update % config.turns, config.turns, config.learning

    def take(self, ensemble: Ensemble) -> Ensemble:
        """Those networks alone.

        A switch and no dynamic slice: XLA would merge that into what is put back, and copy all networks to do so.
        """

        def part(turn: int) -> Callable[[Ensemble], Ensemble]:
            return lambda ensemble: jax.tree.map(lambda a: a[turn * self._count : (turn + 1) * self._count], ensemble)

        return jax.lax.switch(self._turn, [part(turn) for turn in range(self._turns)], ensemble)

    def put(self, ensemble: Ensemble, learnt: Ensemble) -> Ensemble:
        """All networks, with those that have learnt in their places."""
        return jax.tree.map(
            lambda a, part: jax.lax.dynamic_update_slice_in_dim(a, part, self._turn * self._count, axis=0),
            ensemble,
            learnt,
        )


class IqlDelta(OfflineLearner):
    """Networks of Δs and V, and the slow copy of V."""

    network: Networks
    target_values: Ensemble
    optimiser: Adam
    support: SupportLearner
    spec: Spec = eqx.field(static=True)
    config: IqlDeltaConfig = eqx.field(static=True)
    average: Ensemble | None = None
    """The slow copy of the network of Δs."""

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
            average=jax.tree.map(jnp.copy, networks.deltas) if config.average_rate else None,
        )

    def td_target(self, slow: Ensemble, batch: Batch) -> Float[Array, "members batch"]:
        """Each member's own r + γV̄(s'), so that members agree on the log alone."""
        if self.config.monte_carlo:
            return jnp.broadcast_to(batch.extra[RETURNS], (slow.members, len(batch.rewards)))
        after = slow(batch.next_states)[..., 0]
        return batch.rewards[None] + self.config.discount * batch.masks[None] * after

    def loss(
        self,
        networks: Networks,
        batch: Batch,
        now: Float[Array, "members batch"],
        target: Float[Array, "members batch"],
    ) -> tuple[Float[Array, ""], Metrics]:
        """Expectile loss of V, and weighted cross-entropy of Δs; `now` is V̄(s)."""
        config = self.config
        values = networks.values(batch.states)[..., 0]
        value_loss = expectile_loss(target - values, config.expectile).mean()
        metrics = {"value_loss": value_loss, "v_mean": values.mean()}
        weights = imitation_weights((target - now).mean(axis=0), config)
        logits = by_bin(networks.deltas(batch.states), self.spec)
        delta_loss = weighted_cross_entropy(logits, batch, weights)
        loss = value_loss + delta_loss
        return loss, {"loss": loss, "delta_loss": delta_loss, **metrics}

    def update(self, batch: Batch, key: PRNGKeyArray) -> tuple["IqlDelta", Metrics]:
        """One step of Adam for Δs and for the networks of V whose turn it is, whose slow copies follow."""
        turn = Turn(self.optimiser.count, self.config)
        slow = turn.take(self.target_values)
        now, target = slow(batch.states)[..., 0], self.td_target(slow, batch)
        learning = Networks(self.network.deltas, turn.take(self.network.values))
        gradient, metrics = eqx.filter_grad(self.loss, has_aux=True)(learning, batch, now, target)
        learnt, optimiser = self._step(learning, gradient, turn)
        slow = polyak(slow, learnt.values, 1 - (1 - self.config.target_rate) ** self.config.turns)
        support, support_metrics = self.support.update(batch, now.mean(axis=0), key)
        learner = dataclasses.replace(
            self,
            network=Networks(learnt.deltas, turn.put(self.network.values, learnt.values)),
            target_values=turn.put(self.target_values, slow),
            optimiser=optimiser,
            support=support,
            average=None if self.average is None else polyak(self.average, learnt.deltas, self.config.average_rate),
        )
        return learner, metrics | support_metrics | {"gradient_norm": optax.tree.norm(gradient)}

    def _step(self, learning: Networks, gradient: Networks, turn: "Turn") -> tuple[Networks, Adam]:
        """Adam for both parts; it has made fewer steps for each network of V than for Δs."""
        adam = self.optimiser
        of_deltas = dataclasses.replace(adam, first=adam.first.deltas, second=adam.second.deltas)
        of_values = dataclasses.replace(
            adam,
            first=turn.take(adam.first.values),
            second=turn.take(adam.second.values),
            count=adam.count // self.config.turns,
        )
        deltas, of_deltas = of_deltas.step(learning.deltas, gradient.deltas)
        values, of_values = of_values.step(learning.values, gradient.values)
        optimiser = dataclasses.replace(
            of_deltas,
            first=Networks(of_deltas.first, turn.put(adam.first.values, of_values.first)),
            second=Networks(of_deltas.second, turn.put(adam.second.values, of_values.second)),
        )
        return Networks(deltas, values), optimiser

    def measure(self, data: Batch, discretiser: Discretiser, returns: Returns | None) -> dict[str, float]:
        """Accuracy and error of the proposals, and V against the log's own returns."""
        model = self._model(discretiser)
        metrics = measured_proposals(model, data) | measured_values(model, data, 1.0)
        if returns is None:
            return metrics
        return metrics | {"q/data_return": returns.mean, "q/overestimation": metrics["q/mean"] - returns.mean}

    def policy(self, discretiser: Discretiser, label: PolicyLabel) -> StatePolicy:
        """Proposes the likeliest Δs; its values are the slow copy's, which wavers less."""
        return StatePolicy.of(self._model(discretiser), label, average=self.average)

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
