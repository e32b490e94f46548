"""Checks of settings that `train` and `finetune` share."""

import math
from typing import Any, get_args, get_type_hints

from actionless.errors import ActionlessError


def require_choices(options: Any, *names: str) -> None:
    """That each of these fields holds one of the texts that its annotation lists."""
    annotations = get_type_hints(type(options))
    for name in names:
        value, kinds = getattr(options, name), (annotations[name], *get_args(annotations[name]))
        choices = [choice for kind in kinds for choice in get_args(kind) if isinstance(choice, str)]
        if value is not None and value not in choices:
            raise ActionlessError(f"{name}={value!r}: choose {', '.join(map(repr, choices))}")


def require_sound(given: dict[str, Any]) -> None:
    """Refuse settings of a learner or agent that no number of updates would mend."""
    for name in (
        "alpha",
        "learning_rate",
        "policy_learning_rate",
        "target_rate",
        "discount",
        "exploration_noise",
        "inverse_temperature",
        "guide_weight",
    ):
        value = given.get(name, 0.0)
        if not (math.isfinite(value) and value >= 0):
            raise ActionlessError(f"{name}={value}: choose a finite number of at least 0")
    for name in ("discount", "target_rate"):
        if given.get(name, 0.0) > 1:
            raise ActionlessError(f"{name}={given[name]}: choose at most 1")
    if not 0 < given.get("expectile", 0.5) < 1:
        raise ActionlessError(f"expectile={given['expectile']}: choose a number above 0 and below 1")
    for name in ("most_weight", "reward_scale"):
        if not 0 < given.get(name, 1.0) < math.inf:
            raise ActionlessError(f"{name}={given[name]}: choose a finite number above 0")
    if not math.isfinite(given.get("target_return", 0.0)):
        raise ActionlessError(f"target_return={given['target_return']}: choose a finite number")
    counts = ("ensemble", "n_step", "candidates", "penalty_every", "context", "width", "blocks")
    at_least_one(**{name: given.get(name) for name in counts})
    at_least_one(**{f"hidden layer {i + 1}": size for i, size in enumerate(given.get("hidden", ()))})


def at_least_one(**counts: int | None) -> None:
    """Refuse a count below one; None stands for a preset."""
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ActionlessError(f"{name}={count}: choose at least 1")
