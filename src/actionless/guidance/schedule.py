"""How often the guide acts: β, the probability of following it, for an environment step.

Any function from the step to β is a schedule: `lambda step: 0.3` will do.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from actionless.errors import ActionlessError
from actionless.randomness import generator
from actionless.settings import Count, Fraction, Positive, Settings

Schedule = Callable[[int], float]


@dataclass(frozen=True)
class PaperSchedule(Settings, kind="paper"):
    """The paper's: β falls step by step, from 0.5 by 0.1 every 100,000 steps, to 0 after half a million."""

    start: Fraction = 0.5
    decrement: Positive = 0.1
    interval: Count = 100_000

    def for_run(self, steps: int) -> "PaperSchedule":
        """The same for a run of another length than the paper's million: guidance by default ends halfway."""
        return replace(self, interval=max(1, steps // 10))

    def __call__(self, step: int) -> float:
        """β at an environment step."""
        # Rounded, so that 0.5 - 4 · 0.1 is 0.1.
        return max(0.0, round(self.start - self.decrement * (step // self.interval), 12))

    @property
    def end(self) -> int:
        """The step from which on β is 0."""
        return math.ceil(round(self.start / self.decrement, 9)) * self.interval


@dataclass(frozen=True)
class Fixed(Settings, kind="fixed"):
    """The same β at every step."""

    beta: Fraction

    def __call__(self, step: int) -> float:  # noqa: ARG002 (the same at every step)
        """β at an environment step."""
        return self.beta


def beta_at(schedule: Schedule, step: int) -> float:
    """The schedule's β, if it is a probability."""
    beta = float(schedule(step))
    if not 0 <= beta <= 1:
        raise ActionlessError(f"the schedule gives β = {beta} at step {step}: it has to give values between 0 and 1")
    return beta


def guidance_end(schedule: Schedule) -> float:
    """The step from which on β is known to be 0; infinite where that is not known."""
    match schedule:
        case PaperSchedule(end=end):
            return float(end)
        case Fixed(beta=0):
            return 0.0
    return math.inf


def follows_guide(seed: int, step: int, beta: float, stretch: int = 1) -> bool:
    """Whether ζ < β, with ζ ~ U(0, 1) decided by the seed and the step alone.

    ζ is drawn anew at each step, or with a `stretch` at one of so many: the share of guided steps stays β.
    """
    if beta == 0:
        return False
    draw = generator(seed, "switch", step)
    zeta = draw.random()
    while stretch > 1 and step > 0 and draw.random() >= 1 / stretch:
        step -= 1
        draw = generator(seed, "switch", step)
        zeta = draw.random()
    return zeta < beta
