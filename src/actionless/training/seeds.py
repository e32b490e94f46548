"""Several seeds of one run, whatever it trains: a full run directory for each, worked on by a process for each.

A process whose matrix products use one core needs no waiting between threads, so on a CPU as many seeds as
there are cores go on side by side. Each seed's run is what a run of that seed alone on so many threads is.
"""

import dataclasses
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from actionless.data.store import default_memory_limit
from actionless.errors import ActionlessError
from actionless.runs.directory import Manifest, Result, Run, read_result
from actionless.runs.progress import ProgressDisplay
from actionless.runs.signals import STOP_WITH_PARENT, StopRequest
from actionless.runs.sinks import last_row
from actionless.runs.threads import threads_here

_PROCESS_BYTES = 1_000_000_000
"""What Python, JAX and a learner take."""

_OUTPUT = "output.txt"
_KEY = "several_seeds"
_EXIT_USER = 2

_log = logging.getLogger("actionless")


@dataclass(frozen=True)
class SeveralSeeds:
    """What is to be known of several runs at once; stands in the run.json that they share."""

    seeds: tuple[int, ...]
    steps: int
    """Where each of them ends."""
    headline: tuple[str, ...]
    """The metrics shown while they work."""
    memory: int
    """Bytes that each process takes for its data alone."""


def start_seeds(out: Path, manifest: Manifest, several: SeveralSeeds, *, overwrite: bool = False) -> list[Path]:
    """Do what `manifest` says with each of the seeds. Returns the seeds' runs."""
    config = {**manifest.config, _KEY: dataclasses.asdict(several)}
    with Run.create(out, dataclasses.replace(manifest, config=config), overwrite=overwrite) as run:
        paths = _seed_runs(run, several)
        _work(run, several, paths, unfinished=paths)
        return paths


def resume_seeds(path: Path, is_whole: Callable[[Path], bool]) -> list[Path]:
    """Go on with every seed whose run is not whole. Returns the seeds' runs."""
    with Run.open(path) as run:
        stored = run.manifest.config[_KEY]
        several = SeveralSeeds(tuple(stored["seeds"]), stored["steps"], tuple(stored["headline"]), stored["memory"])
        paths = _seed_runs(run, several)
        unfinished = [seed_path for seed_path in paths if not is_whole(seed_path)]
        if unfinished or run.result() is None:
            _work(run, several, paths, unfinished)
        else:
            _log.warning("%s is finished already", path)
        return paths


def has_several_seeds(manifest: Manifest) -> bool:
    """Whether a run holds the runs of several seeds."""
    return _KEY in manifest.config


def _seed_runs(run: Run, several: SeveralSeeds) -> list[Path]:
    config = {name: value for name, value in run.manifest.config.items() if name != _KEY}
    threads = _threads_of_each(run, several)
    paths = [run.path / f"seed-{seed}" for seed in several.seeds]
    for path, seed in zip(paths, several.seeds, strict=True):
        if not path.exists():
            Run.create(path, dataclasses.replace(run.manifest, config=config, seed=seed, threads=threads)).close()
    return paths


