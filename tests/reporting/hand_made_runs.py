"""Runs written by hand: as small as a run can be, in the form that `pretrain`, `train` and `finetune` leave behind."""

import copy
import json

LOG = {
    "fingerprint": "0123456789abcdef" * 4,
    "path": "/logs/walk.npz",
    "format": "npz",
    "read": ["states", "rewards"],
    "transitions": 2000,
    "episodes": 10,
    "origin": None,
}
TRAIN = {
    "environment": "Hopper-v5",
    "agent": "td3",
    "scale": "smoke",
    "steps": 300,
    "learner": {"hidden": [8, 8], "discount": 0.99},
    "loop": {"log_every": 100, "checkpoint_seconds": 30.0},
    "guidance": None,
    "sinks": [],
}
GUIDANCE = {"policy": "/runs/hopper", "schedule": {"start": 0.5, "kind": "paper"}}
PRETRAIN = {"method": "bc-delta", "scale": "smoke", "steps": 20, "learner": {"hidden": [8]}, "sinks": []}


def write_run(path, verb, config, rows, *, seed=0, data=None, finished=True, versions=None):
    """Write a run directory and return its path."""
    path.mkdir(parents=True)
    manifest = {
        "verb": verb,
        "config": config,
        "seed": seed,
        "data": data or {},
        "threads": 1,
        "versions": versions or {"python": "3.11.7", "actionless": "0.1.0"},
    }
    (path / "run.json").write_text(json.dumps(manifest))
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if finished:
        result = {"verb": verb, "steps": config["steps"], "seconds": 12.0, "final": {}}
        (path / "result.json").write_text(json.dumps(result))
    return path


def returns(*values, every=100):
    """Rows of evaluations."""
    return [{"step": every * number, "eval/return": value} for number, value in enumerate(values, 1)]


def alone(path, *values, seed=0, finished=True, **config):
    """An agent without a guide whose evaluations are given."""
    return write_run(path, "train", {**TRAIN, **config}, returns(*values), seed=seed, finished=finished)


def tuned(path, *values, agent="iql", finished=True):
    """An agent that started with 200 updates from a log with actions."""
    config = {**TRAIN, "agent": agent, "offline_steps": 200}
    return write_run(path, "finetune", config, returns(*values), data=LOG, finished=finished)


def guided(path, *values, seed=0, policy="/runs/hopper", **config):
    """A guided agent with every metric of the guide."""
    rows = returns(*values)
    for row in rows:
        row |= {"guided_share": 0.4, "beta": 0.5, "idm/online_loss": 0.3, "idm/offline_loss": 0.2, "idm/loss": 0.5}
        row |= {"guide/realised": 0.5, "guide/realised/height": 0.25, "guide/realised/speed": 0.75}
        row |= {"guide/reward": 2.0, "guide/own_reward": 1.0, "loss": 3.0, "q_mean": 4.0, "episode/return": 5.0}
        row |= {"guide/missed": 0.7}
    settings = {**copy.deepcopy(TRAIN), "guidance": {**GUIDANCE, "policy": policy}, **config}
    return write_run(path, "train", settings, rows, seed=seed, data={"guide": {"method": "bc-delta", "data": LOG}})


def pretrained(path, *accuracies, seed=0, log=LOG, **config):
    """A state policy whose held-out accuracies are given."""
    rows = [{"step": 10 * n, "loss": 1 / n, "heldout/accuracy": a} for n, a in enumerate(accuracies, 1)]
    return write_run(path, "pretrain", {**PRETRAIN, **config}, rows, seed=seed, data=log)
