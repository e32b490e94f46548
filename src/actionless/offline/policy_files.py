"""A policy on disk: weights as safetensors, everything else as JSON that carries the weights' checksum."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from actionless.errors import ActionlessError
from actionless.files import disk_trouble, write_durably

DESCRIPTION = "policy.json"
WEIGHTS = "policy.safetensors"
FORMAT = "actionless policy"
FOLDER = "policy"
"""Where in a run directory its policy is."""
VERSION = 1

_RUN = "run.json"
"""What makes a directory a run."""


def write(directory: Path, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write both files, each in one move; the description, which vouches for the weights, comes last."""
    weights = safetensors.numpy.save({name: np.asarray(a, order="C") for name, a in arrays.items()})
    head = {"format": FORMAT, "version": VERSION, "weights_sha256": hashlib.sha256(weights).hexdigest()}
    text = json.dumps(head | dict(description), indent=2, allow_nan=False) + "\n"
    with disk_trouble(directory, "make room or choose a folder that can be written"):
        directory.mkdir(parents=True, exist_ok=True)
        write_durably(directory / WEIGHTS, weights)
        write_durably(directory / DESCRIPTION, text.encode())


def read(directory: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Description and arrays, checked against each other; of a run directory, those of its policy."""
    if (directory / _RUN).is_file():
        _require_policy(directory)
    if (directory / FOLDER).is_dir():
        directory = directory / FOLDER
    description = _read_description(directory / DESCRIPTION)
    path = directory / WEIGHTS
    try:
        weights = path.read_bytes()
    except FileNotFoundError:
        raise ActionlessError(f"{path}: missing; {_way_out(directory)}") from None
    if hashlib.sha256(weights).hexdigest() != description.get("weights_sha256"):
        raise ActionlessError(f"{path}: damaged, its checksum is wrong; {_way_out(directory)}")
    return description, safetensors.numpy.load(weights)


def read_kind(directory: Path, kind: str, words: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The same of a policy of one kind; another is refused. `words` name the kind: "a state policy"."""
    description, arrays = read(directory)
    if description["kind"] != kind:
        article, _, what = words.partition(" ")
        raise ActionlessError(
            f"{directory}: holds a policy of {description['method']}, which is no {what}: give one pre-trained with a "
            f"method that gives {article} {what}; `actionless pretrain --help` says which do"
        )
    return description, arrays


def _require_policy(run: Path) -> None:
    if seeds := sorted(run.glob("seed-*")):
        raise ActionlessError(f"{run}: holds the runs of {len(seeds)} seeds; give one of them, such as {seeds[0]}")
    if not (run / "result.json").is_file():
        raise ActionlessError(f"{run}: not finished, so without a policy; `actionless resume {run}` resumes it")
    if not (run / FOLDER).is_dir():
        raise ActionlessError(f"{run}: its policy is missing; {_way_out(run / FOLDER)}")


def _way_out(directory: Path) -> str:
    run = directory.parent
    return f"`actionless resume {run}` makes it again" if (run / _RUN).is_file() else "copy it, or pre-train, again"


def _read_description(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise ActionlessError(
            f"{path.parent}: no saved policy here ({path.name} is missing); give the directory it was saved to"
        ) from None
    except UnicodeDecodeError:
        raise ActionlessError(f"{path}: not a policy file; give the directory a policy was saved to") from None
    try:
        description = json.loads(text)
    except json.JSONDecodeError as error:
        raise ActionlessError(f"{path}: damaged at line {error.lineno}; {_way_out(path.parent)}") from None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ActionlessError(f"{path}: not a policy file; give the directory a policy was saved to")
    if description.get("version") != VERSION:
        raise ActionlessError(
            f"{path}: written in version {description.get('version')} of the format, this package reads {VERSION}; "
            "upgrade actionless, or pre-train again"
        )
    return description
