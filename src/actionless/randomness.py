"""Random numbers on the host that depend on the seed, their purpose and the step alone.

No generator has to be saved with a run: a resumed run draws what it would have drawn.
"""

from typing import Literal, get_args

import numpy as np

Purpose = Literal[
    "log rows",
    "replay rows",
    "warm-up actions",
    "switch",
    "episodes",
    "idm rows",
    "idm log rows",
    "recorded episodes",
    "recorded actions",
]

_NUMBERS = {purpose: number for number, purpose in enumerate(get_args(Purpose))}


def generator(seed: int, purpose: Purpose, step: int) -> np.random.Generator:
    """The generator of one step."""
    # Philox starts anywhere at once, with the same numbers on every machine and version of NumPy.
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, _NUMBERS[purpose], step]))
