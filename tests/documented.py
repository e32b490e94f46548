"""The blocks of a page of documentation: found, shortened, and done as a reader would do them.

A reader has one folder, with `examples/` in it, and goes through a page from top to bottom. `sh` blocks are commands;
`console` blocks are too, or, with `$ ` before each command, commands and what they print; `python` blocks are programs,
each by itself. Everything happens in one process, where starting Python and JAX again for each would take minutes.
Blocks with a title belong to a clone of the repository: tests/test_adding_a_learner.py does them.
"""

import contextlib
import importlib.util
import io
import re
import runpy
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import pytest

from actionless import cli

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"

DONE = ("sh", "console", "python")
SHOWN = ("text", "toml", "json", "html")
"""Languages of blocks that hold nothing to do."""

SHORTER = {
    "pretrain": {"--scale": "smoke", "--steps": "60", "--log-every": "10", "--evaluate-every": "10"},
    "train": {"--scale": "smoke", "--steps": "400", "--episodes": "1", "--seeds": "1"},
    "finetune": {"--scale": "smoke", "--offline-steps": "100", "--steps": "100", "--episodes": "1"},
    "evaluate": {"--scale": "smoke", "--episodes": "1"},
    "record": {"--scale": "smoke", "--steps": "300", "--train-steps": "500"},
    "examples/own_data.py": {"--scale": "smoke"},
}
"""What the test gives to a verb or an example instead of what the page says: sizes alone."""

GIVEN = {
    "hopper_medium-v2.hdf5": "actionless record Hopper-v5 --level random --steps 300",
    "hopper_medium_expert-v2.hdf5": "actionless record Hopper-v5 --level random --steps 300",
    "runs/hopper": "actionless pretrain hopper_medium-v2.hdf5",
}
"""What readers have that a page does not make, and how it is made here, in small (`--out` is added)."""

NOT_DONE = {
    "make": "`make test` runs this; of `make demo`, .ci/run does the quick one",
}
"""Programs that are not called, and why."""

ELSEWHERE = {
    "stable_baselines3": "needs PyTorch: done where it is installed, by the job that tests the adapter",
}
"""Modules whose programs are left out where the module is absent, and why."""


@dataclass(frozen=True)
class Block:
    """What stands between two fences."""

    language: str
    text: str
    line: int
    title: str | None = None


@dataclass(frozen=True)
class Command:
    """A command, and what the page says that it prints, where it says so."""

    words: list[str]
    prints: str | None


def blocks(page: str) -> list[Block]:
    """All of a page, also those in lists; a fence without a language is `text`."""
    found, opened = [], None
    for number, line in enumerate(page.splitlines(), 1):
        fence = re.match(r"\s*```(.*)", line)
        if fence is None:
            if opened is not None:
                opened[1].append(line)
        elif opened is None:
            language, _, rest = fence[1].strip().partition(" ")
            title = re.search('title="(.+)"', rest)
            opened = (language or "text", [], number, title and title[1])
        else:
            language, lines, first, title = opened
            found.append(Block(language, textwrap.dedent("\n".join(lines) + "\n"), first, title))
            opened = None
    assert opened is None, f"the block at line {opened and opened[2]} has no end"
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a block of them."""
    text = block.text.replace("\\\n", " ")
    if not text.startswith("$ "):
        return [Command(words, None) for line in text.splitlines() if (words := shlex.split(line, comments=True))]
    steps = (step.partition("\n") for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:])
    return [Command(shlex.split(command, comments=True), printed.rstrip() or None) for command, _, printed in steps]


def shortened(words: list[str]) -> list[str]:
    """The same command with the sizes of `SHORTER`."""
    words = list(words)
    for flag, value in SHORTER.get(words[1] if words[1:] else "", {}).items():
        if flag in words:
            words[words.index(flag) + 1] = value
        else:
            words += [flag, value]
    return words


class Reader:
    """Somebody who does what a page says."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch):
        self._folder, self._patch = folder, patch
        shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        patch.chdir(folder)
        patch.setenv("ACTIONLESS_CACHE", str(folder / "cache"))

    def follow(self, page: str) -> None:
        """Do all that the page says; an assertion names the line that does not work."""
        for block in blocks(page):
            if block.title is not None:
                continue
            assert block.language in (*DONE, *SHOWN), (
                f"line {block.line}: nobody knows what to do with a block of '{block.language}': write sh, console or "
                "python for what readers are to do, text for what they are to see"
            )
            if block.language == "python":
                self._program(block)
            elif block.language in DONE:
                for command in commands(block):
                    self._command(command, block.line)

    def _program(self, block: Block) -> None:
        if any(f"import {name}" in block.text or f"from {name}" in block.text for name in absent()):
            return
        for path in GIVEN:
            if f'"{path}"' in block.text:
                self._make(path, block.line)
        with as_in_a_process(), _printed() as printed:
            try:
                exec(compile(block.text, f"block at line {block.line}", "exec"), {"__name__": "__main__"})
            except Exception as error:
                raise AssertionError(f"line {block.line}: {error!r}\n{printed.getvalue()}") from error

    def _command(self, command: Command, line: int) -> None:
        words = command.words
        if words[0] in NOT_DONE:
            return
        if words[0] == "export":
            self._export(*words[1].split("=", 1))
            return
        for path in GIVEN:
            if path in words and words[words.index(path) - 1] != "--out":
                self._make(path, line)
        with as_in_a_process(), _printed() as printed:
            code = self._call(shortened(words), line)
        if command.prints is None:
            assert code == 0, f"line {line}: {shlex.join(words)}\n{printed.getvalue()}"
        else:
            assert "\n".join(map(str.rstrip, printed.getvalue().splitlines())) == command.prints, f"line {line}"

    def _call(self, words: list[str], line: int) -> int:
        if words[0] == "actionless":
            return cli.run(words[1:])
        assert words[0] == "python" and words[1].startswith("examples/"), (
            f"line {line}: nobody knows how to do '{shlex.join(words)}' in a test: see tests/documented.py"
        )
        self._patch.setattr(sys, "argv", words[1:])
        sys.path.insert(0, str(self._folder / "examples"))
        runpy.run_path(words[1], run_name="__main__")
        return 0

    def _export(self, name: str, value: str) -> None:
        assert name == "PYTHONPATH", f"{name}: of variables, only PYTHONPATH can be set in this process"
        self._patch.syspath_prepend(self._folder / value)

    def _make(self, path: str, line: int) -> None:
        if not (self._folder / path).exists():
            self._command(Command([*shlex.split(GIVEN[path]), "--out", path], None), line)


def absent() -> list[str]:
    """The modules of `ELSEWHERE` that are not here."""
    return [name for name in ELSEWHERE if importlib.util.find_spec(name) is None]


@contextlib.contextmanager
def as_in_a_process() -> Iterator[None]:
    """As a process does when it ends, forget the path, and modules of the examples with the tasks they registered."""
    path, tasks = list(sys.path), dict(gymnasium.registry)
    try:
        yield
    finally:
        sys.path[:] = path
        gymnasium.registry.clear()
        gymnasium.registry.update(tasks)
        for module in EXAMPLES.glob("*.py"):
            sys.modules.pop(module.stem, None)


@contextlib.contextmanager
def _printed() -> Iterator[io.StringIO]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        yield printed
