"""A log with actions, as an agent of the task learns from it."""

from typing import NamedTuple

import equinox as eqx

from actionless.data.factorised_dmc import FORMAT as FACTORISED
from actionless.data.log import Log
from actionless.discretise import Normaliser
from actionless.errors import ActionlessError
from actionless.online.action_translation import normalised_actions
from actionless.online.agent import Agent
from actionless.online.environments import Environment
from actionless.online.replay import Replay
from actionless.online.standardise import Standardised, Standardiser


class LabelledLog(NamedTuple):
    """Its transitions, with actions as agents give them, and the statistics of its states."""

    replay: Replay
    normaliser: Normaliser

    @classmethod
    def of(cls, log: Log, task: Environment, discount: float, reward_scale: float) -> "LabelledLog":
        """Refused where the log is not one of this task. `discount` is that of the returns it keeps."""
        path = log.source.path
        if log.actions is None:
            raise ActionlessError(f"{path}: read without actions, which are learnt from: read it with_actions=True")
        if log.state_dim != task.spec.state_dim:
            raise ActionlessError(
                f"{path}: has {log.state_dim} state variables, and '{task.name}' has {task.spec.state_dim}: "
                "give a log of this task"
            )
        if log.source.format == FACTORISED:
            raise ActionlessError(f"{path}: holds choices, and these agents need continuous actions: give another log")
        if log.actions.shape[1] != task.spec.action_dim:
            raise ActionlessError(
                f"{path}: has {log.actions.shape[1]} numbers per action, and '{task.name}' takes "
                f"{task.spec.action_dim}: give a log of this task"
            )
        actions = normalised_actions(task.translation, log.actions)
        return cls(Replay.of_log(log, actions, discount, reward_scale), Normaliser.fit(log.states))

    def introduced_to(self, agent: Agent) -> Agent:
        """An agent that sees states in units of this log's spread."""
        assert isinstance(agent, Standardised)
        return eqx.tree_at(lambda agent: agent.states, agent, Standardiser.of(self.normaliser))
