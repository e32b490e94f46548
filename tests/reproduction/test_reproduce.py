"""The verb end to end in small: runs, sharing, stopping, tables, figures, a page; and the scripts for SLURM."""

import json
import os
import subprocess

import numpy as np
import pytest
from test_logs import write

import actionless
from actionless import cli
from actionless.errors import ActionlessError
from actionless.execution.inline import Inline
from actionless.reproduction import reproduce as module
from actionless.reproduction.reproduce import ReproduceSettings, experiments_of

SWEEP = """
title = "Units of the network"
logs = ["plant.npz"]
values = ["heldout/error"]
curve = "heldout/error"
seeds = 2

[pretrain]
method = "bc-delta"
steps = 20
log_every = 10
evaluate_every = 10

[[line]]
name = "{hidden} units"
pretrain = { hidden = ["4", "8"] }
"""


@pytest.fixture
def sweep(tmp_path):
    write(tmp_path / "plant.npz", episodes=10, length=20)
    path = tmp_path / "units.toml"
    path.write_text(SWEEP)
    return path


def test_a_sweep_of_ones_own(tmp_path, sweep, capsys):
    (folder,) = actionless.reproduce(sweep, out=tmp_path / "out", scale="smoke", executor=Inline())
    assert sorted(path.name for path in folder.iterdir()) == [
        "figure.png",
        "figure.svg",
        "page.html",
        "runs.csv",
        "table.csv",
        "table.md",
        "table.tex",
    ]
    text = (folder / "table.md").read_text()
    runs = sorted((tmp_path / "out" / "runs").iterdir())
    errors = [json.loads((run / "result.json").read_text())["final"]["heldout/error"] for run in runs]
    assert len(runs) == 4
    assert all(f"{error:.6g}" in (folder / "runs.csv").read_text() for error in errors)
    assert "| log | 4 units | 8 units |" in text
    assert f"| plant.npz | {actionless.read(tmp_path / 'plant.npz').fingerprint[:16]} | 200 transitions |" in text
    assert f"Made by `actionless reproduce {sweep} --out {tmp_path}/out --scale smoke`." in text
    capsys.readouterr()

    other = tmp_path / "other.toml"
    other.write_text(SWEEP.replace('["4", "8"]', '["8", "16"]').replace("Units", "Other units"))
    actionless.reproduce(other, out=tmp_path / "out", scale="smoke", seeds=1, executor=Inline())
    said = capsys.readouterr().err
    assert "(1 of 2)" in said
    assert "already done" in said, "the other sweep has made it"
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 5


def test_what_stopped_goes_on(tmp_path, sweep, monkeypatch, capsys):
    calls = []

    def interrupted(words):
        calls.append(words)
        if len(calls) == 2:
            raise KeyboardInterrupt
        original(words)

    original = cli.call
    monkeypatch.setattr(cli, "call", interrupted)
    with pytest.raises(KeyboardInterrupt):
        actionless.reproduce(sweep, out=tmp_path / "out", scale="smoke", executor=Inline())
    text = (tmp_path / "out" / "units" / "table.md").read_text()
    assert "[1 of 2 seeds]" in text, "what was finished is in the table"
    assert "Missing are 3 of 4 runs" in text
    actionless.reproduce(sweep, out=tmp_path / "out", scale="smoke", executor=Inline())
    assert "Missing" not in (tmp_path / "out" / "units" / "table.md").read_text()
    assert len(calls) == 5


def test_a_failure_is_named_and_the_rest_is_made(tmp_path, sweep):
    out = tmp_path / "out"
    first = experiments_of(sweep, out, ReproduceSettings("smoke"), Inline()).jobs[0]
    first.out.mkdir(parents=True)  # a directory that is no run
    with pytest.raises(ActionlessError, match=r"exists: .* \(1 of 4 jobs failed, 0 skipped; start again"):
        actionless.reproduce(sweep, out=out, scale="smoke", executor=Inline())
    assert "Missing are 1 of 4 runs" in (out / "units" / "table.md").read_text()


TABLES = """
title = "Everything on one log"
logs = ["hopper-medium"]
values = ["score", "rollout_delta_error"]
curve = "eval/return"

[pretrain]
steps = 20
log_every = 10
evaluate_every = 10

[train]
steps = 300
warm_up = 50
log_every = 50
evaluate_every = 150
episodes = 1

[[line]]
name = "OSO-DecQN"
pretrain = { method = "oso-decqn" }
evaluate = { episodes = 1 }

[[line]]
name = "TD3"
train = {}

[[line]]
name = "guided, β = {beta}"
pretrain = { method = "oso-decqn" }
train = { guidance = "paper", beta = 0.5, bootstrap = false }

[[line]]
name = "{method}"
finetune = { method = "iql", offline_steps = 20, steps = 50, log_every = 10, evaluate_every = 50, episodes = 1 }
"""


