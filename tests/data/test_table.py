"""Tables: which rows form which transitions, computed by hand and on random episodes."""

import datetime as dt
import itertools
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actionless
from actionless.data.log import Log
from actionless.data.options import ReadOptions
from actionless.data.store import Store
from actionless.data.table.read import read_table

KINDS = ("parquet", "csv", "arrow")


def write(path: Path, columns, *, separator: str = ",") -> Path:
    frame = columns if isinstance(columns, pl.DataFrame) else pl.DataFrame(columns)
    if path.suffix == ".parquet":
        frame.write_parquet(path)
    elif path.suffix == ".arrow":
        frame.write_ipc(path)
    else:
        frame.write_csv(path, separator=separator)
    return path


def read(*files: Path, memory_limit: int = 2**40, **options) -> Log:
    kind = "csv" if files[0].suffix not in (".parquet", ".arrow") else files[0].suffix[1:]
    store = Store(files[0].parent / "cache" / "log", memory_limit)
    return read_table(list(files), kind, ReadOptions(**options), store)


BASIC = {"state_columns": ("x", "y"), "reward_column": "r"}
KEYED = {**BASIC, "episode_column": "e", "time_column": "t"}
TWO_EPISODES = {
    "e": ["a", "a", "a", "b", "b"],
    "t": [0, 1, 2, 0, 1],
    "x": [1.0, 2.0, 3.0, 10.0, 11.0],
    "y": [-1.0, -2.0, -3.0, -10.0, -11.0],
    "r": [0.1, 0.2, None, 0.4, None],
}


@pytest.mark.parametrize("kind", KINDS)
def test_two_episodes_by_hand(tmp_path, kind):
    path = write(tmp_path / f"log.{kind}", TWO_EPISODES)
    log = read(path, **KEYED)
    assert log.states.tolist() == [[1, -1], [2, -2], [10, -10]]
    assert log.next_states.tolist() == [[2, -2], [3, -3], [11, -11]]
    assert log.rewards.tolist() == [0.1, 0.2, 0.4]
    assert log.ends.tolist() == [False, True, True]
    assert log.terminals.tolist() == [False, False, False]
    assert log.state_names == ("x", "y")
    assert log.actions is None
    assert log.warnings == ()
    assert (log.source.path, log.source.format) == (str(path), kind)
    assert log.source.read == ("x", "y", "r", "e", "t")


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_several_episodes_interleaved(tmp_path, kind):
    shuffled = pl.DataFrame(TWO_EPISODES)[[3, 0, 1, 4, 2]]
    log = read(write(tmp_path / f"log.{kind}", shuffled), **KEYED)
    assert log.states.tolist() == [[10, -10], [1, -1], [2, -2]]
    assert log.next_states.tolist() == [[11, -11], [2, -2], [3, -3]]
    assert log.rewards.tolist() == [0.4, 0.1, 0.2]
    assert log.ends.tolist() == [True, False, True]


def test_an_episode_continues_in_the_next_file(tmp_path):
    whole = pl.DataFrame(TWO_EPISODES)
    first = write(tmp_path / "1.parquet", whole[[0, 3, 1]])
    second = write(tmp_path / "2.parquet", whole[[4, 2]])
    log = read(first, second, **KEYED)
    assert log.states.tolist() == [[1, -1], [2, -2], [10, -10]]
    assert log.next_states.tolist() == [[2, -2], [3, -3], [11, -11]]
    assert log.source.path == f"{first} and 1 more"
    assert log.name == "1"
    assert log.warnings == ()


def test_an_episode_that_continues_in_the_next_file_without_a_time(tmp_path):
    whole = pl.DataFrame(TWO_EPISODES)
    options = BASIC | {"episode_column": "e"}
    first, second = write(tmp_path / "1.parquet", whole[:3]), write(tmp_path / "2.parquet", whole[3:])
    assert read(first, second, **options).warnings == ()
    first, second = write(tmp_path / "1.parquet", whole[[0, 1]]), write(tmp_path / "2.parquet", whole[[2, 3, 4]])
    rest = (
        "from one file to another and no time column is given: the order of the files was used as the order of "
        "time; name one with --time-column"
    )
    assert read(first, second, **options).warnings == (f"1 episode continues {rest}",)
    first, second = write(tmp_path / "1.parquet", whole[[0, 3]]), write(tmp_path / "2.parquet", whole[[1, 2, 4]])
    log = read(first, second, **options)
    assert log.states[:, 0].tolist() == [1, 2, 10]
    assert log.warnings == (f"2 episodes continue {rest}",)


