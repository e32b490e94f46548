"""How kinds of guidance are chosen, configured, stored and restored: no run is needed for that."""

from types import SimpleNamespace
from typing import Any

import pytest

from actionless.errors import ActionlessError
from actionless.guidance import kinds
from actionless.guidance.interface import Guidance, GuidanceSettings
from actionless.guidance.plans import PlansSettings
from actionless.guidance.schedule import Fixed, PaperSchedule
from actionless.guidance.switch import SwitchSettings
from actionless.offline.planner import Planner
from actionless.offline.state_policy import StatePolicy
from actionless.online.agent import Spec
from actionless.settings import FromPython, from_json, to_json

STATE, PLAN, AGENT = kinds.Held(StatePolicy.kind, True), kinds.Held(Planner.kind, False), kinds.Held("agent", False)
NO_VALUES = kinds.Held(StatePolicy.kind, False)


class Mine(Guidance):
    """A user's own."""


def steady(step):
    return 0.25


def configured(parts, scale="smoke", steps=200, **given):
    presets = kinds.presets(parts, scale)
    kinds.require_known(list(given), presets)
    return kinds.completed(kinds.with_settings(presets, given), "runs/a", steps)


def stored(parts):
    """Written to JSON, and read again."""
    return from_json(tuple[Any, ...], to_json(parts), "run.json")


class TestChoice:
    @pytest.mark.parametrize(
        ("holds", "names"), [(STATE, ["potential", "relabel"]), (NO_VALUES, ["relabel"]), (PLAN, ["plans"])]
    )
    def test_what_the_guide_holds_decides(self, holds, names):
        assert kinds.chosen(None, "runs/a", holds) == names

    def test_no_guide_no_guidance(self):
        assert kinds.chosen(None, None, None) == []

    def test_names_and_objects_in_their_order(self):
        mine = Mine()
        assert kinds.chosen([mine, "switch"], "runs/a", STATE) == [mine, "switch"]
        assert kinds.chosen("switch ", "runs/a", STATE) == ["switch"]
        assert kinds.chosen(mine, None, None) == [mine]

    @pytest.mark.parametrize(
        ("asked", "guide", "holds", "message"),
        [
            (None, "runs/a", AGENT, r"runs/a: holds no state policy and no plans, so it cannot guide: give a run of"),
            ("plan", "runs/a", PLAN, r"guidance='plan': choose 'switch', 'paper', 'potential', 'relabel'"),
            ("switch", None, None, r"guidance 'switch' without a guide: name the run to be guided by \(--guide RUN\)"),
            ("plans", "runs/a", STATE, r"runs/a: does not fit guidance 'plans': with it, use 'switch' or 'paper'"),
            ("plans", "runs/a", AGENT, r"runs/a: does not fit guidance 'plans': give another run"),
            ("switch,switch", "runs/a", STATE, r"guidance: 'switch' is named twice; name each kind once"),
            ("switch,paper", "runs/a", STATE, r"guidance: 'switch' and 'paper' both have the setting \w+: name one of"),
            ([], "runs/a", STATE, r"runs/a: nothing uses this guide: name a kind of guidance too, or leave it out"),
        ],
    )
    def test_what_does_not_fit(self, asked, guide, holds, message):
        with pytest.raises(ActionlessError, match=message):
            kinds.chosen(asked, guide, holds)


