"""The role of each column of a table, from options or from a TOML file beside the data."""

import dataclasses
import difflib
import fnmatch
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from actionless.data.options import ReadOptions, table_options
from actionless.errors import ActionlessError, first_line
from actionless.settings import changed


@dataclasses.dataclass(frozen=True)
class TableColumns:
    """The columns to read. `actions` is empty unless actions were requested."""

    states: tuple[str, ...]
    reward: str
    episode: str | None
    time: str | None
    terminal: str | None
    actions: tuple[str, ...]

    @property
    def read(self) -> tuple[str, ...]:
        """All columns that are read."""
        keys = (self.episode, self.time, self.terminal)
        return (*self.states, self.reward, *(key for key in keys if key is not None), *self.actions)


def with_settings_file(files: Sequence[Path], options: ReadOptions) -> ReadOptions:
    """Take options that are not set from `log.toml` beside `log.parquet`, or else from `actionless.toml` there.

    Several files share the `actionless.toml` in the folder of the first one.
    """
    own, shared = files[0].with_suffix(".toml"), files[0].with_name("actionless.toml")
    path = next((path for path in ([own] if len(files) == 1 else []) + [shared] if path.is_file()), None)
    if path is None:
        return options
    return dataclasses.replace(options, **(_settings(path).given_for_tables() | options.given_for_tables()))


def _settings(path: Path) -> ReadOptions:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ActionlessError(f"{path}: cannot be read as TOML ({first_line(error)})") from error
    valid = table_options()
    settings: dict[str, Any] = {}
    for written, value in content.items():
        key = written.replace("-", "_")
        if key not in valid:
            raise ActionlessError(f"{path}: unknown key '{written}'; valid keys are {', '.join(valid)}")
        if key in settings:
            raise ActionlessError(
                f"{path}: the key '{key}' is given twice, with a hyphen and with an underscore; keep one"
            )
        settings[key] = value
    try:
        return changed(ReadOptions(), settings, str(path))
    except ActionlessError as error:
        raise ActionlessError(f"{path}: {error}") from error


def choose_columns(path: Path, found: Sequence[str], options: ReadOptions) -> TableColumns:
    """Expand the column names in the options, and check them against the columns of the file."""
    reward = options.reward_column
    if not options.state_columns or reward is None:
        raise ActionlessError(
            f"{path}: the roles of the columns are unknown: give them, for example --state-columns 'a,b,c' "
            f"--reward-column r --episode-column e --time-column t, or put them into {path.stem}.toml beside it; "
            f"columns found: {_listed(found)}"
        )
    if options.with_actions and not options.action_columns:
        raise ActionlessError(
            f"{path}: actions were requested, but no action column is named; add --action-columns 'a,b', "
            "or learn without them (`actionless pretrain`)"
        )
    if options.sort and options.time_column is None:
        raise ActionlessError(f"{path}: --sort needs a time column; add --time-column")
    keys = {
        role: column
        for role, column in (
            ("reward", reward),
            ("episode", options.episode_column),
            ("time", options.time_column),
            ("terminal", options.terminal_column),
        )
        if column is not None
    }
    for role, column in keys.items():
        _require(path, found, column, f"the {role}")
    # Actions are looked up even if they are not read: with a typo there, a glob could take them as states.
    actions = _expanded(path, found, options.action_columns, "action", taken=keys.values())
    states = _expanded(path, found, options.state_columns, "state", taken=(*keys.values(), *actions))
    _require_one_role(path, [("state", states), ("action", actions), *((role, [name]) for role, name in keys.items())])
    return TableColumns(
        states=states,
        reward=reward,
        episode=options.episode_column,
        time=options.time_column,
        terminal=options.terminal_column,
        actions=actions if options.with_actions else (),
    )


def require_columns(path: Path, found: Sequence[str], names: Sequence[str]) -> None:
    """Refuse a file that lacks one of these columns."""
    for name in names:
        _require(path, found, name, "a column to read")


def _expanded(
    path: Path, found: Sequence[str], patterns: Sequence[str], role: str, taken: Iterable[str]
) -> tuple[str, ...]:
    """Columns in the order of the patterns; a glob skips columns that already have a role."""
    taken = set(taken)
    chosen: list[str] = []
    for pattern in patterns:
        # A column named `joint[0]` is matched by its exact name, not as a glob.
        if pattern in found or not any(sign in pattern for sign in "*?["):
            _require(path, found, pattern, f"{role} column")
            if pattern in chosen and patterns.count(pattern) > 1:
                raise ActionlessError(f"{path}: the {role} column '{pattern}' is given twice; name it once")
            matches = [pattern]
        else:
            matches = [name for name in found if fnmatch.fnmatchcase(name, pattern) and name not in taken]
            if not matches:
                raise ActionlessError(
                    f"{path}: no column for the {role} matches '{pattern}'; columns found: {_listed(found)}"
                )
        chosen += [name for name in matches if name not in chosen]
    return tuple(chosen)


def _require(path: Path, found: Sequence[str], column: str, role: str) -> None:
    if column not in found:
        raise ActionlessError(f"{path}: no column '{column}' (named as {role}); {_hint(found, column)}")


def _hint(found: Sequence[str], column: str) -> str:
    lowered = {name.lower(): name for name in found}
    close = [lowered[name] for name in difflib.get_close_matches(column.lower(), lowered)]
    spaced = [name for name in found if name.strip() == column]
    meant = " or ".join(f"'{name}'" for name in spaced or close)
    if spaced:
        return (
            f"did you mean {meant}? Spaces are part of the name, but --state-columns and --action-columns drop them: "
            "list such names in a TOML file beside the data"
        )
    return f"did you mean {meant}?" if close else f"columns found: {_listed(found)}"


def _require_one_role(path: Path, roles: Sequence[tuple[str, Sequence[str]]]) -> None:
    first: dict[str, str] = {}
    for role, names in roles:
        for name in names:
            if name in first:
                raise ActionlessError(
                    f"{path}: the column '{name}' is given as {first[name]} and as {role}; give it one role only"
                )
            first[name] = role


def _listed(names: Sequence[str], most: int = 40) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
