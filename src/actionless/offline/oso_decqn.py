"""OSO-DecQN: a conservative ensemble of decoupled Q-networks over Δs (Algorithm 1 of the paper).

U_j^e(s, k) is member e's utility of moving dimension j into bin k, and Q^e(s, Δs) the mean over j of
U_j^e(s, Δs_j). With `alpha` = 0 the learner is DecQN_N.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from actionless.discretise import Discretiser
from actionless.networks import Ensemble, chosen, q_values
from actionless.offline.data_sets import data_set
from actionless.offline.learner import (
    Batch,
    Declaration,
    LearnerConfig,
    LogFacts,
    OfflineLearner,
    PolicyLabel,
    Returns,
    Spec,
    Watch,
    by_bin,
)
from actionless.offline.penalty_warnings import Penalty, PenaltyWatch, TdLoss, warn_of_imitation
from actionless.offline.state_policy import PolicyModel, StatePolicy, measured_proposals, measured_values
from actionless.offline.support import SupportLearner
from actionless.optimise import Adam, polyak
from actionless.settings import Count, Fraction, NonNegative, Positive
from actionless.updates import Metrics

DEFAULT_ALPHA = 8.0
"""For a log that is none of the paper's: the value it uses most."""

PAPER_ALPHA: dict[str, float] = {
    "hopper-medium-replay": 3.0,
    "hopper-medium": 8.0,
    "hopper-medium-expert": 10.0,
    "hopper-expert": 8.0,
    "halfcheetah-medium-replay": 2.0,
    "halfcheetah-medium": 3.0,
    "halfcheetah-medium-expert": 8.0,
    "halfcheetah-expert": 8.0,
    "walker2d-medium-replay": 10.0,
    "walker2d-medium": 8.0,
    "walker2d-medium-expert": 8.0,
    "walker2d-expert": 8.0,
    "cheetah-run-random-medium-expert": 5.0,
    "cheetah-run-medium": 5.0,
    "cheetah-run-medium-expert": 5.0,
    "cheetah-run-expert": 5.0,
    "quadruped-walk-random-medium-expert": 5.0,
    "quadruped-walk-medium": 5.0,
    "quadruped-walk-medium-expert": 5.0,
    "quadruped-walk-expert": 5.0,
}

PAPER_SPREAD = 50.0
"""About the standard deviation of discounted returns in the paper's logs: 56 on HalfCheetah, 72 on Hopper (medium)."""

_DOMAINS_OF_HUBER = ("cheetah-run", "quadruped-walk")


@dataclass(frozen=True)
class OsoDecqnConfig(LearnerConfig, kind="oso-decqn"):
    """What the paper fixes, and what it leaves open."""

    set_by_log = ("alpha", "loss", "reward_scale")

    alpha: NonNegative = DEFAULT_ALPHA
    """α: weight of the conservative penalty, in the paper's sense at every scale, for rewards times reward_scale. By
    default the paper's for its data sets, by the log's name, and 8 for any other log."""
    penalty_factor: Positive = 1.0
    """Factor for alpha: short runs have larger TD errors and need a larger penalty. 5 at scale cpu."""
    ensemble: Count = 5
    """Number of networks."""
    hidden: tuple[Count, ...] = (512, 512, 512)
    """Sizes of the hidden layers."""
    learning_rate: NonNegative = 1e-4
    """Step size of Adam."""
    discount: Fraction = 0.99
    """γ: the weight of a reward one step later."""
    target_rate: Fraction = 1e-3
    """τ: share of the online network that enters the target network at each update."""
    loss: TdLoss = "mse"
    """Loss of the TD error. By default the square, and Huber for logs of factorised DMC, as in the paper."""
    logits: Literal["utilities", "scaled"] = "utilities"
    """Softmax and log-sum-exp of U_j, or of U_j / M: the softmax of Q itself over every joint Δs."""
    penalty_on: Literal["mean", "members"] = "mean"
    """Penalise the ensemble's mean utilities, or each member's own."""
    target: Literal["mean", "min"] = "mean"
    """The TD target takes the mean or the minimum over members."""
    mask_terminals: bool = True
    """Stop the backup at terminals."""
    reward_scale: Positive = 1.0
    """Rewards are multiplied by it inside the learner; values are reported in the log's rewards. By default 1 for the
    paper's data sets, and for any other log such that its discounted returns spread as theirs do (a standard deviation
    of 50): alpha then means the same for rewards of any unit."""
    support: bool = True
    """Also learn the distance of states from the log; the potential uses it in environments that can end early."""

    @property
    def declares(self) -> Declaration:
        """A state policy and values."""
        return Declaration(
            gives=("state policy", "values"),
            discount=self.discount,
            shown=("accuracy", "error", "q/mean", "q/data_return"),
        )

    def for_log(self, log: LogFacts) -> "OsoDecqnConfig":
        """The paper's α, loss and rewards for its data sets; for others, rewards in units that fit α."""
        name = data_set(log.name)
        if name is None:
            returns = None if log.returns is None else log.returns(self.discount)
            return self if returns is None else dataclasses.replace(self, reward_scale=fitting_scale(returns))
        loss = "huber" if name.startswith(_DOMAINS_OF_HUBER) else "mse"
        return dataclasses.replace(self, alpha=PAPER_ALPHA[name], loss=loss)

    def watch(self, returns: Returns | None) -> Watch | None:
        """Warn where the penalty is too strong for the rewards, and later where it is too weak."""
        penalty = Penalty(self.alpha, self.penalty_factor, self.loss, self.reward_scale)
        if returns is not None:
            warn_of_imitation(penalty, returns.spread)
        return PenaltyWatch(penalty)

    @property
    def penalty_weight(self) -> float:
        """What the penalty is multiplied by in the loss."""
        return self.alpha * self.penalty_factor


