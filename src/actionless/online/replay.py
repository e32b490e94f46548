"""What an agent has experienced: a ring of transitions, sampled as n-step ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Int64, Shaped

from actionless.online.agent import Spec, Transitions

_NOTHING: Mapping[str, float | int] = MappingProxyType({})


@dataclass(frozen=True)
class Column:
    """An extra column of the replay: one number for each transition."""

    dtype: Any = np.float32
    fill: float = 0.0
    """What stands where nothing was given. Finite, since checkpoints hold it."""
    from_last_step: bool = False
    """A batch holds the value of the last step that it sums up, which `next_states` follow; not that of the first."""


@runtime_checkable
class Steps(Protocol):
    """Transitions that lie one behind the other, in slots: a replay, or a log as if it had been experienced."""

    @property
    def ends(self) -> Bool[np.ndarray, " capacity"]:
        """Where an episode ended, for whatever reason."""
        ...

    @property
    def terminals(self) -> Bool[np.ndarray, " capacity"]:
        """Where the environment ended."""
        ...

    @property
    def newest(self) -> int:
        """The slot of the newest transition: the slot after it holds the oldest."""
        ...

    def __len__(self) -> int: ...

    def rewards_of(self, slots: Int[np.ndarray, " batch"]) -> Float32[np.ndarray, " batch"]:
        """A new array of their rewards."""
        ...

    def sample(self, slots: Int[np.ndarray, " batch"], n_step: int, discount: float) -> Transitions:
        """The transitions that begin in these slots, as many steps long as there are, `n_step` at most."""
        ...


# No Equinox module: those wrap a method at each call, which is ten times what adding a transition costs.
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Replay:
    """The newest transitions, in NumPy and changed in place; a tree, so that checkpoints hold it.

    The transition added as number t is in slot t mod capacity; slots below `len` are filled.
    """

    states: Float32[np.ndarray, "capacity dim"]
    actions: Shaped[np.ndarray, "capacity actions"]
    rewards: Float32[np.ndarray, " capacity"]
    next_states: Float32[np.ndarray, "capacity dim"]
    terminals: Bool[np.ndarray, " capacity"]
    """Where the environment ended: no reward can follow."""
    ends: Bool[np.ndarray, " capacity"]
    """Where an episode ended, for whatever reason: what follows is another one."""
    added: Int64[np.ndarray, ""]
    extra: dict[str, Shaped[np.ndarray, " capacity"]]
    """Columns by name, for whoever declared them."""
    fills: tuple[tuple[str, float], ...] = field(metadata={"static": True})
    """What each of them holds where nothing was given."""
    from_last_step: frozenset[str] = field(metadata={"static": True})
    """Those that a batch holds of its last step."""

    @classmethod
    def create(cls, capacity: int, spec: Spec, columns: Mapping[str, Column] | None = None) -> "Replay":
        """An empty replay."""
        extra = columns or {}
        return cls(
            states=np.zeros((capacity, spec.state_dim), np.float32),
            actions=np.zeros((capacity, spec.action_dim), np.float32 if spec.bins is None else np.int32),
            rewards=np.zeros(capacity, np.float32),
            next_states=np.zeros((capacity, spec.state_dim), np.float32),
            terminals=np.zeros(capacity, bool),
            ends=np.zeros(capacity, bool),
            added=np.zeros((), np.int64),
            extra={name: np.full(capacity, column.fill, column.dtype) for name, column in extra.items()},
            fills=tuple((name, column.fill) for name, column in extra.items()),
            from_last_step=frozenset(name for name, column in extra.items() if column.from_last_step),
        )

    @property
    def capacity(self) -> int:
        """Transitions it can hold."""
        return len(self.rewards)

    @property
    def newest(self) -> int:
        """The slot of the newest transition: the slot after it holds the oldest."""
        return (int(self.added) - 1) % self.capacity

    def __len__(self) -> int:
        return min(int(self.added), self.capacity)

    def add(
        self,
        state: Float[np.ndarray, " dim"],
        action: Shaped[np.ndarray, " actions"],
        reward: float,
        next_state: Float[np.ndarray, " dim"],
        terminated: bool,
        ended: bool,
        extra: Mapping[str, float | int] = _NOTHING,
    ) -> None:
        """Put one transition in place of the oldest; `extra` holds values of its extra columns."""
        slot = int(self.added) % self.capacity
        self.states[slot] = state
        self.actions[slot] = action
        self.rewards[slot] = reward
        self.next_states[slot] = next_state
        self.terminals[slot] = terminated
        self.ends[slot] = ended
        for name, fill in self.fills:
            self.extra[name][slot] = extra.get(name, fill)
        self.added[...] += 1

    def end_episode(self) -> None:
        """The newest transition was its episode's last, though the environment did not say so."""
        self.ends[self.newest] = True

    def set_newest(self, extra: Mapping[str, Shaped[np.ndarray, " rows"]]) -> None:
        """Values of extra columns for the newest transitions, oldest first, in place of those that they have."""
        for name, values in extra.items():
            held = min(len(values), len(self))
            self.extra[name][self.newest_slots(held)] = values[len(values) - held :]

    def newest_slots(self, count: int) -> Int[np.ndarray, " held"]:
        """The slots of the newest transitions, oldest first: so many, or all that are held."""
        return np.arange(int(self.added) - min(count, len(self)), int(self.added)) % self.capacity

    def rewards_of(self, slots: Int[np.ndarray, " batch"]) -> Float32[np.ndarray, " batch"]:
        """A new array of their rewards."""
        return self.rewards[slots]

    def sample(self, slots: Int[np.ndarray, " batch"], n_step: int, discount: float) -> Transitions:
        """The transitions that begin in these slots, as many steps long as there are, `n_step` at most.

        They stop where the episode does, and at the newest transition. Arrays are NumPy's, and new.
        """
        last, rewards, discounts = steps_ahead(self, slots, n_step, discount)
        return Transitions(
            states=self.states[slots],
            actions=self.actions[slots],
            rewards=rewards,
            next_states=self.next_states[last],
            discounts=discounts,
            extra={name: column[last if name in self.from_last_step else slots] for name, column in self.extra.items()},
        )

    def oldest_first(self, places: Int[np.ndarray, " batch"]) -> Int[np.ndarray, " batch"]:
        """The slots of transitions counted from the oldest on."""
        return (int(self.added) - len(self) + places) % self.capacity

    def last_actions(self, count: int) -> Shaped[np.ndarray, "count actions"]:
        """The newest actions, in the order they were taken."""
        if count > len(self):
            raise ValueError(f"{count} actions asked for, {len(self)} held")
        return self.actions[self.newest_slots(count)]