def _threads_of_each(run: Run, several: SeveralSeeds) -> int:
    return max(1, run.manifest.threads // len(several.seeds))


def _work(run: Run, several: SeveralSeeds, paths: list[Path], unfinished: list[Path]) -> None:
    with StopRequest() as stop, _display(run, several, paths) as display:
        failures = _work_side_by_side(unfinished, _workers(run, several, len(unfinished)), stop, display)
        if stop:
            _log.warning("stopped; `actionless resume %s` goes on from there", run.path)
        stop.obey()
    if failures:
        raise _worst(failures, run, len(paths))
    run.finish(_summary(run, several, paths))


@dataclass(frozen=True)
class _Ended:
    """A seed's process that ended otherwise than well."""

    path: Path
    code: int
    said: str
    """What it wrote since it was started."""


@dataclass(frozen=True)
class _Working:
    """A seed's process, and how long its output was before it was started."""

    process: "subprocess.Popen[bytes]"
    written_before: int

    @classmethod
    def start(cls, path: Path) -> "_Working":
        """A process that goes on with the run at `path`."""
        with (path / _OUTPUT).open("ab") as output:
            written_before = output.tell()
            # In a session of its own: Ctrl-C reaches it through us, once.
            process = subprocess.Popen(
                [sys.executable, "-m", "actionless", "resume", str(path)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, STOP_WITH_PARENT: "1"},
            )
            return cls(process, written_before)

    def ended(self, path: Path) -> _Ended:
        """How it ended."""
        with (path / _OUTPUT).open("rb") as output:
            output.seek(self.written_before)
            return _Ended(path, self.process.returncode, output.read().decode(errors="replace"))


def _work_side_by_side(
    unfinished: Sequence[Path], workers: int, stop: StopRequest, display: "_Display"
) -> list[_Ended]:
    waiting, failures = list(unfinished), list[_Ended]()
    running: dict[Path, _Working] = {}
    told = False
    try:
        while running or (waiting and not stop):
            while waiting and len(running) < workers and not stop:
                path = waiting.pop(0)
                running[path] = _Working.start(path)
            for path in [path for path, working in running.items() if working.process.poll() is not None]:
                working = running.pop(path)
                if working.process.stdin is not None:
                    working.process.stdin.close()
                if working.process.returncode != 0:
                    failures.append(working.ended(path))
            if stop and not told:
                told = True
                _stop(running)
            display.update()
            time.sleep(0.2)
    finally:
        _stop(running)
    return failures


def _stop(running: dict[Path, _Working]) -> None:
    # Not SIGINT, which a process inherits as ignored from one that was started in the background.
    for working in running.values():
        working.process.send_signal(signal.SIGTERM)


def _worst(failures: Sequence[_Ended], run: Run, seeds: int) -> Exception:
    """What to raise: a bug of one seed must not hide behind what the user can mend of another."""
    errors = [_as_error(failure, run, f"{len(failures)} of {seeds} seeds failed") for failure in failures]
    return next((error for error in errors if not isinstance(error, ActionlessError)), errors[0])


def _as_error(failure: _Ended, run: Run, count: str) -> Exception:
    if failure.code < 0 or failure.code > 128:
        number = -failure.code if failure.code < 0 else failure.code - 128
        ended = "killed" if failure.code < 0 else "stopped"
        cause = " (out of memory?)" if failure.code == -signal.SIGKILL else ""
        return ActionlessError(
            f"{failure.path}: its process was {ended} by {signal.Signals(number).name}{cause}; "
            f"`actionless resume {run.path}` goes on from there ({count})"
        )
    complaints = [line for line in failure.said.splitlines() if line.startswith("actionless: ")]
    if failure.code == _EXIT_USER and complaints:
        return ActionlessError(f"{complaints[-1].removeprefix('actionless: ')} ({count})")
    return RuntimeError(f"{failure.path}: its process met a bug, see {failure.path / _OUTPUT} ({count})")


def _workers(run: Run, several: SeveralSeeds, seeds: int) -> int:
    """One process per core, as far as memory goes; one at a time on an accelerator, which they would share."""
    if _has_accelerator():
        return 1
    by_memory = 2 * default_memory_limit() // (_PROCESS_BYTES + several.memory)
    return max(1, min(seeds, threads_here() // _threads_of_each(run, several), by_memory))


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
        self._latest: dict[Path, dict[str, int | float]] = {path: {} for path in paths}

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
def _display(run: Run, several: SeveralSeeds, paths: list[Path]) -> Iterator[_Display]:
    done = sum(row["step"] for path in paths if (row := last_row(path / "metrics.jsonl")) is not None)
    with ProgressDisplay(run.path.name, several.steps * len(paths), done, several.headline) as shown:
        yield _Display(shown, paths)


def _summary(run: Run, several: SeveralSeeds, paths: list[Path]) -> Result:
    """The mean of the seeds' last metrics; `seconds` is what they took together, in however many sessions."""
    results = [result for path in paths if (result := read_result(path)) is not None]
    seconds = sum(result.seconds for result in results)
    return Result(run.manifest.verb, several.steps, seconds, _mean([result.final for result in results]))


def _mean(rows: Sequence[dict[str, int | float]]) -> dict[str, float]:
    """Of what all have in common."""
    common = set.intersection(*(set(row) for row in rows)) if rows else set()
    return {name: sum(row[name] for row in rows) / len(rows) for name in sorted(common)}
