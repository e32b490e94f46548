"""Settings that a verb takes, as its flags and its signature show them."""

import inspect
from dataclasses import dataclass, field
from typing import Literal

from actionless.declared import AUTO, Alternative, declared_settings, documented
from actionless.settings import Auto, Count, Derived, Fraction, Number, Settings


@dataclass(frozen=True)
class Inner(Settings):
    size: Count = 3
    """How large."""


@dataclass(frozen=True)
class Red(Settings, kind="test-red"):
    rate: Fraction = 0.5
    """How fast."""
    glow: bool = True
    """Whether it glows."""
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True)
class Blue(Settings, kind="test-blue"):
    rate: Fraction = 0.5
    """How fast, for blue ones."""
    depth: Number | None = None
    shade: Literal["light", "dark"] = "light"
    """How
    dark."""


@dataclass(frozen=True)
class Loop(Settings):
    every: Count = 10
    """How often."""


@dataclass(frozen=True)
class Whole(Settings):
    name: Derived[str]
    steps: Auto[Count]
    """How long."""
    learner: Settings
    loop: Loop = field(default_factory=Loop)


COLOURS = {
    "red": Alternative([Red(), Red(inner=Inner(9))]),
    "crimson": Alternative([Red()], hidden=("glow",)),
    "blue": Alternative([Blue(rate=0.25)], auto=("shade",)),
}
DECLARED = {each.name: each for each in declared_settings(Whole("x", 5, Red()), {"learner": COLOURS})}


def test_all_are_found_by_their_flat_names_in_order():
    assert list(DECLARED) == ["steps", "every", "rate", "glow", "inner_size", "depth", "shade"]
    assert [DECLARED[name].part for name in ("steps", "every", "rate", "inner_size")] == ["", "loop", *["learner"] * 2]


def test_a_default_is_shown_where_it_is_the_same_everywhere():
    assert {name: each.default for name, each in DECLARED.items()} == {
        "steps": AUTO,
        "every": 10,
        "rate": AUTO,
        "glow": True,
        "inner_size": AUTO,
        "depth": None,
        "shade": AUTO,
    }


def test_who_knows_a_setting_is_told_where_not_all_do():
    assert DECLARED["rate"].explained == "How fast."
    assert DECLARED["glow"].explained == "Whether it glows. (red)"
    assert DECLARED["inner_size"].explained == "How large. (all but blue)"
    assert DECLARED["shade"].explained == "How dark. (blue)"
    assert DECLARED["depth"].explained == "(blue)"


def test_types_have_no_bounds():
    assert DECLARED["rate"].type is float
    assert DECLARED["depth"].type == (float | None)


def test_a_function_shows_every_setting():
    @documented(tuple(DECLARED.values()))
    def paint(wall: str, *, colour: str = "red", **settings: object) -> dict[str, object]:
        """Paint a wall."""
        return {"wall": wall, "colour": colour, **settings}

    assert str(inspect.signature(paint)) == (
        "(wall: str, *, colour: str = 'red', steps: int | None = None, every: int = 10, rate: float | None = None, "
        "glow: bool = True, inner_size: int | None = None, depth: float | None = None, "
        "shade: Optional[Literal['light', 'dark']] = None) -> dict[str, object]"
    )
    assert inspect.getdoc(paint) == (
        "Paint a wall.\n\nSettings:\n"
        "  steps = auto: How long.\n"
        "  every = 10: How often.\n"
        "  rate = auto: How fast.\n"
        "  glow = True: Whether it glows. (red)\n"
        "  inner_size = auto: How large. (all but blue)\n"
        "  depth = None: (blue)\n"
        "  shade = auto: How dark. (blue)"
    )
    assert paint("north", every=3) == {"wall": "north", "colour": "red", "every": 3}


def test_a_class_typed_at_a_prompt_has_no_help():
    space: dict[str, object] = {"Settings": Settings, "dataclass": dataclass, "__name__": "__main__"}
    exec("@dataclass(frozen=True)\nclass Typed(Settings):\n    size: int = 3\n    'How large.'", space)
    typed = space["Typed"]
    assert isinstance(typed, type) and issubclass(typed, Settings)
    found = declared_settings(Whole("x", 5, typed()), {"learner": {"typed": Alternative([typed()])}})
    assert [(each.name, each.help) for each in found if each.part == "learner"] == [("size", "")]
