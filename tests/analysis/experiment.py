"""The scripts in experiments/, which are no package."""

import contextlib
import importlib.util
import sys
from pathlib import Path

_EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@contextlib.contextmanager
def table_of(name, monkeypatch):
    """Import an experiment's table.py with the run.py of its own folder; other experiments have a run.py too."""
    folder = _EXPERIMENTS / name
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "run", raising=False)
    spec = importlib.util.spec_from_file_location("table", folder / "table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("run", None)
