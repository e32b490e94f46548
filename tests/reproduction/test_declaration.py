"""Declarations: what a list, a table by scale and a pattern stand for, and every kind of mistake."""

import pytest
from declared import declaration

from actionless.errors import ActionlessError
from actionless.reproduction.collect import _paper_numbers
from actionless.reproduction.declaration import load, shipped_names

SWEEP = """
title = "α"
logs = ["plant.parquet"]
values = ["heldout/error"]

[pretrain]
steps = { smoke = 60, cpu = 1000 }

[[line]]
name = "α = {alpha}"
pretrain = { alpha = [1, 3], hidden = "32,32" }
"""


def test_a_list_stands_for_a_line_for_each_value():
    declared = declaration(SWEEP)
    assert [line.name for line in declared.lines] == ["α = 1", "α = 3"]
    assert declared.lines[1].verbs == {"pretrain": {"alpha": 3, "hidden": "32,32", "steps": 60}}
    assert (declared.seeds, declared.logs, declared.shipped) == (1, ("plant.parquet",), False)


def test_several_lists_stand_for_every_combination():
    text = SWEEP.replace('"α = {alpha}"', '"mine"').replace('"32,32"', '["8", "16"]')
    names = [line.name.removeprefix("mine, ") for line in declaration(text).lines]
    assert names == ["alpha 1, hidden 8", "alpha 1, hidden 16", "alpha 3, hidden 8", "alpha 3, hidden 16"]


def test_an_option_is_left_out_at_a_scale_that_it_lacks():
    assert declaration(SWEEP, "cpu").lines[0].verbs["pretrain"]["steps"] == 1000
    paper = declaration(SWEEP, "paper")
    assert "steps" not in paper.lines[0].verbs["pretrain"]
    assert paper.seeds == 5


def test_a_pattern_stands_for_the_papers_data_sets():
    text = SWEEP.replace('["plant.parquet"]', '["walker2d-medium*", "plant/*.csv"]')
    assert declaration(text).logs == (
        "walker2d-medium-replay",
        "walker2d-medium",
        "walker2d-medium-expert",
        "plant/*.csv",
    )


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ('title = "α"', "", "mine.toml: no title"),
        ('title = "α"', "title = 3", "title = 3: give a text"),
        ('title = "α"', 'titel = "α"', "'titel' is no key of a declaration"),
        ('title = "α"', "title =", "Invalid value"),
        ('["plant.parquet"]', "[]", "no logs; add logs"),
        ('["heldout/error"]', "[]", "no values; add values"),
        ('name = "α = {alpha}"', "", "every [[line]] needs a name"),
        ("{alpha}", "{beta}", "{beta} is no option of the line"),
        ('"α = {alpha}"', '"α {hidden}"', "two lines are called 'α 32,32'"),
        (
            "pretrain = { alpha = [1, 3]",
            "evaluate = { alpha = [1, 3]",
            "evaluate; choose one of: pretrain; pretrain then",
        ),
        ("pretrain = { alpha = [1, 3]", "pretrian = { alpha = [1, 3]", "'pretrian' is no key"),
        ('pretrain = { alpha = [1, 3], hidden = "32,32" }', "pretrain = 3", "give a table of options"),
        ('title = "α"', 'title = "α"\nrows = "seeds"', "rows = 'seeds': choose 'logs' or 'lines'"),
        ('title = "α"', 'title = "α"\nseeds = 0', "seeds = 0: choose at least 1"),
    ],
)
def test_mistakes(was, becomes, said):
    assert was in SWEEP
    with pytest.raises(ActionlessError) as error:
        declaration(SWEEP.replace(was, becomes))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_names_that_do_not_exist(tmp_path):
    with pytest.raises(ActionlessError, match="table-3: no such experiment; choose theorem, table-1"):
        load("table-3", "smoke")
    with pytest.raises(ActionlessError, match=r"none\.toml: No such file or directory; give a TOML file"):
        load(str(tmp_path / "none.toml"), "smoke")


@pytest.mark.parametrize("scale", ["smoke", "cpu", "paper"])
@pytest.mark.parametrize("name", shipped_names())
def test_every_experiment_of_the_package_can_be_read(name, scale):
    declared = load(name, scale)
    assert declared.title
    assert declared.computed or declared.lines


@pytest.mark.parametrize("name", [name for name in shipped_names() if _paper_numbers(name)])
def test_every_number_of_the_paper_has_its_cell(name):
    """At the paper's scale every number stands beside a cell, and every cell of a table has a number."""
    declared = load(name, "paper")
    cells = {
        (value, log, line.name)
        for value in declared.values
        for line in declared.lines
        for log in line.logs or declared.logs
        if log in declared.logs
    }
    assert _paper_numbers(name).keys() <= cells
    if name.startswith("table") and name != "table-cost":
        lacking = cells - _paper_numbers(name).keys()
        assert {(value, line) for value, _, line in lacking} <= {("rollout_delta_error", "BC Δs (3 bins)")}


def test_numbers_as_printed_in_the_paper():
    assert str(_paper_numbers("table-1")["score", "hopper-medium-replay", "OSO-DecQN"]) == "65.7 ± 2.6"
    assert str(_paper_numbers("table-1")["score", "walker2d-medium", "DecQN_N"]) == "-0.33 ± 0.01"
    assert str(_paper_numbers("table-2")["rollout_delta_error", "quadruped-walk-expert", "BC s'"]) == "77"
    assert (
        str(_paper_numbers("table-bins")["rollout_delta_error", "hopper-medium", "OSO-DecQN (2 bins)"]) == "0.1 ± 0.004"
    )
    assert str(_paper_numbers("table-epsilon")["score", "walker2d-medium", "ε = 1e-05"]) == "84.6 ± 0.26"
    assert str(_paper_numbers("table-idm-size")["score", "walker2d-medium", "4 layers, batch 768"]) == "119.8 ± 3.4"
