"""Go on with a run that stopped, whichever verb began it."""

import importlib
import logging
from pathlib import Path
from types import ModuleType
from typing import Any

from actionless.data.log import Log
from actionless.errors import ActionlessError
from actionless.runs.directory import Run, read_manifest, read_result
from actionless.training.seeds import has_several_seeds, resume_seeds

_HOMES = {
    "pretrain": "actionless.training.pretrain",
    "train": "actionless.training.train",
}
"""The module of each verb: `go_on(run, log)` takes a run to its end, `load_policy(run)` gives what was learnt."""

_log = logging.getLogger("actionless")


def resume(run: str | Path, log: Log | None = None) -> Any:
    """Go on with a run that stopped, and give what it learnt: for `pretrain` a policy, for several seeds a list.

    What the run learns from is read again, unless it was handed over from Python: then it must be again. Of a
    finished run the policy is only loaded, or made again from the newest checkpoint where it is missing or damaged.
    """
    path = Path(run)
    manifest = read_manifest(path)
    if manifest.verb not in _HOMES:
        raise ActionlessError(f"{path}: a run of '{manifest.verb}', which cannot be gone on with")
    home = importlib.import_module(_HOMES[manifest.verb])
    if has_several_seeds(manifest):
        if log is not None:
            raise ActionlessError(f"{path}: each of its seeds reads the log by itself; resume it without one")
        paths = resume_seeds(path, lambda seed_path: _learnt(home, seed_path) is not None)
        return [home.load_policy(seed_path) for seed_path in paths]
    if (learnt := _learnt(home, path)) is not None:
        _log.warning("%s is finished already", path)
        return learnt
    with Run.open(path) as opened:
        return home.go_on(opened, log)


def _learnt(home: ModuleType, path: Path) -> Any:
    """What a finished run learnt; None where it is not finished, or what it saved is not whole."""
    if read_result(path) is None:
        return None
    try:
        return home.load_policy(path)
    except ActionlessError as damage:
        _log.warning("%s; making it again from the newest checkpoint", damage)
        return None