def test_without_an_episode_column_each_file_is_one(tmp_path):
    rows = {"x": [1.0, 2.0], "y": [0.0, 0.0], "r": [5.0, 6.0]}
    first, second = write(tmp_path / "1.parquet", rows), write(tmp_path / "2.parquet", rows)
    assert read(first, **BASIC).warnings == (
        "no episode column given: the file is treated as one episode; name one with --episode-column",
    )
    log = read(first, second, **BASIC)
    assert log.rewards.tolist() == [5.0, 5.0]
    assert log.ends.tolist() == [True, True]
    assert "each file is treated as one episode" in log.warnings[0]


def test_only_the_named_columns_are_read(tmp_path):
    path = write(tmp_path / "log.csv", TWO_EPISODES | {"secret": ["not", "a", "number", "at", "all"]})
    assert read(path, **KEYED).source.read == ("x", "y", "r", "e", "t")


def test_globs_take_what_has_no_other_role(tmp_path):
    path = write(tmp_path / "log.parquet", TWO_EPISODES | {"end": [False] * 5, "u1": [0.0] * 5})
    options = {
        "reward_column": "r",
        "episode_column": "e",
        "time_column": "t",
        "terminal_column": "end",
        "action_columns": ("u*",),
    }
    log = read(path, state_columns=("*",), **options)
    assert log.state_names == ("x", "y")
    assert log.source.read == ("x", "y", "r", "e", "t", "end")
    assert read(path, state_columns=("y", "*"), **options).state_names == ("y", "x")


def test_a_name_with_brackets_is_itself_first(tmp_path):
    path = write(tmp_path / "log.parquet", {"q[0]": [1.0, 2.0], "q0": [3.0, 4.0], "r": [0.0, 0.0]})
    assert read(path, state_columns=("q[0]",), reward_column="r").state_names == ("q[0]",)
    assert read(path, state_columns=("q[0-9]",), reward_column="r").state_names == ("q0",)


def test_a_file_name_with_brackets(tmp_path):
    path = write(tmp_path / "log[1].parquet", TWO_EPISODES)
    assert len(read(path, **KEYED)) == 3


def test_rewards_of_the_step_that_arrives(tmp_path):
    path = write(tmp_path / "log.parquet", TWO_EPISODES | {"r": [None, 0.1, 0.2, float("nan"), 0.4]})
    log = read(path, reward_at="arriving", **KEYED)
    assert log.rewards.tolist() == [0.1, 0.2, 0.4]
    assert log.states.tolist() == [[1, -1], [2, -2], [10, -10]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([False, False, True, False, False], [False, True, False]),  # with the state reached
        ([False, True, False, False, False], [False, True, False]),  # in the row of the step that leads there
        ([False, False, False, True, True], [False, False, True]),
        ([0, 0, 1, 0, None], [False, True, False]),
        ([0.0, 0.0, None, 0.0, 1.0], [False, False, True]),
    ],
)
def test_terminals(tmp_path, kind, flags, expected):
    path = write(tmp_path / f"log.{kind}", TWO_EPISODES | {"end": flags})
    log = read(path, terminal_column="end", **KEYED)
    assert log.terminals.tolist() == expected
    assert log.ends.tolist() == [False, True, True]


def test_single_rows_are_skipped_and_may_hold_anything(tmp_path):
    nan = float("nan")
    path = write(
        tmp_path / "log.parquet",
        {"e": [1, 2, 2, 3], "x": [nan, 1.0, 2.0, nan], "y": [0.0, 0.0, 0.0, 0.0], "r": [nan, 7.0, nan, nan]},
    )
    log = read(path, episode_column="e", **BASIC)
    assert log.states.tolist() == [[1, 0]]
    assert log.warnings == ("2 episodes have only one row, so no transition; left out",)


