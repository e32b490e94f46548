import importlib
import sys

import pytest

from actionless.errors import ActionlessError


def test_an_absent_extra_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "actionless.guidance.sb3", raising=False)
    with pytest.raises(ActionlessError, match=r"'stable_baselines3'.*: pip install 'actionless\[sb3\]'"):
        importlib.import_module("actionless.guidance.sb3")
