"""The commands and programs in the documentation work and print what it says they print."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list:
    found = []
    for page in PAGES:
        for match in re.finditer(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            line = page.read_text()[: match.start()].count("\n") + 1
            found.append(pytest.param(match[1], id=f"{page.name}:{line}"))
    return found


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with the examples, in which commands may write; the blocks of a page build on each other."""
    folder = tmp_path_factory.mktemp("documentation")
    shutil.copytree(ROOT / "examples", folder / "examples")
    return folder


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("program", blocks("python"))
def test_python_blocks_run(workplace, program):
    done = run([sys.executable, "-c", program], workplace)
    assert done.returncode == 0, done.stdout


@pytest.mark.xdist_group("documentation")
@pytest.mark.parametrize("block", blocks("console"))
def test_console_blocks_do_what_they_show(workplace, block):
    """`$ command` is followed by its output; a line without `$` is a command whose output is not shown."""
    shows_output = block.startswith("$ ")
    steps = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:] if shows_output else block.splitlines()
    for step in steps:
        command, _, expected = step.partition("\n")
        if not command.startswith("actionless "):
            assert command.split()[0] == "make", f"not a command of this project: {command}"
            continue
        done = run(["bash", "-c", f"{sys.executable} -m {command}"], workplace)
        if shows_output:
            printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
            assert printed == expected.rstrip()
        else:
            assert done.returncode == 0, done.stdout
