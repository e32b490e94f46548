"""Whether a log looks like one of the task: two tasks may have as many variables, and nothing else alike."""

import logging

import numpy as np
from jaxtyping import Real

from actionless.data.log import Log, blocks, column_range

_log = logging.getLogger("actionless")

_MARGIN = 0.5
"""Of a variable's range in the log: first states of Walker2d and HalfCheetah are 0.7 and 1.2 ranges outside of each
other's logs, those of a log's own task are inside."""


def unfamiliar(log: Log, first: Real[np.ndarray, " dim"]) -> str | None:
    """What of a task's first state lies far outside of all that the log has seen; constants of the log do not count."""
    row_bytes = log.states.itemsize * log.state_dim
    least, most = column_range(np.asarray(log.states[block]) for block in blocks(len(log), row_bytes))
    widths = np.where(most > least, most - least, np.inf)
    outside = np.maximum(least - first, first - most) / widths
    worst = int(outside.argmax())
    if outside[worst] <= _MARGIN:
        return None
    return f"{log.state_names[worst]} = {first[worst]:.3g}, where the log has {least[worst]:.3g} to {most[worst]:.3g}"


def warn_if_unfamiliar(log: Log, first: Real[np.ndarray, " dim"], task: str) -> None:
    """A doubt and no more: a log may leave out how its episodes begin."""
    if (strange := unfamiliar(log, first)) is not None:
        _log.warning(
            "%s: %s begins with %s: if it is a log of another task, give one of this", log.source.path, task, strange
        )
