"""Run driver: checkpoint, resume, stop.

A `Loop` defines one dispatch; `drive` repeats it from the newest checkpoint (or from step 0) to the end. The state that
a loop returns holds everything that the next dispatch depends on: learner, optimiser, random keys, replay, simulator.
So a resumed run is bit-identical to one that was never stopped.
"""

import abc
import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from actionless.errors import ActionlessError
from actionless.runs.checkpoints import Checkpoints, NotFiniteError
from actionless.runs.directory import Result, Run
from actionless.runs.progress import ProgressDisplay
from actionless.runs.signals import StopRequest
from actionless.runs.sinks import Journal, SinkName, last_values

State = TypeVar("State")

logger = logging.getLogger("actionless")


class DivergedError(Exception):
    """Weights or values are not finite: raised by a loop that finds this between two rows of metrics."""

    def __init__(self, what: str, step: int):
        super().__init__(what)
        self.step = step


@dataclass(frozen=True)
class Advance(Generic[State]):
    """The result of one dispatch.

    Metrics depend only on the seed, never on the clock: a dispatch that the clock ends has none.
    """

    state: State
    step: int
    metrics: Mapping[str, float]


class Loop(abc.ABC, Generic[State]):
    """What a run trains."""

    steps: int
    """Step at which the run ends."""
    score: str
    """The metric that chooses the best checkpoint."""
    lower_is_better: bool = False
    """Whether the best score is the lowest."""
    headline: tuple[str, ...]
    """The metrics shown while the run works, once they have been measured."""
    old_names: Mapping[str, str] = MappingProxyType({})
    """Names in checkpoints of older versions: a regular expression for each, and what replaces it today."""

    @abc.abstractmethod
    def begin(self) -> State:
        """The state at step 0. It is also the template for loading a checkpoint.

        Every float in it must be finite: fill arrays that get their values later with zeros.
        """

    @abc.abstractmethod
    def advance(self, state: State, step: int) -> Advance[State]:
        """One dispatch from `step`, a few seconds at most: Ctrl-C waits for it."""


@dataclass(frozen=True)
class Outcome(Generic[State]):
    """A run at its end. The caller saves what was learnt, then calls `run.finish(result)`."""

    state: State
    result: Result


def drive(
    run: Run,
    loop: Loop[State],
    *,
    checkpoint_every: int,
    checkpoint_seconds: float = 0.0,
    last_checkpoints: int = 1,
    sinks: Sequence[SinkName] = (),
) -> Outcome[State]:
    """Start a run, or resume it from its newest checkpoint, and work until its end.

    A checkpoint is written at every multiple of `checkpoint_every` steps if `checkpoint_seconds` have passed since the
    last one, and when the run is stopped. The last `last_checkpoints`, of which the end is one, are written whatever
    the clock says, and kept.
    """
    keep_from = loop.steps - (last_checkpoints - 1) * checkpoint_every
    checkpoints = Checkpoints(run.path / "checkpoints", keep_from)
    state, step, logged, seconds = _restored(checkpoints, loop)
    began = time.perf_counter() - seconds
    saved_at = row_at = time.perf_counter()
    row_step = step
    with ExitStack() as stack:
        journal = stack.enter_context(closing(Journal(run, logged, sinks)))
        display = stack.enter_context(ProgressDisplay(run.path.name, loop.steps, step, loop.headline))
        stop = stack.enter_context(StopRequest())
        while step < loop.steps:
            before = logged
            try:
                ahead = loop.advance(state, step)
            except DivergedError as bad:
                raise _diverged(run, checkpoints, f"{bad} is not finite", before, bad.step + 1) from None
            now = time.perf_counter()
            _require_finite(ahead.metrics, run, checkpoints, before, ahead.step)
            if ahead.metrics:
                clock = {"seconds": now - began, "steps_per_second": (ahead.step - row_step) / (now - row_at)}
                journal.log(ahead.step, ahead.metrics, clock)
                logged = row_step = ahead.step
                row_at = now
            display.show(ahead.step, ahead.metrics)
            crossed = ahead.step // checkpoint_every > step // checkpoint_every
            wanted = ahead.step >= keep_from or now - saved_at >= checkpoint_seconds
            due = (crossed and wanted) or ahead.step >= loop.steps
            stopping = bool(stop)
            if due or stopping:
                journal.sync()
                try:
                    score = _score(loop, ahead.metrics)
                    checkpoints.save(ahead.state, step=ahead.step, logged=logged, seconds=now - began, score=score)
                except NotFiniteError as bad:
                    raise _diverged(run, checkpoints, f"'{bad}' is not finite", before, ahead.step) from None
                saved_at = time.perf_counter()
            state, step = ahead.state, ahead.step
            if stopping:
                logger.warning("stopped at step %d; `actionless resume %s` resumes it", step, run.path)
                break
        stop.obey()
    final = last_values(run.path / "metrics.jsonl")
    return Outcome(state, Result(run.manifest.verb, step, time.perf_counter() - began, final))


def _restored(checkpoints: Checkpoints, loop: Loop[State]) -> tuple[State, int, int, float]:
    state = loop.begin()
    saved = checkpoints.newest(like=state, old_names=loop.old_names)
    return (state, 0, 0, 0.0) if saved is None else (saved.state, saved.step, saved.logged, saved.seconds)


def _score(loop: Loop[State], metrics: Mapping[str, float]) -> float | None:
    """The score of a checkpoint, with its sign changed if lower is better: the highest is the best."""
    score = metrics.get(loop.score)
    return -score if score is not None and loop.lower_is_better else score


def _require_finite(metrics: Mapping[str, float], run: Run, checkpoints: Checkpoints, start: int, end: int) -> None:
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise _diverged(run, checkpoints, f"'{name}' is {value}", start, end)


def _diverged(run: Run, checkpoints: Checkpoints, what: str, start: int, end: int) -> ActionlessError:
    none = "no checkpoint is intact" if checkpoints.paths() else "no checkpoint was written before that"
    kept = checkpoints.last_good()
    good = none if kept is None else f"the last good checkpoint is {kept}"
    return ActionlessError(
        f"{run.path}: {what} between steps {start + 1} and {end}; {good}. "
        "Resuming would lead to the same error: start again with a smaller learning rate or scaled rewards"
    )
