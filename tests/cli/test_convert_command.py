"""`actionless convert` end to end: what it writes reads back, and what it refuses it refuses in one line."""

import numpy as np
import polars as pl
import pytest

import actionless
from actionless import cli

COLUMNS = ["--state-columns", "height,speed", "--reward-column", "gain", "--episode-column", "flight"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    monkeypatch.setenv("ACTIONLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rows = {
        "flight": ["a", "a", "a", "b", "b"],
        "height": [1.0, 2.0, 3.0, 10.0, 11.0],
        "speed": [0.5, 0.25, 0.125, -1.0, -2.0],
        "gain": [1.0, 2.0, None, 4.0, None],
        "push": [0.1, 0.2, 0.3, 0.4, 0.5],
    }
    pl.DataFrame(rows).write_csv(tmp_path / "flights.csv")
    return tmp_path


def refusal(capsys, *arguments: str) -> str:
    """The one-line error of a refused command line."""
    assert cli.run(["convert", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    line = captured.err.removeprefix("actionless: ")
    assert line.count("\n") == 1
    return line.rstrip("\n")


@pytest.mark.parametrize("out", ["log.parquet", "log.npz", "minari:flights-v0"])
def test_what_is_written_reads_back(capsys, out):
    if out.startswith("minari:"):
        pytest.importorskip("minari")
    assert cli.run(["convert", "flights.csv", *COLUMNS, "--out", out]) == 0
    log = actionless.read(out)
    assert log.states.tolist() == [[1, 0.5], [2, 0.25], [10, -1]]
    assert log.next_states.tolist() == [[2, 0.25], [3, 0.125], [11, -2]]
    assert log.rewards.tolist() == [1, 2, 4]
    assert log.ends.tolist() == [False, True, True]
    assert log.state_names == ("height", "speed")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"wrote {out}: 3 transitions, fingerprint {log.fingerprint[:16]}\n"


def test_actions_on_request(capsys):
    arguments = ["convert", "flights.csv", *COLUMNS, "--action-columns", "push"]
    assert cli.run([*arguments, "--out", "without.npz"]) == 0
    assert cli.run([*arguments, "--with-actions", "--out", "with.npz"]) == 0
    with np.load("without.npz") as without, np.load("with.npz") as with_actions:
        assert "actions" not in without.files
        np.testing.assert_array_equal(with_actions["actions"], np.array([[0.1], [0.2], [0.4]], np.float32))


@pytest.mark.parametrize("out", ["log.parquet", "log.npz", "minari:flights-v0"])
def test_a_target_that_exists(capsys, folder, out):
    if out.startswith("minari:"):
        pytest.importorskip("minari")
    arguments = ["flights.csv", "--out", out, "--reward-column", "gain", "--episode-column", "flight"]
    assert cli.run(["convert", *arguments, "--state-columns", "height"]) == 0
    capsys.readouterr()
    line = refusal(capsys, *arguments, "--state-columns", "speed")
    place = folder / "datasets" / "flights-v0" if out.startswith("minari:") else out
    assert line == f"{place}: already exists; choose another name, or replace it with --overwrite"
    assert actionless.read(out).state_names == ("height",)
    assert cli.run(["convert", *arguments, "--state-columns", "speed", "--overwrite"]) == 0
    assert actionless.read(out).state_names == ("speed",)


def test_the_settings_of_another_table_are_kept(capsys, folder):
    settings = 'state_columns = ["height"]\nreward_column = "gain"\nepisode_column = "flight"\n'
    (folder / "flights.toml").write_text(settings)
    line = refusal(capsys, "flights.csv", "--out", "flights.parquet", "--overwrite")
    assert line == (
        "flights.toml: already exists and belongs to another table, because there is no flights.parquet; "
        "choose another name"
    )
    assert (folder / "flights.toml").read_text() == settings
    assert not (folder / "flights.parquet").exists()


@pytest.mark.parametrize(
    ("out", "line"),
    [
        ("log.xlsx", "log.xlsx: the output must be FILE.parquet, FILE.npz or minari:ID"),
        ("nowhere/log.npz", "nowhere/log.npz: the folder nowhere does not exist; create it first"),
    ],
)
def test_a_target_that_cannot_be(capsys, out, line):
    # Before the log is read: there is none.
    assert refusal(capsys, "missing.csv", "--out", out) == line


def test_a_minari_target_without_minari(capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert refusal(capsys, "flights.csv", *COLUMNS, "--out", "minari:flights-v0") == (
        "writing a Minari data set needs the package 'minari', which is not installed: pip install 'actionless[minari]'"
    )


def test_no_target(capsys):
    assert "--out" in refusal(capsys, "flights.csv")
