"""The reader is chosen by what a file is."""

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
    assert error_of(tmp_path / "empty.hdf5") == f"{tmp_path / 'empty.hdf5'}: an empty file"
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
    assert "its name says a text table, but by its first bytes it is an npz file" in error_of(path)


def test_unknown_bytes(tmp_path):
    path = tmp_path / "log.dat"
    path.write_bytes(bytes(range(256)))
    assert "not a log" in error_of(path)


def test_a_folder_that_is_no_data_set(tmp_path):
    assert "not a Minari data set" in error_of(tmp_path)


def test_several_files_must_be_tables_of_one_kind(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(2))
    np.savez(tmp_path / "b.npz", x=np.zeros(2))
    (tmp_path / "c.csv").write_text("a,b\n1,2\n")
    assert "only tables" in error_of(str(tmp_path / "*.npz"))
    assert "of one kind" in error_of([tmp_path / "a.npz", tmp_path / "c.csv"])


def test_without_an_ending_the_content_decides(tmp_path):
    np.savez(tmp_path / "log.npz", states=np.zeros((2, 1)))
    (tmp_path / "log.npz").rename(tmp_path / "log")
    assert "no key 'rewards'" in error_of(tmp_path / "log")
