"""What `evaluate --out FOLDER` leaves: every figure in figures.json, then result.json, which says that it is done."""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actionless.errors import ActionlessError
from actionless.files import disk_trouble, write_durably
from actionless.runs.directory import Result

FIGURES = "figures.json"
_RESULT = "result.json"


def require_free_folder(folder: Path, *, overwrite: bool = False) -> None:
    """Refuse a folder that holds something else, or an evaluation unless it is to be replaced."""
    if (folder / "run.json").exists():
        raise ActionlessError(f"{folder} is a run directory: choose another --out")
    if (folder / _RESULT).exists() and not overwrite:
        raise ActionlessError(f"{folder} holds an evaluation: choose another --out, or replace it with --overwrite")


def write_evaluation(folder: Path, figures: Mapping[str, Any], seconds: float) -> None:
    """Write both files; result.json, the last, has only the figures that are single numbers."""
    numbers = {name: float(value) for name, value in figures.items() if _is_number(value)}
    result = Result("evaluate", steps=0, seconds=seconds, final=numbers)
    with disk_trouble(folder, "make room or choose an --out that can be written"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _RESULT).unlink(missing_ok=True)
        write_durably(folder / FIGURES, as_json(figures).encode())
        write_durably(folder / _RESULT, as_json(dataclasses.asdict(result)).encode())


def as_json(figures: Mapping[str, Any]) -> str:
    """Figures as `evaluate --json` prints them."""
    return json.dumps(figures, indent=2, ensure_ascii=False) + "\n"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
