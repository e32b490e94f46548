"""Whether a guide's log fits the environment: do steps near the log pay what the log says they pay?

A log of another environment, or one whose rewards mean something else, would mislead an agent. Guidance that uses the
log's values or rewards asks at every step, and is suspended while the answer is no.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Real

from actionless.offline.support import Support

NEAR = 1.0
"""Steps count that end within this distance of the log, in standard deviations of each variable."""
LEAST_STEPS = 500.0
"""Fewer steps than these prove nothing: the log is used."""
LEAST_CORRELATION = 0.2
"""Between what was paid and what the log would have paid. Below it, the log does not fit."""
MEMORY = 5000
"""Steps after which one counts for a third (1/e)."""


USED_THROUGHOUT = 0.95
"""Where the log was used for at least this share of a run, nobody needs to know of the rest."""


def suspended(what: str, share: float, correlation: float | None) -> str:
    """The sentence of a report."""
    known = "" if correlation is None else f" (correlation {correlation:.2f})"
    return (
        f"{what} was suspended for {share:.0%} of the run, because the rewards of steps near the log differ from the "
        f"log's{known}. Is the log of this environment, with the same rewards?"
    )


class Sums(NamedTuple):
    """Of the steps that counted, the newest most: all that changes."""

    moments: Float[np.ndarray, "6"]
    """Their number; sums of what was paid, of what was expected, of both squared, and of their product."""

    @classmethod
    def create(cls) -> "Sums":
        """Nothing seen."""
        return cls(np.zeros(6))

    def add(
        self,
        paid: Real[np.ndarray, " steps"],
        expected: Real[np.ndarray, " steps"],
        distance: Real[np.ndarray, " steps"],
    ) -> None:
        """Take in steps, oldest first."""
        near = np.asarray(distance) <= NEAR
        x, y = np.asarray(paid, np.float64)[near], np.asarray(expected, np.float64)[near]
        fading = (1 - 1 / MEMORY) ** np.arange(len(x) - 1, -1, -1)
        self.moments[:] *= (1 - 1 / MEMORY) ** len(x)
        self.moments[:] += np.stack([np.ones_like(x), x, y, x * x, y * y, x * y]) @ fading

    @property
    def correlation(self) -> float | None:
        """Between what was paid and what was expected; None where it cannot be known."""
        count = self.moments[0]
        if count < LEAST_STEPS:
            return None
        _, paid, expected, paid_squared, expected_squared, product = self.moments / count
        spread = (paid_squared - paid**2) * (expected_squared - expected**2)
        # Rewards that never change say nothing, nor does what cannot be told apart from rounding.
        if spread <= 1e-12 * max(1e-12, paid_squared * expected_squared):
            return None
        return float((product - paid * expected) / np.sqrt(spread))

    @property
    def fits(self) -> bool:
        """Whether the log may be used."""
        correlation = self.correlation
        return correlation is None or correlation >= LEAST_CORRELATION


@jax.jit
def near_and_expected(
    support: Support, z: Float[Array, "steps dim"], next_z: Float[Array, "steps dim"]
) -> Float[Array, "2 steps"]:
    """How far steps end from the log, and what the log would have paid for them."""
    return jnp.stack([support.distance(next_z), support.reward(z, next_z)])
