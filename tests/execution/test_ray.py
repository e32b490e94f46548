"""Jobs on a real Ray cluster of several nodes on this machine: `make test-ray` runs it in an environment of its own."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from stand_in import Recorder

from actionless import cli
from actionless.errors import ActionlessError
from actionless.execution import ray_cluster
from actionless.execution.inline import Inline
from actionless.execution.job import Job
from actionless.execution.ray_cluster import RayCluster
from actionless.runs.directory import is_locked, locked

pytest.importorskip("ray", reason="`make test-ray` has it")
import psutil
from ray.cluster_utils import Cluster

pytestmark = [
    pytest.mark.filterwarnings("default"),  # Ray's own
    pytest.mark.skipif("NPROC" not in os.environ, reason="the runs compared with are computed on one thread"),
]

OPTIONS = ("--scale=smoke", "--hidden=16,16", "--log-every=20", "--evaluate-every=100", "--checkpoint-seconds=0")


@pytest.fixture(scope="module")
def cluster():
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.add_node(num_cpus=1)
    made.add_node(num_cpus=1)
    made.wait_for_nodes()
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def log_file(tmp_path_factory):
    rng = np.random.default_rng(0)
    states = rng.normal(size=(400, 2)).cumsum(axis=0)
    timeouts = np.arange(400) % 50 == 49
    path = tmp_path_factory.mktemp("log") / "walk.npz"
    np.savez(
        path,
        states=states,
        next_states=states + rng.normal(size=states.shape),
        rewards=rng.normal(size=400),
        terminals=np.zeros(400, bool),
        timeouts=timeouts,
    )
    return path


def pretraining(log_file, out, seed, steps):
    run = out / f"run-{seed}"
    words = ("pretrain", str(log_file), "--out", str(run), f"--seed={seed}", f"--steps={steps}", *OPTIONS)
    return Job(run, words)


def rows(run):
    metrics = run / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def worker_of(job):
    """Ray names the process of a task after the task."""
    return next((p for p in psutil.process_iter(["cmdline"]) if job.out.name in str(p.info["cmdline"][:1])), None)


def same_bits(job, other):
    return all(
        (job.out / part).read_bytes() == (other.out / part).read_bytes()
        for part in ("metrics.jsonl", "policy/policy.safetensors")
    )


def test_a_killed_worker_and_a_lost_node_lose_nothing(tmp_path, cluster, log_file, caplog):
    """Eight jobs end as if nothing had happened."""
    jobs = [pretraining(log_file, tmp_path / "ray", seed, 2000 if seed < 2 else 100) for seed in range(8)]
    lost = cluster.add_node(num_cpus=1, resources={"lost": 1})
    trouble = []
    caplog.set_level(logging.WARNING, "actionless")

    def cause_trouble():
        try:
            wait_for(lambda: any(rows(job.out) > 3 and worker_of(job) for job in jobs[:2]))
            victim = next(job for job in jobs[:2] if rows(job.out) > 3 and worker_of(job))
            worker_of(victim).send_signal(signal.SIGKILL)
            trouble.append(victim)
            wait_for(lambda: (victim.out / "output.txt").exists() or rows(victim.out) > 3)
            cluster.remove_node(lost, allow_graceful=False)
            trouble.append(lost)
        except Exception as error:  # for the assertion below
            trouble.append(error)

    thread = threading.Thread(target=cause_trouble)
    thread.start()
    outcomes = RayCluster(cluster.address).run(jobs, recorder := Recorder())
    thread.join()
    assert len(trouble) == 2, trouble
    assert [outcome.state for outcome in outcomes] == ["done"] * 8, [outcome.error for outcome in outcomes]
    assert recorder.most_at_once > 1
    assert "is not seen on other machines" not in caplog.text
    inline = [pretraining(log_file, tmp_path / "inline", seed, 2000 if seed < 2 else 100) for seed in range(8)]
    assert all(outcome.is_done for outcome in Inline().run(inline, Recorder()))
    assert all(same_bits(*pair) for pair in zip(jobs, inline, strict=True))
    assert [outcome.state for outcome in RayCluster("nowhere:1").run(jobs, Recorder())] == ["already done"] * 8


SCRIPT = """
import sys
from pathlib import Path
from actionless.execution.job import Job
from actionless.execution.ray_cluster import RayCluster

address, log, out, *options = sys.argv[1:]
run = Path(out) / "run-0"
RayCluster(address).run([Job(run, ("pretrain", log, "--out", str(run), "--seed=0", "--steps=10000", *options))])
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_driver_that_was_stopped_goes_on(tmp_path, cluster, log_file, number):
    job = pretraining(log_file, tmp_path, 0, 10_000)
    words = [sys.executable, "-c", SCRIPT, cluster.address, str(log_file), str(tmp_path), *OPTIONS]
    driver = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: rows(job.out) > 3 or driver.poll() is not None)
    driver.send_signal(number)
    _, said = driver.communicate()
    assert driver.returncode == (-number if number == signal.SIGKILL else 128 + number), said
    assert not job.is_done
    (outcome,) = RayCluster(cluster.address).run([job], Recorder())
    assert outcome.state == "done", outcome.error
    assert not is_locked(job.out)


def test_the_users_error_is_named_and_not_tried_again(tmp_path, cluster, monkeypatch, caplog):
    """Where locks do not hold between machines, that is said before anything starts."""
    monkeypatch.setattr(ray_cluster, "_sees_lock", lambda _: False)
    bad = Job(tmp_path / "bad", ("pretrain", "no-such-file.npz", "--out", str(tmp_path / "bad")))
    after = Job(tmp_path / "after", ("train", "Hopper-v5"), after=(bad.out,))
    outcomes = RayCluster(cluster.address).run([bad, after], recorder := Recorder())
    assert [outcome.state for outcome in outcomes] == ["failed", "skipped"]
    assert isinstance(outcomes[0].error, ActionlessError)
    assert "no-such-file.npz" in str(outcomes[0].error)
    assert recorder.events.count(("started", "bad")) == 1
    assert "is not seen on other machines" in caplog.text


def test_no_cluster(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(
        'title = "x"\nlogs = ["log.npz"]\nvalues = ["loss"]\n[[line]]\nname = "x"\npretrain = {}\n'
    )
    np.savez(
        tmp_path / "log.npz",
        states=np.zeros((4, 1)),
        next_states=np.ones((4, 1)),
        rewards=np.arange(4.0),
        terminals=np.array([False, False, False, True]),
        timeouts=np.zeros(4, bool),
    )
    words = ["reproduce", str(tmp_path / "mine.toml"), "--ray", "127.0.0.1:9", "--out", str(tmp_path / "out")]
    assert cli.run([*words, "--scale", "smoke"]) == 2
    assert "actionless: --ray 127.0.0.1:9: no cluster answers" in capsys.readouterr().err


def test_a_run_is_seen_as_locked(tmp_path):
    assert not is_locked(tmp_path)
    with locked(tmp_path):
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)
