"""A policy played in its task: a state policy through an expert inverse dynamics model, another by its own actions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int8, Real, Shaped

from actionless.analysis.expert_idm import EXPERT_IDM_SCALES, TARGETS, ExpertIdm, expert_idm
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
    """For each state a normalised action, and the Δs that it is meant to bring about, as labels."""

    actions: Shaped[np.ndarray, "episodes actions"]
    proposed: Int8[np.ndarray, "episodes dim"] | None


Decide = Callable[[Real[np.ndarray, "episodes dim"]], Decision]


class Rollouts(NamedTuple):
    """What came of each episode."""

    returns: Float[np.ndarray, " episodes"]
    lengths: Int[np.ndarray, " episodes"]
    delta_errors: Float[np.ndarray, "episodes dim"] | None
    """Mean |Δs observed - Δs proposed| over the episode's steps, where Δs is proposed at all."""


@dataclass(frozen=True)
class EnvironmentFigures:
    """What a policy is worth in a task."""

    environment: str
    rollouts: Rollouts
    reference: ReferenceScores | None
    state_names: tuple[str, ...]
    idm_error: float | None
    """Of the expert on labelled episodes that it has not seen, where there is one."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, under names that a diagnosis without a task leaves free.

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
    episodes: int = 10,
    seed: int = 0,
    cache: Path | None = None,
) -> EnvironmentFigures:
    """Play a policy in a task, side by side in so many episodes.

        labelled = actionless.read("hopper_medium_expert-v2.hdf5", with_actions=True)
        figures = evaluate_in_environment(policy, "Hopper-v5", labelled).to_dict()

    The labelled log teaches the expert that finds the actions for a state policy's proposals; `scale` is the expert's.
    The expert does not depend on `seed`, so that seeds of a method share it; the episodes do.
    """
    if episodes < 1:
        raise ActionlessError(f"episodes={episodes}: choose at least 1")
    if not isinstance(policy, StatePolicy | ActionPolicy):
        raise ActionlessError(
            f"{policy.method} {policy.does}, and what is played proposes Δs from one state: pre-train with "
            "another method, or see what it is worth as a guide (`actionless train --agent sac --guide RUN`)"
        )
    bins = _action_bins(environment, labelled)
    tasks = [make(environment, bins=bins) for _ in range(episodes)]
    try:
        names, dim = policy.state_names, tasks[0].spec.state_dim
        if len(names) != dim:
            raise ActionlessError(
                f"the policy was trained on {len(names)} variables, and {environment} has {dim}: "
                "give the task that its log is of"
            )
        if isinstance(policy, ActionPolicy):
            expert, discretiser, decide = None, None, _by_own_actions(policy, tasks[0])
        else:
            _require_same_order(names, labelled)
            discretiser, target = policy.model.discretiser, TARGETS[policy.model.head]
            expert = expert_idm(labelled, tasks[0], discretiser, target, EXPERT_IDM_SCALES[scale], cache=cache)
            decide = _through_expert(policy, expert)
        rollouts = roll_out(tasks, decide, [episode_seed(seed, -1 - i) for i in range(episodes)], discretiser)
    finally:
        for task in tasks:
            task.close()
    reference = reference_scores(environment, labelled)
    return EnvironmentFigures(
        environment, rollouts, reference, names, None if expert is None else expert.held_out_error
    )


def roll_out(
    tasks: Sequence[Environment], decide: Decide, seeds: Sequence[int], discretiser: Discretiser | None
) -> Rollouts:
    """One episode in each task, side by side; a task whose episode is over is not stepped any more."""
    states = np.stack([task.reset(seed) for task, seed in zip(tasks, seeds, strict=True)])
    next_states, live = states.copy(), np.arange(len(tasks))
    returns, lengths, errors = np.zeros(len(tasks)), np.zeros(len(tasks), np.int64), np.zeros(states.shape)
    while live.size:
        if lengths.max() == MOST_STEPS:
            raise ActionlessError(
                f"{tasks[0].name}: an episode has no end after {MOST_STEPS:,} steps; register it with max_episode_steps"
            )
        # Of all states, live or not: one program is compiled, and a row more costs next to nothing.
        actions, proposed = decide(states)
        over = np.zeros(len(tasks), bool)
        for i in live.tolist():
            step = tasks[i].step(actions[i])
            next_states[i], over[i] = step.state, step.terminated or step.truncated
            returns[i] += step.reward
        if discretiser is not None and proposed is not None:
            errors[live] += np.abs(discretiser.delta(states[live], next_states[live]) - proposed[live])
        lengths[live] += 1
        states, live = next_states.copy(), live[~over[live]]
    return Rollouts(returns, lengths, None if discretiser is None else errors / lengths[:, None])


def _require_same_order(names: Sequence[str], labelled: Log) -> None:
    """Files may name variables differently, or not at all; but what both name must stand in the same place."""
    for place, name in enumerate(labelled.state_names):
        if name in names and names.index(name) != place:
            raise ActionlessError(
                f"{labelled.source.path}: variable '{name}' is number {place}, the policy's number {names.index(name)} "
                f"(counting from 0): give its variables in the order {', '.join(names)}"
            )


def _action_bins(environment: str, labelled: Log) -> int | None:
    """How to make the task, so that its actions are of the kind that the labelled log has."""
    if labelled.source.format == factorised_dmc.FORMAT and labelled.actions is not None:
        return max(2, int(labelled.actions.max()) + 1)
    task = make(environment, bins=2)
    task.close()
    # A task that has choices of its own keeps them, whatever the number.
    return None if isinstance(task.translation, Levels) else 2


def _by_own_actions(policy: ActionPolicy, task: Environment) -> Decide:
    lowest, highest = (-1, 1) if task.spec.bins is None else (0, task.spec.bins - 1)

    def decide(states: Real[np.ndarray, "episodes dim"]) -> Decision:
        actions = normalised_actions(task.translation, policy.act(states))
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
    model: PolicyModel, network: ActionNetwork, z: Float[Array, "episodes dim"]
) -> tuple[Shaped[Array, "episodes actions"], Int[Array, "episodes dim"]]:
    index = model.index(z)
    aim = index if TARGETS[model.head] == "delta" else model.network(z).mean(axis=0)
    return network.act(z, aim), index
