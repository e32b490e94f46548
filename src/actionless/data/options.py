"""Options for reading a log, the same in Python, on the command line and in the TOML file beside a table."""

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
    """What the file itself does not say. Tables need the columns; most other formats need nothing."""

    state_columns: tuple[str, ...] = ()
    """Table columns of the state, in this order; globs such as `sensor_*` are allowed."""
    reward_column: str | None = None
    """Table column that holds the reward."""
    episode_column: str | None = None
    """Table column that says which episode a row belongs to."""
    time_column: str | None = None
    """Table column that orders the rows of an episode: a number, a date or a time."""
    terminal_column: str | None = None
    """Table column that is true where the episode reached a terminal state (not where only the recording stopped)."""
    action_columns: tuple[str, ...] = ()
    """Table columns of the action; read only if actions are requested."""
    reward_at: Literal["leaving", "arriving"] | None = None
    """Whether a row's reward belongs to the step that leaves its state (default) or the step that arrives at it."""
    gaps: Literal["split", "keep"] | None = None
    """At a gap in otherwise regular time: start a new episode (`split`, the default) or treat it as one step."""
    sort: bool = False
    """Sort each episode by time instead of refusing rows that are out of order."""
    episode_length: int | None = None
    """Time limit of the environment, for old D4RL files that do not mark where it was reached."""
    with_actions: bool = False
    """Read the actions too. State policies are trained without them; `finetune` always reads them."""
    memory_limit_gb: float | None = None
    """Memory-map logs larger than this from a cache on disk; default: half of the free memory."""

    def __post_init__(self) -> None:
        """Check the values here too: Python does not check annotations as the command line does."""
        _require_choice("reward_at", self.reward_at, ("leaving", "arriving"))
        _require_choice("gaps", self.gaps, ("split", "keep"))
        if self.episode_length is not None and self.episode_length < 2:
            raise ActionlessError(f"episode_length={self.episode_length}: choose at least 2 steps")
        limit = self.memory_limit_gb
        if limit is not None and not (math.isfinite(limit) and limit >= 0):
            raise ActionlessError(f"memory_limit_gb={limit}: choose a finite number of at least 0")

    def given_for_tables(self) -> list[str]:
        """Names of the options that are set but apply to tables only."""
        return [name for name in TABLE_OPTIONS if getattr(self, name) not in (None, (), False)]


def _require_choice(name: str, value: str | None, choices: tuple[str, ...]) -> None:
    if value is not None and value not in choices:
        raise ActionlessError(f"{name}={value!r}: choose {' or '.join(map(repr, choices))}")
