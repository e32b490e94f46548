"""Real processes of the command line, to be killed."""

import os
import subprocess
import sys
import time

from actionless.runs.sinks import read_rows


def starter(cache):
    """Starts processes; compiled programs are shared in `cache`, so that each begins within a second or two."""
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_COMPILATION_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }

    def start(*arguments, **extra):
        command = [sys.executable, "-m", "actionless", *map(str, arguments)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**environment, **extra}
        )

    return start


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
