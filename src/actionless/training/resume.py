"""Go on with a run that stopped, whichever verb began it."""

import importlib
import logging
from pathlib import Path
from typing import Any

from actionless.data.log import Log
from actionless.errors import ActionlessError
from actionless.guidance.switch import Schedule
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


def resume(run: str | Path, log: Log | None = None, schedule: Schedule | None = None) -> Any:
    """Go on with a run that stopped, and give what it learnt: a policy or an agent, for several seeds a list.

    What the run learns from is read again; a log or schedule that was handed over from Python must be again. Of a
    finished run the policy is only loaded, or made again from the newest checkpoint where it is missing or damaged.
    """
    path = Path(run)
    manifest = read_manifest(path)
    if manifest.verb not in _HOMES:
        raise ActionlessError(f"{path}: a run of '{manifest.verb}', which cannot be gone on with")
    home = importlib.import_module(_HOMES[manifest.verb])
    if schedule is not None and manifest.verb != "train":
        raise ActionlessError(f"{path}: a run of '{manifest.verb}' follows no schedule; resume it without one")
    given = {name: value for name, value in (("log", log), ("schedule", schedule)) if value is not None}
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