def steps_ahead(
    steps: Steps, slots: Int[np.ndarray, " batch"], n_step: int, discount: float
) -> tuple[Int[np.ndarray, " batch"], Float32[np.ndarray, " batch"], Float32[np.ndarray, " batch"]]:
    """The last of up to `n_step` transitions from each slot on, their discounted rewards, what a value then counts."""
    newest, capacity = steps.newest, len(steps.ends)
    last = slots
    rewards = steps.rewards_of(slots)
    discounts = np.full(len(slots), discount, np.float32)
    for _ in range(1, n_step):
        continues = ~steps.ends[last] & (last != newest)
        last = np.where(continues, (last + 1) % capacity, last)
        rewards += np.where(continues, discounts * steps.rewards_of(last), np.float32(0))
        discounts *= np.where(continues, np.float32(discount), np.float32(1))
    return last, rewards, discounts * ~steps.terminals[last]


def sample_both(
    first: Steps, second: Steps, slots: Int[np.ndarray, " batch"], n_step: int, discount: float
) -> Transitions:
    """The transitions that begin in these slots of two sources, counted through the first and then the second.

    They are put together before JAX sees them: each of the two has another number of rows every time, and JAX keeps a
    program for every shape it was ever given, a few hundred kilobytes at each update of a long run.
    """
    in_first = slots < len(first)
    ours = first.sample(slots[in_first], n_step, discount)
    theirs = second.sample(slots[~in_first] - len(first), n_step, discount)

    def joined(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        rows = np.empty((len(slots), *ours.shape[1:]), ours.dtype)
        rows[in_first], rows[~in_first] = ours, theirs
        return rows

    return jax.tree.map(joined, ours, theirs)
