"""Executors: processes that are stand-ins written in shell, then the command line itself."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from stand_in import RESULT, WELL, Recorder, job, write_python

from actionless.errors import ActionlessError
from actionless.execution import local_processes
from actionless.execution.executor import Executor, Plan
from actionless.execution.inline import Inline
from actionless.execution.job import Job
from actionless.execution.local_processes import LocalProcesses, Room
from actionless.execution.outcome import ProcessKilledError
from actionless.runs.checkpoints import Checkpoints
from actionless.runs.threads import threads_here

STEPS = 3000
OPTIONS = ("--scale=smoke", "--log-every=20", "--evaluate-every=100", "--checkpoint-seconds=0")


@pytest.fixture
def act(tmp_path, monkeypatch):
    """Say what the process of each job does."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("NPROC", "2")
    monkeypatch.setattr(local_processes, "_SECONDS_BETWEEN_LOOKS", 0.02)
    return lambda **doings: monkeypatch.setattr("sys.executable", str(write_python(tmp_path / "python", **doings)))


class TestLocalProcesses:
    def test_order(self, tmp_path, act):
        act(a=f"sleep 0.3; {WELL}", b=WELL, c=WELL)
        jobs = [job(tmp_path, "c", "a"), job(tmp_path, "a"), job(tmp_path, "b")]
        outcomes = LocalProcesses().run(jobs, recorder := Recorder())
        assert [(outcome.job, outcome.state) for outcome in outcomes] == [(each, "done") for each in jobs]
        assert recorder.events[:2] == [("started", "a"), ("started", "b")]
        assert recorder.events.index(("started", "c")) > recorder.events.index(("done", "a"))
        assert (tmp_path / "a" / "output.txt").exists()
        assert not list(tmp_path.glob("*.output.txt"))

    def test_a_failure_is_named_and_stops_only_what_comes_after(self, tmp_path, act, capsys):
        act(a="echo 'actionless: log.npz: has changed: restore it' >&2; exit 2", b=f"sleep 0.3; {WELL}", c=WELL)
        jobs = [job(tmp_path, "a"), job(tmp_path, "b"), job(tmp_path, "c", "a")]
        outcomes = LocalProcesses().run(jobs)
        assert [outcome.state for outcome in outcomes] == ["failed", "done", "skipped"]
        assert isinstance(outcomes[0].error, ActionlessError)
        assert str(outcomes[0].error) == "log.npz: has changed: restore it"
        said = capsys.readouterr().err.splitlines()
        named = f"a: failed (1 of 3): log.npz: has changed: restore it; see {tmp_path}/a.output.txt"
        assert said.index(named) < next(i for i, line in enumerate(said) if line.startswith("b: done"))
        assert f"c: skipped (2 of 3): it needs {tmp_path}/a, which is not done" in said

    def test_a_killed_process_is_named(self, tmp_path, act):
        act(a="kill -9 $$")
        (outcome,) = LocalProcesses().run([job(tmp_path, "a")], Recorder())
        assert isinstance(outcome.error, ProcessKilledError)
        assert str(outcome.error) == f"{tmp_path}/a: its process was killed by SIGKILL (out of memory?)"

    def test_a_bug_is_not_the_users_error(self, tmp_path, act):
        act(a="mkdir $out; echo 'ZeroDivisionError'; exit 1")
        (outcome,) = LocalProcesses().run([job(tmp_path, "a")], Recorder())
        assert not isinstance(outcome.error, ActionlessError)
        assert str(outcome.error) == f"{tmp_path}/a: its process met a bug, see {tmp_path}/a/output.txt"
        assert (tmp_path / "a" / "output.txt").read_text() == "ZeroDivisionError\n"

    def test_the_next_call_does_what_is_left(self, tmp_path, act):
        act(a=WELL, b="exit 1")
        jobs = [job(tmp_path, "a"), job(tmp_path, "b")]
        LocalProcesses().run(jobs, Recorder())
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "run.json").write_text("{}")
        act(a="exit 1", b=f"test $3 = resume || exit 1; rm $out/run.json; {WELL}")
        outcomes = LocalProcesses().run(jobs, Recorder())
        assert [outcome.state for outcome in outcomes] == ["already done", "done"]

    @pytest.mark.parametrize(("workers", "most"), [(None, 2), (1, 1), (3, 3)])
    def test_cores_or_workers_limit_how_many_run_at_once(self, tmp_path, act, workers, most):
        act(a=f"sleep 0.2; {WELL}", b=f"sleep 0.2; {WELL}", c=f"sleep 0.2; {WELL}")
        LocalProcesses(workers).run([job(tmp_path, name) for name in "abc"], recorder := Recorder())
        assert recorder.most_at_once == most

    def test_threads_are_the_cores_of_the_job(self, tmp_path, act, monkeypatch):
        monkeypatch.setenv("PJRT_NPROC", "7")
        act(a=f"echo $NPROC $PJRT_NPROC; {WELL}")
        LocalProcesses().run([job(tmp_path, "a", cores=3)], Recorder())
        assert (tmp_path / "a" / "output.txt").read_text() == "3 3\n"


