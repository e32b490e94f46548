"""How to read a log: one set of options for Python, the command line and the TOML file beside a table."""

import dataclasses
import math
from typing import Literal

from actionless.errors import ActionlessError

TABLE_OPTIONS = (
    "state_columns",
    "reward_column",
    "episode_column",
    "time_column",
    "terminal_column",
    "action_columns",
    "reward_at",
    "gaps",
    "sort",
)


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """What a file does not say by itself. Most formats need none of it; tables need the columns."""

    state_columns: tuple[str, ...] = ()
    """Table columns that make up the state, in this order; globs such as `sensor_*` are allowed."""
    reward_column: str | None = None
    """Table column that holds the reward."""
    episode_column: str | None = None
    """Table column that says which episode a row belongs to."""
    time_column: str | None = None
    """Table column that orders the rows of an episode: a number, a date or a time."""
    terminal_column: str | None = None
    """Table column that is true where the task itself ended, as opposed to the recording."""
    action_columns: tuple[str, ...] = ()
    """Table columns that hold the action; read only where actions are asked for."""
    reward_at: Literal["leaving", "arriving"] | None = None
    """Whether a row's reward is for the step leaving its state (if not given) or for the one arriving at it."""
    gaps: Literal["split", "keep"] | None = None
    """Where regular time has a gap, begin a new episode (`split`, if not given) or take it as one step."""
    sort: bool = False
    """Sort each episode by time instead of refusing rows that are out of order."""
    episode_length: int | None = None
    """Time limit of the task, for old D4RL files that do not mark where it was reached."""
    with_actions: bool = False
    """Read the actions too. State policies are trained without; `finetune` reads them in any case."""
    memory_limit_gb: float | None = None
    """Above this size a log is memory-mapped from a cache on disk; half of the free memory if not given."""

    def __post_init__(self) -> None:
        """Python checks no annotation, so what the command line refuses is refused here too."""
        _require_choice("reward_at", self.reward_at, ("leaving", "arriving"))
        _require_choice("gaps", self.gaps, ("split", "keep"))
        if self.episode_length is not None and self.episode_length < 2:
            raise ActionlessError(f"episode_length={self.episode_length}: choose at least 2 steps")
        limit = self.memory_limit_gb
        if limit is not None and not (math.isfinite(limit) and limit >= 0):
            raise ActionlessError(f"memory_limit_gb={limit}: choose a finite number of at least 0")

    def given_for_tables(self) -> list[str]:
        """The options set here that only tables have a use for."""
        return [name for name in TABLE_OPTIONS if getattr(self, name) not in (None, (), False)]


def _require_choice(name: str, value: str | None, choices: tuple[str, ...]) -> None:
    if value is not None and value not in choices:
        raise ActionlessError(f"{name}={value!r}: choose {' or '.join(map(repr, choices))}")
