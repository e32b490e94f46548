"""When a job is done, what is called otherwise, and where its output goes."""

import json

import pytest
from stand_in import RESULT, job

from actionless.execution.job import Job, is_done
from actionless.offline import policy_files
from actionless.runs.directory import Manifest, Result, Run
from actionless.runs.several_seeds import SeveralSeeds, manifest_of_seed, with_several_seeds

MANIFEST = Manifest("toy", {}, 0, {}, threads=2)


def finish(path, manifest=MANIFEST):
    with Run.create(path, manifest) as run:
        run.finish(Result("toy", 1, 2.0, {}))
    return path


def finish_with_policy(path, manifest=MANIFEST):
    policy_files.write(finish(path, manifest) / "policy", {}, {})
    return path


def test_a_folder_with_a_result_is_done(tmp_path):
    assert not is_done(tmp_path)
    (tmp_path / "result.json").write_text(RESULT)
    assert is_done(tmp_path)


MORE_KEYS = json.dumps(json.loads(RESULT) | {"more": 1})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"verb": "toy"}', MORE_KEYS, "\x00"])
def test_a_damaged_result_is_not_done(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    assert not is_done(tmp_path)


def test_a_run_is_done_with_its_policy_undamaged(tmp_path):
    run = finish(tmp_path / "run")
    assert not is_done(run)
    policy_files.write(run / "policy", {}, {})
    assert is_done(run)
    (run / "policy" / policy_files.WEIGHTS).write_bytes(b"")
    assert not is_done(run)


def test_several_seeds_are_done_with_every_one_of_them(tmp_path):
    shared = with_several_seeds(MANIFEST, SeveralSeeds((3, 4), 1, (), 0))
    run = finish(tmp_path / "run", shared)
    finish_with_policy(run / "seed-3", manifest_of_seed(shared, 3))
    assert not is_done(run)
    finish_with_policy(run / "seed-4", manifest_of_seed(shared, 4))
    assert is_done(run)
    (run / "seed-3" / "result.json").write_text("{")
    assert not is_done(run)


def test_a_run_that_began_is_resumed(tmp_path):
    asked = job(tmp_path, "run")
    assert asked.command == ("toy", str(tmp_path / "run"))
    Run.create(tmp_path / "run", MANIFEST).close()
    assert asked.command == ("resume", str(tmp_path / "run"))


def test_output_is_beside_until_the_directory_is_there(tmp_path):
    asked = job(tmp_path, "run")
    assert asked.output == tmp_path / "run.output.txt"
    asked.output.write_text("first\n")
    asked.gather_output()
    assert asked.output.read_text() == "first\n"
    asked.out.mkdir()
    asked.gather_output()
    assert asked.output == tmp_path / "run" / "output.txt"
    assert asked.output.read_text() == "first\n"
    assert list(tmp_path.iterdir()) == [asked.out]


@pytest.mark.parametrize("needs", [{"cores": 0}, {"memory": -1}])
def test_needs_that_make_no_sense(tmp_path, needs):
    with pytest.raises(ValueError, match="at least 1 core and 0 bytes"):
        Job(tmp_path, (), **needs)