def test_an_action_like_state_is_named(tmp_path):
    path = write(tmp_path / "log.parquet", TWO_EPISODES | {"torque_1": [0.0] * 5})
    log = read(path, **(KEYED | {"state_columns": ("x", "torque_1")}))
    (warning,) = log.warnings
    assert warning.startswith("the state column 'torque_1' has a name that is typical of actions")


def test_actions_only_on_request(tmp_path):
    path = write(
        tmp_path / "log.parquet", TWO_EPISODES | {"u0": [1, 2, None, 4, None], "u1": [5.0, 6.0, 0.0, 8.0, 0.0]}
    )
    without = read(path, action_columns=("u*",), **KEYED)
    assert without.actions is None
    assert without.source.read == ("x", "y", "r", "e", "t")
    log = read(path, action_columns=("u*",), with_actions=True, **KEYED)
    assert log.actions is not None
    assert log.actions.dtype == np.float32
    assert log.actions.tolist() == [[1, 5], [2, 6], [4, 8]]
    assert log.source.read == ("x", "y", "r", "e", "t", "u0", "u1")


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((pl.Float32, pl.Float32), np.float32),
        ((pl.Float32, pl.Float64), np.float64),
        ((pl.Float32, pl.Int8), np.float64),
        ((pl.Float32, pl.Boolean), np.float32),
        ((pl.Int64, pl.UInt8), np.float64),
        ((pl.Decimal(10, 2), pl.Float32), np.float64),
    ],
)
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_types_of_states(tmp_path, kind, types, expected):
    frame = pl.DataFrame({"x": [0, 1, 1], "y": [1, 0, 1], "r": [1.0, 2.0, 3.0]})
    frame = frame.with_columns(pl.col("x").cast(types[0]), pl.col("y").cast(types[1]))
    log = read(write(tmp_path / f"log.{kind}", frame), **BASIC)
    assert log.states.dtype == log.next_states.dtype == expected
    assert log.states.tolist() == [[0, 1], [1, 0]]
    assert log.rewards.dtype == np.float64


def test_values_keep_their_precision(tmp_path):
    frame = pl.DataFrame(
        {
            "x": [2**53 - 1, 2**53 - 3],
            "y": [Decimal("0.10"), Decimal("12345678.25")],
            "r": pl.Series([0.1, 0.2], dtype=pl.Float32),
        }
    )
    log = read(write(tmp_path / "log.parquet", frame), **BASIC)
    assert log.states.tolist() == [[2.0**53 - 1, 0.1]]
    assert log.next_states.tolist() == [[2.0**53 - 3, 12345678.25]]
    assert log.rewards.dtype == np.float32
    assert log.rewards.tolist() == [float(np.float32(0.1))]


def test_files_of_different_float_types_share_the_wider(tmp_path):
    frame = pl.DataFrame(TWO_EPISODES)
    first = write(tmp_path / "1.parquet", frame[:3].cast({"x": pl.Float32, "y": pl.Float32}))
    second = write(tmp_path / "2.parquet", frame[3:])
    log = read(first, second, **KEYED)
    assert log.states.dtype == np.float64
    assert log.states.tolist() == [[1, -1], [2, -2], [10, -10]]


@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
def test_csv_separators(tmp_path, separator):
    path = write(tmp_path / "log.csv", TWO_EPISODES, separator=separator)
    assert read(path, **KEYED).states.tolist() == [[1, -1], [2, -2], [10, -10]]


