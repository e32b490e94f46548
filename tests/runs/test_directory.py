import importlib.metadata
import json
import os
import subprocess
import sys

import pytest
from toy_run import new_run

from actionless.errors import ActionlessError
from actionless.files import unique_aside
from actionless.runs.directory import Manifest, Result, Run, installed_versions, require_free
from actionless.runs.threads import threads_here, use_threads


def test_run_json_says_what_was_asked(tmp_path):
    with new_run(tmp_path / "run"):
        said = json.loads((tmp_path / "run" / "run.json").read_text())
    assert said["verb"] == "toy"
    assert said["config"] == {"rate": 1}
    assert said["seed"] == 7
    assert said["data"] == {"fingerprint": "abc"}
    assert said["versions"].keys() >= {"actionless", "jax", "numpy", "python"}


def test_opened_run_has_the_manifest_it_was_created_with(tmp_path):
    with new_run(tmp_path / "run") as created:
        manifest = created.manifest
    with Run.open(tmp_path / "run") as run:
        assert run.manifest == manifest


def test_existing_out_is_refused_and_untouched(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("years of work")
    with pytest.raises(ActionlessError, match=r"run exists: `actionless resume .*run` .* --overwrite"):
        new_run(tmp_path / "run")
    with pytest.raises(ActionlessError, match=r"is not a run directory: --overwrite does not replace it"):
        new_run(tmp_path / "run", overwrite=True)
    assert (tmp_path / "run" / "thesis.txt").read_text() == "years of work"


def test_existing_file_is_refused(tmp_path):
    (tmp_path / "run").write_text("a file")
    with pytest.raises(ActionlessError, match="exists"):
        require_free(tmp_path / "run")


def test_overwrite_replaces_a_run(tmp_path):
    with new_run(tmp_path / "run") as old:
        old.finish(Result("toy", 1, 1.0, {}))
    with new_run(tmp_path / "run", overwrite=True) as run:
        assert run.result() is None
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_overwrite_leaves_a_run_in_use_alone(tmp_path):
    with new_run(tmp_path / "run"):
        with pytest.raises(ActionlessError, match=f"process {os.getpid()} works on this run"):
            new_run(tmp_path / "run", overwrite=True)
        assert (tmp_path / "run" / "run.json").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_failed_creation_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        Run.create(tmp_path / "run", Manifest("toy", {"bad": object()}, seed=0, data={}))
    assert list(tmp_path.iterdir()) == []


def test_unwritable_place_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ActionlessError, match=r"/file: File exists; choose an --out that can be written"):
        new_run(tmp_path / "file" / "run")


def test_only_a_run_directory_can_be_opened(tmp_path):
    with pytest.raises(ActionlessError, match=r"no run\.json there"):
        Run.open(tmp_path)


@pytest.mark.parametrize("content", ["{", '{"verb": "toy"}', "[]"])
def test_unreadable_run_json_is_named(tmp_path, content):
    new_run(tmp_path / "run").close()
    (tmp_path / "run" / "run.json").write_text(content)
    with pytest.raises(ActionlessError, match=r"run\.json: .* restore it or start the run again"):
        Run.open(tmp_path / "run")


def test_second_process_is_refused_with_the_pid_of_the_first(tmp_path):
    code = "import pathlib, sys; from actionless.runs.directory import Run; Run.open(pathlib.Path(sys.argv[1]))"
    with new_run(tmp_path / "run"):
        second = subprocess.run([sys.executable, "-c", code, tmp_path / "run"], capture_output=True, text=True)
    assert f"process {os.getpid()} works on this run; wait for it or stop it" in second.stderr


def test_result_is_what_was_finished_with(tmp_path):
    result = Result("toy", 60, 1.5, {"loss": 0.25})
    with new_run(tmp_path / "run") as run:
        assert run.result() is None
        run.finish(result)
        assert run.result() == result
    said = json.loads((tmp_path / "run" / "result.json").read_text())
    assert said == {"verb": "toy", "steps": 60, "seconds": 1.5, "final": {"loss": 0.25}}


