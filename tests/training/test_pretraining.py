"""From a log to a policy on disk, and several seeds from Python."""

import jax.numpy as jnp
import numpy as np
import pytest
from small_log import save, small_log

import actionless
from actionless.data.options import ReadOptions
from actionless.discretise import Discretiser
from actionless.errors import ActionlessError
from actionless.networks import Ensemble
from actionless.offline.state_policy import PolicyModel, StatePolicy
from actionless.training import pretrain as module
from actionless.training.pretrain_settings import LoopSettings

TINY = {"scale": "smoke", "steps": 5, "hidden": (8,)}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return save(small_log(), tmp_path_factory.mktemp("data") / "walk.npz")


@pytest.mark.parametrize(
    ("bins", "options", "labels"),
    [(2, {}, {0, 1}), (5, {"spacing": "quantile"}, {-2, -1, 0, 1, 2})],
)
def test_other_numbers_of_bins_from_log_to_saved_policy(tmp_path, bins, options, labels):
    log = small_log()
    policy = actionless.pretrain(log, tmp_path / "run", bins=bins, **options, **TINY)
    proposed = policy.propose(log.states)
    assert proposed.shape == log.states.shape
    assert len(np.unique(proposed)) > 1
    assert set(np.unique(proposed).tolist()) <= labels
    probabilities = policy.probabilities(log.states)
    assert probabilities.shape == (*log.states.shape, bins)
    np.testing.assert_array_equal(np.array(sorted(labels))[probabilities.argmax(axis=-1)], proposed)
    policy.save(tmp_path / "saved")
    for directory in (tmp_path / "saved", tmp_path / "run"):
        loaded = StatePolicy.load(directory)
        np.testing.assert_array_equal(loaded.propose(log.states), proposed)
        np.testing.assert_array_equal(loaded.probabilities(log.states), probabilities)


@pytest.fixture
def planned(monkeypatch):
    """What is asked of the seeds' processes; in place of what they learn, a policy named after its run."""
    asked = []

    def start_seeds(out, manifest, several, *, overwrite):
        asked.append((manifest, several))
        return [out / f"seed-{seed}" for seed in several.seeds]

    def load_policy(run):
        discretiser = Discretiser.fit(small_log().states, small_log().next_states)
        network = Ensemble(weights=(jnp.zeros((1, 3, 9)),), biases=(jnp.zeros((1, 1, 9)),))
        return StatePolicy(PolicyModel(network, discretiser, "logits", 1.0), run.name, ("x", "y", "z"))

    monkeypatch.setattr(module, "start_seeds", start_seeds)
    monkeypatch.setattr(module, "load_policy", load_policy)
    return asked


def test_several_seeds_give_a_list_in_their_order(tmp_path, data, planned):
    policies = actionless.pretrain(data, tmp_path / "run", seed=9, seeds=2, **TINY)
    assert [policy.method for policy in policies] == ["seed-9", "seed-10"]
    manifest, several = planned[0]
    assert (manifest.verb, several.seeds, several.steps) == ("pretrain", (9, 10), 5)
    assert manifest.data["origin"]["data"] == (str(data),)


def test_a_shared_memory_map_is_nobodys_memory(tmp_path, data, planned, monkeypatch):
    monkeypatch.setenv("ACTIONLESS_CACHE", str(tmp_path / "cache"))
    size = 300 * 3 * 8 * 2  # states and next states, in the log's own float64
    mapped = ReadOptions(memory_limit_gb=0.0)
    on_host = LoopSettings(resident_gb=0.0)
    cases = [
        ({}, 2 * size),
        ({"read": mapped}, size),
        ({"loop": on_host}, size),
        ({"read": mapped, "loop": on_host}, 0),
    ]
    for i, (options, expected) in enumerate(cases):
        actionless.pretrain(data, tmp_path / f"run-{i}", seeds=2, **TINY, **options)
        assert planned[i][1].memory == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 0}, "seeds=0: choose at least 1"),
        ({"seed": 2**32 - 2, "seeds": 3}, "seeds=3: from seed 4294967294 on there are 2; choose a smaller seed"),
    ],
)
def test_seeds_that_cannot_be(tmp_path, options, message):
    with pytest.raises(ActionlessError, match=message):
        actionless.pretrain("no-such-file", tmp_path / "run", **options)


def test_seeds_cannot_share_a_log_from_memory(tmp_path):
    with pytest.raises(ActionlessError, match=r"walk\.npz: handed over from Python, and each of 2 seeds has a process"):
        actionless.pretrain(small_log(), tmp_path / "run", seeds=2)
    assert not (tmp_path / "run").exists()