def test_separators_within_quotes_do_not_count(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('"x, left";"x, right";r\n1;2;0\n3;4;0\n')
    log = read(path, state_columns=("x, left", "x, right"), reward_column="r")
    assert log.states.tolist() == [[1, 2]]


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_polars_takes_as_patterns(tmp_path, kind):
    path = write(tmp_path / f"log.{kind}", {"^(": [0, 0], "*": [1, 2], "^.*$": [3, 4], "r": [0, 0]})
    assert read(path, state_columns=("*", "^.*$"), reward_column="r").state_names == ("*", "^.*$")
    log = read(path, state_columns=("^.*$",), reward_column="r")
    assert log.states.tolist() == [[3]]


def test_csv_as_other_programs_write_it(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(
        b'\xef\xbb\xbf"","note","x","on","r"\r\n'  # a byte-order mark, an unnamed index, Windows line ends
        b'"1","a, quoted","1.5",TRUE,NA\r\n'
        b'"2","two\r\nlines",2,false,"0.5"\r\n'
        b'"3",,3e0,TRUE,0.25\r\n'
    )
    log = read(path, state_columns=("x", "on"), reward_column="r", reward_at="arriving")
    assert log.states.tolist() == [[1.5, 1], [2, 0]]
    assert log.next_states.tolist() == [[2, 0], [3, 1]]
    assert log.rewards.tolist() == [0.5, 0.25]


def test_csv_whole_numbers_may_turn_into_fractions_late(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("x,y,r\n" + "1,2,\n" * 2000 + "1.5,2.5,1\n0,0,0\n")
    options = BASIC | {"reward_at": "arriving"}
    with pytest.raises(Exception, match="line 3, column 'r' is nan, the first of 1,999 such values"):
        read(path, **options)
    path.write_text("x,y,r\n" + "1,2,0\n" * 2000 + "1.5,2.5,1\n0,0,0\n")
    assert read(path, **options).states[-1].tolist() == [1.5, 2.5]


def test_csv_times_may_turn_into_fractions_late(tmp_path):
    path = tmp_path / "log.csv"
    times = [*range(2000), 2000.5, 2001.5]
    path.write_text("t,x,y,r\n" + "".join(f"{time},{time},0,0\n" for time in times))
    log = read(path, time_column="t", **BASIC)
    assert log.states[:, 0].tolist() == times[:-1]
    assert log.ends.sum() == 1


def test_csv_times_of_whole_nanoseconds_are_exact(tmp_path):
    start = 1_700_000_000_000_000_000
    path = tmp_path / "log.csv"
    path.write_text("t,x,y,r\n" + "".join(f"{start + i},{i},0,0\n" for i in range(2000)))
    log = read(path, time_column="t", **BASIC)
    assert len(log) == 1999
    assert log.ends.sum() == 1


def test_csv_episode_keys_are_text(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("e,x,y,r\n07,1,0,0\n7,2,0,0\n07,3,0,0\n7,4,0,0\n")
    log = read(path, episode_column="e", **BASIC)
    assert log.states[:, 0].tolist() == [1, 2]
    assert log.next_states[:, 0].tolist() == [3, 4]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize(
    "keys",
    [
        pl.Series([5, 3, 5, 3], dtype=pl.UInt64),
        pl.Series(["p", "q", "p", "q"], dtype=pl.Categorical),
        pl.Series([1.5, 0.5, 1.5, 0.5]),
        pl.Series([True, False, True, False]),
        pl.Series([dt.date(2024, 1, 2), dt.date(2024, 1, 1)] * 2),
    ],
    ids=lambda keys: str(keys.dtype),
)
def test_any_plain_type_can_tell_episodes_apart(tmp_path, kind, keys):
    path = write(tmp_path / f"log.{kind}", {"e": keys, "x": [1.0, 2.0, 3.0, 4.0], "y": [0.0] * 4, "r": [0.0] * 4})
    log = read(path, episode_column="e", **BASIC)
    assert log.states[:, 0].tolist() == [1, 2]
    assert log.next_states[:, 0].tolist() == [3, 4]


START = dt.datetime(2024, 3, 1, 12)
CLOCKS = {
    "integer": ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20], "1"),
    "float": ([0.1 * k for k in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20)], "0.1"),
    "date": ([dt.date(2024, 3, 1) + dt.timedelta(days=k) for k in (*range(11), 20)], "1 day, 0:00:00"),
    "datetime": ([START + dt.timedelta(minutes=k) for k in (*range(11), 20)], "0:01:00"),
    "duration": ([dt.timedelta(seconds=k) for k in (*range(11), 20)], "0:00:01"),
}


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_gap_in_regular_time_begins_an_episode(tmp_path, kind, clock):
    if kind == "csv" and clock == "duration":
        pytest.skip("CSV has no durations")
    times, step = CLOCKS[clock]
    n = len(times)
    path = write(
        tmp_path / f"log.{kind}", {"t": times, "x": [float(i) for i in range(n)], "y": [0.0] * n, "r": [0.0] * n}
    )
    place = "line 13" if kind == "csv" else "row 11 (counting from 0)"
    found = f"time column 't': 1 gap longer than 1.5 steps of {step}, the first before {place} of {path}"

    log = read(path, time_column="t", **BASIC)
    assert log.states[:, 0].tolist() == list(range(10))
    assert log.ends.tolist() == [False] * 9 + [True]
    assert log.warnings[0] == "1 episode has only one row, so no transition; left out"
    assert log.warnings[2] == f"{found}: a new episode starts after each; with --gaps keep, each is treated as one step"

    kept = read(path, time_column="t", gaps="keep", **BASIC)
    assert kept.states[:, 0].tolist() == list(range(11))
    assert kept.ends.tolist() == [False] * 10 + [True]
    assert kept.warnings[1] == f"{found}: each is treated as one step"


@pytest.mark.parametrize(
    ("steps", "transitions", "warning"),
    [
        ([1.0] * 9 + [1.5], 10, None),
        ([1.0] * 9 + [1.6], 9, "1 gap longer than 1.5 steps of 1,"),
        ([1.0] * 18 + [1.6, 100.0], 18, "2 gaps longer than 1.5 steps of 1,"),
        ([1.0] * 10 + [1.009] * 9 + [3.0], 19, "1 gap longer than 1.5 steps of 1,"),
        ([1.0] * 10 + [1.02] * 9 + [3.0], 20, "irregular, only 50% of them within 1% of the median 1;"),
        ([1.0] * 8 + [3.0, 3.0], 10, "irregular, only 80% of them within 1% of the median 1;"),
    ],
)
def test_what_counts_as_a_gap(tmp_path, steps, transitions, warning):
    times = np.cumsum([0.0, *steps])
    zeros = np.zeros(len(times))
    log = read(
        write(tmp_path / "log.parquet", {"t": times, "x": zeros, "y": zeros, "r": zeros}), time_column="t", **BASIC
    )
    assert len(log) == transitions
    about_time = [text for text in log.warnings if text.startswith("time column 't'")]
    assert len(about_time) == (warning is not None)
    assert all(warning in text for text in about_time)


def test_gaps_are_judged_within_episodes(tmp_path):
    path = write(
        tmp_path / "log.parquet",
        {"e": [1, 1, 1, 2, 2, 2], "t": [0, 1, 2, 100, 101, 102], "x": [0.0] * 6, "y": [0.0] * 6, "r": [0.0] * 6},
    )
    log = read(path, **KEYED)
    assert log.warnings == ()
    assert len(log) == 4


def test_a_terminal_before_a_gap_is_at_an_end(tmp_path):
    times = [*range(12), 50, 51]
    n = len(times)
    path = write(
        tmp_path / "log.parquet",
        {"t": times, "x": [0.0] * n, "y": [0.0] * n, "r": [0.0] * n, "end": [i == 11 for i in range(n)]},
    )
    log = read(path, time_column="t", terminal_column="end", **BASIC)
    assert log.ends.tolist() == [False] * 10 + [True, True]
    assert log.terminals.tolist() == [False] * 10 + [True, False]


def test_sorting_by_time(tmp_path):
    frame = pl.DataFrame(TWO_EPISODES | {"end": [False, False, True, False, False]})
    path = write(tmp_path / "log.parquet", frame[[2, 4, 0, 3, 1]])
    log = read(path, sort=True, terminal_column="end", **KEYED)
    assert log.states.tolist() == [[1, -1], [2, -2], [10, -10]]
    assert log.next_states.tolist() == [[2, -2], [3, -3], [11, -11]]
    assert log.rewards.tolist() == [0.1, 0.2, 0.4]
    assert log.terminals.tolist() == [False, True, False]


def test_times_of_files_with_different_units_compare(tmp_path):
    def rows(times, unit):
        n = len(times)
        series = pl.Series(times).cast(pl.Datetime(unit, "UTC" if unit == "ns" else None))
        return {"e": ["a"] * n, "t": series, "x": [0.0] * n, "y": [0.0] * n, "r": [0.0] * n}

    seconds = [START + dt.timedelta(seconds=k) for k in range(6)]
    first = write(tmp_path / "1.parquet", rows(seconds[:3], "ms"))
    second = write(tmp_path / "2.parquet", rows(seconds[3:], "ns"))
    log = read(first, second, **KEYED)
    assert len(log) == 5
    assert log.warnings == ()


def test_csv_times_with_a_zone(tmp_path):
    path = tmp_path / "log.csv"
    # Half past two comes twice on this night; with the offset it is an hour later.
    path.write_text(
        "t,x,y,r\n2024-10-27T02:30:00+02:00,1,0,0\n2024-10-27T02:30:00+01:00,2,0,0\n2024-10-27T03:30:00+01:00,3,0,0\n"
    )
    log = read(path, time_column="t", **BASIC)
    assert log.states[:, 0].tolist() == [1, 2]
    assert not any("time column" in text for text in log.warnings)


def test_whole_number_keys_of_any_width_are_one_type(tmp_path):
    frame = pl.DataFrame(TWO_EPISODES).with_columns(e=pl.Series([1, 1, 1, 2, 2]))
    first = write(tmp_path / "1.parquet", frame[[0, 3]].cast({"e": pl.UInt8, "t": pl.Int8}))
    second = write(tmp_path / "2.parquet", frame[[1, 2, 4]])
    assert read(first, second, **KEYED).states[:, 0].tolist() == [1, 2, 10]


def test_a_file_without_rows_among_others(tmp_path):
    first = write(tmp_path / "1.csv", TWO_EPISODES)
    second = tmp_path / "2.csv"
    second.write_text("e,t,x,y,r\n")
    log = read(first, second, **KEYED)
    assert len(log) == 3
    assert log.warnings == (f"{second} has no rows and is left out",)


def test_settings_beside_the_data(tmp_path):
    path = write(tmp_path / "log.parquet", TWO_EPISODES | {"r2": [9.0, 8.0, 7.0, 6.0, 5.0]})
    (tmp_path / "actionless.toml").write_text('state_columns = "y"\nreward_column = "r2"\n')
    assert actionless.read(path).state_names == ("y",)
    (tmp_path / "log.toml").write_text(
        'state-columns = "x, y"\nreward-column = "r2"\nepisode_column = "e"\ntime_column = "t"\n'
        'reward_at = "arriving"\n'
    )
    log = actionless.read(path)
    assert log.state_names == ("x", "y")
    assert log.rewards.tolist() == [8.0, 7.0, 5.0]
    flags_win = actionless.read(path, state_columns=("y",), reward_at="leaving")
    assert flags_win.state_names == ("y",)
    assert flags_win.rewards.tolist() == [9.0, 8.0, 6.0]


def test_several_files_share_the_settings_of_their_folder(tmp_path):
    frame = pl.DataFrame(TWO_EPISODES)
    first, second = write(tmp_path / "1.parquet", frame[:3]), write(tmp_path / "2.parquet", frame[3:])
    (tmp_path / "1.toml").write_text('state_columns = ["x"]\nreward_column = "r"\n')
    (tmp_path / "actionless.toml").write_text('state_columns = ["y", "x"]\nreward_column = "r"\nsort = false\n')
    assert actionless.read([first, second]).state_names == ("y", "x")


def test_many_blocks_read_as_one(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    n = 1000
    frame = pl.DataFrame(
        {
            "e": rng.integers(5, size=n),
            "t": np.arange(n),
            "x": rng.normal(size=n),
            "y": rng.normal(size=n),
            "r": np.ones(n),
        }
    )
    whole = read(write(tmp_path / "whole.parquet", frame), **KEYED)
    frame.write_parquet(tmp_path / "log.parquet", row_group_size=100)
    files = (tmp_path / "log.parquet", write(tmp_path / "log.csv", frame), write(tmp_path / "log.arrow", frame))
    for rows in (64, 100, 1000):
        monkeypatch.setattr("actionless.data.table.files._SLICE_ROWS", rows)
        assert {read(file, **KEYED).fingerprint for file in files} == {whole.fingerprint}


FLOATS = st.floats(-1e9, 1e9, width=32)


@st.composite
def episodes(draw) -> list[dict[str, list]]:
    """Random episodes of two rows or more: states, a reward per step, and whether the last state is terminal."""
    made = []
    for _ in range(draw(st.integers(1, 5))):
        rows = draw(st.integers(2, 8))
        states = draw(st.lists(st.tuples(FLOATS, FLOATS), min_size=rows, max_size=rows))
        rewards = draw(st.lists(FLOATS, min_size=rows - 1, max_size=rows - 1))
        made.append({"states": states, "rewards": rewards, "terminal": draw(st.booleans())})
    return made


def expected_arrays(made: list[dict[str, list]]) -> dict[str, list]:
    return {
        "states": [list(state) for episode in made for state in episode["states"][:-1]],
        "next_states": [list(state) for episode in made for state in episode["states"][1:]],
        "rewards": [reward for episode in made for reward in episode["rewards"]],
        "ends": [last for episode in made for last in [False] * (len(episode["rewards"]) - 1) + [True]],
        "terminals": [
            flag for episode in made for flag in [False] * (len(episode["rewards"]) - 1) + [episode["terminal"]]
        ],
    }


def rows_of(made: list[dict[str, list]]) -> pl.DataFrame:
    rows = [
        (f"episode {number}", time, *state, reward, episode["terminal"] and time == len(episode["rewards"]))
        for number, episode in enumerate(made)
        for time, (state, reward) in enumerate(zip(episode["states"], [*episode["rewards"], None], strict=True))
    ]
    types = {"e": pl.String, "t": pl.Int64, "x": pl.Float64, "y": pl.Float64, "r": pl.Float64, "end": pl.Boolean}
    return pl.DataFrame(rows, schema=types, orient="row")


def interleaved(order: list[int], keys: list[str]) -> list[int]:
    """The rows in an order that mixes episodes but keeps each episode's own order."""
    rows = {key: iter([row for row, other in enumerate(keys) if other == key]) for key in set(keys)}
    return [next(rows[keys[row]]) for row in order]


@settings(deadline=None, max_examples=60)
@given(
    made=episodes(),
    kind=st.sampled_from(KINDS),
    pieces=st.integers(1, 3),
    shuffled=st.booleans(),
    timed=st.booleans(),
    data=st.data(),
)
def test_random_episodes_read_back_exactly(tmp_path_factory, made, kind, pieces, shuffled, timed, data):
    folder = tmp_path_factory.mktemp("table")
    frame = rows_of(made)
    order = data.draw(st.permutations(range(frame.height)))
    mixed = frame[order if shuffled else interleaved(order, frame["e"].to_list())]
    # Episodes come out in the order in which they first appear.
    numbers = [int(key.removeprefix("episode ")) for key in mixed["e"].unique(maintain_order=True)]
    expected = expected_arrays([made[number] for number in numbers])
    cuts = [round(frame.height * piece / pieces) for piece in range(pieces + 1)]
    files = [
        write(folder / f"{piece}.{kind}", mixed[start:stop])
        for piece, (start, stop) in enumerate(itertools.pairwise(cuts))
        if stop > start
    ]
    options = {**BASIC, "episode_column": "e", "terminal_column": "end", "sort": shuffled}
    if timed or shuffled:
        options["time_column"] = "t"
    log = read(*files, **options)
    mapped = read(*files, memory_limit=0, **options)
    assert mapped.memory_mapped
    assert not log.memory_mapped
    for name, values in expected.items():
        assert getattr(log, name).tolist() == values, name
        assert getattr(mapped, name).tolist() == values, name
    assert mapped.fingerprint == log.fingerprint
    in_files = [set(mixed["e"][start:stop]) for start, stop in itertools.pairwise(cuts)]
    carried = {key for one, other in itertools.combinations(in_files, 2) for key in one & other}
    assert log.warnings == mapped.warnings
    assert len(log.warnings) == bool(carried and "time_column" not in options)
    assert all(warning.startswith(f"{len(carried)} episode") for warning in log.warnings)
