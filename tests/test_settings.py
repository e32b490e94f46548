"""Settings check themselves, are changed by flat names, and survive JSON."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
import pytest

from actionless.errors import ActionlessError
from actionless.settings import (
    Bounds,
    Count,
    Derived,
    Fraction,
    FromPython,
    NonNegative,
    Number,
    Parts,
    Positive,
    Settings,
    changed,
    field_help,
    flat_names,
    from_json,
    settings_fields,
    to_json,
)


@dataclass(frozen=True)
class Inner(Settings):
    hidden: tuple[Count, ...] = (32, 32)
    """Sizes of the
    hidden layers."""
    every: Count = 4


@dataclass(frozen=True)
class Loud(Settings, kind="test-loud"):
    volume: Positive = 1.0
    """How loud."""
    inner: Inner = field(default_factory=Inner)
    schedule: Callable[[int], float] | None = None


@dataclass(frozen=True)
class Quiet(Settings, kind="test-quiet"):
    whisper: bool = True


@dataclass(frozen=True)
class Whole(Settings):
    name: Literal["a", "b"]
    steps: Count
    rate: NonNegative = 0.1
    share: Fraction = 0.5
    target: Number | None = None
    expectile: Annotated[float, Bounds(0, 1, above=True, below=True)] = 0.7
    learner: Settings = field(default_factory=Loud)
    guidance: Parts = ()
    size: Derived[int] = 7

    def check(self):
        if self.steps < self.size:
            raise ActionlessError(f"steps={self.steps}: choose at least {self.size}")


@dataclass(frozen=True)
class Range(Settings):
    low: int
    high: int

    def check(self):
        if self.low >= self.high:
            raise ActionlessError(f"low={self.low}: choose below {self.high}")


WHOLE = Whole("a", 10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps=0: choose at least 1"),
        ({"steps": 2.5}, "steps=2.5: choose a whole number of at least 1"),
        ({"steps": True}, "steps=True: choose at least 1"),
        ({"steps": "9"}, "steps='9': choose a whole number of at least 1"),
        ({"learner": 3}, "learner=3: give settings of the class Settings"),
        ({"steps": 3}, "steps=3: choose at least 7"),
        ({"rate": -1.0}, "rate=-1.0: choose a finite number of at least 0"),
        ({"rate": float("nan")}, "rate=nan: choose a finite number of at least 0"),
        ({"share": 1.5}, "share=1.5: choose a number between 0 and 1"),
        ({"target": float("inf")}, "target=inf: choose a finite number"),
        ({"expectile": 1.0}, "expectile=1.0: choose a number above 0 and below 1"),
        ({"name": "c"}, "name='c': choose 'a', 'b'"),
        ({"volume": 0.0}, "volume=0.0: choose a finite number above 0"),
        ({"inner_hidden": (32, 0)}, "inner_hidden, number 2=0: choose at least 1"),
        ({"size": 3}, "size: not an option of the test, which knows"),
        ({"stesp": 3}, "did you mean steps?"),
    ],
)
def test_a_setting_out_of_bounds_is_named_with_what_to_choose(settings, message):
    with pytest.raises(ActionlessError) as refused:
        changed(WHOLE, settings, "the test")
    assert message in str(refused.value)


def test_the_bounds_hold_wherever_an_object_is_made():
    with pytest.raises(ActionlessError, match="every=0: choose at least 1"):
        Inner(every=0)


def test_flat_names_reach_every_part():
    settings = Whole("a", 10, learner=Quiet(), guidance=(Loud(),))
    settings = changed(settings, {"steps": 20, "whisper": False, "inner_every": 2}, "the test")
    assert (settings.steps, settings.learner, settings.guidance) == (20, Quiet(False), (Loud(inner=Inner(every=2)),))


def test_lists_and_numbers_of_numpy_are_taken_as_pythons():
    settings = changed(WHOLE, {"inner_hidden": [8, np.int64(4)], "rate": np.float32(0.5)}, "the test")
    assert settings.learner.inner.hidden == (8, 4)
    assert type(settings.rate) is float


def test_two_settings_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two settings are called 'volume'"):
        flat_names(Whole("a", 10, guidance=(Loud(),)))


def test_a_kind_that_is_taken_is_refused():
    with pytest.raises(ValueError, match=r"kind 'test-loud' of .* is taken"):

        @dataclass(frozen=True)
        class Other(Settings, kind="test-loud"):
            pass


def test_changes_are_made_together():
    assert changed(Range(1, 2), {"low": 5, "high": 6}, "the test") == Range(5, 6)


def test_a_whole_part_can_be_replaced_and_changed_further():
    settings = changed(WHOLE, {"learner": Loud(3.0), "inner_every": 2}, "the test")
    assert settings.learner == Loud(3.0, Inner(every=2))


def test_prefixes_begin_at_the_second_level():
    assert set(flat_names(WHOLE)) == {
        *("name", "steps", "rate", "share", "target", "expectile"),
        *("volume", "inner_hidden", "inner_every", "schedule"),
    }


def test_a_fixed_setting_is_no_option():
    with pytest.raises(ActionlessError, match="volume: not an option of whispering, which knows"):
        changed(WHOLE, {"volume": 2.0}, "whispering", fixed=("volume",))


def test_help_is_the_text_below_a_field():
    assert field_help(Inner) == {"hidden": "Sizes of the hidden layers."}
    assert field_help(Loud)["volume"] == "How loud."


def test_types_for_the_command_line_have_no_bounds():
    fields = settings_fields(Whole)
    assert fields["target"] == (float | None) and fields["steps"] is int and "size" not in fields
    assert settings_fields(Inner)["hidden"] == tuple[int, ...]


def test_json_gives_back_what_was_stored():
    settings = Whole("b", 12, target=2.0, learner=Quiet(False), guidance=(Loud(2.0, Inner((8,))), Quiet()))
    stored = json.loads(json.dumps(to_json(settings)))
    assert stored["learner"] == {"kind": "test-quiet", "whisper": False}
    assert from_json(Whole, stored, "run.json") == settings


def test_a_dataclass_of_the_users_is_marked_too():
    @dataclass
    class Mine:
        x: int = 1

    (stored,) = to_json((Mine(),))
    assert stored["kind"] == "python" and stored["name"].endswith("Mine")


def test_a_part_of_another_class_is_named():
    with pytest.raises(ActionlessError, match=r"run\.json: 'test-loud' stands where a Quiet should be"):
        from_json(Quiet, {"kind": "test-loud"}, "run.json")


def test_a_function_from_python_is_marked():
    stored = to_json(Loud(schedule=lambda step: 0.5))
    restored = from_json(Settings, json.loads(json.dumps(stored)), "run.json")
    assert isinstance(restored, Loud) and isinstance(restored.schedule, FromPython)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"name": "a"}, "run.json: the setting 'steps' is missing"),
        ({"name": "a", "steps": -5}, "run.json: steps=-5: choose at least 1"),
        ({"name": "a", "steps": 9, "odd": 1}, "run.json: 'odd' is not a setting of Whole"),
        ({"name": "a", "steps": 9, "learner": {"kind": "unheard"}}, "kind 'unheard' is not known here"),
        ([], r"run.json: \[\] stands where settings should be"),
    ],
)
def test_damaged_json_is_named(stored, message):
    with pytest.raises(ActionlessError, match=message):
        from_json(Whole, stored, "run.json")


def test_what_a_file_lacks_has_its_default():
    assert from_json(Whole, {"name": "a", "steps": 9}, "run.json") == Whole("a", 9)
