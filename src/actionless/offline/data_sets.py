"""The paper's data sets, by the names of their logs."""

import re

DATA_SETS = (
    *(
        f"{robot}-{level}"
        for robot in ("hopper", "halfcheetah", "walker2d")
        for level in ("medium-replay", "medium", "medium-expert", "expert")
    ),
    *(
        f"{domain}-{level}"
        for domain in ("cheetah-run", "quadruped-walk")
        for level in ("random-medium-expert", "medium", "medium-expert", "expert")
    ),
)


def data_set(log_name: str) -> str | None:
    """The data set that a log's name stands for (`hopper_medium-v2`), if it is one of them."""
    name = re.sub(r"-v\d+$", "", log_name.lower().replace("_", "-"))
    return name if name in DATA_SETS else None
