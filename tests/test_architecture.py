"""The import graph of the package, built from its source, goes one way: the way that docs/architecture.md states."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "actionless"

HEADING = "## Order of the parts"

EXCEPTIONS = {("actionless.execution.inline", "actionless.cli"): "a job is a command line, which it runs here"}
"""Imports (of a module, from a module) that may go against the order, each with the reason; architecture.md says so."""


def order_in(page: str) -> list[str]:
    """The parts in the code block below the heading, from left to right."""
    block = re.search(rf"^{HEADING}\n.*?```\n(.*?)```", page, re.MULTILINE | re.DOTALL)
    assert block is not None, f"docs/architecture.md has no section '{HEADING}' with a block of parts"
    return [part.strip() for part in block[1].replace("\n", " ").split("→")]


def sources_in(folder: Path) -> dict[str, str]:
    """The source of each module by its name."""
    names = {path: path.relative_to(folder).with_suffix("").parts for path in folder.rglob("*.py")}
    return {".".join(parts).removesuffix(".__init__"): path.read_text() for path, parts in names.items()}


def imports_of(source: str, modules: set[str]) -> set[str]:
    """The modules that a source imports: at the top, in a function, for types alone, or on first use.

    A text that is the name of a module counts: that is how a table names what `importlib` is to import.
    """
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import; name the whole module"
            # `from package import module` imports the module, `from module import name` the module of the name.
            found |= {f"{node.module}.{alias.name}" for alias in node.names} & modules or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            found.add(node.value)
    return found & modules


def import_graph(sources: dict[str, str]) -> dict[str, set[str]]:
    graph = {module: imports_of(source, set(sources)) - {module} for module, source in sources.items()}
    return {
        module: {imported for imported in imports if (module, imported) not in EXCEPTIONS}
        for module, imports in graph.items()
    }


def part_of(module: str) -> str:
    """What stands in the list: the first name below the package, or the package itself."""
    return module.removeprefix(f"{PACKAGE}.").split(".")[0]


def against_the_order(graph: dict[str, set[str]], order: list[str]) -> list[str]:
    place = {part: number for number, part in enumerate(order)}
    assert place.keys() >= {part_of(module) for module in graph}, "docs/architecture.md does not place every part"
    return [
        f"{module} imports {imported}, of a part to its right"
        for module, imports in sorted(graph.items())
        for imported in sorted(imports)
        if place[part_of(imported)] > place[part_of(module)]
    ]


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one cycle, the first of them again at the end; empty where there is none."""
    finished: set[str] = set()

    def search(module: str, way: list[str]) -> list[str]:
        if module in way:
            return [*way[way.index(module) :], module]
        if module in finished:
            return []
        for imported in sorted(graph[module]):
            if found := search(imported, [*way, module]):
                return found
        finished.add(module)
        return []

    return next((found for module in sorted(graph) if (found := search(module, []))), [])


@pytest.fixture(scope="module")
def graph():
    return import_graph(sources_in(ROOT / "src"))


@pytest.fixture(scope="module")
def order():
    return order_in((ROOT / "docs" / "architecture.md").read_text())


def test_the_list_names_every_part_once(graph, order):
    assert sorted(order) == sorted({part_of(module) for module in graph})


def test_parts_import_only_from_their_left(graph, order):
    assert against_the_order(graph, order) == []


def test_no_modules_import_each_other(graph):
    assert " → ".join(cycle_in(graph)) == ""


def test_every_exception_is_needed():
    sources = sources_in(ROOT / "src")
    assert [pair for pair in EXCEPTIONS if pair[1] not in imports_of(sources.get(pair[0], ""), set(sources))] == []


class TestTheGraphItself:
    """A test that cannot fail would hold nothing."""

    MODULES = frozenset({"actionless", "actionless.left", "actionless.left.a", "actionless.left.b", "actionless.right"})

    @pytest.mark.parametrize(
        ("source", "imported"),
        [
            ("import actionless.right", {"actionless.right"}),
            ("from actionless.left import a, b", {"actionless.left.a", "actionless.left.b"}),
            ("from actionless.left.a import name", {"actionless.left.a"}),
            ("from actionless import right as r", {"actionless.right"}),
            ("from actionless import train", {"actionless"}),
            ("def f():\n    from actionless.right import name", {"actionless.right"}),
            ("if TYPE_CHECKING:\n    from actionless.right import name", {"actionless.right"}),
            ("HOME = {'verb': 'actionless.left.b'}", {"actionless.left.b"}),
            ("import numpy.random\nfrom os import path\n'actionless.left.a is named here'", set()),
        ],
    )
    def test_sees_every_kind_of_import(self, source, imported):
        assert imports_of(source, set(self.MODULES)) == imported

    def test_refuses_relative_imports(self):
        with pytest.raises(AssertionError, match="relative import"):
            imports_of("from . import a", set(self.MODULES))

    def test_finds_an_import_from_the_right(self):
        graph = {"actionless.left.a": {"actionless.right"}, "actionless.right": {"actionless.left.b"}}
        assert against_the_order(graph, ["left", "right"]) == [
            "actionless.left.a imports actionless.right, of a part to its right"
        ]

    def test_finds_a_cycle(self):
        assert cycle_in({"a": {"b"}, "b": {"c"}, "c": set()}) == []
        assert cycle_in({"a": {"b", "d"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c", "b"]

    def test_reads_the_list(self):
        page = f"# Page\n\n{HEADING}\n\nWords.\n\n```\nerrors → files\n→ cli\n```\n\n```\nanother → block\n```\n"
        assert order_in(page) == ["errors", "files", "cli"]
