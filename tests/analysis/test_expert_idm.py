"""The expert must recover the actions of a linear system, for every kind of target."""

import dataclasses
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import jax.numpy as jnp
import numpy as np
import pytest
from linear_environment import CHOOSING, LINEAR, discretiser, labelled_log, pushes

from actionless.analysis import expert_idm as module
from actionless.analysis.expert_idm import EXPERT_IDM_SCALES, ExpertIdmConfig, expert_idm
from actionless.errors import ActionlessError
from actionless.online.environments import make
from actionless.settings import ScaleName

CONFIG = ExpertIdmConfig(steps=600, hidden=(32, 32), batch_size=128, learning_rate=3e-3)
BRIEF = dataclasses.replace(CONFIG, steps=2)


def experts_folder(cache: Path) -> Path:
    (folder,) = (cache / "expert-idm").iterdir()
    return folder


def no_training(*_):
    raise AssertionError("trained again")


@pytest.mark.parametrize("target", ["delta", "next_state", "difference"])
def test_recovers_the_actions_of_a_known_system(target, tmp_path):
    expert = expert_idm(labelled_log(), make(LINEAR), discretiser(), target, CONFIG, cache=tmp_path)
    assert expert.held_out_error < 0.15
    # Rows it has never seen: normalised state and target.
    states, push = np.random.default_rng(5).uniform(-6, 6, (200, 2)), pushes(200, seed=5)
    bins = discretiser()
    z, z_next = (jnp.asarray(bins.normaliser.normalise(s), jnp.float32) for s in (states, states + push))
    aim = {"delta": jnp.asarray(push + 1, jnp.int8), "next_state": z_next, "difference": z_next - z}[target]
    assert np.abs(np.asarray(expert.network.act(z, aim)) - push).mean() < 0.15


def test_recovers_choices(tmp_path):
    push = pushes(600)
    log = labelled_log(push, actions=push + 2)  # the environment counts from 1
    expert = expert_idm(log, make(CHOOSING, bins=2), discretiser(), "delta", CONFIG, cache=tmp_path)
    assert expert.held_out_error < 0.02
    asked = jnp.asarray([[2, 0], [1, 2]], jnp.int8)
    assert np.asarray(expert.network.act(jnp.zeros((2, 2)), asked)).tolist() == [[2, 0], [1, 2]]


def test_of_one_episode_nothing_is_held_out(tmp_path):
    log = labelled_log(pushes(20), length=20)
    assert expert_idm(log, make(LINEAR), discretiser(), "delta", BRIEF, cache=tmp_path).held_out_error is None


