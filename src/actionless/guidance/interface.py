"""What guidance is: how something learnt offline, or anything else, helps an agent that acts.

A run holds any number of `Guidance` objects. At every step after the random ones the first proposal that is not None
becomes the action, and all of them observe what followed. Before every dispatch of updates each may change the batches
that the agent is about to learn from, in the order in which they were named: first their rows, then what the rows hold.
`GuidanceSettings` describe an object of this package, so that a run can be stored and resumed; guidance of your own
needs the object alone.
"""

import abc
import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Real, Shaped

from actionless.data.environment_match import warn_if_unfamiliar
from actionless.data.log import Log
from actionless.discretise import Normaliser
from actionless.errors import ActionlessError
from actionless.offline.log_origin import log_of, require_log_of
from actionless.offline.state_policy import StatePolicy
from actionless.online.agent import Act, AgentSettings, AgentView, Spec, Transitions
from actionless.online.replay import Column
from actionless.settings import Settings

logger = logging.getLogger("actionless")

NOTHING: Mapping[str, float | int] = MappingProxyType({})
"""What `observe` returns where no column is declared."""


Mean = Callable[[str], float | None]
"""From a metric to its mean over some runs; None where no run has it."""


class LogRows(NamedTuple):
    """Transitions that the agent has not made, such as those of a log."""

    states: Float[np.ndarray, "rows dim"]
    rewards: Float[np.ndarray, " rows"]
    next_states: Float[np.ndarray, "rows dim"]
    terminals: Bool[np.ndarray, " rows"]


class OwnSteps(NamedTuple):
    """Steps that the agent has made one after the other, since guidance was last told."""

    first: int
    """The environment step that the first of them is."""
    states: Real[np.ndarray, "steps dim"]
    actions: Shaped[np.ndarray, "steps actions"]
    rewards: Real[np.ndarray, " steps"]
    next_states: Real[np.ndarray, "steps dim"]
    terminals: Bool[np.ndarray, " steps"]
    """Where the environment ended."""


ColumnsOf = Callable[[LogRows], dict[str, Shaped[np.ndarray, " rows"]]]
"""The values of every extra column for such transitions."""


@dataclass(frozen=True)
class Draw:
    """How the rows of a batch were drawn."""

    step: int
    """The environment step after which the updates follow. Decides, with the seed, whatever is drawn for them."""
    updates: int
    """How many updates follow. Their batches lie one behind the other."""
    batch_size: int
    """Rows of each. Rows beyond `updates * batch_size` fill the batch up, and no update looks at them."""
    columns_of: ColumnsOf
    """For guidance that puts rows of its own into a batch."""


class Guidance:
    """Helps an agent that learns in an environment. Every method has a neutral default: override what is needed.

    Actions are as agents give them: numbers in [-1, 1], or the index of a choice in each dimension. States and rewards
    are the environment's own. Whatever is drawn at random must follow from the seed and the step alone
    (`actionless.randomness.generator`), and all that changes must be in `state`: then a resumed run equals one that
    never stopped, bit for bit.
    """

    headline: tuple[str, ...] = ()
    """The metrics worth showing while the run works."""
    columns: Mapping[str, Column] = MappingProxyType({})
    """Extra columns of the replay, whose values `observe` returns. The agent finds them in `batch.extra`."""
    normaliser: Normaliser | None = None
    """The agent sees states in these units. The first guidance that has one decides."""
    state: Any = ()
    """All that changes, for checkpoints: a tree of finite arrays whose shapes stay. It may be changed in place."""

    @property
    def name(self) -> str:
        """What errors call it."""
        return type(self).__name__

    def agent_settings(self, settings: AgentSettings) -> AgentSettings:
        """The settings of the agent that this guidance needs. Raises where it cannot guide the agent.

        They may be of another class, whose agent learns from more than usual, such as an extra column. It must act by
        the same kind of behaviour as the agent of the given settings, which is what a policy is saved as.
        """
        return settings

    def begin(self, columns: Mapping[str, Column]) -> None:
        """Called once, before the run: the extra columns of the replay, of all guidance."""

    def propose(
        self,
        state: Real[np.ndarray, " dim"],  # noqa: ARG002
        step: int,  # noqa: ARG002
    ) -> Shaped[np.ndarray, " actions"] | None:
        """An action to take at an environment step, or None where the agent is to act by itself."""
        return None

    def accepts(
        self,
        proposal: Shaped[np.ndarray, " actions"],  # noqa: ARG002
        state: Real[np.ndarray, " dim"],  # noqa: ARG002
        step: int,  # noqa: ARG002
        agent: AgentView,  # noqa: ARG002
    ) -> bool:
        """Whether its own proposal is taken after all, now that the agent can be asked what it thinks of it."""
        return True

    def observe(
        self,
        state: Real[np.ndarray, " dim"],  # noqa: ARG002
        action: Shaped[np.ndarray, " actions"],  # noqa: ARG002
        reward: float,  # noqa: ARG002
        next_state: Real[np.ndarray, " dim"],  # noqa: ARG002
        step: int,  # noqa: ARG002
        *,
        terminated: bool = False,  # noqa: ARG002
        first: bool = False,  # noqa: ARG002
    ) -> Mapping[str, float | int]:
        """Take in a transition, whoever chose its action; `first` is the first of an episode.

        Returns the values of its extra columns; a column that is left out holds its fill value.
        """
        return NOTHING

    def observe_together(self, steps: OwnSteps) -> Mapping[str, Shaped[np.ndarray, " steps"]]:  # noqa: ARG002
        """The same for several steps at once, after the last of them and before any batch is drawn.

        For what costs less in one call than in one for each step. Returns values of its extra columns, which replace
        those that `observe` gave.
        """
        return {}

    def columns_of(self, rows: LogRows) -> Mapping[str, Shaped[np.ndarray, " rows"]]:  # noqa: ARG002
        """The values of its extra columns for transitions that the agent has not made.

        A column that is left out holds its fill value.
        """
        return {}

    def change_rows(self, batch: Transitions, draw: Draw) -> Transitions:  # noqa: ARG002
        """The batches of the next updates with other rows in place of some, such as those of a log.

        Called before any `change_batch`, so that the rewards of these rows are changed like all others. Arrays are
        NumPy's or JAX's; shapes and types of number must stay. Do not change them in place.
        """
        return batch

    def change_batch(self, batch: Transitions, draw: Draw) -> Transitions:  # noqa: ARG002
        """The batches that the agent learns from in the next updates: rewards, discounts or columns changed.

        The same holds for its arrays.
        """
        return batch

    def learn(self, first: int, stop: int, act: Act) -> None:
        """Learn beside the agent, for environment steps `first` to `stop`, after its own updates.

        `act` gives the agent's present best action for each of a batch of states.
        """

    def metrics(self) -> dict[str, float]:
        """What was measured since the last call."""
        return {}

    def restore(self, state: Any) -> None:
        """Continue from a `state` that was saved; its arrays are taken over, not copied."""
        for mine, given in zip(jax.tree.leaves(self.state), jax.tree.leaves(state), strict=True):
            if (np.shape(mine), np.asarray(mine).dtype) != (np.shape(given), np.asarray(given).dtype):
                raise ActionlessError(
                    f"this guide has no place for {_shown(given)} where it holds {_shown(mine)}: "
                    "restore with the settings the state was made with"
                )
        self.state = state