class TestRoom:
    @pytest.mark.parametrize(
        ("threads", "memory", "workers"),
        [("4", 0, 3), ("2", 0, 2), ("1", 0, 1), ("4", 4_000_000_000, 2), ("4", 50_000_000_000, 1)],
    )
    def test_as_many_as_cores_and_memory_allow(self, tmp_path, monkeypatch, threads, memory, workers):
        monkeypatch.setenv("JAX_PLATFORMS", "cpu")
        monkeypatch.setenv("NPROC", threads)
        monkeypatch.setattr(local_processes, "default_memory_limit", lambda: 5_000_000_000)  # half of what is free
        room, running = Room.here(None), []
        for name in "abc":
            asked = job(tmp_path, name, memory=memory)
            if room.has_room(asked, running):
                running.append(asked)
        assert len(running) == workers

    def test_a_job_larger_than_the_machine_runs_alone(self, tmp_path):
        room, large, small = Room(None, 2, 10**10), job(tmp_path, "large", cores=4), job(tmp_path, "small")
        assert room.has_room(large, [])
        assert not room.has_room(large, [small])
        assert not room.has_room(small, [large])

    def test_one_at_a_time_on_an_accelerator_unless_the_user_says_how_many(self, monkeypatch):
        monkeypatch.setattr(local_processes, "_has_accelerator", lambda: True)
        assert Room.here(None).workers == 1
        assert Room.here(3).workers == 3


class OneByOne(Executor):
    """As somebody who writes an executor for a cluster would: submit what is ready, say how it ended."""

    def run(self, jobs, watch=None):
        plan = Plan(jobs, watch)
        while ready := plan.ready():
            for each in ready:
                with plan.begin(each).open("ab") as output:
                    command = [sys.executable, "-m", "actionless", *each.command]
                    code = subprocess.run(command, stdout=output, stderr=output).returncode
                plan.exited(each, code)
        return plan.outcomes


def test_an_executor_from_outside_the_package(tmp_path, act):
    act(a=WELL, b="echo 'actionless: b is wrong' >&2; exit 2", c=WELL, d=WELL)
    jobs = [job(tmp_path, *names) for names in ("da", "a", "cb", "b")]
    outcomes = OneByOne().run(jobs, Recorder())
    assert [outcome.state for outcome in outcomes] == ["done", "done", "skipped", "failed"]
    assert str(outcomes[3].error) == "b is wrong"


@pytest.fixture(scope="module")
def log_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "walk.npz"
    rows = np.random.default_rng(0).normal(size=(12, 31, 2)).cumsum(axis=1)
    np.savez(
        path,
        states=rows[:, :-1].reshape(-1, 2),
        next_states=rows[:, 1:].reshape(-1, 2),
        rewards=np.exp(-np.square(rows[:, :-1, 0])).reshape(-1),
        terminals=np.zeros(360, bool),
        timeouts=np.tile(np.arange(30) == 29, 12),
    )
    return path


def pretraining(log_file, out, seed, steps):
    """A small run, and what `evaluate` says of it."""
    run = out / f"run-{seed}"
    words = ("pretrain", str(log_file), "--out", str(run), f"--seed={seed}", f"--steps={steps}", *OPTIONS)
    figures = run / "evaluation"
    return [
        Job(run, words, cores=threads_here()),
        Job(figures, ("evaluate", str(run), "--out", str(figures)), after=(run,), cores=threads_here()),
    ]


