"""Write a log as Parquet, npz or a Minari data set, without loss."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from actionless.data.log import Log, blocks
from actionless.data.minari import PREFIX, minari_root
from actionless.errors import ActionlessError, first_line, require_extra
from actionless.files import clear_leftovers, remove, unique_aside

MinariStorageName = Literal["hdf5", "arrow", "parquet"]

# Minari 0.5.4 returns only the first record batch of an episode stored as Arrow or Parquet.
_MINARI_BATCH_ROWS = 32_768


def convert(log: Log, out: str | Path, *, overwrite: bool = False, storage: MinariStorageName = "hdf5") -> Path | str:
    """Write a log to `FILE.parquet`, `FILE.npz` or `minari:ID`, block by block; return the path or id to read.

    Parquet has one row per state (an episode of n steps has n + 1 rows) and a TOML file beside it that names
    the columns. Minari must store actions: if the log has none, the data set is marked `action_free` and holds
    zeros of a `Discrete(1)` space. `storage` is Minari's file format; for it, each episode must fit in memory.
    If writing fails, the partial file is removed.
    """
    check_target(out, overwrite=overwrite, storage=storage)
    target = _target(out)
    try:
        if _is_minari(out):
            _write_minari(log, str(out).removeprefix(PREFIX), storage)
        elif target.suffix.lower() == ".npz":
            _write_npz(log, target)
        else:
            _write_parquet(log, target)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ActionlessError(
            f"{out}: cannot be written ({first_line(error)}); the partial file was removed"
        ) from error
    return str(out) if _is_minari(out) else target


def check_target(out: str | Path, *, overwrite: bool = False, storage: MinariStorageName = "hdf5") -> None:
    """Raise if a log cannot be written to `out`. Call it before a long read."""
    try:
        _check_place(out, overwrite, storage)
    except OSError as error:
        raise ActionlessError(f"{out}: cannot be written ({error.strerror}); choose another name") from error


def _check_place(out: str | Path, overwrite: bool, storage: MinariStorageName) -> None:
    if _is_minari(out):
        _check_minari_target(str(out), storage)
    elif Path(out).suffix.lower() not in (".parquet", ".npz"):
        raise ActionlessError(f"{out}: the output must be FILE.parquet, FILE.npz or minari:ID")
    elif not _target(out).parent.is_dir():
        raise ActionlessError(f"{out}: the folder {_target(out).parent} does not exist; create it first")
    if _target(out).is_dir() and not (_is_minari(out) and (_target(out) / "data" / "metadata.json").exists()):
        raise ActionlessError(f"{_target(out)}: is an existing folder, which is not overwritten; choose another name")
    taken = _is_taken(_target(out))
    if taken and not overwrite:
        raise ActionlessError(f"{_target(out)}: already exists; choose another name, or replace it with --overwrite")
    if not taken and (foreign := [path for path in _companions(_target(out)) if _is_taken(path)]):
        raise ActionlessError(
            f"{foreign[0]}: already exists and belongs to another table, because there is no {_target(out).name}; "
            "choose another name"
        )


def _is_taken(path: Path) -> bool:
    # `exists` is False for a broken symbolic link, but its target may appear later.
    return path.exists() or path.is_symlink()


def _is_minari(out: str | Path) -> bool:
    return str(out).startswith(PREFIX)


def _target(out: str | Path) -> Path:
    return minari_root() / str(out).removeprefix(PREFIX) if _is_minari(out) else Path(out)


def _companions(target: Path) -> list[Path]:
    return [target.with_suffix(".toml")] if target.suffix.lower() == ".parquet" else []


@contextlib.contextmanager
def _put_in_place(target: Path, folder: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path in `folder` or beside `target`; it replaces `target` once the new file is complete."""
    beside = (folder or target.parent) / target.name
    clear_leftovers(beside)
    aside, old = unique_aside(beside), unique_aside(beside, "old")
    try:
        yield aside
        if target.is_dir():
            target.rename(old)
        aside.replace(target)
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        remove(aside)
        remove(old)


def _write_npz(log: Log, target: Path) -> None:
    arrays = {
        "states": log.states,
        "next_states": log.next_states,
        "rewards": log.rewards,
        "terminals": log.terminals,
        "ends": log.ends,
        "state_names": np.array(log.state_names, np.str_),
    }
    if log.actions is not None:
        arrays["actions"] = log.actions
    with _put_in_place(target) as aside, aside.open("wb") as file:
        np.savez(file, **arrays)


def _write_parquet(log: Log, target: Path) -> None:
    from polars.io.plugins import register_io_source

    names = _ServiceNames(log)
    row_bytes = log.states.itemsize * log.state_dim
    settings = _companions(target)[0]
    with (
        _put_in_place(target) as aside,
        _put_in_place(settings) as settings_aside,
    ):
        # An IO source and a sink, because Polars has no writer that accepts one block after another.
        rows = register_io_source(
            lambda *_: (_frame(log, names, block) for block in blocks(len(log), row_bytes)),
            schema=_frame(log, names, slice(0, 1)).schema,
        )
        rows.sink_parquet(aside)
        settings_aside.write_text(_settings(log, names), encoding="utf-8")


class _ServiceNames:
    """Names of the columns that are not states, with a leading underscore where a state has the same name."""

    def __init__(self, log: Log) -> None:
        self._taken = set(log.state_names)
        self.episode = self._free("episode")
        self.time = self._free("time")
        self.reward = self._free("reward")
        self.terminal = self._free("terminal")
        width = 0 if log.actions is None else log.actions.shape[1]
        self.actions = [self._free(f"action_{i}") for i in range(width)]

    def _free(self, name: str) -> str:
        while name in self._taken:
            name = f"_{name}"
        self._taken.add(name)
        return name


