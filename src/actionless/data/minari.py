"""Reader of Minari data sets, by id or by folder, in any of Minari's file formats.

The files are read directly, without the `minari` package, for two reasons. Actions are not read (Minari's own
reader loads whole episodes with actions and infos), and episodes of any length are read whole (Minari 0.5.4
returns only the first 32,767 steps of an Arrow or Parquet episode).
"""

import abc
import contextlib
import dataclasses
import importlib.util
import json
import math
import operator
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import polars as pl
from jaxtyping import Float, Int, Shaped

from actionless.data.checks import NO_ACTIONS, FiniteCheck, as_flags, narrowed, require_transitions
from actionless.data.log import Log, Source, default_state_names, float_type
from actionless.data.options import ReadOptions
from actionless.data.store import LogArrays, Store
from actionless.errors import ActionlessError, first_line

PREFIX = "minari:"


def read_minari(data: str | Path, options: ReadOptions, store: Store) -> Log:
    """Read `minari:ID` from the local Minari folder, or a Minari data set by the path of its folder.

    Observations are flattened; Dict and Tuple spaces are concatenated. Terminations become terminals; truncations
    and the last step of each stored episode become episode ends. Actions are read only if `options` asks for them.
    """
    folder = minari_folder(data)
    about = _metadata(folder)
    wanted = _Wanted.of(folder, about, options.with_actions)
    names = _state_names(folder, about, wanted.states)
    with _open(folder, about["data_format"]) as storage:
        headers = [_header(folder, storage, episode, wanted) for episode in range(about["total_episodes"])]
        steps = np.array([header.steps for header in headers], int)
        require_transitions(str(folder), int(steps.sum()))
        arrays = store.allocate(
            int(steps.sum()),
            state_dim=len(names),
            action_dim=_width(wanted.actions) if wanted.actions else None,
            state_dtype=float_type(np.result_type(*(header.state_dtype for header in headers))),
            reward_dtype=float_type(np.result_type(*(header.reward_dtype for header in headers))),
        )
        _fill(folder, storage, wanted, names, steps, arrays)
    source = Source(_source_path(data), f"minari {about['data_format']}", tuple(leaf.key for leaf in wanted.all))
    return store.finish(arrays, names, source, _without_steps_warning(steps))


def minari_folder(data: str | Path) -> Path:
    """The folder with the files of a data set: `data/` in the folder that Minari names after the id."""
    if str(data).startswith(PREFIX):
        name = str(data).removeprefix(PREFIX)
        folder = minari_root() / name / "data"
        if not name or not (folder / "metadata.json").exists():
            install = "" if importlib.util.find_spec("minari") else "pip install 'actionless[minari]', then "
            raise ActionlessError(f"{data}: not found in {minari_root()}; get it with: {install}minari download {name}")
        return folder
    inner = Path(data) / "data"
    return inner if (inner / "metadata.json").exists() else Path(data)


def minari_files(data: str | Path) -> list[Path]:
    """All files of a data set, sorted; used to detect changes."""
    return sorted(file for file in minari_folder(data).rglob("*") if file.is_file())


def minari_root() -> Path:
    """Where Minari keeps its data sets."""
    return Path(os.environ.get("MINARI_DATASETS_PATH", Path.home() / ".minari" / "datasets"))


def _source_path(data: str | Path) -> str:
    folder = Path(data)
    return str(folder.parent if folder.name == "data" else folder) if not str(data).startswith(PREFIX) else str(data)


def _metadata(folder: Path) -> dict[str, Any]:
    file = folder / "metadata.json"
    try:
        about = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ActionlessError(f"{file}: cannot be read ({first_line(error)}); fetch the data set again") from error
    for key in ("total_episodes", "data_format", "observation_space", "action_space"):
        if not isinstance(about, dict) or key not in about:
            raise ActionlessError(
                f"{file}: no '{key}': the data set is damaged or older than Minari 0.5; fetch it again"
            )
    if not isinstance(about["total_episodes"], int):
        raise ActionlessError(
            f"{file}: 'total_episodes' is {about['total_episodes']!r}, not a whole number; fetch the data set again"
        )
    return about


