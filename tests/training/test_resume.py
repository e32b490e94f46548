"""What `resume` makes of each kind of run; that it ends bit for bit the same is tested with the loops."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from small_log import save, small_log

import actionless
from actionless.errors import ActionlessError
from actionless.runs.checkpoints import Checkpoints
from actionless.runs.directory import Manifest, Run
from actionless.training.pretrain_settings import LoopSettings
from actionless.training.seeds import SeveralSeeds, start_seeds

STATES = small_log().states


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return save(small_log(), tmp_path_factory.mktemp("data") / "walk.npz")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("finished") / "run"
    loop = LoopSettings(log_every=10, evaluate_every=10, checkpoint_seconds=0.0)
    actionless.pretrain(data, path, method="bc-delta", scale="smoke", steps=30, loop=loop)
    return path


@pytest.fixture
def run(tmp_path, finished):
    return Path(shutil.copytree(finished, tmp_path / "run"))


def contents(run):
    kept = ("metrics.jsonl", "result.json", "policy/policy.safetensors", "policy/policy.json")
    return [(run / part).read_bytes() for part in kept]


def remove_policy(run):
    shutil.rmtree(run / "policy")


def remove_description(run):
    (run / "policy" / "policy.json").unlink()


def damage_weights(run):
    (run / "policy" / "policy.safetensors").write_bytes(b"not what was written")


def damage_description(run):
    (run / "policy" / "policy.json").write_bytes(b'{"format": "actionless pol')


def damage_weights_and_newest_checkpoint(run):
    damage_weights(run)
    (Checkpoints(run / "checkpoints").paths()[-1] / "arrays.safetensors").write_bytes(b"")


@pytest.mark.parametrize(
    "harm",
    [remove_policy, remove_description, damage_weights, damage_description, damage_weights_and_newest_checkpoint],
)
def test_policy_of_a_finished_run_is_made_again(run, finished, harm, caplog):
    harm(run)
    policy = actionless.resume(run)
    assert f"{run}: its policy is missing or damaged; it is made again from the newest checkpoint" in caplog.text
    assert contents(run) == contents(finished)
    np.testing.assert_array_equal(policy.propose(STATES), actionless.StatePolicy.load(finished).propose(STATES))


@pytest.mark.parametrize("bytes_left", [b"", b'{"verb": "pretrain"}', b"[]", b"\xff"])
def test_damaged_result_of_a_finished_run_is_made_again(run, finished, bytes_left, caplog):
    (run / "result.json").write_bytes(bytes_left)
    actionless.resume(run)
    assert f"{run}: its result.json is damaged; it is made again from the newest checkpoint" in caplog.text
    final, before = (json.loads((path / "result.json").read_text())["final"] for path in (run, finished))
    assert final == before


def test_finished_run_is_left_alone(run, caplog):
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert actionless.resume(run).method == "bc-delta"
    assert caplog.messages == [f"{run} is finished already"]
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_verbs_that_cannot_be_gone_on_with(tmp_path):
    Run.create(tmp_path / "run", Manifest("inspect", {}, 0, {})).close()
    with pytest.raises(ActionlessError, match="run: a run of 'inspect', which cannot be gone on with"):
        actionless.resume(tmp_path / "run")


class TestSeveralSeeds:
    @pytest.fixture
    def several(self, tmp_path, finished, monkeypatch):
        """Three seeds; the process of each copies the finished run and says so."""
        monkeypatch.setenv("JAX_PLATFORMS", "cpu")
        script = tmp_path / "python"
        script.write_text(f'#!/bin/sh\necho {finished}; cp -r {finished}/policy {finished}/result.json "$4"\n')
        script.chmod(0o755)
        monkeypatch.setattr("sys.executable", str(script))
        manifest = Manifest(**json.loads((finished / "run.json").read_text()))
        start_seeds(tmp_path / "several", manifest, SeveralSeeds((0, 1, 2), steps=30, headline=(), memory=0))
        return tmp_path / "several"

    def test_policies_come_in_the_order_of_the_seeds(self, several, finished, caplog):
        policies = actionless.resume(several)
        assert len(policies) == 3
        assert "several is finished already" in caplog.text
        for policy in policies:
            np.testing.assert_array_equal(policy.propose(STATES), actionless.StatePolicy.load(finished).propose(STATES))

    def test_only_the_seed_without_its_policy_is_worked_on(self, several):
        remove_policy(several / "seed-1")
        assert len(actionless.resume(several)) == 3
        starts = [(several / f"seed-{seed}" / "output.txt").read_text().count("\n") for seed in (0, 1, 2)]
        assert starts == [1, 2, 1]

    def test_a_log_from_memory_is_refused(self, several):
        with pytest.raises(ActionlessError, match=r"several: each of its seeds reads .* by itself"):
            actionless.resume(several, small_log())


def test_log_handed_over_is_needed_to_make_the_policy_again(finished, run):
    manifest = json.loads((run / "run.json").read_text())
    manifest["data"]["origin"] = None
    (run / "run.json").write_text(json.dumps(manifest))
    remove_policy(run)
    with pytest.raises(ActionlessError, match=r"handed over from Python: `actionless\.resume\('.*run', log\)`"):
        actionless.resume(run)
    policy = actionless.resume(run, small_log())
    np.testing.assert_array_equal(policy.propose(STATES), actionless.StatePolicy.load(finished).propose(STATES))
