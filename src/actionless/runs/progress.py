"""Progress of a run: a bar in a terminal, plain lines elsewhere."""

import math
import time
from collections import deque
from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_MARKS = 1.0
_MARKS = 60
_REFRESHES_PER_SECOND = 4
"""Few, because drawing takes 2.5 ms, a call of `show` only 0.03 ms."""


class ProgressDisplay:
    """Shows step, rate, time left and the metrics named in `headline`, on standard error."""

    def __init__(self, title: str, steps: int, start: int, headline: tuple[str, ...]):
        self._title, self._steps, self._headline = title, steps, headline
        self._console = Console(stderr=True)
        self._marks: deque[tuple[int, float]] = deque(maxlen=_MARKS)
        self._last_line = -math.inf
        self._latest: dict[str, float] = {}
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[metrics]}"),
            console=self._console,
            refresh_per_second=_REFRESHES_PER_SECOND,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=steps, completed=start, rate="", metrics="")

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show step and metrics; a metric that is not measured at every step keeps its last value."""
        self._latest.update(metrics)
        now = time.monotonic()
        pace = self._pace(step, now)
        headline = "  ".join(f"{name} {self._latest[name]:.4g}" for name in self._headline if name in self._latest)
        self._bar.update(self._task, completed=step, rate=pace, metrics=headline)
        due = step == self._steps or now - self._last_line >= _SECONDS_BETWEEN_LINES
        if due and not self._console.is_terminal:
            self._last_line = now
            parts = (f"{self._title} {step}/{self._steps}", pace, headline)
            self._console.print("  ".join(filter(None, parts)), highlight=False, soft_wrap=True)

    def _pace(self, step: int, now: float) -> str:
        """Rate and time left, from the last minute: an agent is slower once it has started to learn.

        Time before the first call does not count: it was spent on compilation.
        """
        if not self._marks or now - self._marks[-1][1] >= _SECONDS_BETWEEN_MARKS:
            self._marks.append((step, now))
        first_step, first_time = self._marks[0]
        if step == first_step:
            return "starting"
        rate = (step - first_step) / max(now - first_time, 1e-9)
        return f"{rate:,.{0 if rate >= 10 else 2}f}/s, {_clock((self._steps - step) / rate)} left"

    def __enter__(self) -> "ProgressDisplay":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