def _shown(array: Any) -> str:
    return f"{np.asarray(array).dtype}{list(np.shape(array))}"


@dataclass(frozen=True)
class GuidanceContext:
    """What guidance of this package is made for."""

    guide: str
    """The run, or the directory, of what guides."""
    environment: str
    """The environment's name, for messages."""
    spec: Spec
    first_state: Real[np.ndarray, " dim"]
    """Of the first episode."""
    steps: int
    """In the environment."""
    warm_up: int
    """Random steps before the agent acts and learns."""
    seed: int
    log: Log | None
    """The guide's log, where it was handed over from Python."""

    @cached_property
    def policy(self) -> StatePolicy:
        """The guide's state policy, read once for all guidance."""
        return StatePolicy.load(self.guide)

    @cached_property
    def log_of_guide(self) -> Log:
        """The guide's log, read once for all guidance. A warning says that it may be of another environment."""
        log = log_of(self.policy, self.guide) if self.log is None else self.log
        require_log_of(self.policy, log)
        warn_if_unfamiliar(log, self.first_state, self.environment)
        return log

    @cached_property
    def log_if_readable(self) -> Log | None:
        """The same for what can do without it: a warning says why there is none."""
        try:
            return self.log_of_guide
        except ActionlessError as error:
            logger.warning("%s; guidance works without, and some metrics are left out", error)
            return None


class GuidanceSettings(Settings, abc.ABC):
    """Settings of one kind of guidance. They make it, and answer what is asked before there is any."""

    def agent_settings(self, settings: AgentSettings) -> AgentSettings:
        """The agent's settings as run.json holds them. What only the guidance itself can know, its own method adds."""
        return settings

    @abc.abstractmethod
    def create(self, context: GuidanceContext) -> Guidance:
        """The guidance itself. Raises where the guide's run does not fit."""

    def completed(self, guide: str, steps: int) -> "GuidanceSettings":  # noqa: ARG002
        """The same with what follows from the guide and the length of the run filled in, as run.json holds it."""
        return self

    @property
    def reads_log(self) -> bool:
        """Whether it learns from the guide's log too."""
        return False

    def memory(self, spec: Spec, kept: int, logged: int) -> int:  # noqa: ARG002
        """Bytes it takes beside a replay of `kept` transitions, where the guide's log has `logged`."""
        return 0


def unchanged_shapes(before: Transitions, after: Any, name: str) -> Transitions:
    """The batch after guidance has changed it. Another shape or type of number is refused: JAX would compile anew."""
    if not isinstance(after, Transitions):
        raise ActionlessError(f"guidance '{name}' gave {after!r} as a batch, and has to return the batch")
    ours, theirs = jax.tree.structure(before), jax.tree.structure(after)
    pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=False)
    if ours != theirs or any((a.shape, a.dtype) != (b.shape, b.dtype) for a, b in pairs):
        fields = [field.name for field in dataclasses.fields(before) if field.name != "extra"]
        changed = [f for f in fields if _shown(getattr(before, f)) != _shown(getattr(after, f))] or ["extra"]
        raise ActionlessError(
            f"guidance '{name}' changed the shape or the type of number of '{changed[0]}' in a batch: it must keep both"
        )
    return after