class TestCache:
    def test_is_used_again(self, tmp_path, monkeypatch):
        first = expert_idm(labelled_log(), make(LINEAR), discretiser(), "delta", BRIEF, cache=tmp_path)
        monkeypatch.setattr(module, "_trained", no_training)
        again = expert_idm(labelled_log(), make(LINEAR), discretiser(), "delta", BRIEF, cache=tmp_path)
        z, aim = jnp.ones((3, 2)), jnp.zeros((3, 2), jnp.int8)
        np.testing.assert_array_equal(again.network.act(z, aim), first.network.act(z, aim))
        assert again.held_out_error == first.held_out_error

    @pytest.mark.parametrize("name", ["policy.safetensors", "policy.json"])
    def test_that_is_damaged_is_made_again(self, name, tmp_path):
        first = expert_idm(labelled_log(), make(LINEAR), discretiser(), "delta", BRIEF, cache=tmp_path)
        damaged = experts_folder(tmp_path) / name
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[: len(whole) // 2])
        again = expert_idm(labelled_log(), make(LINEAR), discretiser(), "delta", BRIEF, cache=tmp_path)
        assert again.held_out_error == first.held_out_error
        assert damaged.read_bytes() == whole

    def test_lies_in_the_cache_of_logs_by_default(self, tmp_path, monkeypatch):
        monkeypatch.setenv("ACTIONLESS_CACHE", str(tmp_path))
        expert_idm(labelled_log(), make(LINEAR), discretiser(), "delta", BRIEF)
        assert (experts_folder(tmp_path) / "policy.safetensors").is_file()

    def test_that_cannot_be_written_is_found_before_training(self, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "_trained", no_training)
        (tmp_path / "file").touch()
        with pytest.raises(ActionlessError, match="set ACTIONLESS_CACHE to a writable folder"):
            expert_idm(labelled_log(), make(LINEAR), discretiser(), "delta", BRIEF, cache=tmp_path / "file")

    def test_is_filled_by_two_at_once(self, tmp_path, monkeypatch):
        """The second begins and ends while the first is training: neither may meet a file of the other."""
        train, calls = module._trained, []

        def trained(*arguments):
            calls.append(len(calls))
            if len(calls) == 1:
                expert_idm(labelled_log(), make(LINEAR), discretiser(), "delta", BRIEF, cache=tmp_path)
            return train(*arguments)

        monkeypatch.setattr(module, "_trained", trained)
        first = expert_idm(labelled_log(), make(LINEAR), discretiser(), "delta", BRIEF, cache=tmp_path)
        assert calls == [0, 1]
        assert sorted(path.name for path in experts_folder(tmp_path).iterdir()) == ["policy.json", "policy.safetensors"]
        monkeypatch.setattr(module, "_trained", no_training)
        stored = expert_idm(labelled_log(), make(LINEAR), discretiser(), "delta", BRIEF, cache=tmp_path)
        assert stored.held_out_error == first.held_out_error

    def test_is_filled_by_processes_at_once(self, tmp_path):
        code = """
import pathlib, sys
from linear_environment import LINEAR, discretiser, labelled_log
from actionless.analysis.expert_idm import ExpertIdmConfig, expert_idm
from actionless.online.environments import make
from actionless.settings import ScaleName
config = ExpertIdmConfig(steps=2, hidden=(32, 32), batch_size=128, learning_rate=3e-3)
expert_idm(labelled_log(), make(LINEAR), discretiser(), "delta", config, cache=pathlib.Path(sys.argv[1]))
"""
        command = [sys.executable, "-c", code, tmp_path]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with ThreadPoolExecutor() as threads:
            running = [
                threads.submit(subprocess.run, command, env=environment, capture_output=True, text=True)
                for _ in range(2)
            ]
        assert [done.result().returncode for done in running] == [0, 0], [done.result().stderr for done in running]
        assert sorted(path.name for path in experts_folder(tmp_path).iterdir()) == ["policy.json", "policy.safetensors"]

    @pytest.mark.parametrize("stopped_by", [KeyboardInterrupt, ActionlessError])
    def test_holds_nothing_after_a_training_that_stopped(self, tmp_path, monkeypatch, stopped_by):
        def stopped(*_):
            raise stopped_by("stopped")

        monkeypatch.setattr(module, "_trained", stopped)
        with pytest.raises(stopped_by):
            expert_idm(labelled_log(), make(LINEAR), discretiser(), "delta", BRIEF, cache=tmp_path)
        assert list((tmp_path / "expert-idm").iterdir()) == []

    def test_has_an_expert_for_each_question(self, tmp_path, monkeypatch):
        def key_of(log=None, bins=None, target="delta", config=BRIEF, seed=0):
            log, bins = labelled_log() if log is None else log, discretiser() if bins is None else bins
            return module._cache_key(log, make(LINEAR).translation, bins, target, config, seed)

        other_log = labelled_log(pushes(600, seed=9))
        keys = [
            key_of(),
            key_of(log=other_log),
            key_of(bins=discretiser(edge=0.2)),
            key_of(target="next_state"),
            key_of(target="difference"),
            key_of(config=CONFIG),
            key_of(seed=1),
        ]
        assert len(set(keys)) == len(keys)
        assert key_of(target="difference") == key_of(target="difference", bins=discretiser(edge=0.2))


class TestRefused:
    def test_a_log_without_actions(self):
        log = dataclasses.replace(labelled_log(), actions=None)
        with pytest.raises(ActionlessError, match=r"linear\.npz: read without actions.*with_actions=True"):
            expert_idm(log, make(LINEAR), discretiser(), "delta", BRIEF)

    def test_a_log_of_other_states(self):
        log = labelled_log()
        log = dataclasses.replace(log, states=log.states[:, :1], next_states=log.next_states[:, :1])
        with pytest.raises(ActionlessError, match="has 1 state variables, but the policy was trained on 2"):
            expert_idm(log, make(LINEAR), discretiser(), "delta", BRIEF)

    def test_a_log_of_other_actions(self):
        with pytest.raises(ActionlessError, match="1 numbers per action, but 'linear_environment:Linear-v0' takes 2"):
            expert_idm(labelled_log(actions=np.zeros((600, 1))), make(LINEAR), discretiser(), "delta", BRIEF)

    def test_choices_that_the_environment_does_not_have(self):
        with pytest.raises(ActionlessError, match="choices outside the 3 of 'linear_environment:Choosing-v0'"):
            expert_idm(labelled_log(actions=np.zeros((600, 2))), make(CHOOSING, bins=2), discretiser(), "delta", BRIEF)


def test_every_scale_has_an_expert():
    assert set(EXPERT_IDM_SCALES) == set(get_args(ScaleName))
    sizes = [(c.steps, sum(c.hidden)) for c in EXPERT_IDM_SCALES.values()]
    assert sizes == sorted(sizes)
