"""Cells and files from runs made by hand."""

import csv
import json

import pytest
from declared import declaration, log_file, planner

from actionless.analysis.scores import reference_scores
from actionless.reproduction.collect import entries
from actionless.reproduction.figure import write_figure
from actionless.reproduction.tables import write_tables
from actionless.runs.directory import Manifest

TEXT = """
title = "Agents & policies"
about = "About it."
logs = ["hopper-medium"]
values = ["score"]
curve = "eval/return"

[[line]]
name = "OSO-DecQN"
pretrain = {}
evaluate = {}

[[line]]
name = "TD3"
train = {}
"""


def planned_in(folder, text=TEXT, name="mine", seeds=2, **log):
    return planner(folder / "runs", [log_file(**log)]).plan(declaration(text, name=name), ["hopper-medium"], seeds)


def finish(piece, final, returns=(), seconds=50.0):
    piece.job.out.mkdir(parents=True)
    rows = [{"step": 100 * (number + 1), "eval/return": value} for number, value in enumerate(returns)]
    if rows:
        (piece.job.out / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        manifest = Manifest("train", {"environment": "Hopper-v5", "agent": "td3", "steps": 400}, piece.seed, {})
        (piece.job.out / "run.json").write_text(json.dumps(manifest.__dict__))
        # A run is done with its policy; tables need the result alone.
    result = {"verb": piece.verb, "steps": 400, "seconds": seconds, "final": final}
    (piece.job.out / "result.json").write_text(json.dumps(result))


def test_a_cell_is_the_mean_of_its_seeds(tmp_path):
    planned = planned_in(tmp_path)
    policy, agent = planned.cells
    for piece, score in zip(policy.pieces, (40.0, 44.0), strict=True):
        finish(piece, {"score": score, "return": 1.0})
    finish(agent.pieces[0], {}, returns=(0.0, 100.0, 200.0, 600.0))
    first, second = entries(planned)
    assert (first.mean, first.error, first.text()) == (42.0, 2.0, "42.0 ± 2.0")
    assert first.interval == (40.0, 44.0)
    reference = reference_scores("Hopper-v5")
    assert second.values == (pytest.approx(reference.score(300.0)),), "the mean of the last three evaluations"
    assert second.text() == f"{reference.score(300.0):.1f} [1 of 2 seeds]"


def test_nothing_is_there_yet(tmp_path):
    planned = planned_in(tmp_path)
    assert [entry.text() for entry in entries(planned)] == ["–", "–"]
    write_tables(planned, tmp_path / "out", "actionless reproduce mine.toml")
    text = (tmp_path / "out" / "table.md").read_text()
    assert "Missing are 4 of 4 runs: evaluate-oso-decqn-hopper-medium-0-" in text
    assert write_figure(planned, tmp_path / "out") == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [("hours", 50 / 3600), ("seconds_per_10000", 1250.0), ("idm/loss", 0.25), ("area", None), ("nothing", None)],
)
def test_other_values(tmp_path, value, expected):
    text = TEXT.replace('values = ["score"]', f'values = ["{value}"]')
    planned = planned_in(tmp_path, text, seeds=1)
    finish(planned.cells[1].pieces[0], {"idm/loss": 0.25})
    assert entries(planned)[1].mean == (None if expected is None else pytest.approx(expected))


def test_a_line_may_show_something_else(tmp_path):
    text = TEXT.replace('name = "TD3"', 'name = "TD3"\nvalue = "idm/loss"')
    planned = planned_in(tmp_path, text, seeds=1)
    finish(planned.cells[1].pieces[0], {"idm/loss": 0.25})
    assert entries(planned)[1].text() == "0.250"


def test_the_papers_numbers_stand_beside_experiments_of_the_package_alone(tmp_path):
    (entry, _) = entries(planned_in(tmp_path, name="table-1"))
    assert entry.text() == "– (55.8 ± 1.3)"
    (entry, _) = entries(planned_in(tmp_path, name="table-one"))
    assert entry.text() == "–"


def test_the_files(tmp_path):
    planned = planned_in(tmp_path, name="table-1", origin="other", transitions=200_000)
    for piece, score in zip(planned.cells[0].pieces, (40.0, 44.0), strict=True):
        finish(piece, {"score": score})
    for piece in planned.cells[1].pieces:
        finish(piece, {}, returns=(0.0, 100.0 + piece.seed))
    out = tmp_path / "out"
    write_tables(planned, out, "actionless reproduce table-1")
    text = (out / "table.md").read_text()
    assert "# Agents & policies\n\nAbout it.\n" in text
    assert "| hopper-medium | 42.0 ± 2.0 (55.8 ± 1.3) | 2.2 ± 0.0 |" in text
    assert "Mean ± standard error over 2 seeds.\n" in text
    assert (
        "| hopper-medium | of hopper-medium | 200,000 transitions, regenerated: the paper's log has 1,000,000 |" in text
    )
    assert text.endswith("Made by `actionless reproduce table-1`.\n")
    assert r"42.0 $\pm$ 2.0 (55.8 $\pm$ 1.3) & " in (out / "table.tex").read_text()
    with (out / "table.csv").open() as file:
        cell = next(csv.DictReader(file))
    assert (cell["line"], cell["seeds"], cell["mean"], cell["standard_error"]) == ("OSO-DecQN", "2", "42", "2")
    assert (cell["low"], cell["high"], cell["paper"], cell["paper_error"]) == ("40", "44", "55.8", "1.3")
    with (out / "runs.csv").open() as file:
        runs = list(csv.DictReader(file))
    assert [run["number"] for run in runs[:2]] == ["40", "44"]
    assert runs[0]["run"] == planned.cells[0].pieces[0].job.out.name
    assert sorted(path.name for path in write_figure(planned, out)) == ["figure.png", "figure.svg"]
    first = (out / "figure.svg").read_bytes()
    write_figure(planned, out)
    assert (out / "figure.svg").read_bytes() == first


def test_rows_and_columns_may_change_places(tmp_path):
    text = TEXT.replace('title = "Agents & policies"', 'title = "x"\nrows = "lines"')
    write_tables(planned_in(tmp_path, text), tmp_path / "out", "actionless")
    assert (
        "|  | hopper-medium |\n| --- | --- |\n| OSO-DecQN | – |\n| TD3 | – |"
        in (tmp_path / "out" / "table.md").read_text()
    )