def test_every_verb(tmp_path):
    """The smoke test of every table and figure, in small: all that a line may do is done."""
    logs = tmp_path / "logs"
    logs.mkdir()
    actionless.record("Hopper-v5", logs / "hopper_medium-v2.hdf5", level="random", steps=300)
    (tmp_path / "all.toml").write_text(TABLES)
    (folder,) = actionless.reproduce(
        tmp_path / "all.toml", out=tmp_path / "out", scale="smoke", data=logs, executor=Inline()
    )
    text = (folder / "table.md").read_text()
    assert "Missing" not in text
    score, error = (line for line in text.splitlines() if line.startswith("| hopper-medium |") and "regen" not in line)
    assert all(np.isfinite(float(cell)) for cell in score.strip("| ").split(" | ")[1:])
    assert error.count("–") == 3, "agents propose no Δs"
    assert "300 transitions, regenerated: the paper's log has 1,000,000" in text
    assert (folder / "figure.svg").exists()


class TestCommand:
    def test_without_a_name(self, capsys):
        assert cli.run(["reproduce"]) == 2
        assert capsys.readouterr().err.startswith("actionless: what is to be reproduced? Choose theorem, table-1, ")

    def test_missing_data(self, capsys, tmp_path):
        assert cli.run(["reproduce", "table-1", "--scale", "smoke", "--out", str(tmp_path / "out")]) == 2
        assert "needed are hopper_medium-v2.hdf5; give --data FOLDER" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    def test_tasks(self, capsys, tmp_path, sweep):
        assert cli.run(["reproduce", str(sweep), "--tasks", "walker2d", "--out", str(tmp_path / "out")]) == 2
        assert "units: no log of walker2d; its logs are plant.npz" in capsys.readouterr().err

    def test_a_plan(self, capsys, tmp_path, sweep, monkeypatch):
        sizes = []
        monkeypatch.setattr(module, "measure", lambda asked: (sizes.append(asked), module_rates(asked))[1])
        assert cli.run(["reproduce", str(sweep), "--dry-run", "--scale", "smoke", "--out", str(tmp_path / "out")]) == 0
        shown = capsys.readouterr().out
        assert "units: Units of the network: 0 of 4 numbers are there" in shown
        assert shown.count("  start  pretrain-bc-delta-plant-") == 4
        assert "left to do: 4 runs, " in shown
        assert sizes == [{((4,), 64), ((8,), 64)}]
        assert not (tmp_path / "out").exists()

    def test_the_list(self, capsys, monkeypatch):
        monkeypatch.setattr(module, "measure", module_rates)
        monkeypatch.setattr(module, "shipped_names", lambda: ["theorem", "table-1"])
        assert cli.run(["reproduce", "--list"]) == 0
        shown = capsys.readouterr().out
        assert "table-1          Table 1: " in shown
        assert "smoke: 12 runs, " in shown
        assert "paper: 1,200 runs, " in shown

    def test_options_that_exclude_each_other(self, capsys, sweep):
        assert cli.run(["reproduce", str(sweep), "--workers", "1", "--ray", "auto"]) == 2
        assert "--workers and --ray: give one of them" in capsys.readouterr().err
        assert cli.run(["reproduce", str(sweep), "--slurm", "--dry-run"]) == 2


def module_rates(sizes):
    from actionless.reproduction.estimate import Rates

    return Rates(dict.fromkeys(sizes, 1e-3), 1e-4)


SBATCH = """#!/bin/bash
# Stands in for SLURM: runs every task of the array here, at once.
echo "$@" >> calls.txt
for word in "$@"; do case $word in --array=*) range=${word#--array=};; esac; done
for task in $(seq ${range%-*} ${range#*-}); do SLURM_ARRAY_TASK_ID=$task bash "${@: -1}" >> tasks.txt 2>&1; done
echo $((100 + $(wc -l < calls.txt)))
"""
ACTIONLESS = """#!/bin/bash
echo "$@" >> words.txt
while [ $# -gt 0 ]; do if [ "$1" = --out ]; then mkdir -p "$2"; echo {} > "$2/result.json"; fi; shift; done
"""


def test_a_script_for_slurm(tmp_path, monkeypatch, capsys):
    (tmp_path / "all.toml").write_text(
        TABLES.replace("hopper-medium", "plant.npz").replace("title", 'environment = "Hopper-v5"\ntitle', 1)
    )
    write(tmp_path / "plant.npz")
    words = ["reproduce", str(tmp_path / "all.toml"), "--scale", "smoke", "--out", str(tmp_path / "out"), "--slurm"]
    assert cli.run(words) == 0
    script = capsys.readouterr().out
    (tmp_path / "all.sh").write_text(script)
    for name, content in (("sbatch", SBATCH), ("actionless", ACTIONLESS)):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "all.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls.txt").read_text().splitlines()
    assert calls == ["--parsable --array=0-2 all.sh", "--parsable --array=3-4 --dependency=afterany:101 all.sh"]
    called = [line.split()[0] for line in (tmp_path / "words.txt").read_text().splitlines()]
    assert sorted(called[:3]) == ["finetune", "pretrain", "train"]
    assert sorted(called[3:]) == ["evaluate", "train"]
    subprocess.run(["bash", "all.sh"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert len((tmp_path / "words.txt").read_text().splitlines()) == 5, "what is done is left alone"