class OsoDecqn(OfflineLearner):
    """Online and target ensembles."""

    network: Ensemble
    target_network: Ensemble
    optimiser: Adam
    spec: Spec = eqx.field(static=True)
    config: OsoDecqnConfig = eqx.field(static=True)
    support: SupportLearner | None = None

    @classmethod
    def create(cls, spec: Spec, config: OsoDecqnConfig, key: PRNGKeyArray) -> "OsoDecqn":
        """A learner that has learnt nothing; its target network begins equal to the online one."""
        sizes = (spec.state_dim, *config.hidden, spec.state_dim * spec.bins)
        network = Ensemble.create(config.ensemble, sizes, key)
        return cls(
            network=network,
            target_network=jax.tree.map(jnp.copy, network),
            optimiser=Adam.create(network, config.learning_rate),
            support=_support(spec, config, key),
            spec=spec,
            config=config,
        )

    def td_target(self, batch: Batch, key: PRNGKeyArray) -> Float[Array, " batch"]:
        """y = r + γ Q̄(s', Δs'), with Δs' drawn from the softmax of the online network: double Q-learning."""
        config = self.config
        online = utilities(self.network, batch.next_states, self.spec).mean(axis=0)
        delta = sample(logits(online, self.spec, config), key)
        members = q_values(utilities(self.target_network, batch.next_states, self.spec), delta)
        value = members.mean(axis=0) if config.target == "mean" else members.min(axis=0)
        backup = value * batch.masks if config.mask_terminals else value
        return config.reward_scale * batch.rewards + config.discount * backup

    def loss(self, network: Ensemble, batch: Batch, target: Float[Array, " batch"]) -> tuple[Float[Array, ""], Metrics]:
        """Squared or Huber TD error of every member against the shared target, plus the penalty."""
        config = self.config
        u = utilities(network, batch.states, self.spec)
        q = q_values(u, batch.deltas)
        error = q - target[None]
        td_loss = jnp.mean(jnp.square(error) if config.loss == "mse" else optax.huber_loss(error))
        penalised = u.mean(axis=0, keepdims=True) if config.penalty_on == "mean" else u
        penalty = conservative_penalty(logits(penalised, self.spec, config), batch.deltas, config)
        loss = td_loss + config.penalty_weight * penalty
        values = {"q_mean": q.mean() * self.value_scale, "q_max": q.max() * self.value_scale}
        return loss, {"loss": loss, "td_loss": td_loss, "penalty": penalty, **values}

    def update(self, batch: Batch, key: PRNGKeyArray) -> tuple["OsoDecqn", Metrics]:
        """One step of Adam, then the target network follows."""
        target = self.td_target(batch, key)
        gradient, metrics = eqx.filter_grad(self.loss, has_aux=True)(self.network, batch, target)
        network, optimiser = self.optimiser.step(self.network, gradient)
        support, support_metrics = self.support, {}
        if support is not None:
            support, support_metrics = support.update(batch, target, jax.random.fold_in(key, 1))
        learner = OsoDecqn(
            network=network,
            target_network=polyak(self.target_network, network, self.config.target_rate),
            optimiser=optimiser,
            support=support,
            spec=self.spec,
            config=self.config,
        )
        return learner, metrics | support_metrics | {"gradient_norm": optax.tree.norm(gradient)}

    def measure(self, data: Batch, discretiser: Discretiser, returns: Returns | None) -> dict[str, float]:
        """Accuracy and error of the proposals, and Q against the log's own returns."""
        model = self._model(discretiser)
        metrics = measured_proposals(model, data) | measured_values(model, data, self.value_scale)
        if returns is None:
            return metrics
        return metrics | {"q/data_return": returns.mean, "q/overestimation": metrics["q/mean"] - returns.mean}

    def policy(self, discretiser: Discretiser, label: PolicyLabel) -> StatePolicy:
        """Proposes the Δs of the highest utilities."""
        return StatePolicy.of(self._model(discretiser), label, self.value_scale, self.target_network)

    def _model(self, discretiser: Discretiser) -> PolicyModel:
        """With the temperature of the softmax that Δs' is drawn from."""
        temperature = float(self.spec.state_dim) if self.config.logits == "scaled" else 1.0
        support = None if self.support is None else self.support.support
        return PolicyModel(self.network, discretiser, "utilities", temperature, support=support)

    @property
    def value_scale(self) -> float:
        """Utilities are multiplied by it to be returns in the log's own rewards."""
        return 1 / self.config.reward_scale


