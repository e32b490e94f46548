"""The command as users call it: exit codes, one-line errors, quick help."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest

from actionless import cli


@pytest.fixture
def log_file(tmp_path):
    path = tmp_path / "walk.npz"
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(21, 2)).cumsum(axis=0)
    np.savez(
        path,
        states=rows[:-1],
        next_states=rows[1:],
        rewards=np.arange(20.0),
        terminals=np.arange(20) == 19,
        state_names=np.array(["height", "speed"]),
    )
    return path


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "actionless", *arguments], capture_output=True, text=True, timeout=120)


def test_inspect_in_the_terminal(log_file):
    done = call("inspect", str(log_file))
    assert done.returncode == 0
    assert done.stderr == ""
    assert "20 of 2 variables" in done.stdout
    assert "height" in done.stdout
    assert "only one episode" in done.stdout


def test_inspect_json_has_the_contract_keys(log_file):
    about = json.loads(call("inspect", str(log_file), "--json").stdout)
    keys = "transitions episodes state_dim terminals timeouts returns dimensions warnings fingerprint read"
    assert set(keys.split()) <= set(about)
    assert {"mean", "min", "max"} <= set(about["returns"])
    assert {"name", "mean", "std", "down", "same", "up"} <= set(about["dimensions"][0])
    assert about["transitions"] == 20
    assert about["returns"]["mean"] == 190.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["inspct", "x"], ["no verb 'inspct'", "did you mean 'inspect'"]),
        (["inspect"], ["nothing to read"]),
        (["inspect", "missing.hdf5"], ["missing.hdf5: no such file"]),
        (["inspect", "x", "--sate-columns", "a"], ["--sate-columns", "perhaps you meant --state-columns", "--help"]),
        (["inspect", "x", "--epsilon", "abc"], ["--epsilon", "'abc'"]),
        (["inspect", "x", "--reward-at", "never"], ["'never'", "leaving", "arriving"]),
    ],
)
def test_what_a_user_can_mend_is_one_line(capsys, arguments, words):
    assert cli.run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("actionless: ")
    assert captured.err.count("\n") == 1
    for word in words:
        assert word in captured.err


def test_a_bug_shows_its_traceback(capsys, monkeypatch):
    def broken(_arguments):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(cli, "call", broken)
    assert cli.run([]) == 1
    assert "ZeroDivisionError: oops" in capsys.readouterr().err


def test_interrupt(capsys, monkeypatch):
    def interrupted(_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "call", interrupted)
    assert cli.run([]) == 130


def test_help_lists_the_verbs_quickly():
    call("--help")  # byte-compiles
    times = []
    for _ in range(3):
        start = time.perf_counter()
        done = call("--help")
        times.append(time.perf_counter() - start)
    assert all(verb in done.stdout for verb in cli.VERBS)
    assert min(times) < 0.5


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_help_with_examples(capsys, verb):
    assert cli.run([verb, "--help"]) == 0
    help_text = capsys.readouterr().out
    assert f"  actionless {verb} " in help_text


def test_version(capsys):
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"actionless {cli.__version__}\n"


def test_output_into_a_closed_pipe(tmp_path):
    """More variables than a pipe holds: the writer is cut off in the middle."""
    rows = np.random.default_rng(0).normal(size=(4, 3000))
    path = tmp_path / "wide.npz"
    np.savez(path, states=rows[:-1], next_states=rows[1:], rewards=np.arange(3.0), terminals=np.zeros(3, bool))
    for flags in ("", "--json"):
        command = f"{sys.executable} -m actionless inspect {path} {flags} | head -n 1; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
        assert done.stdout.splitlines()[-1] == "0"
        assert done.stderr == ""


def test_output_onto_a_full_disk(log_file):
    command = f"{sys.executable} -m actionless inspect {log_file} > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith("actionless: the output cannot be written")
    assert done.stderr.count("\n") == 1


def test_a_terminal_without_greek(log_file):
    command = f"PYTHONIOENCODING=ascii {sys.executable} -m actionless inspect {log_file}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "fingerprint" in done.stdout


def test_names_are_shown_as_they_are(tmp_path, capsys):
    names = ["pos[x]", "vel[bold]", "a[/x]", ":smile:"]
    rows = np.random.default_rng(0).normal(size=(4, 4))
    path = tmp_path / "we[ird].npz"
    np.savez(
        path,
        states=rows[:-1],
        next_states=rows[1:],
        rewards=np.arange(3.0),
        terminals=np.zeros(3, bool),
        state_names=np.array(names),
    )
    assert cli.run(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    for name in [*names, "we[ird]"]:
        assert name in shown


def test_figures_beyond_the_floats(tmp_path, capsys):
    path = tmp_path / "log.npz"
    rows = np.arange(4.0)[:, None]
    np.savez(
        path, states=rows[:-1], next_states=rows[1:], rewards=np.array([1e308, 1e308, 0.0]), terminals=np.zeros(3, bool)
    )
    assert cli.run(["inspect", str(path)]) == 0
    assert "beyond 1e308" in capsys.readouterr().out
    assert cli.run(["inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["returns"]["max"] is None
