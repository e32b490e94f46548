"""Does a log fit an environment? Two environments may have the same number of state variables by chance."""

import logging

import numpy as np
from jaxtyping import Real

from actionless.data.log import Log, blocks, column_range

logger = logging.getLogger("actionless")

_MARGIN = 0.5
"""Allowed distance outside a variable's range in the log, as a share of that range.

First states of Walker2d lie 0.7 ranges outside HalfCheetah's log, and the reverse 1.2; first states of a log's own
environment lie inside."""


def unfamiliar(log: Log, first: Real[np.ndarray, " dim"]) -> str | None:
    """Describe the variable of an environment's first state that lies far outside its range in the log; else None.

    Variables that are constant in the log are ignored.
    """
    row_bytes = log.states.itemsize * log.state_dim
    least, most = column_range(np.asarray(log.states[block]) for block in blocks(len(log), row_bytes))
    widths = np.where(most > least, most - least, np.inf)
    outside = np.maximum(least - first, first - most) / widths
    worst = int(outside.argmax())
    if outside[worst] <= _MARGIN:
        return None
    return (
        f"{log.state_names[worst]} = {first[worst]:.3g}, but its range in the log is "
        f"{least[worst]:.3g} to {most[worst]:.3g}"
    )


def warn_if_unfamiliar(log: Log, first: Real[np.ndarray, " dim"], environment: str) -> None:
    """Warn if a log looks like one of another environment. No error: a log may lack the start of its episodes."""
    if (difference := unfamiliar(log, first)) is not None:
        logger.warning(
            "%s: this log may come from a different environment: %s starts with %s; check that they belong together",
            log.source.path,
            environment,
            difference,
        )