def _settings(log: Log, names: _ServiceNames) -> str:
    """The TOML that names the columns for the table reader.

    JSON strings and lists are valid TOML, except for the character U+007F, which TOML wants escaped.
    """
    settings = {
        "state_columns": list(log.state_names),
        "reward_column": names.reward,
        "episode_column": names.episode,
        "time_column": names.time,
        "terminal_column": names.terminal,
        "reward_at": "leaving",
    }
    if names.actions:
        settings["action_columns"] = names.actions
    text = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in settings.items())
    return text.replace("\x7f", "\\u007f")


def _frame(log: Log, names: _ServiceNames, block: slice) -> pl.DataFrame:
    """Rows for a block of transitions: the state of each, and after the last of an episode its next state."""
    ends = log.ends[block]
    step_of_row = np.repeat(np.arange(len(ends)), 1 + ends)
    reached = np.zeros(len(step_of_row), bool)
    reached[np.flatnonzero(ends) + 1 + np.arange(ends.sum())] = True

    episodes = np.searchsorted(log.episode_stops, np.arange(block.start, block.stop), side="right")
    starts = (log.episode_stops - log.episode_lengths)[episodes]
    times = np.arange(block.start, block.stop) - starts
    states = log.states[block][step_of_row]
    states[reached] = log.next_states[block][ends]

    def leaving(name: str, values: np.ndarray) -> pl.Series:
        """A value per transition; empty in the row of an episode's final state."""
        return pl.Series(name, values[step_of_row]).set(pl.Series(reached), None)

    columns = [
        pl.Series(names.episode, episodes[step_of_row]),
        pl.Series(names.time, times[step_of_row] + reached),
        *(pl.Series(name, values) for name, values in zip(log.state_names, states.T, strict=True)),
        leaving(names.reward, log.rewards[block]),
        pl.Series(names.terminal, log.terminals[block][step_of_row] & reached),
    ]
    if log.actions is not None:
        columns += [leaving(name, log.actions[block, i]) for i, name in enumerate(names.actions)]
    # A dictionary: in a list, Polars would rename a column whose name is empty.
    return pl.DataFrame({column.name: column for column in columns})


def _check_minari_target(out: str, storage: MinariStorageName) -> None:
    purpose = "writing a Minari data set"
    require_extra("minari", "minari", purpose)
    require_extra("h5py" if storage == "hdf5" else "pyarrow", "minari", purpose)
    from minari.dataset.minari_dataset import parse_dataset_id

    try:
        parse_dataset_id(out.removeprefix(PREFIX))
    # For an id without a version, Minari raises a TypeError.
    except (ValueError, TypeError) as error:
        raise ActionlessError(
            f"{out}: not a valid Minari id; write minari:NAME-v0 or minari:GROUP/NAME-v0 "
            "with letters, digits, hyphens and underscores"
        ) from error


def _write_minari(log: Log, dataset_id: str, storage: MinariStorageName) -> None:
    import minari
    from gymnasium.spaces import Box, Discrete
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.dataset.minari_storage import MinariStorage
    from minari.namespace import create_namespace, list_local_namespaces

    longest = int(log.episode_lengths.max())
    if storage != "hdf5" and longest >= _MINARI_BATCH_ROWS:
        raise ActionlessError(
            f"{PREFIX}{dataset_id}: an episode has {longest:,} steps, but Minari reads only the first "
            f"{_MINARI_BATCH_ROWS - 1:,} steps of an episode stored as {storage}; use --storage hdf5"
        )

    def box(values: np.ndarray) -> Box:
        return Box(-np.inf, np.inf, values.shape[1:], values.dtype.type)

    target = minari_root() / dataset_id
    minari_root().mkdir(parents=True, exist_ok=True)
    # Not beside the target, whose group may not exist yet.
    with _put_in_place(target, minari_root()) as aside:
        aside.mkdir()
        data = MinariStorage.new(
            aside / "data",
            observation_space=box(log.states),
            action_space=Discrete(1) if log.actions is None else box(log.actions),
            data_format=storage,
        )
        data.update_metadata(
            {
                "dataset_id": dataset_id,
                "minari_version": minari.__version__,
                "action_free": log.actions is None,
                "state_names": list(log.state_names),
            }
        )
        # Minari measures the size of the whole folder after every episode, which takes far longer than writing it.
        measure, data.get_size = data.get_size, lambda: 0.0
        data.update_episodes(_minari_episodes(log))
        data.update_metadata({"dataset_size": measure()})
        namespace = parse_dataset_id(dataset_id)[0]
        if namespace is not None and namespace not in list_local_namespaces():
            create_namespace(namespace)


def _minari_episodes(log: Log) -> Iterator[Any]:
    from minari.data_collector.episode_buffer import EpisodeBuffer

    for rows in log.episodes():
        length = rows.stop - rows.start
        # Minari's annotations say lists, but it accepts arrays, which keep their precision.
        arrays: dict[str, Any] = {
            "observations": np.concatenate([log.states[rows], log.next_states[rows.stop - 1 : rows.stop]]),
            "actions": np.zeros(length, np.int64) if log.actions is None else log.actions[rows],
            "rewards": log.rewards[rows],
            "terminations": log.terminals[rows],
            "truncations": log.ends[rows] & ~log.terminals[rows],
        }
        yield EpisodeBuffer(**arrays)
