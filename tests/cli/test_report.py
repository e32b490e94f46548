"""`actionless report`, and the same from Python."""

import json
import subprocess
import sys

import pytest
from complaints import complaint

import actionless
from actionless import cli


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    config = {"environment": "Hopper-v5", "agent": "td3", "steps": 100, "guidance": None}
    manifest = {"verb": "train", "config": config, "seed": 0, "data": {}, "threads": 1, "versions": {}}
    (path / "run.json").write_text(json.dumps(manifest))
    (path / "metrics.jsonl").write_text('{"step": 50, "eval/return": 1.5}\n{"step": 100, "eval/return": 2.5}\n')
    return path


def test_the_page_and_the_figures_are_written(capsys, tmp_path, run):
    page, figures = tmp_path / "page.html", tmp_path / "figures"
    assert cli.run(["report", str(run), "--out", str(page), "--figures", str(figures)]) == 0
    assert capsys.readouterr().err == f"wrote {page}: {page.stat().st_size:,} bytes\n"
    names = sorted(path.name for path in figures.iterdir())
    assert names == ["train-Hopper-v5-return.png", "train-Hopper-v5-return.svg"]
    assert f"--figures {figures}" in page.read_text("utf-8")
    assert actionless.report(run, tmp_path / "again.html").read_text("utf-8").startswith("<!doctype html>")
    assert callable(actionless.report)  # still, with its package imported


def test_what_is_there_is_replaced_only_when_asked(capsys, tmp_path, run):
    page = tmp_path / "page.html"
    page.write_text("mine")
    said = complaint(capsys, "report", run, "--out", page)
    assert said == f"actionless: {page}: already exists; choose another name, or replace it with --overwrite\n"
    assert page.read_text() == "mine"
    assert cli.run(["report", str(run), "--out", str(page), "--overwrite"]) == 0
    assert page.read_text("utf-8") != "mine"


def test_what_a_user_can_mend_is_one_line_and_nothing_is_written(capsys, tmp_path, run):
    page = tmp_path / "page.html"
    assert "no run.json there" in complaint(capsys, "report", tmp_path / "other", "--out", page)
    assert "the output file must end in .html" in complaint(capsys, "report", run, "--out", tmp_path / "page.pdf")
    assert "nothing to report: give the directory of a run" in complaint(capsys, "report", "--out", page)
    (run / "metrics.jsonl").write_text("garbage\n")
    assert "metrics.jsonl, line 1: not a row of metrics" in complaint(capsys, "report", run, "--out", page)
    (run / "metrics.jsonl").unlink()
    assert "no metrics yet" in complaint(capsys, "report", run, "--out", page)
    assert not page.exists()


def test_help_waits_for_no_drawing_library():
    code = "import sys; from actionless import cli; cli.run(['report', '--help']); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.splitlines()[-1]
    assert "FILE.html" in done.stdout
    assert not any(f"'{name}'" in modules for name in ("plotly", "matplotlib", "jax"))
