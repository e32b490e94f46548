"""A log with actions, as an agent of its environment learns from it.

Nothing of it is copied: rows are read, and actions translated, when a batch is drawn. So a log that is a memory map
stays one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float32, Int

from actionless.data.factorised_dmc import FORMAT as FACTORISED
from actionless.data.log import Log, returns_to_go
from actionless.discretise import Normaliser
from actionless.errors import ActionlessError
from actionless.online.action_translation import Translation, normalised_actions
from actionless.online.agent import RETURNS, Agent, Transitions
from actionless.online.environments import Environment
from actionless.online.replay import Column, Replay, steps_ahead
from actionless.online.standardise import standardised_by

UNKNOWN = float(np.finfo(np.float32).min)
"""Stands for a return that is not known yet: below any that is, and finite, since checkpoints hold it."""


@dataclass(frozen=True, eq=False)
class LabelledLog:
    """Its transitions as if an agent had experienced them, and the statistics of its states."""

    log: Log
    translation: Translation
    discount: float
    """Of the returns that are kept."""
    reward_scale: float
    returns: Float32[np.ndarray, " transitions"]
    """Discounted rewards from each transition to its episode's end."""
    normaliser: Normaliser

    columns: ClassVar[Mapping[str, Column]] = {RETURNS: Column(np.float32, UNKNOWN)}
    """What the replay keeps beside such a log: returns too, each known once its episode has ended."""

    @classmethod
    def of(cls, log: Log, environment: Environment, discount: float, reward_scale: float) -> "LabelledLog":
        """Refused where the log is not one of this environment. `discount` is that of the returns it keeps."""
        path = log.source.path
        if log.actions is None:
            raise ActionlessError(f"{path}: read without actions, which are learnt from: read it with_actions=True")
        if log.state_dim != environment.spec.state_dim:
            raise ActionlessError(
                f"{path}: has {log.state_dim} state variables, and '{environment.name}' has "
                f"{environment.spec.state_dim}: give a log of this environment"
            )
        if log.source.format == FACTORISED:
            raise ActionlessError(f"{path}: holds choices, and these agents need continuous actions: give another log")
        if log.actions.shape[1] != environment.spec.action_dim:
            raise ActionlessError(
                f"{path}: has {log.actions.shape[1]} numbers per action, and '{environment.name}' takes "
                f"{environment.spec.action_dim}: give a log of this environment"
            )
        return cls(
            log=log,
            translation=environment.translation,
            discount=discount,
            reward_scale=reward_scale,
            returns=returns_to_go(log.rewards * reward_scale, log.ends, discount).astype(np.float32),
            normaliser=Normaliser.fit(log.states),
        )

    @property
    def ends(self) -> Bool[np.ndarray, " transitions"]:
        """Where an episode ended, for whatever reason."""
        return self.log.ends

    @property
    def terminals(self) -> Bool[np.ndarray, " transitions"]:
        """Where the environment ended."""
        return self.log.terminals

    @property
    def newest(self) -> int:
        """The last row."""
        return len(self.log) - 1

    def __len__(self) -> int:
        return len(self.log)

    def rewards_of(self, slots: Int[np.ndarray, " batch"]) -> Float32[np.ndarray, " batch"]:
        """As the agent learns from them."""
        return (self.log.rewards[slots] * self.reward_scale).astype(np.float32)

    def sample(self, slots: Int[np.ndarray, " batch"], n_step: int, discount: float) -> Transitions:
        """The transitions that begin in these rows, as many steps long as there are, `n_step` at most."""
        assert self.log.actions is not None
        last, rewards, discounts = steps_ahead(self, slots, n_step, discount)
        return Transitions(
            states=np.asarray(self.log.states[slots], np.float32),
            actions=normalised_actions(self.translation, self.log.actions[slots]),
            rewards=np.asarray(rewards),
            next_states=np.asarray(self.log.next_states[last], np.float32),
            discounts=np.asarray(discounts),
            extra={RETURNS: self.returns[slots]},
        )

    def end_episode(self, replay: Replay, length: int) -> None:
        """Fill in the returns of an episode of `length` steps, which has ended."""
        fill_returns(replay, length, self.discount)

    def introduced_to(self, agent: Agent) -> Agent:
        """An agent that sees states in units of this log's spread."""
        return standardised_by(self.normaliser, agent)


def fill_returns(replay: Replay, length: int, discount: float) -> None:
    """Fill in the returns of the newest `length` transitions, an episode that has ended, as far as they are held."""
    slots = replay.newest_slots(length)
    replay.extra[RETURNS][slots] = returns_to_go(replay.rewards[slots], np.zeros(len(slots), bool), discount)
