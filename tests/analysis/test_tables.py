"""The script of the paper's tables, on made-up figures: the real runs take hours."""

import csv
import json

import pytest
from experiment import table_of


@pytest.fixture
def script(monkeypatch):
    with table_of("tables", monkeypatch) as module:
        yield module


def figures(score, grade="imitates", error=1.0, skill=0.5):
    """The output of `evaluate --json`, as far as the tables use it."""
    return {
        "return": 30 * score,
        "score": score,
        "delta_error": error,
        "rollout_delta_error": error / 2,
        "verdict": {"grade": grade, "rules": [{"name": "beats the majority", "figure": skill}]},
    }


def play(script, runs, found):
    for piece, said in found.items():
        folder = runs / piece.name / script.EVALUATION
        folder.mkdir(parents=True)
        (folder / script.FIGURES).write_text(json.dumps(said))


def test_everything(script, tmp_path, capsys):
    """The score of the i-th policy is i, and so are all its other figures."""
    grades = ("no better than the majority", "imitates", "improves")
    wanted = list(script.pieces())
    found = {}
    for i, piece in enumerate(wanted):
        found[piece] = figures(float(i), grades[3 * i // len(wanted)], error=float(i), skill=i / 100)
        if piece.method == "bc-action":
            found[piece] = {"return": 30.0 * i, "score": float(i), "rollout_delta_error": None}
    play(script, tmp_path / "runs", found)
    script.main(tmp_path / "runs", tmp_path / "out")
    said = capsys.readouterr().out
    assert (tmp_path / "out" / "tables.md").read_text() == said

    # BC Δs is the first method: pieces 0 and 24 on the first log, as OSO-DecQN are 4 and 28.
    line = next(line for line in said.splitlines() if line.startswith("| hopper_medium_replay-v2 |"))
    assert "| 12.0 ± 12.0 (29.2 ± 3.7) |" in line
    assert line.endswith("| 16.0 ± 12.0 (65.7 ± 2.6) |")
    # 2 bins are piece 48, half of whose number is its error; ε = 1e-3 are 49 and 52.
    assert "| 2 | 48.0, 1 seed (61.5 ± 7.27) | 24.00, 1 seed (0.51 ± 0.02) |" in said
    assert "| 0.001 | 50.5 ± 1.5 (107.5 ± 7.3) | 25.25 ± 0.75 (–) |" in said
    # Grades of 47 policies tie: far from 1 would be a mistake, exactly 1 too.
    pooled = next(line for line in said.splitlines() if line.startswith("| all |")).split(" | ")
    assert pooled[1] == "47"
    assert 0.9 < float(pooled[2]) < 1
    assert pooled[3:] == ["1.00", "1.00 |"]
    assert said.endswith("Nothing is missing: all 55 policies have been played.\n")

    with (tmp_path / "out" / "tables.csv").open() as file:
        cells = list(csv.DictReader(file))
    assert len(cells) == 4 * 6 + 4 * 5 + 2 * 2 + 4 * 2
    first = {"log": "hopper_medium_replay-v2", "method": "bc-delta", "figure": "score"}
    (chosen,) = (c for c in cells if first.items() <= c.items())
    assert (chosen["seeds"], chosen["mean"], chosen["standard_error"], chosen["paper"]) == (
        "2",
        "12",
        "12",
        "29.2 ± 3.7",
    )
    with (tmp_path / "out" / "policies.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 55


def test_worse_grades_rank_lower(script):
    grades = ("overestimates", "no better than the majority", "ventures", "imitates", "improves")
    rows = [
        {"log": script.LOGS[0], "bins": 3, "grade": g, "return": 9.0 - i, "skill": 0.5, "delta_error": 1.0}
        | {"rollout_delta_error": 1.0}
        for i, g in enumerate(grades)
    ]
    on_first, *_, pooled = script.orders(rows)
    assert on_first == [script.LOGS[0], "5", "-1.00", "–", "–"]
    assert pooled[1:] == on_first[1:]


def test_what_is_missing_is_left_open_and_named(script, tmp_path, capsys):
    there = script.Piece(script.LOGS[1], "oso-decqn", 0)
    play(script, tmp_path / "runs", {there: figures(40.0, error=0.4)})
    script.main(tmp_path / "runs", tmp_path / "out")
    said = capsys.readouterr().out
    assert "| 40.0, 1 seed (55.8 ± 1.3) |" in said
    assert "| 0.20, 1 seed (0.18 ± 0.008) |" in said
    assert "| – (65.7 ± 2.6) |" in said
    assert "| all | 1 | – | – | – |" in said
    assert "Missing are 54 of 55 policies: hopper_medium_replay-v2-bc-delta-0, " in said
    assert there.name not in said.split("Missing are")[1].split(", ")


def test_nothing_played_yet(script, tmp_path):
    with pytest.raises(SystemExit, match=r"holds no figures\.json yet; start run\.py first"):
        script.main(tmp_path, tmp_path / "out")
