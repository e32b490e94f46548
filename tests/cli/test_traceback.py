"""An exception in a user's own environment: one line, and on request where it was raised."""

import os

import pytest
from processes import start

from actionless import cli
from actionless.errors import ActionlessError
from actionless.online.environments import make

ENVIRONMENT = """
import gymnasium
import numpy as np

class Leaking(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return self.open_the_valve(action)

    def open_the_valve(self, action):
        raise KeyError("valve")

gymnasium.register("Leaking-v0", Leaking)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("environment")
    (folder / "leaking.py").write_text(ENVIRONMENT)
    return folder


@pytest.fixture(autouse=True)
def nothing_asked_for(monkeypatch, folder):
    monkeypatch.delenv("ACTIONLESS_TRACEBACK", raising=False)
    monkeypatch.syspath_prepend(folder)


@pytest.fixture
def command(tmp_path):
    return ["train", "leaking:Leaking-v0", "--scale", "smoke", "--out", str(tmp_path / "run")]


@pytest.fixture
def raising(monkeypatch):
    """In place of a verb: what an environment raises, wrapped as it is there; gives the arguments of each call."""
    calls = []

    def raising_call(arguments):
        calls.append(arguments)
        try:
            raise KeyError("valve")
        except KeyError as error:
            raise ActionlessError("one line") from error

    monkeypatch.setattr(cli, "call", raising_call)
    return calls


def test_without_being_asked_it_is_one_line_that_names_the_option(capsys, command):
    assert cli.run(command) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("actionless: the environment raised KeyError ('valve') at step 1 of an episode of 'leaking:")
    assert said.endswith("): fix the environment (on the command line, --traceback shows where it was raised)\n")


def test_on_request_it_shows_where(capsys, command):
    assert cli.run([*command, "--traceback"]) == 2
    said = capsys.readouterr().err
    assert "Traceback (most recent call last)" in said
    assert 'leaking.py", line 16, in open_the_valve' in said
    assert said.splitlines()[-1].startswith("actionless: the environment raised KeyError")


@pytest.mark.parametrize("arguments", [["--traceback", "train", "x"], ["train", "--traceback", "x"]])
def test_the_option_may_stand_anywhere(capsys, raising, arguments):
    assert cli.run(arguments) == 2
    assert raising == [["train", "x"]]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "Traceback (most recent call last):"
    assert "KeyError: 'valve'" in said
    assert said[-1] == "actionless: one line"


@pytest.mark.parametrize(("value", "shown"), [("1", True), ("0", False), ("", False)])
def test_the_variable_asks_for_it(capsys, monkeypatch, raising, value, shown):
    monkeypatch.setenv("ACTIONLESS_TRACEBACK", value)
    assert cli.run(["train"]) == 2
    assert ("KeyError: 'valve'" in capsys.readouterr().err) == shown


def test_from_python_the_exception_is_the_cause():
    task = make("leaking:Leaking-v0")
    state = task.reset(0)
    with pytest.raises(ActionlessError) as caught:
        task.step(state[:1])
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_bug_shows_its_traceback_once(capsys, monkeypatch):
    def broken(_arguments):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(cli, "call", broken)
    assert cli.run(["--traceback"]) == 1
    assert capsys.readouterr().err.count("Traceback") == 1


def test_the_processes_of_several_seeds_show_theirs(folder, command):
    """Each seed has a process of its own, where the exception was raised."""
    folders = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    process = start(*command, "--seeds=2", "--traceback", PYTHONPATH=folders, JAX_PLATFORMS="cpu")
    _, said = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "in open_the_valve" in said
    assert said.splitlines()[-1].startswith("actionless: the environment raised KeyError")


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_says_so_in_its_help(capsys, verb):
    assert cli.run([verb, "--help"]) == 0
    assert "--traceback (or ACTIONLESS_TRACEBACK=1) shows the traceback of an error" in capsys.readouterr().out
