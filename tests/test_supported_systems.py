"""Windows cannot run it, and is told so at once."""

import subprocess
import sys

import pytest

import actionless
from actionless import ActionlessError, cli

MESSAGE = "Windows is not supported: use Linux or macOS, or the Windows Subsystem for Linux (WSL)"


@pytest.fixture
def on_windows(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")


@pytest.mark.parametrize("arguments", [["train", "Hopper-v5", "--out", "run"], ["--help"], []])
def test_the_command_line_ends_with_one_line(capsys, on_windows, arguments):
    assert cli.run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"actionless: {MESSAGE}\n"


def test_a_public_name_says_it_when_it_is_used(on_windows):
    with pytest.raises(ActionlessError, match="Windows is not supported"):
        actionless.train  # noqa: B018


def test_nothing_that_windows_lacks_is_imported_before():
    """What would fail there first, an import, would be a traceback."""
    code = """
import sys
sys.modules.update(fcntl=None, resource=None)  # importing them raises, as it does there
sys.platform = "win32"
import actionless.cli
sys.argv = ["actionless", "doctor"]
actionless.cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"actionless: {MESSAGE}\n")