def test_other_versions_and_threads_are_named_when_a_run_is_opened(tmp_path, caplog):
    new_run(tmp_path / "run").close()
    file = tmp_path / "run" / "run.json"
    said = json.loads(file.read_text())
    Run.open(tmp_path / "run").close()
    assert caplog.text == ""
    said["versions"]["jax"] = "0.1.0"
    file.write_text(json.dumps({**said, "threads": 999}))
    Run.open(tmp_path / "run").close()
    assert (
        f"{tmp_path / 'run'} was made with jax 0.1.0, now {importlib.metadata.version('jax')}; threads 999,"
        in caplog.text
    )


def changed_versions(run, verb_config, **versions):
    """Rewrite a run's run.json as if it had been made with other versions; None: with one that it does not record."""
    file = run / "run.json"
    said = json.loads(file.read_text())
    said["config"] = verb_config
    said["versions"] = {name: version for name, version in {**said["versions"], **versions}.items() if version}
    file.write_text(json.dumps(said))


def test_versions_of_simulators_are_recorded(tmp_path):
    with new_run(tmp_path / "run"):
        said = json.loads((tmp_path / "run" / "run.json").read_text())
    for name in ("mujoco", "gymnasium", "dm-control"):
        assert said["versions"][name] == importlib.metadata.version(name)


def test_an_extra_that_is_not_installed_is_not_recorded(monkeypatch):
    version = importlib.metadata.version

    def without_dm_control(name):
        if name == "dm-control":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without_dm_control)
    assert "dm-control" not in installed_versions()
    assert installed_versions()["mujoco"] == version("mujoco")


def test_another_simulator_is_named_when_a_run_with_an_environment_is_opened(tmp_path, caplog):
    new_run(tmp_path / "run").close()
    changed_versions(tmp_path / "run", {"environment": "Hopper-v5"}, mujoco="2.0.0", gymnasium="1.0.0", numpy="1.0.0")
    Run.open(tmp_path / "run").close()
    now = importlib.metadata.version
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / 'run'} was made with numpy 1.0.0, now {now('numpy')}: the last bits may differ",
        f"{tmp_path / 'run'} was made with gymnasium 1.0.0, now {now('gymnasium')}; mujoco 2.0.0, now {now('mujoco')}: "
        "the same seed may give different episodes",
    ]


def test_another_simulator_makes_no_difference_to_a_run_without_an_environment(tmp_path, caplog):
    new_run(tmp_path / "run").close()
    changed_versions(tmp_path / "run", {"steps": 3}, mujoco="2.0.0")
    Run.open(tmp_path / "run").close()
    assert caplog.text == ""


def test_a_run_that_recorded_no_simulator_gets_no_warning(tmp_path, caplog):
    """As written before simulators were recorded: nobody knows which it was made with."""
    new_run(tmp_path / "run").close()
    changed_versions(
        tmp_path / "run", {"environment": "Hopper-v5"}, **dict.fromkeys(["mujoco", "gymnasium", "dm-control"])
    )
    Run.open(tmp_path / "run").close()
    assert caplog.text == ""


def test_a_simulator_that_was_removed_gets_no_warning(tmp_path, caplog):
    new_run(tmp_path / "run").close()
    changed_versions(tmp_path / "run", {"environment": "Hopper-v5"}, **{"a-removed-extra": "1.0"})
    Run.open(tmp_path / "run").close()
    assert caplog.text == ""


def test_leftovers_of_killed_processes_are_cleared(tmp_path):
    code = "import pathlib, sys; from actionless.files import unique_aside as u; p = pathlib.Path(sys.argv[1])"
    code += "; print(u(p / 'run', 'new').name, u(p / 'run', 'old').name, u(p / 'runs', 'new').name)"
    ended = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    *stale, of_another = [tmp_path / name for name in ended.stdout.split()]
    others = [unique_aside(tmp_path / "run", "new"), tmp_path / ".run.notes.new", of_another]
    for path in (*stale, *others):
        path.mkdir()
        (path / "run.json").write_text("{}")
    new_run(tmp_path / "run").close()
    assert not any(path.exists() for path in stale)
    assert all(path.exists() for path in others)


def test_threads_are_those_the_environment_says(monkeypatch):
    monkeypatch.setenv("NPROC", "")
    monkeypatch.setenv("PJRT_NPROC", "")
    assert threads_here() == len(os.sched_getaffinity(0))
    use_threads(3)
    assert threads_here() == 3