def fitting_scale(returns: Returns) -> float:
    """What rewards are multiplied by for their returns to spread as the paper's do.

    Where all returns are the same their size stands in for their spread, and where all are 0 nothing is to be scaled.
    """
    size = returns.spread if returns.spread > 1e-6 * abs(returns.mean) else abs(returns.mean)
    return PAPER_SPREAD / size if size > 0 else 1.0


def _support(spec: Spec, config: OsoDecqnConfig, key: PRNGKeyArray) -> SupportLearner | None:
    if not config.support:
        return None
    return SupportLearner.create(spec.state_dim, config.hidden, config.learning_rate, jax.random.fold_in(key, 1))


def utilities(
    network: Ensemble, states: Float[Array, "batch dim"], spec: Spec
) -> Float[Array, "members batch bins dim"]:
    """U_j^e(s, k)."""
    return by_bin(network(states), spec)


def logits(
    u: Float[Array, "*members batch bins dim"], spec: Spec, config: OsoDecqnConfig
) -> Float[Array, "*members batch bins dim"]:
    """What softmax and log-sum-exp are taken of, dimension by dimension.

    The softmax of Q over all joint Δs factorises exactly into softmaxes of U_j / M.
    """
    return u / spec.state_dim if config.logits == "scaled" else u


def sample(logits: Float[Array, "batch bins dim"], key: PRNGKeyArray) -> Int[Array, "batch dim"]:
    """Δs drawn from the softmax of each dimension, by inverting its distribution function.

    One uniform number per draw costs a third of the Gumbel noise of `jax.random.categorical`.
    """
    cumulative = jnp.cumsum(jax.nn.softmax(logits, axis=1), axis=1)[:, :-1]
    uniform = jax.random.uniform(key, (logits.shape[0], 1, logits.shape[2]))
    return (uniform >= cumulative).sum(axis=1, dtype=jnp.int32)


def conservative_penalty(
    logits: Float[Array, "members batch bins dim"], delta: Int[Array, "batch dim"], config: OsoDecqnConfig
) -> Float[Array, ""]:
    """R: how far log-sum-exp lies above the logit of the log's own Δs; never negative.

    Summed over dimensions for `scaled` logits, which is R over joint Δs, and averaged for raw utilities:
    both have gradients of the same size, so one alpha serves both.
    """
    excess = jax.nn.logsumexp(logits, axis=2) - chosen(logits, delta)
    return jnp.mean(excess.sum(axis=-1) if config.logits == "scaled" else excess.mean(axis=-1))
