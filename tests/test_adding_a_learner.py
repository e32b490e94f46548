"""Whoever follows docs/adding-a-learner.md in a clone ends with a learner and an agent that pass their contracts."""

import os
import shutil
import subprocess
import sys

import pytest
from documented import ROOT, blocks, commands

STEPS = [block for block in blocks((ROOT / "docs" / "adding-a-learner.md").read_text()) if block.title is not None]

QUICK = "test_weighted or (update_keeps and (weighted or ddpg))"
"""Of the tests that the page's command runs, those that compile little."""


def changed(text, change):
    """A file with a change made: lines marked with - are replaced by those marked with +, at the one place they fit."""
    lines = change.splitlines()
    before = "".join(f"{line[1:]}\n" for line in lines if line[:1] in "- ")
    after = "".join(f"{line[1:]}\n" for line in lines if line[:1] in "+ ")
    assert text.count(before) == 1, f"the change fits {text.count(before)} times:\n{before}"
    return text.replace(before, after)


@pytest.fixture
def clone(tmp_path):
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in ("src", "tests/offline", "tests/online"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignore)
    for file in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


@pytest.mark.parametrize("only", [["-k", QUICK], pytest.param([], marks=pytest.mark.slow)])
def test_the_page_works(clone, only):
    environment = {**os.environ, "PYTHONPATH": str(clone / "src")}
    for block in STEPS:
        path = clone / str(block.title)
        if block.language == "python":
            assert not path.exists()
            path.write_text(block.text)
        elif block.language == "diff":
            path.write_text(changed(path.read_text(), block.text))
        else:
            (command,) = commands(block)
            call = [sys.executable, *command.words[1:], *only]
            done = subprocess.run(call, cwd=clone, env=environment, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, f"line {block.line}: {done.stdout[-3000:]}{done.stderr[-3000:]}"


@pytest.mark.parametrize(("text", "times"), [("a\nc\n", 0), ("a\nb\na\nb\n", 2)])
def test_a_change_that_does_not_fit_is_found(text, times):
    with pytest.raises(AssertionError, match=f"fits {times} times"):
        changed(text, " a\n-b\n+c\n")
