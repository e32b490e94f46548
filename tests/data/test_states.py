import io
import sys

import numpy as np
import polars as pl
import pytest

from actionless.data.states import read_states
from actionless.errors import ActionlessError

NAMES = ("height", "speed")
ROWS = [[1.0, 2.0], [3.0, 4.5]]
TABLE = pl.DataFrame({"batch": ["a", "b"], "speed": [2.0, 4.5], "height": [1, 3]})


@pytest.fixture
def piped(monkeypatch):
    def pipe(text):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return pipe


class TestTables:
    """Columns are found by name, in any order, among any other columns."""

    def test_csv(self, tmp_path):
        TABLE.write_csv(tmp_path / "now.csv")
        assert read_states(str(tmp_path / "now.csv"), NAMES).states.tolist() == ROWS

    def test_parquet(self, tmp_path):
        TABLE.write_parquet(tmp_path / "now.parquet")
        assert read_states(str(tmp_path / "now.parquet"), NAMES).states.tolist() == ROWS

    def test_standard_input(self, piped):
        piped(TABLE.write_csv())
        assert read_states("-", NAMES).states.tolist() == ROWS

    def test_missing_column(self, tmp_path):
        TABLE.rename({"speed": "Speed"}).write_csv(tmp_path / "now.csv")
        with pytest.raises(ActionlessError, match=r"now.csv: no column 'speed' .*; did you mean 'Speed'\?"):
            read_states(str(tmp_path / "now.csv"), NAMES)

    def test_no_number(self, tmp_path):
        TABLE.with_columns(speed=pl.lit("fast")).write_parquet(tmp_path / "now.parquet")
        with pytest.raises(ActionlessError, match=r"now.parquet: the column 'speed' is String, which is not numeric"):
            read_states(str(tmp_path / "now.parquet"), NAMES)

    def test_no_rows(self, tmp_path):
        TABLE.head(0).write_csv(tmp_path / "now.csv")
        with pytest.raises(ActionlessError, match=r"now.csv: no rows"):
            read_states(str(tmp_path / "now.csv"), NAMES)

    def test_an_empty_cell(self, piped):
        piped("height,speed\n1,2\n3,\n")
        with pytest.raises(ActionlessError, match=r"^standard input: line 3, column 'speed' is nan; fill in"):
            read_states("-", NAMES)

    def test_a_cell_that_is_no_number(self, piped):
        piped("height,speed\n1,2\n3,fast\n")
        with pytest.raises(ActionlessError, match=r"^standard input: line 3, column 'speed': 'fast' is not a number"):
            read_states("-", NAMES)

    def test_empty_standard_input(self, piped):
        piped("\n")
        with pytest.raises(ActionlessError, match="standard input: empty; pipe in a CSV"):
            read_states("-", NAMES)


class TestNpz:
    def save(self, folder, **arrays):
        np.savez(folder / "now.npz", **arrays)
        return str(folder / "now.npz")

    def test_by_position(self, tmp_path):
        found = read_states(self.save(tmp_path, states=np.array(ROWS)), NAMES)
        assert found.states.tolist() == ROWS
        assert found.next_states is None

    def test_by_name_with_what_followed(self, tmp_path):
        rows = np.array([[0.0, 2.0, 1.0], [0.0, 4.5, 3.0]])
        names = np.array(["other", "speed", "height"])
        path = self.save(tmp_path, observations=rows, next_observations=rows + 1, state_names=names)
        found = read_states(path, NAMES)
        assert found.states.tolist() == ROWS
        np.testing.assert_array_equal(found.next_states, np.array(ROWS) + 1)

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"rows": np.zeros((2, 2))}, "no key 'states' or 'observations'; the file has: rows"),
            ({"states": np.zeros((2, 3))}, "3 variables per state and no 'state_names', but the policy has 2"),
            ({"states": np.zeros(2)}, r"'states' has type float64 and shape \(2,\)"),
            ({"states": np.array([["a", "b"]])}, "'states' has type <U1 and shape"),
            ({"states": np.array([[0.0, np.inf]])}, r"'states', row 0 \(counting from 0\), variable 1 is inf"),
            ({"states": np.zeros((2, 2)), "next_states": np.zeros((1, 2))}, r"next states have shape \(1, 2\)"),
            (
                {"states": np.zeros((2, 2)), "state_names": np.array(["height"])},
                "'state_names' has 1 names for 2 state variables",
            ),
            ({"states": np.zeros((2, 2)), "state_names": np.array(["height", "v"])}, "no variable 'speed'"),
        ],
    )
    def test_mistakes(self, tmp_path, arrays, message):
        with pytest.raises(ActionlessError, match=f"now.npz: {message}"):
            read_states(self.save(tmp_path, **arrays), NAMES)


def test_no_such_file(tmp_path):
    with pytest.raises(ActionlessError, match=r"nowhere.csv: no such file; give a CSV, Parquet or npz file of states"):
        read_states(str(tmp_path / "nowhere.csv"), NAMES)


def test_a_file_of_another_kind(tmp_path):
    (tmp_path / "now.pkl").write_bytes(b"\x80\x04N.")
    with pytest.raises(ActionlessError, match=r"now.pkl: states must be a CSV, Parquet, Arrow or npz"):
        read_states(str(tmp_path / "now.pkl"), NAMES)
