import os
import subprocess
import sys

import pytest

from actionless.errors import ActionlessError
from actionless.runs.threads import thread_variables, threads_here, use_threads


@pytest.fixture(autouse=True)
def nothing_asked_for(monkeypatch):
    # Set before it is removed: then what a test sets is removed again.
    for variable in ("PJRT_NPROC", "NPROC"):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)


def test_what_was_asked_for_is_used(monkeypatch):
    monkeypatch.setenv("NPROC", "5")
    assert threads_here() == 5
    use_threads(3)
    assert threads_here() == 3


def test_cores_are_counted_where_nothing_was_asked_for(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 4, 7}, raising=False)
    assert threads_here() == 3


def test_the_variable_that_xla_reads_first_decides(monkeypatch):
    monkeypatch.setenv("NPROC", "5")
    monkeypatch.setenv("PJRT_NPROC", "2")
    assert threads_here() == 2
    use_threads(3)
    assert threads_here() == 3
    monkeypatch.setenv("PJRT_NPROC", "")
    monkeypatch.setenv("NPROC", "4")
    assert threads_here() == 4


@pytest.mark.parametrize("variable", ["PJRT_NPROC", "NPROC"])
@pytest.mark.parametrize("said", ["two", "0", "-1", "1.5"])
def test_no_number(monkeypatch, variable, said):
    monkeypatch.setenv(variable, said)
    message = f"^{variable}={said}: give the number of threads, at least 1, or unset it"
    with pytest.raises(ActionlessError, match=message):
        threads_here()


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
@pytest.mark.parametrize(
    ("variables", "threads"),
    [
        ({"NPROC": "5"}, 5),
        ({"PJRT_NPROC": "3", "NPROC": "5"}, 3),
        ({"PJRT_NPROC": "", "NPROC": "4"}, 4),
        (thread_variables(3), 3),
        ({}, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0),
    ],
)
def test_xla_starts_as_many_threads_as_are_recorded(variables, threads):
    code = """
import pathlib
import jax.numpy as jnp
from actionless.runs.threads import threads_here
jnp.ones((256, 256)).dot(jnp.ones((256, 256))).block_until_ready()
names = [task.joinpath("comm").read_text().strip() for task in pathlib.Path("/proc/self/task").iterdir()]
print(threads_here(), sum("XLAEigen" in name for name in names))
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("PJRT_NPROC", "NPROC")}
    said = subprocess.run(
        [sys.executable, "-c", code], env={**environment, **variables}, capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == [str(threads), str(threads)]
