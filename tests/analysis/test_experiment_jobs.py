"""The jobs of the experiments: that they fit together, and that the command line knows their options."""

import importlib.util
import sys
from pathlib import Path

import pytest

from actionless import cli
from actionless.execution.executor import Plan
from actionless.execution.watch import Watch

_EXPERIMENTS = Path(__file__).parents[2] / "experiments"


class Silent(Watch):
    def started(self, job):
        pass

    def ended(self, outcome):
        pass

    def waiting(self):
        pass


def script(name, monkeypatch):
    spec = importlib.util.spec_from_file_location(f"run_{name}", _EXPERIMENTS / name / "run.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def jobs_of(name, module, folder):
    logs, runs = folder / "logs", folder / "runs"
    if name == "rivals":
        return [piece.job(runs) for piece in module.pieces(logs, runs, steps=100)]
    if name == "tables":
        return list(module.jobs(list(module.pieces()), logs, runs, folder / "labelled.npz"))
    return list(module.jobs(logs, runs))


@pytest.mark.parametrize(
    ("name", "count", "ready", "skipped"),
    [("online", 19, 10, 9), ("pretraining", 6, 6, 0), ("rivals", 40, 32, 0), ("tables", 110, 55, 0)],
)
def test_jobs_fit_together(tmp_path, monkeypatch, name, count, ready, skipped):
    """Where jobs need a policy that is made elsewhere and is not there, they are skipped."""
    jobs = jobs_of(name, script(name, monkeypatch), tmp_path)
    plan = Plan(jobs, Silent())
    assert (len(jobs), len(plan.ready()), len(plan._outcomes)) == (count, ready, skipped)
    of_one_kind = {tuple(word for word in job.arguments if word.startswith("--")): job for job in jobs}
    for job in of_one_kind.values():
        assert Path(job.arguments[job.arguments.index("--out") + 1]) == job.out
        command = cli._parse(job.arguments[0], list(job.arguments[1:]))
        assert command.out == job.out


def test_policies_of_one_log_are_played_one_after_the_other(tmp_path, monkeypatch):
    module = script("tables", monkeypatch)
    pieces = [module.Piece("hopper_medium-v2", "decqn", seed) for seed in (0, 1)]
    pieces.insert(1, module.Piece("hopper_expert-v2", "decqn", 0))
    _, first, _, other, second_run, second = module.jobs(pieces, tmp_path, tmp_path, tmp_path / "labelled.npz")
    assert second.after == (second_run.out, first.out)
    assert first.out not in other.after
