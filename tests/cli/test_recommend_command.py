"""`recommend` as users call it."""

import io
import json
import sys

import numpy as np
import polars as pl
import pytest
from test_evaluate_command import TINY, save_walk

import actionless
from actionless import cli
from actionless.training.pretrain import pretrain


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recommend")
    pretrain(save_walk(folder / "walk.npz"), folder / "run", **TINY)
    return folder / "run"


def call(capsys, *arguments):
    code = cli.run(["recommend", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def states_file(path, count):
    states = np.random.default_rng(3).normal(size=(count, 2))
    pl.DataFrame({"id": range(count), "speed": states[:, 1], "height": states[:, 0]}).write_csv(path)
    return path, states


def test_one_object_per_state(run, tmp_path, capsys):
    path, states = states_file(tmp_path / "now.csv", 3)
    code, out, err = call(capsys, run, path, "--json")
    assert (code, err) == (0, "")
    objects = json.loads(out)
    policy = actionless.StatePolicy.load(run)
    assert [[o["height"]["direction"], o["speed"]["direction"]] for o in objects] == policy.propose(states).tolist()
    likely = policy.probabilities(states).max(axis=-1)
    assert [[o["height"]["probability"], o["speed"]["probability"]] for o in objects] == pytest.approx(
        np.round(likely, 6), abs=2e-6
    )
    assert set(objects[0]["height"]) == {"direction", "probability", "disagreement", "gain"}


def test_few_states_as_tables(run, tmp_path, capsys):
    path, states = states_file(tmp_path / "now.csv", 2)
    _, out, _ = call(capsys, run, path)
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["state", "0", "probability", "disagreement", "gain"]
    assert lines[3][:2] == ["state", "1"]
    words = {-1: "down", 0: "same", 1: "up"}
    proposed = actionless.StatePolicy.load(run).propose(states)
    assert [line[:2] for line in lines[1:3]] == [
        ["height", words[int(proposed[0, 0])]],
        ["speed", words[int(proposed[0, 1])]],
    ]


def test_many_states_as_csv(run, tmp_path, capsys):
    path, states = states_file(tmp_path / "now.csv", 30)
    _, out, _ = call(capsys, run, path)
    table = pl.read_csv(io.StringIO(out))
    assert table.columns == ["state", "variable", "move", "direction", "probability", "disagreement", "gain"]
    assert table["state"].to_list() == np.repeat(np.arange(30), 2).tolist()
    assert table["variable"].to_list() == ["height", "speed"] * 30
    proposed = actionless.StatePolicy.load(run).propose(states)
    assert table["direction"].to_list() == proposed.reshape(-1).tolist()
    assert set(zip(table["direction"], table["move"], strict=True)) <= {(-1, "down"), (0, "same"), (1, "up")}


def test_standard_input(run, tmp_path, capsys, monkeypatch):
    path, _ = states_file(tmp_path / "now.csv", 3)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert call(capsys, run, "-", "--json") == call(capsys, run, path, "--json")


def test_where_the_log_stops(run, capsys):
    """Every other of the twelve episodes was ended by a terminal."""
    _, out, _ = call(capsys, run, "--json")
    log = actionless.read(run.parent / "walk.npz")
    stops = log.next_states[np.arange(19, 120, 20)]
    proposed = actionless.StatePolicy.load(run).propose(stops)
    assert [[o["height"]["direction"], o["speed"]["direction"]] for o in json.loads(out)] == proposed.tolist()


def test_what_happened_is_known(run, capsys):
    """The log itself holds next states."""
    _, out, _ = call(capsys, run, run.parent / "walk.npz", "--json")
    objects = json.loads(out)
    assert len(objects) == 120
    assert min(o["height"]["gain_over_data"] for o in objects) == 0


class TestMistakes:
    def test_missing_column(self, run, tmp_path, capsys):
        (tmp_path / "now.csv").write_text("height\n1\n")
        code, out, err = call(capsys, run, tmp_path / "now.csv")
        assert (code, out) == (2, "")
        assert err.startswith(f"actionless: {tmp_path / 'now.csv'}: no column 'speed'")

    def test_a_log_from_python(self, tmp_path, capsys):
        log = actionless.read(save_walk(tmp_path / "walk.npz"))
        pretrain(log, tmp_path / "run", **TINY, method="bc-delta")
        code, _, err = call(capsys, tmp_path / "run")
        assert code == 2
        assert "passed in from Python, so it cannot be read again: give STATES" in err


def test_episodes_that_all_ended_stop_nowhere():
    from actionless.analysis.recommendation import latest_states
    from actionless.data.log import Log, Source

    flags = np.array([True])
    zeros = np.zeros((1, 1))
    log = Log(zeros, np.zeros(1), zeros, flags, flags, ("x",), Source("end.npz", "npz", ("states",)))
    with pytest.raises(actionless.ActionlessError, match=r"every episode ends in a terminal state, .*: give STATES"):
        latest_states(log)
