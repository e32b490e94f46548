"""The script that compares the methods, on small made-up runs: the real ones take hours."""

import csv
import json
import shutil
import sys
from pathlib import Path

import pytest
from experiment import table_of


@pytest.fixture
def script(monkeypatch):
    with table_of("rivals", monkeypatch) as module:
        monkeypatch.setattr(module, "milliseconds_per_update", lambda: {"oso-decqn": 6000, "iql": 3000, "awac": 1})
        yield module


def write(run, config, returns):
    """A finished run with an evaluation every 10 steps."""
    run.mkdir(parents=True)
    steps = range(10, 10 * len(returns) + 1, 10)
    rows = [{"step": step, "eval/return": value} for step, value in zip(steps, returns, strict=True)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run / "run.json").write_text(json.dumps({"config": config}))
    (run / "result.json").write_text("{}")


def test_what_is_there_is_laid_out_and_what_is_missing_is_named(script, tmp_path, monkeypatch, capsys):
    runs, out = tmp_path / "runs", tmp_path / "out"
    log = "walker2d_medium-v2"
    write(runs / f"oso-decqn-{log}", {"steps": 20}, [0.0, 0.0])
    guided, alone = runs / f"td3-guided-by-oso-decqn-{log}-0", runs / "td3-alone-0"
    write(guided, {"steps": 40}, [100.0, 200.0, 300.0, 400.0])
    write(alone, {"steps": 40}, [10.0, 20.0, 30.0, 40.0])
    for seed, more in ((0, 0.0), (1, 100.0)):
        returns = [1.0, 2296.0 + more, 1000.0 + more, 2000.0 + more, 3000.0 + more, 4000.0 + more]
        write(runs / f"iql-{log}-{seed}", {"steps": 40, "offline_steps": 20}, returns)
    offline = {"steps": 0, "offline_steps": 20}
    write(runs / "offline-awac-hopper_medium-v2-0", offline, [1.0, 1607.0])
    monkeypatch.setattr(sys, "argv", ["table.py", str(runs), "--out", str(out)])
    script.main()
    said = capsys.readouterr().out

    lines = [line.strip("| ").split(" | ") for line in said.splitlines()]
    (of_guided,) = [line for line in lines if line[0] == "TD3 guided by OSO-DecQN"]
    # The log is read by pre-training alone, whose 20 updates take two minutes; D4RL's Walker2d scores 4,592 as 100.
    assert of_guided == ["TD3 guided by OSO-DecQN", "medium", "no", "20", "2.0", "–", "250", "300 (6)"]
    (of_td3,) = [line for line in lines if line[0] == "TD3"]
    assert of_td3[1:5] == ["–", "no", "–", "–"]
    (of_iql,) = [line for line in lines if line[0] == "IQL"]
    assert of_iql == [
        *("IQL", "medium", "yes", "20", "1.0"),
        *("2,296 (50), 2,396 (52)", "2,500, 2,600", "3,000 (65), 3,100 (67)"),
    ]
    offline_lines = [line for line in lines if line[0] in ("walker2d_medium-v2", "hopper_medium-v2")]
    assert [line[:4] for line in offline_lines] == [
        [log, "IQL", "20", "50.0, 52.2"],
        ["hopper_medium-v2", "AWAC", "20", "50.0"],
    ]
    missing = said.splitlines()[-1]
    assert "cal-ql-walker2d_medium-v2-0" in missing and "td3-alone-1" in missing and "td3-alone-0" not in missing

    with (out / "runs.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 5
    with (out / "curves.csv").open() as file:
        points = [point for point in csv.DictReader(file) if point["method"] == "iql" and point["seed"] == "1"]
    assert [(point["step"], point["return"]) for point in points][:2] == [("10", "1100.0"), ("20", "2100.0")]
    assert "<svg" in (out / "curves.svg").read_text()


def test_what_was_found_elsewhere_stays_beside_what_is_found_here(script, tmp_path, monkeypatch, capsys):
    here, elsewhere, out = tmp_path / "here", tmp_path / "elsewhere", tmp_path / "out"
    labelled, offline = {"steps": 20, "offline_steps": 20}, {"steps": 0, "offline_steps": 20}

    def tables(runs):
        monkeypatch.setattr(sys, "argv", ["table.py", str(runs), "--out", str(out)])
        script.main()
        return capsys.readouterr().out

    write(elsewhere / "iql-walker2d_medium-v2-0", labelled, [1.0, 2.456, 3.125, 4.875])
    write(elsewhere / "offline-awac-hopper_medium-v2-0", offline, [1.0, 1607.0])
    first = tables(elsewhere)
    files = [(out / name).read_text() for name in ("runs.csv", "curves.csv", "table.md")]
    assert tables(tmp_path / "nothing") == first
    assert [(out / name).read_text() for name in ("runs.csv", "curves.csv", "table.md")] == files

    write(here / "iql-walker2d_medium-v2-1", labelled, [1.0, 2000.0, 3000.0, 4000.0])
    write(here / "offline-awac-hopper_medium-v2-0", offline, [1.0, 3234.3])
    both = tables(here)
    assert "| 2 (0), 2,000 (44) | 4, 3,500 | 4 (0), 3,500 (76) |" in both
    assert "| hopper_medium-v2 | AWAC | 20 | 100.0 |" in both  # what was run again takes its place
    missing = both.splitlines()[-1]
    assert missing.startswith("Missing are ") and "iql-walker2d_medium-v2-" not in missing


def test_runs_of_several_lengths_are_not_put_together(script, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    write(tmp_path / "short" / "td3-alone-0", {"steps": 20}, [1.0, 2.0])
    write(tmp_path / "long" / "td3-alone-1", {"steps": 40}, [1.0, 2.0, 3.0, 4.0])
    monkeypatch.setattr(sys, "argv", ["table.py", str(tmp_path / "short"), "--out", str(out)])
    script.main()
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    monkeypatch.setattr(sys, "argv", ["table.py", str(tmp_path / "long"), "--out", str(out)])
    with pytest.raises(SystemExit):
        script.main()
    assert "runs of 20 and 40 steps, which is no comparison: give others an --out" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize("folder", [Path(), Path("longer")])
def test_the_tables_are_those_of_the_figures_beside_them(tmp_path, monkeypatch, folder):
    with table_of("rivals", monkeypatch) as module:
        kept = Path(module.__file__).parent / folder
        for name in ("runs.csv", "curves.csv"):
            shutil.copy(kept / name, tmp_path)
        monkeypatch.setattr(sys, "argv", ["table.py", str(tmp_path / "nothing"), "--out", str(tmp_path)])
        module.main()
    assert (tmp_path / "table.md").read_text() == (kept / "table.md").read_text()


def test_what_learning_from_a_log_costs_is_known_of_every_method(monkeypatch):
    with table_of("rivals", monkeypatch) as module:
        cost = module.milliseconds_per_update()
    assert cost.keys() == {"oso-decqn", "afdt", "iql", "awac", "cal-ql", "o3f"} and min(cost.values()) > 0
