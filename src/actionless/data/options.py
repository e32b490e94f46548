"""Options for reading a log, the same in Python, on the command line and in the TOML file beside a table."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from actionless.declared import DeclaredSetting, declared_settings
from actionless.settings import Bounds, NonNegative, Settings, marked

Value = TypeVar("Value")


class _ForTables:
    """Marks an option that applies to tables only; the TOML file beside a table may hold it."""


ForTables = Annotated[Value, _ForTables()]


@dataclass(frozen=True)
class ReadOptions(Settings):
    """What the file itself does not say. Tables need the columns; most other formats need nothing."""

    state_columns: ForTables[tuple[str, ...]] = ()
    """Table columns of the state, in this order; globs such as `sensor_*` are allowed."""
    reward_column: ForTables[str | None] = None
    """Table column that holds the reward."""
    episode_column: ForTables[str | None] = None
    """Table column that says which episode a row belongs to."""
    time_column: ForTables[str | None] = None
    """Table column that orders the rows of an episode: a number, a date or a time."""
    terminal_column: ForTables[str | None] = None
    """Table column that is true where the episode reached a terminal state (not where only the recording stopped)."""
    action_columns: ForTables[tuple[str, ...]] = ()
    """Table columns of the action; read only if actions are requested."""
    reward_at: ForTables[Literal["leaving", "arriving"] | None] = None
    """Whether a row's reward belongs to the step that leaves its state (default) or the step that arrives at it."""
    gaps: ForTables[Literal["split", "keep"] | None] = None
    """At a gap in otherwise regular time: start a new episode (`split`, the default) or treat it as one step."""
    sort: ForTables[bool] = False
    """Sort each episode by time instead of refusing rows that are out of order."""
    episode_length: Annotated[int, Bounds(low=2)] | None = None
    """Time limit of the environment, for old D4RL files that do not mark where it was reached."""
    with_actions: bool = False
    """Read the actions too. State policies are trained without them; `finetune` always reads them."""
    memory_limit_gb: NonNegative | None = None
    """Memory-map logs larger than this from a cache on disk; default: half of the free memory."""

    def given_for_tables(self) -> dict[str, Any]:
        """The options that are set and apply to tables only."""
        given = {name: getattr(self, name) for name in table_options()}
        return {name: value for name, value in given.items() if value not in (None, (), False)}


def table_options() -> tuple[str, ...]:
    """Names of the options that apply to tables only."""
    return marked(ReadOptions, _ForTables)


def read_options() -> tuple[DeclaredSetting, ...]:
    """Every option, for the flags of the verbs that read a log and for the signature of `read`."""
    return declared_settings(ReadOptions(), {})
