"""Run directories of older versions: the one place that translates them.

run.json and policy.json are translated before they become settings, names in checkpoints before they are looked up.
Nothing is rewritten on the disk. This file imports nothing of the package, so that any part may use it.
"""

from collections.abc import Callable, Mapping
from typing import Any

ONLINE_NAMES: Mapping[str, str] = {
    r"^\.standing\.": ".train_state.",
    r"^\.guide\.": ".guidance[0].",
    r"^\.replay\.(returns|guiding)$": r".replay.extra['\1']",
}
"""Of `train` and `finetune`: patterns of names that version 0.1.0 wrote, and what stands in their place today."""

OFFLINE_NAMES: Mapping[str, str] = {}
"""Of `pretrain`."""


def upgraded_config(verb: str, config: dict[str, Any]) -> dict[str, Any]:
    """The `config` of a run.json as today's version would have written it; the argument is left as it is."""
    upgrade = _UPGRADES.get(verb)
    return config if upgrade is None else upgrade(config)


def _of_pretrain(config: dict[str, Any]) -> dict[str, Any]:
    """Version 0.1.0 did not say which learner's settings it stored. Its alpha was multiplied by the scale already."""
    learner: dict[str, Any] = config["learner"]
    if "kind" in learner:
        return {**config, "learner": {**_ADDED_SINCE.get(learner["kind"], {}), **learner}}
    renamed = {_RENAMED.get(name, name): value for name, value in learner.items()}
    kind = _LEARNERS[config["method"]]
    return {**config, "learner": {"kind": kind, **_ADDED_SINCE.get(kind, {}), **renamed}}


_ADDED_SINCE: dict[str, dict[str, Any]] = {
    "oso-decqn": {"support": False},
    "imitation": {"average_rate": 0.0},
    "iql-delta": {"average_rate": 0.0, "at_once": None},
}
"""What a run did without if it does not say so: it began before there was the distance from its log, or an average."""
_RENAMED = {"most_gradient": "max_grad_norm"}
_LEARNERS = {
    "oso-decqn": "oso-decqn",
    "decqn": "oso-decqn",
    "bc-delta": "imitation",
    "bc-next": "imitation",
    "bc-diff": "imitation",
    "bc-action": "imitation",
    "afdt": "afdt",
}
"""The kind of each method's settings."""


def _of_online(config: dict[str, Any]) -> dict[str, Any]:
    """Version 0.1.0 had at most one guidance, without a kind; the weight of plans stood with the agent.

    What it stored of the agent had no kind either, and the interval of evaluations stood beside the loop's settings.
    """
    old = config.get("guidance")
    if isinstance(old, list):
        return {**config, "guidance": [{**_RAW_STATES.get(part.get("kind"), {}), **part} for part in old]}
    config = dict(config)
    if "agent" in config and "learner" in config:
        config["learner"] = {"kind": config["agent"], **config["learner"]}
    if "evaluate_every" in config:
        config["loop"] = {**config["loop"], "evaluate_every": config.pop("evaluate_every")}
    if old is None:
        return {**config, "guide": None, "guidance": []}
    if "target_return" in old:
        learner = dict(config["learner"])
        weight = learner.pop("guide_weight")
        plans = {"kind": "plans", "target_return": old["target_return"], "guide_weight": weight}
        return {**config, "learner": learner, "guide": old["policy"], "guidance": [plans]}
    return {**config, "guide": old["policy"], "guidance": [_switch(old)]}


def _switch(old: dict[str, Any]) -> dict[str, Any]:
    idm = dict(old.get("idm", {}))
    bootstrap = idm.pop("bootstrap", True)
    schedule, beta = old["schedule"], None
    if schedule is None:
        schedule = {"kind": "python", "name": "function"}
    elif schedule.get("kind") == "fixed":
        schedule, beta = None, schedule["beta"]
    kept = {"idm": idm, "bootstrap": bootstrap, "capacity": 1_000_000}
    return {"kind": "switch", **_RAW_STATES["switch"], **kept, "beta": beta, "schedule": schedule}


_RAW_STATES = {"switch": {"normalise": False}}
"""A run that does not say what its agent sees began before there was a choice."""


def upgraded_policy(description: dict[str, Any]) -> dict[str, Any]:
    """A policy.json as today's version would have written it; the argument is left as it is."""
    config = description.get("config")
    if description.get("kind") != "agent" or not isinstance(config, dict) or "kind" in config:
        return description
    # What a guided SAC has learnt acts as SAC does.
    kept = {name: value for name, value in config.items() if name != "guide_weight"}
    return {**description, "config": {"kind": description["method"], **kept}}


_UPGRADES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "pretrain": _of_pretrain,
    "train": _of_online,
    "finetune": _of_online,
}
