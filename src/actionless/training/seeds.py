"""Several seeds of one run: a full run directory for each, worked on by a process for each.

A process whose matrix products use one core needs no waiting between threads, so on a CPU as many seeds as
there are cores go on side by side. Each seed's run is what a run of that seed alone on so many threads is.
"""

import dataclasses
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM
from typing import Any

from actionless.data.store import default_memory_limit
from actionless.errors import ActionlessError
from actionless.runs.directory import Manifest, Result, Run, read_manifest, read_result
from actionless.runs.progress import ProgressDisplay
from actionless.runs.signals import STOP_WITH_PARENT, StopRequest
from actionless.runs.sinks import last_row
from actionless.runs.threads import threads_here
from actionless.training.offline import OfflineTask
from actionless.training.options import OfflineConfig

_PROCESS_BYTES = 1_000_000_000
"""What a process needs besides its log."""

_OUTPUT = "output.txt"

_log = logging.getLogger("actionless")


def pretrain_seeds(
    config: OfflineConfig, data: dict[str, Any], out: Path, seeds: Sequence[int], *, overwrite: bool = False
) -> list[Path]:
    """Pre-train with each of the seeds; `data` says what to read, as in run.json. Returns the seeds' runs."""
    manifest = Manifest("pretrain", {**config.to_json(), "seeds": list(seeds)}, seeds[0], data)
    with Run.create(out, manifest, overwrite=overwrite) as run:
        return _work(run)


def resume_seeds(path: Path) -> list[Path]:
    """Go on with every seed that is not finished."""
    with Run.open(path) as run:
        if run.result() is None:
            return _work(run)
        _log.warning("%s is finished already", path)
        return [_seed_path(run, seed) for seed in run.manifest.config["seeds"]]


def has_seeds(path: Path) -> bool:
    """Whether a run holds the runs of several seeds."""
    return "seeds" in read_manifest(path).config


def _work(run: Run) -> list[Path]:
    began = time.perf_counter()
    paths = [_seed_run(run, seed) for seed in run.manifest.config["seeds"]]
    unfinished = [path for path in paths if read_result(path) is None]
    with StopRequest() as stop, _display(run, paths) as display:
        failed = _work_side_by_side(unfinished, _workers(run, len(unfinished)), stop, display)
        if stop:
            _log.warning("stopped; `actionless resume %s` goes on from there", run.path)
        stop.obey()
    if failed:
        raise ActionlessError(f"{_last_words(failed[0])} ({len(failed)} of {len(paths)} seeds failed)")
    run.finish(_summary(paths, time.perf_counter() - began))
    return paths


def _seed_path(run: Run, seed: int) -> Path:
    return run.path / f"seed-{seed}"


def _seed_run(run: Run, seed: int) -> Path:
    path = _seed_path(run, seed)
    if not path.exists():
        asked = run.manifest
        config = {name: value for name, value in asked.config.items() if name != "seeds"}
        threads = max(1, asked.threads // len(asked.config["seeds"]))
        Run.create(path, dataclasses.replace(asked, config=config, seed=seed, threads=threads)).close()
    return path


def _work_side_by_side(waiting: list[Path], workers: int, stop: StopRequest, display: "_Display") -> list[Path]:
    running: dict[Path, subprocess.Popen[bytes]] = {}
    failed: list[Path] = []
    told = False
    waiting = list(waiting)
    try:
        while running or (waiting and not stop):
            while waiting and len(running) < workers and not stop:
                path = waiting.pop(0)
                running[path] = _start(path)
            for path in [path for path, process in running.items() if process.poll() is not None]:
                process = running.pop(path)
                if process.stdin is not None:
                    process.stdin.close()
                if process.returncode != 0:
                    failed.append(path)
            if stop and not told:
                told = True
                _stop(running)
            display.update()
            time.sleep(0.2)
    finally:
        _stop(running)
    return failed


def _start(path: Path) -> "subprocess.Popen[bytes]":
    with (path / _OUTPUT).open("ab") as output:
        # In a session of its own: Ctrl-C reaches it through us, once.
        return subprocess.Popen(
            [sys.executable, "-m", "actionless", "resume", str(path)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, STOP_WITH_PARENT: "1"},
        )


def _stop(running: dict[Path, "subprocess.Popen[bytes]"]) -> None:
    # Not SIGINT, which a process inherits as ignored from one that was started in the background.
    for process in running.values():
        process.send_signal(SIGTERM)


def _workers(run: Run, seeds: int) -> int:
    """One process per core, as far as memory goes; one at a time on an accelerator, which they would share."""
    if _has_accelerator():
        return 1
    threads = max(1, run.manifest.threads // len(run.manifest.config["seeds"]))
    by_memory = 2 * default_memory_limit() // (_PROCESS_BYTES + 2 * run.manifest.data["bytes"])
    return max(1, min(seeds, threads_here() // threads, by_memory))


def _has_accelerator() -> bool:
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return False
    # Asked of another process: a process that has looked at an accelerator keeps most of its memory.
    code = "import jax; print(jax.default_backend())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return said.stdout.strip() not in ("cpu", "")


class _Display:
    """Progress of all seeds together."""

    def __init__(self, shown: ProgressDisplay, paths: list[Path]):
        self._shown, self._step = shown, -1
        self._latest: dict[Path, dict[str, float]] = {path: {} for path in paths}

    def update(self) -> None:
        """Look at what the seeds have written; a metric that not every row has keeps its last value."""
        for path, latest in self._latest.items():
            latest.update(last_row(path / "metrics.jsonl") or {})
        begun = [latest for latest in self._latest.values() if latest]
        step = int(sum(latest["step"] for latest in begun))
        if step > self._step:
            self._shown.show(step, _mean(begun))
            self._step = step


@contextmanager
def _display(run: Run, paths: list[Path]) -> Iterator[_Display]:
    done = sum(row["step"] for path in paths if (row := last_row(path / "metrics.jsonl")) is not None)
    steps = run.manifest.config["steps"] * len(paths)
    with ProgressDisplay(run.path.name, steps, done, OfflineTask.headline) as shown:
        yield _Display(shown, paths)


def _summary(paths: list[Path], seconds: float) -> Result:
    results = [result for path in paths if (result := read_result(path)) is not None]
    return Result("pretrain", results[0].steps, seconds, _mean([result.final for result in results]))


def _mean(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Of what all have in common."""
    common = set.intersection(*(set(row) for row in rows)) if rows else set()
    return {name: sum(row[name] for row in rows) / len(rows) for name in sorted(common)}


def _last_words(path: Path) -> str:
    lines = (path / _OUTPUT).read_text(errors="replace").splitlines()
    complaints = [line for line in lines if line.startswith("actionless: ")]
    return complaints[-1].removeprefix("actionless: ") if complaints else f"{path}: see {path / _OUTPUT}"
