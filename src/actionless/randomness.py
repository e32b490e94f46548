"""Random numbers on the host that depend on the seed, their purpose and the step alone.

No generator has to be saved with a run: a resumed run draws what it would have drawn.
"""

import hashlib
from types import MappingProxyType

import numpy as np

PURPOSES = MappingProxyType(
    {
        "log rows": 0,
        "replay rows": 1,
        "warm-up actions": 2,
        "switch": 3,
        "episodes": 4,
        "idm rows": 5,
        "idm log rows": 6,
        "recorded episodes": 7,
        "recorded actions": 8,
        "relabelling models": 9,
        "rows to relabel": 10,
        "relabelled rows": 11,
        "critic's choice": 12,
    }
)
"""Numbers that never change and are never given twice: with another number, an old run would not resume bit for bit."""

_FIRST_OUTSIDE = 2**63
"""Purposes of code outside the package are numbered from here to 2⁶⁴."""


def generator(seed: int, purpose: str, step: int) -> np.random.Generator:
    """The generator of one step.

    Args:
        seed: The seed of the run.
        purpose: One of `PURPOSES`. Code outside the package names its own, with a colon: "my_package: rows to relabel".
        step: Each step has numbers of its own, as many as it draws.
    """
    counter = np.array([0, 0, purpose_number(purpose), step], np.uint64)
    # Philox starts anywhere at once, with the same numbers on every machine and version of NumPy.
    return np.random.Generator(np.random.Philox(key=seed, counter=counter))


def purpose_number(purpose: str) -> int:
    """The number in the table, or one beyond it that follows from the name alone."""
    if purpose in PURPOSES:
        return PURPOSES[purpose]
    # The colon tells a purpose of one's own from a misspelt one, and from any that the table may get later.
    if ":" not in purpose:
        raise ValueError(
            f"no purpose '{purpose}' (there are: {', '.join(PURPOSES)}); "
            f"a purpose of your own has a colon, such as 'my_package: {purpose}'"
        )
    digest = hashlib.sha256(purpose.encode()).digest()
    return _FIRST_OUTSIDE + int.from_bytes(digest[:8], "big") % _FIRST_OUTSIDE