def test_inline_and_local_processes_give_the_same_bits(tmp_path, log_file, capsys):
    here = pretraining(log_file, tmp_path / "here", seed=3, steps=100)
    there = pretraining(log_file, tmp_path / "there", seed=3, steps=100)
    assert [outcome.state for outcome in Inline().run(here, Recorder())] == ["done", "done"]
    assert [outcome.state for outcome in LocalProcesses().run(there, Recorder())] == ["done", "done"]
    for part in ("metrics.jsonl", "policy/policy.safetensors"):
        assert (here[0].out / part).read_bytes() == (there[0].out / part).read_bytes()
    assert capsys.readouterr().out == ""
    for run in (here[0].out, there[0].out):
        assert f"{run / 'policy'}: held-out" in (run / "output.txt").read_text()
        assert (run / "evaluation" / "output.txt").read_text().startswith("oso-decqn on ")


class TestInline:
    def test_the_users_error_is_passed_on_and_ends_only_what_comes_after(self, tmp_path, log_file):
        bad = Job(tmp_path / "bad", ("pretrain", "no-such-file.npz", "--out", str(tmp_path / "bad")))
        after = Job(tmp_path / "after", ("train", "Hopper-v5"), after=(bad.out,))
        good = pretraining(log_file, tmp_path, seed=0, steps=1)[0]
        outcomes = Inline().run([bad, after, good], Recorder())
        assert [outcome.state for outcome in outcomes] == ["failed", "skipped", "done"]
        assert isinstance(outcomes[0].error, ActionlessError)
        assert "no-such-file.npz" in str(outcomes[0].error)

    def test_a_bug_keeps_its_traceback(self, tmp_path, monkeypatch):
        monkeypatch.setattr("actionless.cli.call", lambda _: 1 / 0)
        (outcome,) = Inline().run([job(tmp_path, "a")], Recorder())
        assert isinstance(outcome.error, ZeroDivisionError)
        assert "in _error_of" in (tmp_path / "a.output.txt").read_text()

    def test_threads_of_a_resumed_run_are_its_own(self, tmp_path, monkeypatch):
        def call(command):
            os.environ["NPROC"] = "1"
            (tmp_path / "a").mkdir()
            (tmp_path / "a" / "result.json").write_text(RESULT)

        monkeypatch.setenv("NPROC", "2")
        monkeypatch.setattr("actionless.cli.call", call)
        assert Inline().run([job(tmp_path, "a")], Recorder())[0].is_done
        assert os.environ["NPROC"] == "2"

    def test_ctrl_c_ends_the_call(self, tmp_path, monkeypatch):
        def call(command):
            raise KeyboardInterrupt

        monkeypatch.setattr("actionless.cli.call", call)
        with pytest.raises(KeyboardInterrupt):
            Inline().run([job(tmp_path, "a"), job(tmp_path, "b")], Recorder())


SCRIPT = """
import sys
from pathlib import Path
from actionless.execution.job import Job
from actionless.execution.local_processes import LocalProcesses

log, out, steps, *options = sys.argv[1:]
jobs = []
for seed in "01":
    run = Path(out) / f"run-{seed}"
    words = ("pretrain", log, "--out", str(run), f"--seed={seed}", f"--steps={steps}", *options)
    jobs.append(Job(run, words))
LocalProcesses(workers=2).run(jobs)
"""


def start(log_file, out):
    command = [sys.executable, "-c", SCRIPT, str(log_file), str(out), str(STEPS), *OPTIONS]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})


def test_signals_stop_every_job_after_a_checkpoint(tmp_path, log_file):
    """And the calls that follow end as if none had been stopped."""
    runs = [tmp_path / "stopped" / f"run-{seed}" for seed in (0, 1)]
    before = dict.fromkeys(runs, 0)
    for number, code, moved in ((signal.SIGINT, -signal.SIGINT, all), (signal.SIGTERM, 143, any)):
        process = start(log_file, tmp_path / "stopped")
        while process.poll() is None and not moved(rows(run) > before[run] for run in runs):
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate()
        assert process.returncode == code, said
        assert "failed" not in said
        before = {run: rows(run) for run in runs}
        assert all(Checkpoints(run / "checkpoints").paths() for run in runs)
        assert not all((run / "result.json").exists() for run in runs)
    for out in ("stopped", "undisturbed"):
        process = start(log_file, tmp_path / out)
        _, said = process.communicate()
        assert process.returncode == 0, said
        assert ("run-0: resumed" in said) == (out == "stopped")
    for run in runs:
        for part in ("metrics.jsonl", "policy/policy.safetensors"):
            assert (run / part).read_bytes() == (tmp_path / "undisturbed" / run.name / part).read_bytes()


def rows(run):
    metrics = run / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0