class TestSettings:
    def test_the_scale_and_the_length_of_the_run_fill_the_gaps(self):
        (switch,) = configured(["switch"], scale="paper", steps=1000)
        assert switch.idm.hidden == (512, 512, 512)
        assert switch.schedule == PaperSchedule(interval=100)

    def test_by_flat_names(self):
        (switch,) = configured(["switch"], beta=0.25, idm_hidden=(8,), idm_every=2, bootstrap=False)
        assert (switch.beta, switch.schedule, switch.bootstrap) == (0.25, None, False)
        assert (switch.idm.hidden, switch.idm.every, switch.idm.batch_size) == ((8,), 2, 64)
        assert not switch.reads_log

    def test_one_that_no_kind_has(self):
        with pytest.raises(ActionlessError, match=r"guide_weight: not an option of guidance by switch, which knows b"):
            configured(["switch"], guide_weight=1.0)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"beta": 2.0}, r"beta=2\.0: choose a number between 0 and 1"),
            ({"idm_every": 0}, r"idm_every=0: choose at least 1"),
            ({"idm_hidden": (8, 0)}, r"idm_hidden, number 2=0: choose at least 1"),
            ({"beta": 0.5, "schedule": steady}, r"beta=0\.5 and a schedule: give one of them"),
        ],
    )
    def test_one_that_is_out_of_bounds(self, given, message):
        with pytest.raises(ActionlessError, match=message):
            configured(["switch"], **given)

    def test_a_schedule_that_is_no_function(self):
        # Not through the constructor, whose annotations tests enforce.
        with pytest.raises(ActionlessError, match=r"schedule=0\.5: give a function from the step to a probability"):
            SwitchSettings.check(SimpleNamespace(beta=None, schedule=0.5))

    def test_memory_grows_with_the_log_and_what_is_remembered(self):
        (switch,) = configured(["switch"])
        spec = Spec(3, 2, None)
        assert kinds.memory([switch, Mine()], spec, kept=100, logged=10) == 100 * (4 * 8 + 6) + 16 * 10 * 3
        assert kinds.memory([PlansSettings(1.0)], spec, kept=100, logged=10) == 0


class TestStoring:
    def test_settings_come_back_as_they_were(self):
        parts = (*configured(["switch"]), PlansSettings(3.0, 0.5))
        assert stored(parts) == parts
        assert to_json(parts)[1] == {"kind": "plans", "target_return": 3.0, "guide_weight": 0.5}
        assert kinds.from_python(parts) == []
        assert kinds.restored(stored(parts), (), {}, "runs/b") == parts

    def test_a_function_has_to_be_given_again(self):
        parts = configured(["switch"], schedule=steady)
        assert kinds.from_python(parts) == kinds.from_python(stored(parts)) == ["schedule"]
        message = r"runs/b: its schedule was handed over from Python: `actionless\.resume\('runs/b', schedule=\.\.\.\)`"
        with pytest.raises(ActionlessError, match=message):
            kinds.restored(stored(parts), (), {}, "runs/b")
        assert kinds.restored(stored(parts), (), {"schedule": steady}, "runs/b") == parts
        with pytest.raises(ActionlessError, match=r"runs/b: idm_every: run\.json holds this setting already"):
            kinds.restored(stored(parts), (), {"schedule": steady, "idm_every": 7}, "runs/b")

    def test_an_object_has_to_be_given_again(self):
        mine, parts = Mine(), configured(["switch"], beta=0.5)
        saved = stored((mine, *parts))
        assert isinstance(saved[0], FromPython)
        assert kinds.from_python(saved) == ["guidance"]
        for wrong in ((), (Guidance(),), (mine, mine)):
            with pytest.raises(ActionlessError, match=r"runs/b: give Mine again: `actionless\.resume\('runs/b', guid"):
                kinds.restored(saved, wrong, {}, "runs/b")
        assert kinds.restored(saved, (mine,), {}, "runs/b") == (mine, *parts)

    def test_an_object_that_was_not_there(self):
        with pytest.raises(ActionlessError, match="runs/b: it has no guidance from Python"):
            kinds.restored(configured(["switch"]), (Mine(),), {}, "runs/b")


def test_every_kind_in_the_table_is_stored_by_its_name():
    for name, kind in kinds.KINDS.items():
        settings = kind.preset("smoke")
        assert isinstance(settings, GuidanceSettings)
        # A schedule is called 'paper' already.
        assert to_json(settings)["kind"] == {"paper": "paper-switch"}.get(name, name)


def test_a_fixed_schedule_is_a_schedule_too():
    assert SwitchSettings(schedule=Fixed(0.5))._schedule() == SwitchSettings(beta=0.5)._schedule()
