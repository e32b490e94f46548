"""Bad tables: each gives one line that names the file, the location and what to do."""

from pathlib import Path

import polars as pl
import pytest

import actionless
from actionless import ActionlessError

NAN = float("nan")
BASIC = {"state_columns": ("x", "y"), "reward_column": "r"}
KEYED = {**BASIC, "episode_column": "e", "time_column": "t"}
ROWS = {
    "e": ["a", "a", "a", "b", "b"],
    "t": [0, 1, 2, 0, 1],
    "x": [1.0, 2.0, 3.0, 10.0, 11.0],
    "y": [0.0, 0.0, 0.0, 0.0, 0.0],
    "r": [0.1, 0.2, 0.3, 0.4, 0.5],
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ACTIONLESS_CACHE", str(tmp_path / "cache"))


def table(path: Path, **changed) -> Path:
    frame = pl.DataFrame(ROWS | changed)
    writers = {".parquet": frame.write_parquet, ".arrow": frame.write_ipc, ".csv": frame.write_csv}
    writers[path.suffix](path)
    return path


def text(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def error(*files: Path, **options) -> str:
    """The message about the first file, without that file's path; nothing may be left in the cache."""
    with pytest.raises(ActionlessError) as caught:
        actionless.read(files, memory_limit_gb=0.0, **options)
    assert not list(files[0].parent.glob("cache/logs/*"))
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{files[0]}: ")


class TestColumns:
    def test_none_named(self, tmp_path):
        path = table(tmp_path / "log.parquet")
        expected = (
            "the roles of the columns are unknown: give them, for example --state-columns 'a,b,c' --reward-column r "
            "--episode-column e --time-column t, or put them into log.toml beside it; columns found: e, t, x, y, r"
        )
        assert error(path) == expected
        assert error(path, state_columns=("x",)) == expected
        assert error(path, reward_column="r") == expected

    def test_missing(self, tmp_path):
        path = table(tmp_path / "log.parquet", temperature=[1.0] * 5)
        with_typo = {"state_columns": ("Temprature",), "reward_column": "r"}
        assert error(path, **with_typo) == (
            "no column 'Temprature' (named as state column); did you mean 'temperature'?"
        )
        assert error(path, state_columns=("x",), reward_column="profit_and_loss") == (
            "no column 'profit_and_loss' (named as the reward); columns found: e, t, x, y, r, temperature"
        )
        assert error(path, **BASIC, action_columns=("tempereture",)) == (
            "no column 'tempereture' (named as action column); did you mean 'temperature'?"
        )

    def test_spaces_at_the_ends_of_a_name(self, tmp_path):
        path = text(tmp_path / "log.csv", " x,y,r\n1,2,0\n3,4,0\n")
        assert error(path, **BASIC) == (
            "no column 'x' (named as state column); did you mean ' x'? Spaces are part of the name, but "
            "--state-columns and --action-columns drop them: list such names in a TOML file beside the data"
        )
        (tmp_path / "log.toml").write_text('state_columns = [" x", "y"]\nreward_column = "r"\n')
        assert actionless.read(path).state_names == (" x", "y")
        assert actionless.read(path, state_columns=[" x"]).state_names == (" x",)
        # The reverse: here the spaces are the typo.
        assert error(path, state_columns=("y ",)) == "no column 'y ' (named as state column); did you mean 'y'?"

    def test_missing_in_a_further_file(self, tmp_path):
        first = table(tmp_path / "1.parquet")
        second = tmp_path / "2.parquet"
        pl.DataFrame(ROWS).drop("y").write_parquet(second)
        assert error(first, second, **BASIC).startswith(f"{second}: no column 'y' (named as a column to read)")

    def test_many_columns_are_not_all_listed(self, tmp_path):
        path = tmp_path / "log.parquet"
        pl.DataFrame({f"c{i}": [0.0] for i in range(50)}).write_parquet(path)
        assert error(path).endswith("c38, c39 and 10 more")

    def test_a_glob_without_a_match(self, tmp_path):
        path = table(tmp_path / "log.parquet")
        assert error(path, state_columns=("sensor_*",), reward_column="r") == (
            "no column for the state matches 'sensor_*'; columns found: e, t, x, y, r"
        )
        # A column with another role does not match.
        assert "matches 'r*'" in error(path, state_columns=("r*",), reward_column="r")

    @pytest.mark.parametrize("role", ["reward", "episode", "time", "terminal"])
    def test_two_roles(self, tmp_path, role):
        path = table(tmp_path / "log.parquet")
        options = BASIC | {f"{role}_column": "x"}
        assert error(path, **options) == f"the column 'x' is given as state and as {role}; give it one role only"

    def test_state_and_action(self, tmp_path):
        path = table(tmp_path / "log.parquet")
        assert "given as state and as action" in error(path, **BASIC, action_columns=("y",))

    def test_given_twice(self, tmp_path):
        path = table(tmp_path / "log.parquet")
        assert error(path, state_columns=("x", "y", "x"), reward_column="r") == (
            "the state column 'x' is given twice; name it once"
        )

    def test_actions_without_columns(self, tmp_path):
        path = table(tmp_path / "log.parquet")
        assert error(path, **BASIC, with_actions=True) == (
            "actions were requested, but no action column is named; add --action-columns 'a,b', "
            "or learn without them (`actionless pretrain`)"
        )

    def test_sort_without_time(self, tmp_path):
        path = table(tmp_path / "log.parquet")
        assert error(path, **BASIC, sort=True) == "--sort needs a time column; add --time-column"


class TestSettings:
    KEYS = (
        "valid keys are state_columns, reward_column, episode_column, time_column, terminal_column, action_columns, "
        "reward_at, gaps, sort"
    )

    def message(self, tmp_path: Path, content: str) -> str:
        path = table(tmp_path / "log.parquet")
        settings = text(tmp_path / "log.toml", content)
        return error(path).removeprefix(f"{settings}: ")

    def test_unknown_key(self, tmp_path):
        assert self.message(tmp_path, 'rewards = "r"') == f"unknown key 'rewards'; {self.KEYS}"
        assert self.message(tmp_path, "with_actions = true") == f"unknown key 'with_actions'; {self.KEYS}"

    @pytest.mark.parametrize(
        ("line", "wanted"),
        [
            ("reward_column = 3", "reward_column=3: choose a text"),
            ('state-columns = ["x", 2]', "state_columns, number 2=2: choose a text"),
            ("state_columns = {}", "state_columns={}: choose a list of values"),
            ('sort = "yes"', "sort='yes': choose true or false"),
            ('reward-at = "left"', "reward_at='left': choose 'leaving', 'arriving'"),
            ("gaps = true", "gaps=True: choose 'split', 'keep'"),
        ],
    )
    def test_wrong_type(self, tmp_path, line, wanted):
        assert self.message(tmp_path, line) == wanted

    def test_given_twice(self, tmp_path):
        assert self.message(tmp_path, 'time-column = "t"\ntime_column = "t"') == (
            "the key 'time_column' is given twice, with a hyphen and with an underscore; keep one"
        )

    def test_not_toml(self, tmp_path):
        assert self.message(tmp_path, "state columns: x").startswith("cannot be read as TOML (")


class TestDamage:
    @pytest.mark.parametrize(("kind", "title"), [("parquet", "Parquet"), ("arrow", "Arrow IPC")])
    def test_truncated(self, tmp_path, kind, title):
        path = table(tmp_path / f"log.{kind}")
        whole = path.read_bytes()
        for size in (8, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:size])
            assert error(path, **BASIC) == (
                f"truncated: it starts as {title}, but its end is missing; copy or write it again"
            )

    @pytest.mark.parametrize(("kind", "title"), [("parquet", "Parquet"), ("arrow", "Arrow IPC")])
    def test_damaged_footer(self, tmp_path, kind, title):
        path = table(tmp_path / f"log.{kind}")
        content = bytearray(path.read_bytes())
        content[-40:-20] = b"\xff" * 20
        path.write_bytes(content)
        message = error(path, **BASIC)
        assert message.startswith(f"damaged: cannot be read as {title} (")
        assert message.endswith("; write it again")

    def test_damaged_pages(self, tmp_path):
        path = tmp_path / "log.parquet"
        frame = pl.DataFrame({"x": range(10_000), "y": range(10_000), "r": range(10_000)})
        frame.write_parquet(path, compression="snappy")
        content = bytearray(path.read_bytes())
        content[1000:1016] = b"\xff" * 16
        path.write_bytes(content)
        assert error(path, **BASIC).startswith("damaged: cannot be read as Parquet (")

    def test_header_only(self, tmp_path):
        path = text(tmp_path / "log.csv", "x,y,r\n")
        assert error(path, **BASIC) == "no rows below the column names"

    @pytest.mark.parametrize("content", ["\n\n\n", "  \n\t\n", "\ufeff", "\ufeff\n", ",,\n1,2,3\n"])
    def test_no_header(self, tmp_path, content):
        path = text(tmp_path / "log.csv", content)
        assert error(path, **BASIC) == "no column names; add a first line with the names of the columns"

    @pytest.mark.parametrize("kind", ["parquet", "arrow"])
    def test_no_rows(self, tmp_path, kind):
        path = tmp_path / f"log.{kind}"
        frame = pl.DataFrame(ROWS)[:0]
        frame.write_parquet(path) if kind == "parquet" else frame.write_ipc(path)
        assert error(path, **BASIC) == "no rows below the column names"

    def test_changed_while_it_was_read(self, tmp_path, monkeypatch):
        path = table(tmp_path / "log.parquet")
        from actionless.data.table import read as module

        for size in (4, 6):
            changed = pl.concat([pl.DataFrame(ROWS)] * 2)[:size]

            def order_then_change(keys, columns, options, changed=changed, order=module.order_rows):
                rows = order(keys, columns, options)
                changed.write_parquet(path)
                return rows

            table(path)
            with monkeypatch.context() as patch:
                patch.setattr(module, "order_rows", order_then_change)
                assert error(path, **BASIC) == "the table changed while it was read; read it again"


class TestValues:
    @pytest.mark.parametrize(
        ("kind", "place"),
        [("parquet", "row 2 (counting from 0)"), ("arrow", "row 2 (counting from 0)"), ("csv", "line 4")],
    )
    @pytest.mark.parametrize(("value", "said"), [(NAN, "nan"), (None, "nan"), (float("inf"), "inf")])
    def test_not_finite(self, tmp_path, kind, place, value, said):
        path = table(tmp_path / f"log.{kind}", y=[0.0, 1.0, value, 3.0, value])
        assert error(path, **BASIC) == (
            f"{place}, column 'y' is {said}, the first of 2 such values; fill in or drop these rows before reading"
        )

    def test_missing_whole_number(self, tmp_path):
        path = table(tmp_path / "log.parquet", y=[0, None, 2, 3, 4])
        assert error(path, **BASIC).startswith("row 1 (counting from 0), column 'y' is nan; fill in")

    def test_the_right_file_is_named(self, tmp_path):
        files = [table(tmp_path / f"{i}.csv") for i in range(3)]
        table(files[1], x=[0.0, 0.0, 0.0, NAN, 0.0])
        table(files[2], x=[NAN, 0.0, 0.0, 0.0, 0.0])
        assert error(*files, **BASIC).startswith(f"{files[1]}: line 5, column 'x' is nan, the first of 2 such values")

    def test_a_needed_reward(self, tmp_path):
        path = table(tmp_path / "log.parquet", r=[0.1, None, None, 0.4, None])
        assert error(path, **KEYED).startswith("row 1 (counting from 0), column 'r' is nan; fill in")
        path = table(tmp_path / "log.parquet", r=[None, None, 0.3, None, 0.5])
        assert error(path, reward_at="arriving", **KEYED).startswith(
            "row 1 (counting from 0), column 'r' is nan; fill in"
        )

    def test_a_needed_action(self, tmp_path):
        path = table(tmp_path / "log.parquet", u=[0.1, 0.2, None, None, None])
        assert error(path, **KEYED, action_columns=("u",), with_actions=True).startswith(
            "row 3 (counting from 0), column 'u' is nan; fill in"
        )

    @pytest.mark.parametrize(("kind", "place"), [("parquet", "row 1 (counting from 0)"), ("csv", "line 3")])
    def test_an_action_beyond_float32(self, tmp_path, kind, place):
        path = table(tmp_path / f"log.{kind}", u=[0.1, -1e300, 0.3, 0.4, 0.5])
        assert error(path, **KEYED, action_columns=("u",), with_actions=True).startswith(f"{place}, column 'u' is -inf")

    @pytest.mark.parametrize(
        ("column", "values", "dtype"),
        [
            ("x", ["p"] * 5, "String"),
            ("y", pl.Series(["p"] * 5, dtype=pl.Categorical), "Categorical"),
            ("r", [[1.0]] * 5, "List(Float64)"),
            ("u", ["p"] * 5, "String"),
        ],
    )
    @pytest.mark.parametrize("kind", ["parquet", "arrow"])
    def test_no_number(self, tmp_path, kind, column, values, dtype):
        path = table(tmp_path / f"log.{kind}", **{column: values})
        options = BASIC | ({"action_columns": ("u",), "with_actions": True} if column == "u" else {})
        assert error(path, **options) == (
            f"the column '{column}' is {dtype}, which is not numeric; convert it or leave it out"
        )

    def test_every_episode_too_short(self, tmp_path):
        path = table(tmp_path / "log.parquet", e=[1, 2, 3, 4, 5])
        assert error(path, **BASIC, episode_column="e").startswith("no complete transition")


class TestAlignment:
    def rewards(self, tmp_path: Path, values) -> Path:
        return table(tmp_path / "log.parquet", r=values)

    def test_first_rows_empty(self, tmp_path):
        path = self.rewards(tmp_path, [None, 0.2, 0.3, None, 0.5])
        assert error(path, **KEYED) == (
            "the reward column 'r' is empty in the first row of 2 of 2 episodes, so a row's reward seems to be for the "
            "step arriving at its state; read with --reward-at arriving"
        )

    def test_last_rows_empty(self, tmp_path):
        path = self.rewards(tmp_path, [0.1, 0.2, None, 0.4, NAN])
        assert error(path, reward_at="arriving", **KEYED) == (
            "the reward column 'r' is empty in the last row of 2 of 2 episodes, so a row's reward seems to be for the "
            "step leaving its state; read with --reward-at leaving"
        )

    def test_one_of_two_is_no_sign(self, tmp_path):
        path = self.rewards(tmp_path, [None, 0.2, 0.3, 0.4, 0.5])
        assert error(path, **KEYED).startswith("row 0 (counting from 0), column 'r' is nan")

    def test_both_ends_empty_is_no_sign(self, tmp_path):
        path = self.rewards(tmp_path, [None, 0.2, None, None, None])
        assert error(path, **KEYED).startswith("row 0 (counting from 0), column 'r' is nan, the first of 2")


class TestOrder:
    @pytest.mark.parametrize(("kind", "place"), [("parquet", "row 2 (counting from 0)"), ("csv", "line 4")])
    def test_unsorted(self, tmp_path, kind, place):
        path = table(tmp_path / f"log.{kind}", t=[1, 2, 0, 0, 1])
        assert error(path, **KEYED) == (
            f"{place} is earlier than the row before it in its episode (time column 't'); "
            "sort the rows by time, or read them with --sort"
        )

    def test_unsorted_for_want_of_an_episode_column(self, tmp_path):
        path = table(tmp_path / "log.parquet", t=[3, 2, 1, 0, 1])
        assert error(path, **BASIC, time_column="t") == (
            "row 1 (counting from 0) is earlier than the row before it in its episode (time column 't'), the first of "
            "3 such rows; sort the rows by time, or read them with --sort, or name the column that identifies "
            "episodes with --episode-column"
        )

    def test_doubled(self, tmp_path):
        path = table(tmp_path / "log.parquet", t=[0, 1, 1, 0, 1])
        expected = (
            "row 2 (counting from 0) has the same time as the row before it in its episode (time column 't'); "
            "keep one row of each time"
        )
        assert error(path, **KEYED) == expected
        assert error(path, sort=True, **KEYED) == expected
        # Duplicate only after sorting: the later of the two rows is named.
        path = table(tmp_path / "log.parquet", t=[1, 0, 1, 0, 1])
        assert error(path, sort=True, **KEYED) == expected

    def test_the_file_and_its_own_row_are_named(self, tmp_path):
        first = table(tmp_path / "1.parquet")
        second = table(tmp_path / "2.parquet", t=[3, 4, 5, 0, 7])
        assert error(first, second, **KEYED).startswith(
            f"{second}: row 3 (counting from 0) is earlier than the row before it in its episode"
        )

    def test_interleaved_rows_are_named_as_in_the_file(self, tmp_path):
        path = table(tmp_path / "log.parquet", e=["b", "a", "b", "a", "a"], t=[0, 5, 1, 6, 2])
        assert error(path, **KEYED).startswith("row 4 (counting from 0) is earlier")

    @pytest.mark.parametrize(("kind", "place"), [("parquet", "row 1 (counting from 0)"), ("csv", "line 3")])
    @pytest.mark.parametrize(("column", "role"), [("e", "episode"), ("t", "time")])
    def test_missing_keys(self, tmp_path, kind, place, column, role):
        path = table(tmp_path / f"log.{kind}", **{column: [0, None, 2, 3, 4]})
        assert error(path, **KEYED) == f"{place}, column '{column}' has no {role}; fill it in or drop the row"

    def test_time_that_is_no_number(self, tmp_path):
        path = table(tmp_path / "log.parquet", t=[0.0, NAN, 2.0, 3.0, 4.0])
        assert "row 1 (counting from 0), column 't' has no time" in error(path, **KEYED)

    @pytest.mark.parametrize("dtype", [pl.UInt64, pl.Int128])
    def test_time_beyond_63_bits(self, tmp_path, dtype):
        times = pl.Series([2**63 - 2, 2**63 - 1, 2**63, 0, 1], dtype=dtype)
        path = table(tmp_path / "log.parquet", t=times)
        assert error(path, **KEYED) == (
            "row 2 (counting from 0), column 't' is 9223372036854775808, but a time may be at most "
            "9223372036854775807; count from a later start or in a larger unit"
        )
        table(path, t=times.set(times == 2**63, 5))
        assert error(path, **KEYED).startswith("row 2 (counting from 0) is earlier than the row before")

    def test_time_as_text(self, tmp_path):
        path = table(tmp_path / "log.parquet", t=["0", "1", "2", "0", "1"])
        assert error(path, **KEYED) == "the time column 't' is String; convert it to a number, a date or a datetime"
        path = table(tmp_path / "log.csv", t=["Monday", "Tuesday", "Wednesday", "Monday", "Tuesday"])
        assert error(path, **KEYED) == (
            "the time column 't' is String; convert it to a number, a date or a datetime such as 2024-01-31 or "
            "2024-01-31 13:05:00"
        )

    def test_episode_as_list(self, tmp_path):
        path = table(tmp_path / "log.parquet", e=[[1]] * 5)
        assert error(path, **KEYED) == "the episode column 'e' is List(Int64); it must be a number or a string"

    def test_files_disagree_on_types(self, tmp_path):
        first = table(tmp_path / "1.parquet")
        second = table(tmp_path / "2.parquet", e=[1, 1, 1, 2, 2])
        assert error(first, second, **KEYED) == (
            f"{second}: the episode column 'e' is whole number here, but String in {first}; write both as the same type"
        )
        third = table(tmp_path / "3.parquet", t=pl.Series([0, 1, 2, 0, 1]).cast(pl.Date))
        assert error(first, third, **KEYED) == (
            f"{third}: the time column 't' is Date here, but number in {first}; write both as the same type"
        )


class TestTerminals:
    @pytest.mark.parametrize(("kind", "place"), [("parquet", "row 0 (counting from 0)"), ("csv", "line 2")])
    def test_in_mid_episode(self, tmp_path, kind, place):
        path = table(tmp_path / f"log.{kind}", end=[True, False, False, False, True])
        assert error(path, terminal_column="end", **KEYED) == (
            f"{place} is terminal (column 'end'), but its episode continues for two rows or more; "
            "start a new episode after each terminal row"
        )

    def test_for_want_of_an_episode_column(self, tmp_path):
        path = table(tmp_path / "log.parquet", end=[True, True, True, False, True])
        assert error(path, terminal_column="end", **BASIC) == (
            "row 0 (counting from 0) is terminal (column 'end'), but its episode continues for two rows or more, the "
            "first of 3 such rows; start a new episode after each terminal row, or name the column that identifies "
            "episodes with --episode-column"
        )

    @pytest.mark.parametrize(("kind", "place"), [("arrow", "row 3 (counting from 0)"), ("csv", "line 5")])
    def test_no_flag(self, tmp_path, kind, place):
        path = table(tmp_path / f"log.{kind}", end=[0.0, None, 1.0, 0.5, 2.0])
        assert error(path, terminal_column="end", **KEYED) == (
            f"{place}, column 'end' is 0.5; a terminal flag must be true or false, or 1 or 0"
        )

    def test_text(self, tmp_path):
        path = table(tmp_path / "log.parquet", end=["no"] * 5)
        assert error(path, terminal_column="end", **KEYED) == (
            "the terminal column 'end' is String; it must be true or false, or 1 or 0"
        )
        path = table(tmp_path / "log.csv", end=["no"] * 5)
        assert error(path, terminal_column="end", **KEYED).startswith("line 2, column 'end': 'no' is not a number")


class TestCsv:
    def test_a_cell_that_is_no_number(self, tmp_path):
        path = text(tmp_path / "log.csv", "x,y,r\n1,2,0\n3,4,0\n5,oops,0\n")
        assert error(path, **BASIC) == (
            "line 4, column 'y': 'oops' is not a number; correct the cell, or leave it empty if a value may be missing"
        )

    def test_a_cell_far_below(self, tmp_path):
        path = text(tmp_path / "log.csv", "x,y,r\n" + "1,2,0\n" * 5000 + "5,1.2.3,0\n")
        assert error(path, **BASIC).startswith("line 5002, column 'y': '1.2.3' is not a number")

    def test_lines_are_counted_through_quoted_cells(self, tmp_path):
        path = text(tmp_path / "log.csv", '\nnote,x,y,r\n"one\ntwo",1,2,0\n"a ""quote""",3,4,0\n,5,oops,0\n')
        assert error(path, **BASIC).startswith("line 6, column 'y': 'oops' is not a number")
        path = text(tmp_path / "log.csv", '\nnote,x,y,r\n"one\ntwo",1,2,0\n"a ""quote""",3,4,0\n,5,,0\n')
        assert error(path, **BASIC).startswith("line 6, column 'y' is nan")

    def test_a_blank_line(self, tmp_path):
        path = text(tmp_path / "log.csv", "x,y,r\n1,2,0\n\n5,6,0\n")
        assert error(path, **BASIC).startswith("line 3, column 'x' is nan, the first of 2 such values")

    def test_a_time_unlike_those_above(self, tmp_path):
        path = text(tmp_path / "log.csv", "t,x,y,r\n" + "".join(f"{i},0,0,0\n" for i in range(1500)) + "15o0,0,0,0\n")
        assert error(path, **BASIC, time_column="t").startswith("line 1502, column 't': '15o0' is not a number;")
        rows = "".join(f"2024-01-{1 + i // 100:02d} 00:00:{i % 60:02d},0,0,0\n" for i in range(1500))
        path = text(tmp_path / "log.csv", f"t,x,y,r\n{rows}yesterday,0,0,0\n")
        assert error(path, **BASIC, time_column="t").startswith(
            "line 1502, column 't': 'yesterday' is not a date or time like those above it"
        )

    def test_too_many_cells(self, tmp_path):
        path = text(tmp_path / "log.csv", 'note,x,y,r\n"a, b",1,2,0\nc, d,3,4,0\n')
        assert error(path, **BASIC) == (
            "line 3 has 5 cells, but the header names 4 columns; put quotes around cells that contain ','"
        )

    def test_too_many_cells_across_a_chunk(self, tmp_path, monkeypatch):
        monkeypatch.setattr("actionless.data.table.csv_text._CHUNK_BYTES", 7)
        path = text(tmp_path / "log.csv", "x,y,r\n" + "100,2,0\n" * 10 + "100,2,0,4\n")
        assert error(path, **BASIC).startswith("line 12 has 4 cells, but the header names 3 columns")

    def test_too_few_cells(self, tmp_path):
        path = text(tmp_path / "log.csv", "x,y,r\n1,2,0\n3\n5,6,0\n")
        assert error(path, **BASIC).startswith("line 3, column 'y' is nan")

    def test_doubled_names(self, tmp_path):
        path = text(tmp_path / "log.csv", "x,y,x,r\n1,2,3,0\n")
        assert error(path, **BASIC) == "2 columns are named 'x' in the header; rename all but one"

    def test_an_open_quote(self, tmp_path):
        path = text(tmp_path / "log.csv", 'note,x,y,r\na,1,2,0\n"b,3,4,0\nc,5,6,0\n')
        assert error(path, **BASIC, episode_column="note") == (
            "a quoted cell that begins on line 3 is never closed; close the quote"
        )

    @pytest.mark.parametrize("rows", [1, 5000])
    def test_another_encoding(self, tmp_path, rows):
        path = tmp_path / "log.csv"
        path.write_bytes(("e,x,y,r\n" + "a,1,2,0\n" * rows + "é,3,4,0\n").encode("latin-1"))
        assert error(path, **BASIC, episode_column="e") == f"line {rows + 2} is not UTF-8; save the file as UTF-8"