@dataclasses.dataclass(frozen=True)
class _Leaf:
    """An array of an episode: its location in the file, and the shape of one step."""

    path: tuple[str | int, ...]
    shape: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        return "/".join(map(str, self.path))

    @property
    def width(self) -> int:
        return math.prod(self.shape)


_STEP_LEAVES = (_Leaf(("rewards",)), _Leaf(("terminations",)), _Leaf(("truncations",)))


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """The arrays to read from each episode."""

    states: tuple[_Leaf, ...]
    actions: tuple[_Leaf, ...]

    @staticmethod
    def of(folder: Path, about: dict[str, Any], with_actions: bool) -> "_Wanted":
        if with_actions and about.get("action_free"):
            raise ActionlessError(f"{folder}: the data set has no actions (its metadata says action_free){NO_ACTIONS}")
        states = _space(folder, about, "observation_space", "observations")
        actions = _space(folder, about, "action_space", "actions") if with_actions else ()
        return _Wanted(states, actions)

    @property
    def all(self) -> tuple[_Leaf, ...]:
        return (*self.states, *_STEP_LEAVES, *self.actions)


def _space(folder: Path, about: dict[str, Any], key: str, root: str) -> tuple[_Leaf, ...]:
    file = folder / "metadata.json"
    try:
        leaves = tuple(_leaves(folder, json.loads(about[key]), (root,)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ActionlessError(
            f"{file}: '{key}' is not a valid Minari space ({type(error).__name__}: {first_line(error)}); "
            "fetch the data set again"
        ) from error
    if _width(leaves) == 0:
        raise ActionlessError(f"{file}: '{key}' has no variables; there is nothing to learn from")
    return leaves


def _leaves(folder: Path, space: dict[str, Any], path: tuple[str | int, ...]) -> list[_Leaf]:
    kind = space["type"]
    if kind in ("Dict", "Tuple"):
        inner = space["subspaces"]
        items = inner.items() if kind == "Dict" else enumerate(inner)
        return [leaf for key, subspace in items for leaf in _leaves(folder, subspace, (*path, key))]
    if kind == "Box":
        if len(space["shape"]) > 1 and space["dtype"] == "uint8":
            raise ActionlessError(f"{folder}: '{_Leaf(path).key}' contains images, which are not supported")
        return [_Leaf(path, tuple(map(operator.index, space["shape"])))]
    if path[0] == "actions" and kind == "Discrete":
        return [_Leaf(path)]
    if path[0] == "actions" and kind == "MultiDiscrete":
        return [_Leaf(path, np.shape(space["nvec"]))]
    raise ActionlessError(
        f"{folder}: '{_Leaf(path).key}' is a {kind} space, which is not supported; "
        "states must be Box spaces, or Dict and Tuple spaces of Box spaces"
    )


def _width(leaves: Sequence[_Leaf]) -> int:
    return sum(leaf.width for leaf in leaves)


def _state_names(folder: Path, about: dict[str, Any], leaves: tuple[_Leaf, ...]) -> tuple[str, ...]:
    """The names stored by `actionless convert`; else the keys of a Dict with numbers; else the default names."""
    if "state_names" in about:
        names, width = about["state_names"], _width(leaves)
        texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not texts or not len(names) == len(set(names)) == width:
            raise ActionlessError(
                f"{folder / 'metadata.json'}: 'state_names' must be {width} different names, "
                "one for each state variable"
            )
        return tuple(names)
    if len(leaves) == 1 and len(leaves[0].path) == 1:
        return default_state_names(leaves[0].width)
    labels = [(leaf.key.removeprefix("observations/"), leaf.width) for leaf in leaves]
    return tuple(f"{label}_{i}" for label, width in labels for i in range(width))


class _Storage(abc.ABC):
    """One of Minari's file formats. In an episode of T steps, observations have T + 1 rows, other arrays T."""

    @abc.abstractmethod
    def header(self, episode: int, leaves: Sequence[_Leaf]) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Shape and type of each array, without reading it."""

    @abc.abstractmethod
    def read(self, episode: int, leaves: Sequence[_Leaf]) -> list[Shaped[np.ndarray, "rows width"]]:
        """Read the arrays, with each step flattened."""


class _Hdf5Storage(_Storage):
    def __init__(self, file: h5py.File) -> None:
        self.file = file

    def header(self, episode: int, leaves: Sequence[_Leaf]) -> list[tuple[tuple[int, ...], np.dtype]]:
        return [(array.shape, array.dtype) for array in self._arrays(episode, leaves)]

    def read(self, episode: int, leaves: Sequence[_Leaf]) -> list[Shaped[np.ndarray, "rows width"]]:
        return [array[()].reshape(len(array), -1) for array in self._arrays(episode, leaves)]

    def _arrays(self, episode: int, leaves: Sequence[_Leaf]) -> Iterator[Any]:
        for leaf in leaves:
            parts = [f"_index_{part}" if isinstance(part, int) else part for part in leaf.path]
            item = self.file["/".join([f"episode_{episode}", *parts])]
            if not isinstance(item, h5py.Dataset) or not item.shape:
                raise KeyError(f"{leaf.key} is not an array")
            yield item


class _ArrowStorage(_Storage):
    """One folder per episode. It has one row more than steps; there, only the observations are real values."""

    def __init__(self, folder: Path, form: str) -> None:
        self.folder = folder
        self.form = form

    def header(self, episode: int, leaves: Sequence[_Leaf]) -> list[tuple[tuple[int, ...], np.dtype]]:
        frame = self._scan(episode, leaves)
        rows = frame.select(pl.len()).collect().item()
        types = frame.collect_schema().dtypes()
        shapes = [dtype.shape if isinstance(dtype, pl.Array) else () for dtype in types]
        numpy_types = [pl.Series(dtype=getattr(dtype, "inner", dtype)).to_numpy().dtype for dtype in types]
        return [
            ((self._rows(rows, leaf), *shape), dtype)
            for leaf, shape, dtype in zip(leaves, shapes, numpy_types, strict=True)
        ]

    def read(self, episode: int, leaves: Sequence[_Leaf]) -> list[Shaped[np.ndarray, "rows width"]]:
        frame = self._scan(episode, leaves).collect()
        columns = [frame[leaf.key].head(self._rows(len(frame), leaf)) for leaf in leaves]
        return [column.to_numpy().reshape(len(column), -1) for column in columns]

    def _scan(self, episode: int, leaves: Sequence[_Leaf]) -> pl.LazyFrame:
        scan = pl.scan_parquet if self.form == "parquet" else pl.scan_ipc
        files = sorted((self.folder / str(episode)).glob(f"*.{self.form}"))
        if not files:
            raise FileNotFoundError(f"no .{self.form} file in the folder {episode}")
        # No globbing by Polars: brackets in a folder's name are part of its name.
        frame = scan(files, glob=False, hive_partitioning=False)
        return frame.select(self._column(leaf).alias(leaf.key) for leaf in leaves)

    @staticmethod
    def _column(leaf: _Leaf) -> pl.Expr:
        column = pl.col(str(leaf.path[0]))
        for part in leaf.path[1:]:
            column = column.struct.field(str(part))
        return column

    @staticmethod
    def _rows(rows: int, leaf: _Leaf) -> int:
        return rows if leaf.path[0] == "observations" else rows - 1


@contextlib.contextmanager
def _open(folder: Path, form: str) -> Iterator[_Storage]:
    if form == "hdf5":
        path = folder / "main_data.hdf5"
        try:
            file = h5py.File(path, "r")
        except OSError as error:
            raise ActionlessError(
                f"{path}: missing, damaged or truncated ({first_line(error)}); fetch the data set again"
            ) from error
        with file:
            yield _Hdf5Storage(file)
    elif form in ("arrow", "parquet"):
        yield _ArrowStorage(folder, form)
    else:
        raise ActionlessError(f"{folder}: unknown storage '{form}'; supported are hdf5, arrow and parquet")


@contextlib.contextmanager
def _episode_errors(folder: Path, episode: int) -> Iterator[None]:
    try:
        yield
    except (OSError, KeyError, pl.exceptions.PolarsError) as error:
        raise ActionlessError(
            f"{folder}: episode {episode} is missing, incomplete or damaged ({first_line(error)}); "
            "fetch the data set again"
        ) from error


@dataclasses.dataclass(frozen=True)
class _Header:
    steps: int
    state_dtype: np.dtype
    reward_dtype: np.dtype


def _header(folder: Path, storage: _Storage, episode: int, wanted: _Wanted) -> _Header:
    """Check that the arrays of an episode fit together."""
    with _episode_errors(folder, episode):
        found = dict(zip(wanted.all, storage.header(episode, wanted.all), strict=True))
    (steps, *_), reward_dtype = found[_STEP_LEAVES[0]]
    for leaf, (shape, dtype) in found.items():
        rows = steps + 1 if leaf in wanted.states else steps
        if dtype.kind not in "biuf":
            raise ActionlessError(f"{folder}: episode {episode}: '{leaf.key}' has type {dtype}, which is not numeric")
        if shape[0] != rows or math.prod(shape[1:]) != leaf.width:
            raise ActionlessError(
                f"{folder}: episode {episode}: '{leaf.key}' has shape {shape}, but with {steps} rewards "
                f"and the space in metadata.json it must be {(rows, *leaf.shape)}"
            )
    return _Header(steps, np.result_type(*(found[leaf][1] for leaf in wanted.states)), reward_dtype)


def _fill(
    folder: Path,
    storage: _Storage,
    wanted: _Wanted,
    names: tuple[str, ...],
    steps: Int[np.ndarray, "episodes"],
    arrays: LogArrays,
) -> None:
    state_check = FiniteCheck(str(folder), lambda row, column: f"'{names[column]}' of {_place(steps + 1, row)}")
    reward_check = FiniteCheck(str(folder), lambda row, _: f"the reward of {_place(steps, row)}")
    action_check = FiniteCheck(str(folder), lambda row, column: f"action value {column} of {_place(steps, row)}")
    start = 0
    for episode, length in enumerate(steps.tolist()):
        if length == 0:
            continue
        with _episode_errors(folder, episode):
            values = dict(zip(wanted.all, storage.read(episode, wanted.all), strict=True))
        rows = slice(start, start + length)
        states = _joined(values, wanted.states, arrays.states.dtype)
        rewards = narrowed(values[_STEP_LEAVES[0]][:, 0], arrays.rewards.dtype)
        terminations, truncations = (
            as_flags(
                values[leaf][:, 0],
                lambda step, key=leaf.key, episode=episode: f"{folder}: '{key}' of episode {episode}, step {step}",
            )
            for leaf in _STEP_LEAVES[1:]
        )
        state_check.block(start + episode, states)
        reward_check.block(start, rewards)
        arrays.states[rows] = states[:-1]
        arrays.next_states[rows] = states[1:]
        arrays.rewards[rows] = rewards
        arrays.terminals[rows] = terminations
        arrays.ends[rows] = terminations | truncations
        arrays.ends[rows.stop - 1] = True
        if arrays.actions is not None:
            actions = _joined(values, wanted.actions, arrays.actions.dtype)
            action_check.block(start, actions)
            arrays.actions[rows] = actions
        start += length
    for check in (state_check, reward_check, action_check):
        check.finish()


def _without_steps_warning(steps: Int[np.ndarray, "episodes"]) -> tuple[str, ...]:
    count = int((steps == 0).sum())
    what = "episode has" if count == 1 else "episodes have"
    return (f"{count:,} {what} no steps; left out",) if count else ()


def _joined(
    values: dict[_Leaf, np.ndarray], leaves: tuple[_Leaf, ...], dtype: np.dtype
) -> Float[np.ndarray, "rows dim"]:
    return np.concatenate([narrowed(values[leaf], dtype) for leaf in leaves], axis=1)


def _place(rows: Int[np.ndarray, "episodes"], row: int) -> str:
    stops = np.cumsum(rows)
    episode = int(np.searchsorted(stops, row, side="right"))
    return f"episode {episode}, step {row - int(stops[episode] - rows[episode])}"
