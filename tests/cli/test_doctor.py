"""What a bug report is made of, on a machine in order and on broken ones."""

import errno
import json
import tempfile
from pathlib import Path

import jax
import pytest

from actionless import __version__, cli, doctor

MEASURE = doctor._speed


@pytest.fixture(autouse=True)
def speed(monkeypatch):
    """Made up, but for the test that measures it."""
    made_up = doctor.Speed("products of something", 100.0, "updates of something", 90.0, 1.9)
    monkeypatch.setattr(doctor, "_speed", lambda _seconds: made_up)


def test_a_report_to_paste(capsys, monkeypatch):
    monkeypatch.setenv("ACTIONLESS_CACHE", str(Path.home() / "somewhere" / "cache"))
    assert cli.run(["doctor"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert [line for line in lines if not line.startswith("  ")] == [
        "versions",
        "machine",
        "extras",
        "environment",
        "speed",
    ]
    rows = {line[2:].split("  ")[0]: line for line in lines if line.startswith("  ")}
    assert rows["actionless"].split() == ["actionless", __version__]
    assert rows["jax"].split() == ["jax", jax.__version__]
    assert rows["ACTIONLESS_CACHE"].split() == ["ACTIONLESS_CACHE", "~/somewhere/cache"]
    assert rows["updates"].endswith("90 per second (updates of something)")
    aligned = rows["actionless"].index(__version__)
    assert all(row[aligned - 1] == " " and row[aligned] != " " for row in rows.values())


def test_json_has_the_same_for_machines_and_speed_is_measured(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_speed", lambda _seconds: MEASURE(0.05))
    assert cli.run(["doctor", "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["trouble"] == []
    assert about["versions"]["actionless"] == __version__
    assert about["devices"][0].startswith("cpu:0")
    assert about["threads"] >= 1
    assert about["memory_limit_gb"] <= about["memory_gb"]
    assert about["directories"]["current"]["path"] is None
    assert about["directories"]["current"]["free_gb"] > 0
    assert about["speed"]["matmul_gflops"] > 0.1
    assert about["speed"]["updates_per_second"] > 0.1


@pytest.mark.parametrize(("busy", "shared"), [(0.4, True), (1.0, False)])
def test_a_machine_that_others_use_is_said_to_be(busy, shared, capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_speed", lambda _seconds: doctor.Speed("", 1.0, "", 1.0, busy))
    assert cli.run(["doctor"]) == 0
    assert ("other processes were running" in capsys.readouterr().out) == shared


def test_an_extra_that_is_absent_comes_with_its_command(capsys, monkeypatch):
    requirements = ["numpy>=2", "no-such-package>=1; extra == 'gadget'", "pytest>=8; extra == 'dev'"]
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda _package: requirements)
    assert cli.run(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "absent: pip install 'actionless[gadget]'" in printed
    assert "pytest" not in printed


def test_a_broken_package_is_named_with_the_way_out(capsys, monkeypatch):
    requirements = ["numpy>=2", "no-such-package>=1.38"]
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda _package: requirements)
    assert cli.run(["doctor", "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.err == (
        "actionless: no-such-package cannot be imported (No module named 'no-such-package'): "
        "pip install --force-reinstall 'no-such-package>=1.38'\n"
    )
    about = json.loads(printed.out)
    assert about["versions"]["no-such-package"] is None
    assert about["versions"]["numpy"] is not None
    assert about["speed"] is None


def test_threads_and_directories_that_cannot_be_used(capsys, monkeypatch):
    def read_only(dir):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    monkeypatch.setenv("NPROC", "many")
    assert cli.run(["doctor"]) == 2
    printed = capsys.readouterr()
    assert "current directory    cannot be written to" in printed.out
    assert "threads              unknown of" in printed.out
    assert printed.err.count("\n") == 1
    for words in ("the temporary directory cannot be written to", "set TMPDIR", "NPROC=many: give the number"):
        assert words in printed.err
