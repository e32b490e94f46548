"""Every block of commands and every program in the README and the documentation works, and prints what it shows."""

import re
import shlex

import pytest
from documented import DONE, ELSEWHERE, GIVEN, NOT_DONE, ROOT, SHORTER, Block, Reader, blocks, commands, shortened

PAGES = {page.stem: page.read_text() for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}
TO_DO = [name for name, page in PAGES.items() if any(b.language in DONE and b.title is None for b in blocks(page))]


@pytest.fixture
def reader(tmp_path, monkeypatch):
    return Reader(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", TO_DO)
def test_blocks_do_what_they_show(name, reader):
    reader.follow(PAGES[name])


def test_commands_stand_in_blocks_that_are_done():
    """A fence without its language would hide them from the test above."""
    for name, page in PAGES.items():
        for block in blocks(page):
            hidden = re.search(r"^(\$ |actionless |pip |make |import )", block.text, re.MULTILINE)
            assert block.language in DONE or block.title or hidden is None, f"{name}, line {block.line}: {block.text}"


def test_blocks_of_a_clone_are_done_elsewhere():
    """A title takes a block out of the test above; one page has a test that does these."""
    assert [name for name, page in PAGES.items() if any(block.title for block in blocks(page))] == ["adding-a-learner"]


@pytest.mark.parametrize("name", PAGES)
def test_files_that_a_page_names_are_there(name):
    named = set(re.findall(r"\b((?:experiments|benchmarks|examples|docs)/[\w./-]*\w)", PAGES[name]))
    modules = {f"{module.replace('.', '/')}.py" for module in re.findall(r"-m (benchmarks\.\w+)", PAGES[name])}
    assert [path for path in named | modules if not (ROOT / path).exists()] == []


def test_no_rule_outlives_what_it_is_for():
    everything = [block for page in PAGES.values() for block in blocks(page)]
    done = [block for block in everything if block.language in DONE[:2] and block.title is None]
    called = [command.words for block in done for command in commands(block)]
    assert SHORTER.keys() <= {words[1] for words in called}
    assert NOT_DONE.keys() <= {words[0] for words in called}
    texts = "\n".join(block.text for block in everything)
    assert [name for name in (*GIVEN, *ELSEWHERE) if name not in texts] == []


def test_programs_for_stable_baselines3_are_those_of_the_page_that_its_job_does():
    for name, page in PAGES.items():
        for block in blocks(page):
            if "stable_baselines3" in block.text and block.language == "python":
                assert block.text in PAGES["guide-your-agent"], f"{name}, line {block.line}"


def test_sizes_are_all_that_is_shortened():
    words = shlex.split("actionless train Hopper-v5 --seeds 5 --guide runs/hopper --out runs/guided")
    assert shlex.join(shortened(words)) == (
        "actionless train Hopper-v5 --seeds 1 --guide runs/hopper --out runs/guided "
        "--scale smoke --steps 400 --episodes 1"
    )
    assert shortened(["actionless", "inspect", "log.npz"]) == ["actionless", "inspect", "log.npz"]


def test_commands_and_what_they_print():
    block = Block("console", "$ first --a 'b c'  # why\nline 1\nline 2\n\n$ second \\\n  --long\n", 1)
    first, second = commands(block)
    assert (first.words, first.prints) == (["first", "--a", "b c"], "line 1\nline 2")
    assert (second.words, second.prints) == (["second", "--long"], None)
    assert [command.words for command in commands(Block("sh", "# why\none  # two\n\nthree\n", 1))] == [
        ["one"],
        ["three"],
    ]


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("```sh\nfrobnicate --all\n```", "line 1: nobody knows how to do 'frobnicate --all'"),
        ("```bash\nactionless --version\n```", "nobody knows what to do with a block of 'bash'"),
        ("text\n\n```sh\nactionless inspect nothing.parquet\n```", "(?s)line 3: .*nothing.parquet: no such file"),
        ("```console\n$ actionless --version\nactionless 99\n```", "line 1"),
        ("- in a list\n\n  ```python\n  raise KeyError('gone')\n  ```", "line 3: KeyError"),
        ("```python\nassert 1 == 2\n```", "line 1: AssertionError"),
        ("```sh\nactionless --version", "the block at line 1 has no end"),
    ],
)
def test_a_block_that_does_not_work_is_found(block, complaint, reader):
    with pytest.raises(AssertionError, match=complaint):
        reader.follow(block)


def test_a_page_that_works(reader, tmp_path):
    reader.follow(
        "```console\n$ actionless --version\nactionless 0.1.0\n```\n```python\nopen('made', 'w').close()\n```\n"
    )
    assert (tmp_path / "made").exists()
