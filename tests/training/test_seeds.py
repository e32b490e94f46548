"""Several seeds with a stand-in for each seed's process: what it writes and how it ends is a few lines of shell."""

import json

import pytest

from actionless.errors import ActionlessError
from actionless.offline import policy_files
from actionless.runs.directory import Manifest, read_manifest, read_result
from actionless.runs.several_seeds import SeveralSeeds, has_several_seeds
from actionless.training.seeds import resume_seeds, start_seeds

TWO = SeveralSeeds((4, 5), steps=10, headline=("loss",), memory=0)


def succeed(seconds, loss):
    result = json.dumps({"verb": "toy", "steps": 10, "seconds": seconds, "final": {"loss": loss, f"only{loss}": 1.0}})
    return f"cp -r $policy $run; echo '{result}' > $run/result.json"


WELL = succeed(2.5, 1.0), succeed(4.0, 2.0)


@pytest.fixture
def act(tmp_path, monkeypatch):
    """Say what the processes of seed 4 and of seed 5 do."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("NPROC", "2")

    policy_files.write(tmp_path / "policy", {}, {})

    def act(of_4, of_5):
        script = tmp_path / "python"
        branches = f"case $run in */seed-4) {of_4};; */seed-5) {of_5};; esac"
        called = "# is called as: python -m actionless resume RUN"
        script.write_text(f"#!/bin/sh\n{called}\nrun=$4\npolicy={tmp_path}/policy\n{branches}\n")
        script.chmod(0o755)
        monkeypatch.setattr("sys.executable", str(script))

    return act


def start(path, several=TWO):
    return start_seeds(path, Manifest("toy", {"rate": 1}, 4, {"fingerprint": "abc"}), several)


def test_each_seed_has_a_run_of_its_own_and_the_summary_is_of_all(tmp_path, act):
    act(*WELL)
    run = tmp_path / "run"
    assert start(run) == [run / "seed-4", run / "seed-5"]
    for seed in (4, 5):
        manifest = read_manifest(run / f"seed-{seed}")
        assert (manifest.verb, manifest.seed, manifest.threads) == ("toy", seed, 1)
        assert manifest.config == {"rate": 1}
        assert not has_several_seeds(manifest)
    assert has_several_seeds(read_manifest(run))
    result = read_result(run)
    assert (result.verb, result.steps, result.seconds) == ("toy", 10, 6.5)
    assert result.final == {"loss": 1.5}


def test_only_what_is_not_whole_is_resumed(tmp_path, act):
    """And the seconds of the whole are those of all sessions."""
    run = tmp_path / "run"
    act(WELL[0], "kill -9 $$")
    with pytest.raises(ActionlessError):
        start(run)
    assert read_result(run) is None
    act("exit 1", WELL[1])
    assert resume_seeds(run) == [run / "seed-4", run / "seed-5"]
    assert read_result(run).seconds == 6.5


def test_finished_is_left_alone(tmp_path, act, caplog):
    act(*WELL)
    paths = start(tmp_path / "run")
    act("exit 1", "exit 1")
    assert resume_seeds(tmp_path / "run") == paths
    assert "run is finished already" in caplog.text


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("kill -9 $$", r"was killed by SIGKILL \(out of memory\?\)"),
        ("kill -11 $$", "was killed by SIGSEGV"),
        ("exit 143", "was stopped by SIGTERM"),
    ],
)
def test_signals_are_named(tmp_path, act, ending, words):
    act(WELL[0], ending)
    run = tmp_path / "run"
    way_out = rf"`actionless resume {run}` resumes it \(1 of 2 seeds failed\)"
    with pytest.raises(ActionlessError, match=f"{run}/seed-5: its process {words}; {way_out}"):
        start(run)


def test_what_a_user_can_mend_is_said_in_the_words_of_the_seed(tmp_path, act):
    act(WELL[0], "echo 'seed-5 1/10  starting'; echo 'actionless: log.npz: has changed: restore it' >&2; exit 2")
    with pytest.raises(ActionlessError, match=r"^log\.npz: has changed: restore it \(1 of 2 seeds failed\)$"):
        start(tmp_path / "run")


BUG = "echo 'ZeroDivisionError: division by zero'; echo 'actionless: this is a bug'; exit 1"


def test_a_bug_stays_a_bug(tmp_path, act):
    run = tmp_path / "run"
    act("echo 'actionless: log.npz: has changed: restore it' >&2; exit 2", BUG)
    with pytest.raises(RuntimeError, match=f"{run}/seed-5: its process met a bug, see {run}/seed-5/output.txt"):
        start(run)
    assert "ZeroDivisionError" in (run / "seed-5" / "output.txt").read_text()


def test_complaints_of_an_earlier_start_are_not_quoted(tmp_path, act):
    run = tmp_path / "run"
    act(WELL[0], "echo 'actionless: the disk is full: make room' >&2; exit 2")
    with pytest.raises(ActionlessError, match="the disk is full"):
        start(run)
    act("exit 1", "exit 2")
    with pytest.raises(RuntimeError, match="seed-5: its process met a bug"):
        resume_seeds(run)


def test_a_failure_is_named_while_other_seeds_go_on(tmp_path, act, caplog):
    run = tmp_path / "run"
    act("echo 'actionless: the disk is full: make room' >&2; exit 2", f"sleep 1; {WELL[1]}")
    with pytest.raises(ActionlessError, match=r"^the disk is full: make room \(1 of 2 seeds failed\)$"):
        start(run)
    assert caplog.messages == [f"{run}/seed-4 failed: the disk is full: make room; see {run}/seed-4/output.txt"]
    assert read_result(run / "seed-5").seconds == 4.0


def test_a_damaged_summary_is_written_again(tmp_path, act):
    act(*WELL)
    run = tmp_path / "run"
    start(run)
    (run / "result.json").write_text("{")
    resume_seeds(run)
    assert read_result(run).final == {"loss": 1.5}
