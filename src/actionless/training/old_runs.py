"""Run directories of older versions: the one place that translates them.

run.json is translated before it becomes settings, names in checkpoints before they are looked up. Nothing is rewritten
on the disk.
"""

from collections.abc import Callable, Mapping
from typing import Any

ONLINE_NAMES: Mapping[str, str] = {
    r"^\.standing\.": ".train_state.",
}
"""Of `train` and `finetune`: patterns of names that version 0.1.0 wrote, and what stands in their place today."""

OFFLINE_NAMES: Mapping[str, str] = {}
"""Of `pretrain`."""


def upgraded_config(verb: str, config: dict[str, Any]) -> dict[str, Any]:
    """The `config` of a run.json as today's version would have written it; the argument is left as it is."""
    upgrade = _UPGRADES.get(verb)
    return config if upgrade is None else upgrade(config)


def _of_pretrain(config: dict[str, Any]) -> dict[str, Any]:
    return config


def _of_online(config: dict[str, Any]) -> dict[str, Any]:
    return config


_UPGRADES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "pretrain": _of_pretrain,
    "train": _of_online,
    "finetune": _of_online,
}
