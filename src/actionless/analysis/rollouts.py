"""Run a policy in an environment: a state policy through an expert inverse dynamics model, others on their own."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int8, Real, Shaped

from actionless.analysis.expert_idm import EXPERT_IDM_SCALES, TARGETS, ExpertIdm, expert_idm
from actionless.analysis.mixture_idm import MixtureNetwork
from actionless.analysis.scores import ReferenceScores, reference_scores
from actionless.data import factorised_dmc
from actionless.data.log import Log
from actionless.discretise import Discretiser
from actionless.errors import ActionlessError
from actionless.guidance.idm import ActionNetwork
from actionless.offline.learner import Policy
from actionless.offline.state_policy import ActionPolicy, PolicyModel, StatePolicy
from actionless.online.action_translation import Levels, normalised_actions
from actionless.online.environments import Environment, make
from actionless.settings import ScaleName
from actionless.training.evaluation import MOST_STEPS, episode_seed


class Decision(NamedTuple):
    """For each state a normalised action, and the label of the Δs that the action is meant to cause."""

    actions: Shaped[np.ndarray, "episodes actions"]
    proposed: Int8[np.ndarray, "episodes dim"] | None


Decide = Callable[[Real[np.ndarray, "episodes dim"]], Decision]


class Rollouts(NamedTuple):
    """The results of each episode."""

    returns: Float[np.ndarray, " episodes"]
    lengths: Int[np.ndarray, " episodes"]
    delta_errors: Float[np.ndarray, "episodes dim"] | None
    """Mean |Δs observed - Δs proposed| over the steps of each episode; None if the policy proposes no Δs."""


@dataclass(frozen=True)
class EnvironmentFigures:
    """The results of a policy in an environment."""

    environment: str
    rollouts: Rollouts
    reference: ReferenceScores | None
    state_names: tuple[str, ...]
    idm_error: float | None
    """Error of the expert on held-out labelled episodes; None without an expert."""

    def to_dict(self) -> dict[str, Any]:
        """JSON values. The keys differ from those of a diagnosis without an environment, so both can be merged.

        `rollout_delta_error` is the paper's discrete difference error: the sum over dimensions.
        """
        returns, errors = self.rollouts.returns, self.rollouts.delta_errors
        mean = float(returns.mean())
        by_name = None if errors is None else dict(zip(self.state_names, errors.mean(axis=0).tolist(), strict=True))
        return {
            "environment": self.environment,
            "rollout_episodes": len(returns),
            "rollout_length": float(self.rollouts.lengths.mean()),
            "return": mean,
            "return_std": float(returns.std()),
            "score": None if self.reference is None else self.reference.score(mean),
            "rollout_delta_error": None if errors is None else float(errors.sum(axis=1).mean()),
            "rollout_delta_errors": by_name,
            "idm_error": self.idm_error,
        }


def evaluate_in_environment(
    policy: Policy,
    environment: str,
    labelled: Log,
    *,
    scale: ScaleName = "cpu",
    components: int = 0,
    episodes: int = 10,
    seed: int = 0,
    cache: Path | None = None,
) -> EnvironmentFigures:
    """Run a policy in an environment for a number of episodes, all in parallel.

        labelled = actionless.read("hopper_medium_expert-v2.hdf5", with_actions=True)
        figures = evaluate_in_environment(policy, "Hopper-v5", labelled).to_dict()

    The log with actions trains the expert, which finds the actions for a state policy's proposals; `scale` is the
    scale of the expert, which is a regression, or a mixture density of so many `components`. The episodes depend on
    `seed`, the expert does not: all seeds of a method share it.
    """
    if episodes < 1:
        raise ActionlessError(f"episodes={episodes}: choose at least 1")
    if not isinstance(policy, StatePolicy | ActionPolicy):
        raise ActionlessError(
            f"{policy.method} {policy.does}, but only policies that propose Δs from one state can be evaluated here: "
            "pre-train with another method, or test it as a guide (`actionless train --agent sac --guide RUN`)"
        )
    bins = _action_bins(environment, labelled)
    environments = [make(environment, bins=bins) for _ in range(episodes)]
    try:
        names, dim = policy.state_names, environments[0].spec.state_dim
        if len(names) != dim:
            raise ActionlessError(
                f"the policy was trained on {len(names)} variables, but {environment} has {dim}: "
                "give the environment that its log comes from"
            )
        if isinstance(policy, ActionPolicy):
            expert, discretiser, decide = None, None, _by_own_actions(policy, environments[0])
        else:
            _require_same_order(names, labelled)
            discretiser, target = policy.model.discretiser, TARGETS[policy.model.head]
            config = dataclasses.replace(EXPERT_IDM_SCALES[scale], components=components)
            expert = expert_idm(labelled, environments[0], discretiser, target, config, cache=cache)
            decide = _through_expert(policy, expert)
        rollouts = roll_out(environments, decide, [episode_seed(seed, -1 - i) for i in range(episodes)], discretiser)
    finally:
        for one in environments:
            one.close()
    reference = reference_scores(environment, labelled)
    return EnvironmentFigures(
        environment, rollouts, reference, names, None if expert is None else expert.held_out_error
    )


def roll_out(
    environments: Sequence[Environment], decide: Decide, seeds: Sequence[int], discretiser: Discretiser | None
) -> Rollouts:
    """One episode in each environment, all in parallel; environments whose episode is over are not stepped again."""
    count = len(environments)
    states = np.stack([environment.reset(seed) for environment, seed in zip(environments, seeds, strict=True)])
    next_states, live = states.copy(), np.arange(count)
    returns, lengths, errors = np.zeros(count), np.zeros(count, np.int64), np.zeros(states.shape)
    while live.size:
        if lengths.max() == MOST_STEPS:
            raise ActionlessError(
                f"{environments[0].name}: an episode does not end after {MOST_STEPS:,} steps; "
                "register the environment with max_episode_steps"
            )
        # For all states, also of finished episodes: the shape stays the same, so only one program is compiled.
        actions, proposed = decide(states)
        over = np.zeros(count, bool)
        for i in live.tolist():
            step = environments[i].step(actions[i])
            next_states[i], over[i] = step.state, step.terminated or step.truncated
            returns[i] += step.reward
        if discretiser is not None and proposed is not None:
            errors[live] += np.abs(discretiser.delta(states[live], next_states[live]) - proposed[live])
        lengths[live] += 1
        states, live = next_states.copy(), live[~over[live]]
    return Rollouts(returns, lengths, None if discretiser is None else errors / lengths[:, None])


def _require_same_order(names: Sequence[str], labelled: Log) -> None:
    """Refuse a log whose variables are in another order. Other names, or none, are fine."""
    for place, name in enumerate(labelled.state_names):
        if name in names and names.index(name) != place:
            raise ActionlessError(
                f"{labelled.source.path}: variable '{name}' has index {place}, but index {names.index(name)} in the "
                f"policy (counting from 0): give the variables in the order {', '.join(names)}"
            )


def _action_bins(environment: str, labelled: Log) -> int | None:
    """The `bins` to create the environment with, so that its actions are of the same kind as in the log."""
    if labelled.source.format == factorised_dmc.FORMAT and labelled.actions is not None:
        return max(2, int(labelled.actions.max()) + 1)
    discretised = make(environment, bins=2)
    discretised.close()
    # An environment with discrete actions keeps them, whatever `bins` is.
    return None if isinstance(discretised.translation, Levels) else 2


def _by_own_actions(policy: ActionPolicy, environment: Environment) -> Decide:
    lowest, highest = (-1, 1) if environment.spec.bins is None else (0, environment.spec.bins - 1)

    def decide(states: Real[np.ndarray, "episodes dim"]) -> Decision:
        actions = normalised_actions(environment.translation, policy.act(states))
        return Decision(np.clip(actions, lowest, highest), None)

    return decide


def _through_expert(policy: StatePolicy, expert: ExpertIdm) -> Decide:
    model, discretiser = jax.tree.map(jnp.asarray, policy.model), policy.model.discretiser

    def decide(states: Real[np.ndarray, "episodes dim"]) -> Decision:
        z = discretiser.normaliser.normalise(states).astype(np.float32)
        actions, index = _decided(model, expert.network, z)
        return Decision(np.asarray(actions), discretiser.labels(np.asarray(index)))

    return decide


@jax.jit
def _decided(
    model: PolicyModel, network: ActionNetwork | MixtureNetwork, z: Float[Array, "episodes dim"]
) -> tuple[Shaped[Array, "episodes actions"], Int[Array, "episodes dim"]]:
    index = model.index(z)
    aim = index if TARGETS[model.head] == "delta" else model.network(z).mean(axis=0)
    return network.act(z, aim), index
