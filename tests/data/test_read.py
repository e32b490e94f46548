"""The reader is chosen by the content of a file."""

import dataclasses
import inspect
import subprocess
import sys

import numpy as np
import pytest

import actionless
from actionless import ActionlessError


def error_of(data) -> str:
    with pytest.raises(ActionlessError) as caught:
        actionless.read(data)
    return str(caught.value)


def test_missing_and_empty(tmp_path):
    assert error_of(tmp_path / "none.hdf5") == f"{tmp_path / 'none.hdf5'}: no such file"
    (tmp_path / "empty.hdf5").touch()
    assert error_of(tmp_path / "empty.hdf5") == f"{tmp_path / 'empty.hdf5'}: the file is empty"
    assert "no file matches" in error_of(str(tmp_path / "*.csv"))
    assert "nothing to read" in error_of([])


@pytest.mark.parametrize("ending", ["hdf5", "parquet", "arrow", "npz", "pkl"])
def test_text_under_another_name(tmp_path, ending):
    path = tmp_path / f"log.{ending}"
    path.write_text("a,b\n1,2\n")
    message = error_of(path)
    assert "its name says" in message
    assert "it is a text table" in message


def test_binary_called_csv(tmp_path):
    path = tmp_path / "log.csv"
    np.savez(tmp_path / "log.npz", a=np.zeros(3))
    (tmp_path / "log.npz").rename(path)
    assert "its name says a text table, but its first bytes say it is an npz file" in error_of(path)


def test_unknown_bytes(tmp_path):
    path = tmp_path / "log.dat"
    path.write_bytes(bytes(range(256)))
    assert "unknown format" in error_of(path)


def test_a_folder_that_is_no_data_set(tmp_path):
    assert "not a Minari data set" in error_of(tmp_path)


def test_several_files_must_be_tables_of_one_kind(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(2))
    np.savez(tmp_path / "b.npz", x=np.zeros(2))
    (tmp_path / "c.csv").write_text("a,b\n1,2\n")
    assert "only tables" in error_of(str(tmp_path / "*.npz"))
    assert "must have the same format" in error_of([tmp_path / "a.npz", tmp_path / "c.csv"])


def test_without_an_ending_the_content_decides(tmp_path):
    np.savez(tmp_path / "log.npz", states=np.zeros((2, 1)))
    (tmp_path / "log.npz").rename(tmp_path / "log")
    assert "no key 'rewards'" in error_of(tmp_path / "log")


def test_numbered_files_are_read_as_people_count(tmp_path):
    for part in range(12):
        (tmp_path / f"p{part}.csv").write_text(f"e,x,r\n0,{2 * part},0\n0,{2 * part + 1},0\n")
    log = actionless.read(str(tmp_path / "p*.csv"), state_columns=["x"], reward_column="r", episode_column="e")
    assert log.states[:, 0].tolist() == list(range(23))
    assert log.next_states[:, 0].tolist() == list(range(1, 24))


def test_options_of_tables_are_refused_elsewhere(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(2))
    with pytest.raises(ActionlessError, match="reward_column is an option for tables, but this is an npz file"):
        actionless.read(tmp_path / "a.npz", reward_column="r")


@pytest.mark.parametrize(
    ("option", "value"), [("episode_length", 0), ("memory_limit_gb", float("nan")), ("memory_limit_gb", -1.0)]
)
def test_options_that_make_no_sense(tmp_path, option, value):
    with pytest.raises(ActionlessError, match=f"{option}={value}: choose"):
        actionless.read(tmp_path / "a.npz", **{option: value})


def test_what_python_does_not_check_is_checked():
    """In a process without the type checks that the tests turn on."""
    program = "import actionless; actionless.read('x.csv', reward_at='banana')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "reward_at='banana': choose 'leaving', 'arriving'" in done.stderr


def test_an_option_that_does_not_exist():
    with pytest.raises(ActionlessError, match=r"reward_colum: not an option of read, .*; did you mean reward_column\?"):
        actionless.read("x.csv", reward_colum="r")


def test_the_signature_and_the_documentation_have_every_option():
    shown = inspect.signature(actionless.read).parameters
    options = [field.name for field in dataclasses.fields(actionless.ReadOptions)]
    assert list(shown) == ["data", "options", *options]
    assert shown["reward_column"].annotation == (str | None)
    assert "  sort = False: Sort each episode by time" in (actionless.read.__doc__ or "")


def test_options_together_and_by_name(tmp_path):
    (tmp_path / "log.csv").write_text("x,y,r\n1,2,0\n2,3,0\n")
    options = actionless.ReadOptions(state_columns=("x",), reward_column="r")
    log = actionless.read(tmp_path / "log.csv", options, state_columns=["y"])
    assert log.state_names == ("y",)


def test_lists_and_texts_make_options_too():
    """In a process without the type checks that the tests turn on."""
    program = "import actionless; print(actionless.ReadOptions(state_columns=['x', 'y'], action_columns='a, b'))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "state_columns=('x', 'y')" in done.stdout and "action_columns=('a', 'b')" in done.stdout


def test_columns_as_one_text(tmp_path):
    (tmp_path / "log.csv").write_text("x,y,r\n1,2,0\n2,3,0\n")
    log = actionless.read(tmp_path / "log.csv", state_columns="x,y", reward_column="r")
    assert log.state_names == ("x", "y")


def test_a_path_too_long(tmp_path):
    assert "cannot be read" in error_of(tmp_path / ("x" * 300))


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_text_table_in_another_encoding(tmp_path, encoding):
    (tmp_path / "log.csv").write_bytes("t_°C,r\n1,2\n".encode(encoding))
    assert "line 1 is not UTF-8; save the file as UTF-8" in error_of(tmp_path / "log.csv")
