"""What an agent has lived through: a ring of transitions, sampled as n-step ones."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Int64, Shaped

from actionless.data.log import Log, returns_to_go
from actionless.online.agent import Spec, Transitions

UNKNOWN = np.finfo(np.float32).min
"""Stands for a return that is not known yet: below any that is, and finite, since checkpoints hold it."""

_Columns = dict[str, np.ndarray | None]


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
    """Where the task ended: nothing is to be had after it."""
    ends: Bool[np.ndarray, " capacity"]
    """Where an episode ended, for whatever reason: what follows is another one."""
    added: Int64[np.ndarray, ""]
    returns: Float32[np.ndarray, " capacity"] | None = None
    """Discounted rewards from here to the episode's end; `UNKNOWN` until it has come. None where they are not kept."""
    guiding: Float32[np.ndarray, " capacity"] | None = None
    """What a guide that does not act paid for the step. None where there is none."""

    @classmethod
    def create(cls, capacity: int, spec: Spec, *, with_returns: bool = False, with_guiding: bool = False) -> "Replay":
        """An empty replay."""
        return cls(
            states=np.zeros((capacity, spec.state_dim), np.float32),
            actions=np.zeros((capacity, spec.action_dim), np.float32 if spec.bins is None else np.int32),
            rewards=np.zeros(capacity, np.float32),
            next_states=np.zeros((capacity, spec.state_dim), np.float32),
            terminals=np.zeros(capacity, bool),
            ends=np.zeros(capacity, bool),
            added=np.zeros((), np.int64),
            returns=np.full(capacity, UNKNOWN) if with_returns else None,
            guiding=np.zeros(capacity, np.float32) if with_guiding else None,
        )

    @classmethod
    def of_log(
        cls, log: Log, actions: Float32[np.ndarray, "transitions actions"], discount: float, reward_scale: float
    ) -> "Replay":
        """A log as if it had been lived through, all of it, with actions as agents give them."""
        rewards = log.rewards * reward_scale
        return cls(
            states=log.states.astype(np.float32),
            actions=actions,
            rewards=rewards.astype(np.float32),
            next_states=log.next_states.astype(np.float32),
            terminals=np.array(log.terminals),
            ends=np.array(log.ends),
            added=np.array(len(log)),
            returns=returns_to_go(rewards, log.ends, discount).astype(np.float32),
        )

    @property
    def capacity(self) -> int:
        """Transitions it can hold."""
        return len(self.rewards)

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
        guiding: float | None = None,
    ) -> None:
        """Put one transition in place of the oldest."""
        slot = int(self.added) % self.capacity
        self.states[slot] = state
        self.actions[slot] = action
        self.rewards[slot] = reward
        self.next_states[slot] = next_state
        self.terminals[slot] = terminated
        self.ends[slot] = ended
        if self.guiding is not None:
            self.guiding[slot] = guiding
        if self.returns is not None:
            self.returns[slot] = UNKNOWN
        self.added[...] += 1

    def keep_returns(self, length: int, discount: float) -> None:
        """An episode of so many steps has ended: what followed each of them is known."""
        assert self.returns is not None
        slots = np.arange(int(self.added) - length, int(self.added))[-self.capacity :] % self.capacity
        self.returns[slots] = returns_to_go(self.rewards[slots], np.zeros(len(slots), bool), discount)

    def end_episode(self) -> None:
        """The newest transition was its episode's last, though the task did not say so."""
        self.ends[(int(self.added) - 1) % self.capacity] = True

    def sample(self, slots: Int[np.ndarray, " batch"], n_step: int, discount: float) -> Transitions:
        """The transitions that begin in these slots, as many steps long as there are, `n_step` at most.

        They stop where the episode does, and at the newest transition: the slot after it holds the oldest.
        """
        return _on_device(self._columns(slots, n_step, discount))

    def _columns(self, slots: Int[np.ndarray, " batch"], n_step: int, discount: float) -> _Columns:
        """The same in NumPy, by the names that `Transitions` has."""
        newest = (int(self.added) - 1) % self.capacity
        last = slots
        rewards = self.rewards[slots]
        discounts = np.full(len(slots), discount, np.float32)
        for _ in range(1, n_step):
            goes_on = ~self.ends[last] & (last != newest)
            last = np.where(goes_on, (last + 1) % self.capacity, last)
            rewards += np.where(goes_on, discounts * self.rewards[last], np.float32(0))
            discounts *= np.where(goes_on, np.float32(discount), np.float32(1))
        return {
            "states": self.states[slots],
            "actions": self.actions[slots],
            "rewards": rewards,
            "next_states": self.next_states[last],
            "discounts": discounts * ~self.terminals[last],
            "returns": None if self.returns is None else self.returns[slots],
            "guiding": None if self.guiding is None else self.guiding[slots],
        }

    def oldest_first(self, places: Int[np.ndarray, " batch"]) -> Int[np.ndarray, " batch"]:
        """The slots of transitions counted from the oldest on."""
        return (int(self.added) - len(self) + places) % self.capacity

    def last_actions(self, count: int) -> Shaped[np.ndarray, "count actions"]:
        """The newest actions, in the order they were taken."""
        if count > len(self):
            raise ValueError(f"{count} actions asked for, {len(self)} held")
        slots = np.arange(int(self.added) - count, int(self.added)) % self.capacity
        return self.actions[slots]


def sample_both(
    first: Replay, second: Replay, slots: Int[np.ndarray, " batch"], n_step: int, discount: float
) -> Transitions:
    """The transitions that begin in these slots of two replays, counted through the first and then the second.

    They are put together before JAX sees them: each of the two has another number of rows every time, and JAX keeps a
    program for every shape it was ever given, a few hundred kilobytes at each update of a long run.
    """
    in_first = slots < len(first)
    ours = first._columns(slots[in_first], n_step, discount)
    theirs = second._columns(slots[~in_first] - len(first), n_step, discount)

    def joined(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        rows = np.empty((len(slots), *ours.shape[1:]), ours.dtype)
        rows[in_first], rows[~in_first] = ours, theirs
        return rows

    return _on_device(jax.tree.map(joined, ours, theirs))


def _on_device(columns: _Columns) -> Transitions:
    return Transitions(**jax.tree.map(jnp.asarray, columns))
