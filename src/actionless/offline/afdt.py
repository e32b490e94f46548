"""AFDT: the action-free decision transformer of AF-Guide, which plans the next state on the way to a return."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Float32, Int, Int32, PRNGKeyArray

from actionless.data.log import Log, returns_to_go
from actionless.discretise import Discretiser
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
)
from actionless.offline.planner import PlanConfig, Planner
from actionless.offline.state_policy import compared
from actionless.offline.transformer import PlanNetwork, is_step
from actionless.optimise import Adam
from actionless.settings import Bounds, Count, NonNegative, Number, Positive, Whole
from actionless.updates import Metrics

MOST_TIMES = 4096
"""Steps of an episode that are told apart by their number: a recording without a break may have millions."""


PLAN_STEPS: dict[str, int] = {"medium-replay": 60_000, "medium-expert": 30_000}
"""Updates published for these levels of data."""
DEFAULT_PLAN_STEPS = 15_000
"""As published for the level `medium`."""
PLAN_TARGETS: dict[str, float] = {"hopper": 3600.0, "halfcheetah": 6000.0, "walker2d": 5000.0}
"""The returns that AF-Guide asks for."""
PLAN_RETURN_SCALE = 1000.0


@dataclass(frozen=True)
class AfdtConfig(LearnerConfig, kind="afdt"):
    """The published settings."""

    set_by_log = ("target_return", "return_scale")

    context: Count = 20
    """Steps that the transformer looks at, the present one among them."""
    width: Count = 128
    """Width of the transformer: numbers in each token."""
    blocks: Count = 3
    """Number of blocks of the transformer."""
    dropout: Annotated[float, Bounds(0, 1, below=True)] = 0.1
    """Share of activations that are set to 0 in an update."""
    learning_rate: NonNegative = 1e-4
    """Step size of Adam."""
    warm_up: Whole = 10_000
    """Updates over which the learning rate rises from 0."""
    weight_decay: NonNegative = 1e-4
    """Weight decay of AdamW."""
    max_grad_norm: Positive = 0.25
    """Largest norm of the gradient; a longer one is scaled down to it."""
    return_scale: Positive = PLAN_RETURN_SCALE
    """Returns are divided by it before the network sees them. By default 1,000 for the paper's data sets, and the
    largest return of the log for any other."""
    target_return: Number = 0.0
    """Return to ask for at the beginning of an episode. By default as published for the paper's data sets, and the
    log's highest for any other."""

    @property
    def declares(self) -> Declaration:
        """Plans, from several steps in a row and the return that came after each."""
        return Declaration(
            gives=("plans",), window=self.context, columns={"to_go": recorded_returns, "times": step_numbers}
        )

    def for_log(self, log: LogFacts) -> "AfdtConfig":
        """The return to ask for, and what returns are divided by: as published, or by the episodes of the log."""
        robot = (data_set(log.name) or "").partition("-")[0]
        if robot in PLAN_TARGETS:
            return dataclasses.replace(self, target_return=PLAN_TARGETS[robot], return_scale=PLAN_RETURN_SCALE)
        lowest, highest = float(log.episode_returns.min()), float(log.episode_returns.max())
        return dataclasses.replace(self, target_return=highest, return_scale=max(abs(lowest), abs(highest)) or 1.0)


def published_steps(log_name: str) -> int:
    """Updates on a log, by the level of its data set."""
    return PLAN_STEPS.get((data_set(log_name) or "").partition("-")[2], DEFAULT_PLAN_STEPS)


def recorded_returns(log: Log) -> Float32[np.ndarray, " rows"]:
    """Rewards from each row to the end of the recording of its episode."""
    return returns_to_go(log.rewards, log.ends, 1.0).astype(np.float32)


def step_numbers(log: Log) -> Int32[np.ndarray, " rows"]:
    """The number of each row in its episode, from 0 on."""
    starts = np.repeat(log.episode_stops - log.episode_lengths, log.episode_lengths)
    return (np.arange(len(log)) - starts).astype(np.int32)


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
        shape = (-1, config.context)
        times = batch.extra["times"].reshape(shape)
        return cls(
            states=batch.states.reshape(*shape, batch.states.shape[1]),
            changes=(batch.next_states - batch.states).reshape(*shape, batch.states.shape[1]),
            to_go=batch.extra["to_go"].reshape(shape) / config.return_scale,
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
            max_grad_norm=config.max_grad_norm,
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

    def measure(self, data: Batch, discretiser: Discretiser, returns: Returns | None) -> dict[str, float]:  # noqa: ARG002
        """Accuracy and error of the plans in the same bins as proposals, on the way to the return the episode had."""
        return {name: float(value) for name, value in _measured(self, discretiser, data).items()}

    def policy(self, discretiser: Discretiser, label: PolicyLabel) -> Planner:
        """Plans the next state."""
        config = self.config
        plan = PlanConfig(
            context=config.context,
            width=config.width,
            blocks=config.blocks,
            return_scale=config.return_scale,
            target_return=config.target_return,
        )
        return Planner(self.network, plan, discretiser.normaliser, *label)


@eqx.filter_jit
def _measured(learner: Afdt, discretiser: Discretiser, data: Batch) -> Metrics:
    last = data.deltas[learner.config.context - 1 :: learner.config.context]
    return compared(discretiser.index(learner.planned(data)), last)
