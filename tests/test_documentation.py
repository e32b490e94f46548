"""The commands and programs in the documentation work and print what it says they print."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
WITH_BLOCKS = [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.name)
def test_blocks_do_what_they_show(page, tmp_path):
    """In order, in one folder that has the examples: a page's blocks build on each other."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for language, block in BLOCK.findall(page.read_text()):
        if language == "python":
            done = run([sys.executable, "-c", block], tmp_path)
            assert done.returncode == 0, done.stdout
        else:
            run_console_block(block, tmp_path)


def run_console_block(block: str, folder: Path) -> None:
    """`$ command` is followed by its output; a line without `$` is a command whose output is not shown."""
    shows_output = block.startswith("$ ")
    steps = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:] if shows_output else block.splitlines()
    for step in steps:
        command, _, expected = step.partition("\n")
        if not command.startswith("actionless "):
            assert command.split()[0] == "make", f"not a command of this project: {command}"
            continue
        done = run(["bash", "-c", f"{sys.executable} -m {command}"], folder)
        if shows_output:
            printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
            assert printed == expected.rstrip()
        else:
            assert done.returncode == 0, done.stdout


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    )
