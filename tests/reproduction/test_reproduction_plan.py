"""From declarations to jobs: what is shared, what is not, and that the command line knows every option."""

import pytest
from declared import declaration, log_file, planner

from actionless import cli
from actionless.errors import ActionlessError
from actionless.execution.executor import Plan
from actionless.reproduction.declaration import load, shipped_names
from actionless.reproduction.reproduce import _supposed

TEXT = """
title = "one"
logs = ["hopper-medium"]
values = ["score"]

[[line]]
name = "played"
pretrain = { method = "oso-decqn" }
evaluate = { episodes = 2 }

[[line]]
name = "guided"
pretrain = {}
train = { guidance = "paper", steps = 3000, bootstrap = false }

[[line]]
name = "alone"
train = { steps = 3000 }
"""


def runs_of(tmp_path, text, *logs, seeds=1, scale="smoke"):
    mine = planner(tmp_path, logs or [log_file()], scale)
    declared = declaration(text, scale)
    mine.plan(declared, [log.name for log in logs] or declared.logs, seeds)
    return {piece.job.out.name for piece in mine.pieces.values()}, mine


def test_the_same_content_is_one_run(tmp_path):
    names, mine = runs_of(tmp_path, TEXT)
    assert sorted(name.rsplit("-", 1)[0] for name in names) == [
        "evaluate-oso-decqn-hopper-medium-0",
        "pretrain-oso-decqn-hopper-medium-0",
        "train-td3-Hopper-v5-0",
        "train-td3-paper-hopper-medium-0",
    ]
    again, _ = runs_of(tmp_path, TEXT.replace('method = "oso-decqn"', 'method = "oso-decqn", epsilon = 1e-4'))
    assert again == names, "a default that is given is the same setting"
    written = [TEXT.replace("pretrain = {}", f"pretrain = {{ alpha = {alpha} }}") for alpha in ("3", "3.0")]
    whole, point = (runs_of(tmp_path, text)[0] for text in written)
    assert whole == point, "however a number is written"
    assert mine.jobs[1].after == (mine.jobs[0].out,)


@pytest.mark.parametrize(
    ("was", "becomes", "changed"),
    [
        ('method = "oso-decqn"', 'method = "oso-decqn", epsilon = 1e-3', {"pretrain", "evaluate"}),
        ("episodes = 2", "episodes = 3", {"evaluate"}),
        ("steps = 3000, bootstrap = false", "steps = 3000, bootstrap = true", {"train"}),
    ],
)
def test_other_settings_are_other_runs(tmp_path, was, becomes, changed):
    before, _ = runs_of(tmp_path, TEXT)
    after, _ = runs_of(tmp_path, TEXT.replace(was, becomes))
    assert {name.split("-")[0] for name in after - before} == changed


def test_another_log_seed_scale_or_version_is_another_run(tmp_path, monkeypatch):
    before, _ = runs_of(tmp_path, TEXT)
    alone = {name for name in before if name.startswith("train-td3-Hopper")}
    changed, _ = runs_of(tmp_path, TEXT, log_file(fingerprint="of another"))
    assert before & changed == alone, "an agent alone knows no log"
    both, _ = runs_of(tmp_path, TEXT, seeds=2)
    assert before < both
    assert len(both) == 2 * len(before)
    assert not before & runs_of(tmp_path, TEXT, scale="cpu")[0]
    monkeypatch.setattr("actionless.reproduction.plan.__version__", "0")
    assert not before & runs_of(tmp_path, TEXT)[0]


def test_policies_that_share_an_expert_model_wait_for_the_first(tmp_path):
    text = TEXT.replace('method = "oso-decqn"', 'method = ["oso-decqn", "bc-delta", "bc-next"]').replace(
        '"played"', '"played {method}"'
    )
    _, mine = runs_of(tmp_path, text, seeds=2)
    waits = {piece.job.out: len(piece.job.after) for piece in mine.pieces.values() if piece.verb == "evaluate"}
    assert sorted(waits.values()) == [1, 1, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ("steps = 3000 }", "stepps = 300 }", "mine, line 'alone': stepps: not an option of td3"),
        ("steps = 3000 }", "steps = 0 }", "mine, line 'alone': steps=0"),
        ('guidance = "paper", ', "", "line 'guided': give guidance = \"paper\""),
        ('guidance = "paper"', 'guidance = "papers"', "guidance='papers': choose"),
        ("bootstrap = false", "kappa = 1", "kappa: not an option of guidance by paper-switch"),
        ("episodes = 2", "episode = 2", "evaluate: episode = 2: choose whole numbers for episodes"),
        ('method = "oso-decqn"', 'method = "oso"', "method='oso': choose"),
        ("pretrain = {}", 'pretrain = { hidden = "a,b" }', "hidden = 'a,b': give whole numbers separated by commas"),
    ],
)
def test_mistakes_name_the_line(tmp_path, was, becomes, said):
    assert was in TEXT
    with pytest.raises(ActionlessError) as error:
        runs_of(tmp_path, TEXT.replace(was, becomes))
    assert said in str(error.value)


def test_an_own_log_needs_an_environment(tmp_path):
    with pytest.raises(ActionlessError, match="where do agents act"):
        runs_of(tmp_path, TEXT.replace("hopper-medium", "plant.csv"), log_file("plant.csv"))


def test_the_command_line_knows_every_option_of_the_package(tmp_path):
    """And jobs fit together: each is named once and comes after what it needs."""
    declarations = [load(name, "paper") for name in shipped_names()]
    logs = {log: _supposed(log) for each in declarations for log in each.logs}
    mine = planner(tmp_path, list(logs.values()), "paper")
    for each in declarations:
        mine.plan(each, list(dict.fromkeys([*each.logs[:1], *each.logs[-1:]])), 1)
    assert len(Plan(mine.jobs).ready()) > 0
    kinds = {}
    for job in mine.jobs:
        flags = frozenset(word for word in job.arguments if word.startswith("--"))
        kinds[job.arguments[0], flags] = job
    for job in kinds.values():
        command = cli._parse(job.arguments[0], list(job.arguments[1:]))
        assert command.out == job.out
