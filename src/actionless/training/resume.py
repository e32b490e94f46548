"""Resume a run that stopped, whichever verb began it."""

import importlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actionless.data.log import Log
from actionless.errors import ActionlessError
from actionless.execution.job import has_whole_result, is_done
from actionless.guidance.interface import Guidance
from actionless.runs.directory import Run, read_manifest
from actionless.runs.several_seeds import has_several_seeds, seed_paths
from actionless.training.seeds import resume_seeds

_HOMES = {
    "pretrain": "actionless.training.pretrain",
    "train": "actionless.training.train",
    "finetune": "actionless.training.finetune",
}
"""The module of each verb: `resume_run(run, ...)` takes a run to its end, `load_policy(run)` gives what was learnt."""

logger = logging.getLogger("actionless")


def resume(run: str | Path, log: Log | None = None, guidance: Sequence[Guidance] | None = None, **settings: Any) -> Any:
    """Resume a run that stopped, and give what it learnt: a policy or an agent, for several seeds a list.

    What the run learns from is read again. A log, guidance of your own or another setting that was handed over from
    Python, such as a function, must be given again. Of a finished run the policy is only loaded, or made again from the
    newest checkpoint where it is missing or damaged.
    """
    path = Path(run)
    manifest = read_manifest(path)
    if manifest.verb not in _HOMES:
        raise ActionlessError(f"{path}: a run of '{manifest.verb}', which cannot be resumed")
    home = importlib.import_module(_HOMES[manifest.verb])
    options = {"log": log, "guidance": guidance, "given": settings or None}
    given = {name: value for name, value in options.items() if value is not None}
    for name in (*(["guidance"] if guidance is not None else []), *settings):
        if manifest.verb != "train":
            raise ActionlessError(f"{path}: a run of '{manifest.verb}' has no {name}; resume it without")
    if has_several_seeds(manifest):
        if given:
            raise ActionlessError(f"{path}: each of its seeds reads what it needs by itself; resume it without")
        for seed_path in seed_paths(path, manifest):
            _warn_of_damage(seed_path)
        return [home.load_policy(seed_path) for seed_path in resume_seeds(path)]
    if is_done(path):
        logger.warning("%s is finished already", path)
        return home.load_policy(path)
    _warn_of_damage(path)
    with Run.open(path) as opened:
        if not has_whole_result(path):
            (path / "result.json").unlink(missing_ok=True)
        return home.resume_run(opened, **given)


def _warn_of_damage(path: Path) -> None:
    if is_done(path) or not (path / "result.json").exists():
        return
    part = "policy is missing or" if has_whole_result(path) else "result.json is"
    logger.warning("%s: its %s damaged; it is made again from the newest checkpoint", path, part)
