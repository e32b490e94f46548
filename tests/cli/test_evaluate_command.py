"""`evaluate` as users call it."""

import json
import shutil

import numpy as np
import pytest

import actionless
from actionless import cli
from actionless.execution.job import is_done
from actionless.runs.directory import read_result
from actionless.training.pretrain import pretrain

TINY = {
    "scale": "smoke",
    "steps": 20,
    "hidden": (8,),
    "ensemble": 2,
    "held_out": 0.5,
}


def save_walk(path, seed=0, names=("height", "speed")):
    """Twelve walks of ten steps; every other one ends in a terminal."""
    rows = np.random.default_rng(seed).normal(size=(12, 11, 2)).cumsum(axis=1)
    last = np.tile(np.arange(10) == 9, 12)
    terminal = last & np.repeat(np.arange(12) % 2 == 0, 10)
    np.savez(
        path,
        states=rows[:, :-1].reshape(-1, 2),
        next_states=rows[:, 1:].reshape(-1, 2),
        rewards=np.exp(-np.square(rows[:, :-1, 0])).reshape(-1),
        terminals=terminal,
        timeouts=last & ~terminal,
        actions=rows[:, 1:].reshape(-1, 2),
        state_names=np.array(names),
    )
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    pretrain(save_walk(folder / "walk.npz"), folder / "run", **TINY)
    return folder / "run"


def call(capsys, *arguments):
    code = cli.run(["evaluate", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_figures_are_those_of_the_held_out_episodes(run, capsys):
    code, out, _ = call(capsys, run, "--json")
    assert code == 0
    figures = json.loads(out)
    final = json.loads((run / "result.json").read_text())["final"]
    assert figures["delta_accuracy"] == pytest.approx(final["heldout/accuracy"], abs=1e-6)
    assert figures["delta_error"] == pytest.approx(final["heldout/error"], abs=1e-6)
    assert figures["log"]["measured_on"] == "held-out episodes"
    assert figures["log"]["compared_with"] == "the episodes trained on"
    assert [d["name"] for d in figures["dimensions"]] == ["height", "speed"]
    assert figures["verdict"]["grade"]


def test_figures_in_a_folder(run, tmp_path, capsys):
    folder = tmp_path / "new" / "evaluation"
    code, out, _ = call(capsys, run, "--json", "--out", folder)
    assert code == 0
    assert (folder / "figures.json").read_text() == out
    figures, result = json.loads(out), read_result(folder)
    assert (result.verb, result.steps) == ("evaluate", 0)
    assert result.final["delta_error"] == figures["delta_error"]
    assert is_done(folder)
    code, _, err = call(capsys, run, "--out", folder)
    assert code == 2
    assert err == f"actionless: {folder} holds an evaluation: choose another --out, or replace it with --overwrite\n"
    (folder / "result.json").write_text("{")
    assert not is_done(folder)
    assert call(capsys, run, "--out", folder, "--overwrite")[0] == 0
    assert is_done(folder)


def test_a_run_directory_takes_no_figures(run, capsys):
    before = (run / "result.json").read_bytes()
    code, _, err = call(capsys, run, "--out", run, "--overwrite")
    assert (code, err) == (2, f"actionless: {run} is a run directory: choose another --out\n")
    assert (run / "result.json").read_bytes() == before


def test_in_the_terminal(run, capsys):
    code, out, err = call(capsys, run)
    assert (code, err) == (0, "")
    assert out.startswith(f"oso-decqn on {run.parent / 'walk.npz'}, held-out episodes: 6 episodes, 60 transitions\n")
    for line in ("height ", "speed ", "all variables ", "  yes ", "  no  ", " above what happened; observed return"):
        assert line in out


def test_on_another_log(run, tmp_path, capsys):
    other = save_walk(tmp_path / "later.npz", seed=1)
    code, out, _ = call(capsys, run, "--data", other, "--json")
    figures = json.loads(out)
    assert (code, figures["log"]["path"], figures["log"]["measured_on"]) == (0, str(other), "the whole log")
    assert figures["log"]["transitions"] == 120
    assert figures["log"]["fingerprint"] == actionless.read(other).fingerprint


def test_a_saved_policy_is_enough_where_there_is_data(run, tmp_path, capsys):
    shutil.copytree(run / "policy", tmp_path / "copied")
    code, out, _ = call(capsys, tmp_path / "copied", "--data", run.parent / "walk.npz", "--json")
    assert code == 0
    assert json.loads(out)["log"]["episodes"] == 12


def test_figures_of_the_log_it_was_trained_on_say_so(run, tmp_path, capsys):
    shutil.copy(run.parent / "walk.npz", tmp_path / "renamed.npz")
    _, out, _ = call(capsys, run, "--data", tmp_path / "renamed.npz", "--json")
    assert json.loads(out)["log"]["measured_on"] == "the log it was trained on, whole"


class TestMistakes:
    def test_a_log_with_other_variables(self, run, tmp_path, capsys):
        other = save_walk(tmp_path / "other.npz", names=("height", "mass"))
        code, _, err = call(capsys, run, "--data", other)
        assert code == 2
        assert err.startswith(f"actionless: {other}: no variable 'speed'; the policy was trained on height, speed")

    def test_the_log_has_changed(self, tmp_path, capsys):
        log = save_walk(tmp_path / "walk.npz")
        pretrain(log, tmp_path / "run", **TINY, method="bc-delta")
        save_walk(log, seed=1)
        code, _, err = call(capsys, tmp_path / "run")
        assert code == 2
        assert f"{log}: the log has changed since {tmp_path / 'run'} began" in err

    def test_a_log_from_python(self, tmp_path, capsys):
        log = actionless.read(save_walk(tmp_path / "walk.npz"))
        pretrain(log, tmp_path / "run", **TINY, method="bc-delta")
        code, _, err = call(capsys, tmp_path / "run")
        assert code == 2
        assert "passed in from Python, so it cannot be read again: give a log with --data" in err

    def test_a_policy_of_actions_has_nothing_to_compare(self, tmp_path, capsys):
        log = actionless.read(save_walk(tmp_path / "walk.npz"), with_actions=True)
        pretrain(log, tmp_path / "run", **TINY, method="bc-action")
        code, _, err = call(capsys, tmp_path / "run")
        assert code == 2
        assert "holds a policy of bc-action, which is no state policy" in err

    @pytest.mark.parametrize("lone", [["--env", "Hopper-v5"], ["--labelled", "walk.npz"]])
    def test_a_task_needs_a_labelled_log(self, run, capsys, lone):
        code, _, err = call(capsys, run, *lone)
        assert code == 2
        assert (
            err == "actionless: --env requires --labelled (a log of that environment with actions), and the reverse\n"
        )

    def test_how_to_read_without_a_log(self, run, capsys):
        code, _, err = call(capsys, run, "--state-columns", "height,speed")
        assert code == 2
        assert err.startswith("actionless: options for reading a log require --data or --labelled")

    def test_no_run(self, tmp_path, capsys):
        code, _, err = call(capsys, tmp_path / "nowhere")
        assert code == 2
        assert "nowhere: no saved policy here" in err


def test_nothing_held_out_is_called_training_data(tmp_path, capsys):
    log = save_walk(tmp_path / "walk.npz")
    pretrain(log, tmp_path / "run", **TINY | {"method": "bc-delta", "held_out": 0.0})
    _, out, _ = call(capsys, tmp_path / "run", "--json")
    assert json.loads(out)["log"]["measured_on"] == "training data: nothing was held out"
