"""Real processes of the command line, to be killed."""

import os
import subprocess
import sys
import time

from actionless.runs.sinks import read_rows


def start(*arguments, **environment):
    """Begin a command."""
    command = [sys.executable, "-m", "actionless", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )


def wait_for_rows(run, count, process):
    """Until the run has written so many rows of metrics, or has ended."""
    while process.poll() is None:
        if (run / "metrics.jsonl").exists() and len(list(read_rows(run / "metrics.jsonl"))) >= count:
            return
        time.sleep(0.005)


def assert_same_run(run, other, steps):
    """Metrics, policy and last checkpoint, bit by bit."""
    last = f"checkpoints/step-{steps:012d}/arrays.safetensors"
    for part in ("metrics.jsonl", "policy/policy.safetensors", last):
        assert (run / part).read_bytes() == (other / part).read_bytes(), part
