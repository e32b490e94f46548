"""Resume a run that stopped, whichever verb began it."""

import importlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actionless.data.log import Log
from actionless.errors import ActionlessError
from actionless.guidance.interface import Guidance
from actionless.guidance.schedule import Schedule
from actionless.offline import policy_files
from actionless.runs.directory import Run, read_manifest, read_result
from actionless.training.seeds import has_several_seeds, resume_seeds

_HOMES = {
    "pretrain": "actionless.training.pretrain",
    "train": "actionless.training.train",
    "finetune": "actionless.training.finetune",
}
"""The module of each verb: `resume_run(run, ...)` takes a run to its end, `load_policy(run)` gives what was learnt."""

_log = logging.getLogger("actionless")


def resume(
    run: str | Path,
    log: Log | None = None,
    schedule: Schedule | None = None,
    guidance: Sequence[Guidance] | None = None,
) -> Any:
    """Resume a run that stopped, and give what it learnt: a policy or an agent, for several seeds a list.

    What the run learns from is read again. A log, a schedule or guidance of your own that was handed over from Python
    must be given again. Of a finished run the policy is only loaded, or made again from the newest checkpoint where it
    is missing or damaged.
    """
    path = Path(run)
    manifest = read_manifest(path)
    if manifest.verb not in _HOMES:
        raise ActionlessError(f"{path}: a run of '{manifest.verb}', which cannot be resumed")
    home = importlib.import_module(_HOMES[manifest.verb])
    options = {"log": log, "schedule": schedule, "guidance": guidance}
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name != "log" and manifest.verb != "train":
            raise ActionlessError(f"{path}: a run of '{manifest.verb}' follows no {name}; resume it without one")
    if has_several_seeds(manifest):
        if given:
            raise ActionlessError(f"{path}: each of its seeds reads what it needs by itself; resume it without")
        paths = resume_seeds(path, _is_whole)
        return [home.load_policy(seed_path) for seed_path in paths]
    if _is_whole(path):
        _log.warning("%s is finished already", path)
        return home.load_policy(path)
    with Run.open(path) as opened:
        return home.resume_run(opened, **given)


def _is_whole(path: Path) -> bool:
    """Whether a run is finished and what it saved is undamaged; looked at without JAX, whose device seeds may need."""
    if read_result(path) is None:
        return False
    try:
        policy_files.read(path)
    except ActionlessError:
        _log.warning("%s: its policy is missing or damaged; it is made again from the newest checkpoint", path)
        return False
    return True
