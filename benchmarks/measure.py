"""Time and peak memory of a piece of work, in a process of its own."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def peak_bytes() -> int:
    """Highest resident memory of this process so far; `getrusage` would count its parent's too."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024


def timed(work: Callable[[], Any]) -> tuple[Any, float, int]:
    """What `work` returns, its seconds, and by how much it raised the peak of resident memory."""
    before = peak_bytes()
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start, peak_bytes() - before


def in_fresh_process(module: str, *arguments: str) -> dict[str, Any]:
    """The JSON object that `python -m module arguments` prints: peak memory never falls within a process."""
    done = subprocess.run([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)
