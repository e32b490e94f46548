"""Several seeds of one run, whatever it trains: a full run directory for each, and a job for each.

Each seed's run is what a run of that seed alone on so many threads is.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from actionless.errors import ActionlessError
from actionless.execution.job import Job, is_done
from actionless.execution.local_processes import LocalProcesses
from actionless.execution.outcome import Outcome, ProcessKilledError, worst_error
from actionless.execution.watch import Watch
from actionless.runs.directory import Manifest, Result, Run, read_result
from actionless.runs.progress import ProgressDisplay
from actionless.runs.several_seeds import (
    SeveralSeeds,
    manifest_of_seed,
    seed_paths,
    several_seeds,
    with_several_seeds,
)
from actionless.runs.sinks import last_row

logger = logging.getLogger("actionless")


def start_seeds(out: Path, manifest: Manifest, several: SeveralSeeds, *, overwrite: bool = False) -> list[Path]:
    """Do what `manifest` says with each of the seeds. Returns the seeds' runs."""
    with Run.create(out, with_several_seeds(manifest, several), overwrite=overwrite) as run:
        return _work(run)


def resume_seeds(path: Path) -> list[Path]:
    """Resume every seed whose run is not done. Returns the seeds' runs."""
    with Run.open(path) as run:
        if not is_done(path):
            return _work(run)
        logger.warning("%s is finished already", path)
        return seed_paths(path, run.manifest)


def _work(run: Run) -> list[Path]:
    several, paths = several_seeds(run.manifest), seed_paths(run.path, run.manifest)
    jobs = [_job(run, seed, path) for seed, path in zip(several.seeds, paths, strict=True)]
    done = sum(row["step"] for path in paths if (row := last_row(path / "metrics.jsonl")) is not None)
    with ProgressDisplay(run.path.name, several.steps * len(paths), done, several.headline) as shown:
        try:
            outcomes = LocalProcesses().run(jobs, _Display(shown, paths))
        except (KeyboardInterrupt, SystemExit):
            logger.warning("stopped; `actionless resume %s` resumes it", run.path)
            raise
    error = worst_error(outcomes)
    if error is not None:
        raise _with_count(error, run, outcomes) from error
    run.finish(_summary(run, several, paths))
    return paths


def _job(run: Run, seed: int, path: Path) -> Job:
    manifest = manifest_of_seed(run.manifest, seed)
    if not path.exists():
        Run.create(path, manifest).close()
    memory = several_seeds(run.manifest).memory
    return Job(path, ("resume", str(path)), cores=manifest.threads, memory=memory)


def _with_count(error: Exception, run: Run, outcomes: Sequence[Outcome]) -> Exception:
    """The error of one seed, with the number of seeds that failed."""
    failed = sum(outcome.state == "failed" for outcome in outcomes)
    count = f"({failed} of {len(outcomes)} seeds failed)"
    if isinstance(error, ProcessKilledError):
        return ActionlessError(f"{error}; `actionless resume {run.path}` resumes it {count}")
    kind = ActionlessError if isinstance(error, ActionlessError) else RuntimeError
    return kind(f"{error} {count}")


class _Display(Watch):
    """Progress of all seeds together."""

    def __init__(self, shown: ProgressDisplay, paths: Sequence[Path]):
        self._shown, self._step, self._unfinished = shown, -1, len(paths)
        self._latest: dict[Path, dict[str, int | float]] = {path: {} for path in paths}

    def started(self, job: Job) -> None:
        """The bar says enough."""

    def ended(self, outcome: Outcome) -> None:
        """Name a failure while other seeds go on; that of the last one is raised at once."""
        self._unfinished -= 1
        if outcome.state == "failed" and self._unfinished:
            logger.warning("%s failed: %s; see %s", outcome.job.out, outcome.error, outcome.job.output)

    def waiting(self) -> None:
        """Look at what the seeds have written; a metric that not every row has keeps its last value."""
        for path, latest in self._latest.items():
            latest.update(last_row(path / "metrics.jsonl") or {})
        begun = [latest for latest in self._latest.values() if latest]
        step = int(sum(latest["step"] for latest in begun))
        if step > self._step:
            self._shown.show(step, _mean(begun))
            self._step = step


def _summary(run: Run, several: SeveralSeeds, paths: Sequence[Path]) -> Result:
    """The mean of the seeds' last metrics; `seconds` is what they took together, in however many sessions."""
    results = [result for path in paths if (result := read_result(path)) is not None]
    seconds = sum(result.seconds for result in results)
    return Result(run.manifest.verb, several.steps, seconds, _mean([result.final for result in results]))


def _mean(rows: Sequence[dict[str, int | float]]) -> dict[str, float]:
    """Of what all have in common."""
    common = set.intersection(*(set(row) for row in rows)) if rows else set()
    return {name: sum(row[name] for row in rows) / len(rows) for name in sorted(common)}
