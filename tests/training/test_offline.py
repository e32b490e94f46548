"""The offline loop from beginning to end, within this process; tests/cli/test_pretrain.py kills real runs."""

import dataclasses
import inspect
import json
import os
import signal

import numpy as np
import pytest
from small_log import save, small_log

import actionless
from actionless.data.options import ReadOptions
from actionless.declared import AUTO
from actionless.errors import ActionlessError
from actionless.offline.learner import LogFacts, Returns
from actionless.offline.methods import METHODS
from actionless.offline.oso_decqn import OsoDecqnConfig
from actionless.offline.planner import Planner
from actionless.offline.policies import load_policy
from actionless.offline.state_policy import ActionPolicy, StatePolicy
from actionless.runs.checkpoints import Checkpoints
from actionless.runs.sinks import read_rows
from actionless.training import offline
from actionless.training.offline import OfflineLoop
from actionless.training.pretrain_settings import LoopSettings, pretrain_options, resolve

LOOP = LoopSettings(log_every=20, evaluate_every=20, checkpoint_seconds=0.0)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return save(small_log(with_actions=True), tmp_path_factory.mktemp("data") / "walk.npz")


def pretrain(data, out, method="oso-decqn", loop=LOOP, **options):
    read = ReadOptions(with_actions=method == "bc-action")
    return actionless.pretrain(data, out, method=method, scale="smoke", steps=70, loop=loop, read=read, **options)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, data):
    """One run of each method, made when it is first asked for."""
    runs = {}

    def run(method="oso-decqn"):
        if method not in runs:
            runs[method] = tmp_path_factory.mktemp("undisturbed") / method
            pretrain(data, runs[method], method)
        return runs[method]

    return run


def interrupt_at(monkeypatch, step):
    """Ctrl-C within the dispatch that passes `step`."""
    advance = OfflineLoop.advance

    def interrupted(loop, state, start):
        ahead = advance(loop, state, start)
        if start < step <= ahead.step:
            os.kill(os.getpid(), signal.SIGINT)
        return ahead

    monkeypatch.setattr(OfflineLoop, "advance", interrupted)


def assert_same_run(run, other):
    assert (run / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    assert (run / "policy" / "policy.safetensors").read_bytes() == (
        other / "policy" / "policy.safetensors"
    ).read_bytes()
    ours, theirs = (path / "checkpoints" / "step-000000000070" / "arrays.safetensors" for path in (run, other))
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_ends_the_same_when_stopped_between_rows(tmp_path, data, undisturbed, monkeypatch, method):
    expected = undisturbed(method)
    monkeypatch.setattr(offline, "_SECONDS_PER_DISPATCH", 0.0)  # one update per dispatch
    with monkeypatch.context() as patched:
        interrupt_at(patched, 47)
        with pytest.raises(KeyboardInterrupt):
            pretrain(data, tmp_path / "run", method)
    assert [path.name for path in Checkpoints(tmp_path / "run" / "checkpoints").paths()][-1] == "step-000000000047"
    assert not (tmp_path / "run" / "result.json").exists()
    actionless.resume(tmp_path / "run")
    assert_same_run(tmp_path / "run", expected)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_something_and_gives_its_policy(data, undisturbed, method):
    run = undisturbed(method)
    rows = list(read_rows(run / "metrics.jsonl"))
    assert [row["step"] for row in rows] == [10, 20, 40, 60, 70]
    assert rows[-1]["loss"] < rows[0]["loss"]
    policy = load_policy(run)
    assert isinstance(policy, {"bc-action": ActionPolicy, "afdt": Planner}.get(method, StatePolicy))
    assert policy.method == method
    told = json.loads((run / "run.json").read_text())["data"]["read"]
    assert ("actions" in told) == (method == "bc-action")


def scores(run):
    """What each checkpoint was scored with."""
    return {
        int(path.name.removeprefix("step-")): json.loads((path / "state.json").read_text())["score"]
        for path in Checkpoints(run / "checkpoints").paths()
    }


def assert_best_is_kept(run, metric, sign):
    measured = {row["step"]: sign * row[metric] for row in read_rows(run / "metrics.jsonl") if row["step"] % 20 == 0}
    measured[70] = sign * list(read_rows(run / "metrics.jsonl"))[-1][metric]
    best = max(measured, key=lambda step: measured[step])
    assert scores(run) == {step: measured[step] for step in sorted({best, 60, 70})}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_its_best_checkpoint(undisturbed, method):
    metric, sign = ("heldout/action_error", -1) if method == "bc-action" else ("heldout/accuracy", 1)
    assert_best_is_kept(undisturbed(method), metric, sign)


def test_metrics_of_a_learner_of_values(undisturbed):
    row = list(read_rows(undisturbed() / "metrics.jsonl"))[-1]
    assert row.keys() >= {"step", "loss", "td_loss", "penalty", "heldout/accuracy", "heldout/error"}
    assert row.keys() >= {"q/mean", "q/max", "q/data_return", "q/overestimation"}
    learner = json.loads((undisturbed() / "run.json").read_text())["config"]["learner"]
    alpha = learner["alpha"] * learner["penalty_factor"]
    assert row["loss"] == pytest.approx(row["td_loss"] + alpha * row["penalty"], rel=1e-5)


def test_host_sampled_from_a_memory_map_is_the_same(tmp_path, data, undisturbed, monkeypatch):
    monkeypatch.setenv("ACTIONLESS_CACHE", str(tmp_path / "cache"))
    log = actionless.read(data, memory_limit_gb=0.0)
    assert log.memory_mapped
    made = []
    batches = offline.HostBatches
    monkeypatch.setattr(offline, "HostBatches", lambda *parts: made.append(1) or batches(*parts))
    pretrain(log, tmp_path / "run", resident_gb=0.0)
    assert made == [1]
    assert_same_run(tmp_path / "run", undisturbed())


def test_another_seed_is_another_run(tmp_path, data, undisturbed):
    pretrain(data, tmp_path / "run", seed=1)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() != (undisturbed() / "metrics.jsonl").read_bytes()


def test_damaged_newest_checkpoint_falls_back(tmp_path, data, undisturbed, monkeypatch, caplog):
    with monkeypatch.context() as patched:
        interrupt_at(patched, 50)
        with pytest.raises(KeyboardInterrupt):
            pretrain(data, tmp_path / "run")
    newest = Checkpoints(tmp_path / "run" / "checkpoints").paths()[-1]
    arrays = bytearray((newest / "arrays.safetensors").read_bytes())
    arrays[-1] ^= 1
    (newest / "arrays.safetensors").write_bytes(arrays)
    actionless.resume(tmp_path / "run")
    assert f"checkpoint {newest} is damaged" in caplog.text
    assert_same_run(tmp_path / "run", undisturbed())


def test_killed_between_the_last_checkpoint_and_the_policy(tmp_path, data, undisturbed, monkeypatch):
    def killed(*_arguments):
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(StatePolicy, "save", killed)
        with pytest.raises(SystemExit):
            pretrain(data, tmp_path / "run")
    assert not (tmp_path / "run" / "result.json").exists()
    actionless.resume(tmp_path / "run")
    assert_same_run(tmp_path / "run", undisturbed())


def test_finished_run_gives_its_policy_and_is_left_alone(undisturbed, caplog):
    before = (undisturbed() / "result.json").read_bytes()
    assert actionless.resume(undisturbed()).method == "oso-decqn"
    assert "is finished already" in caplog.text
    assert (undisturbed() / "result.json").read_bytes() == before


def test_exploding_rewards_stop_the_run(tmp_path):
    with pytest.raises(ActionlessError, match=r"run: '.*' is (inf|nan) between steps 1 and 10; no checkpoint"):
        pretrain(small_log(reward=1e30), tmp_path / "run")
    assert not (tmp_path / "run" / "result.json").exists()
    assert not (tmp_path / "run" / "policy").exists()


def test_loss_that_turns_nan_stops_the_run_at_the_last_good_checkpoint(tmp_path, data, monkeypatch):
    means = offline.means

    def diverging(state):
        metrics = means(state)
        return metrics | {"loss": float("nan")} if int(state.learner.optimiser.count) > 40 else metrics

    monkeypatch.setattr(offline, "means", diverging)
    message = r"'loss' is nan between steps 41 and 60; the last good checkpoint is .*step-000000000040"
    with pytest.raises(ActionlessError, match=message):
        pretrain(data, tmp_path / "run")
    assert not (tmp_path / "run" / "result.json").exists()


def test_single_episode_holds_out_nothing_and_says_so(tmp_path, caplog, capfd):
    pretrain(small_log((40,)), tmp_path / "run")
    assert "nothing is held out of a single episode: measured on training data" in caplog.text
    row = list(read_rows(tmp_path / "run" / "metrics.jsonl"))[-1]
    assert {"train/accuracy", "train/error"} <= row.keys()
    assert "heldout/accuracy" not in row
    assert_best_is_kept(tmp_path / "run", "train/accuracy", 1)
    assert f"train/accuracy {row['train/accuracy']:.4g}" in capfd.readouterr().err


def warnings_of(caplog, words):
    return [record.getMessage() for record in caplog.records if words in record.getMessage()]


def test_alpha_too_weak_for_the_rewards_is_told_once(tmp_path, caplog):
    learner = OsoDecqnConfig(learning_rate=0.1, ensemble=1, hidden=(8,))
    pretrain(small_log(reward=30.0), tmp_path / "run", alpha=0.1, learner=learner)
    said = warnings_of(caplog, "proposals are leaving the log")
    assert len(said) == 1
    assert "more than alpha = 0.1 can hold" in said[0]


def rewarded(log, factor):
    return dataclasses.replace(log, rewards=log.rewards * factor)


class TestUnitOfRewards:
    """On a log that is none of the paper's, one alpha serves rewards of any size."""

    def learnt(self, tmp_path, factor):
        log = rewarded(small_log(dtype=np.float32), np.float32(factor))
        policy = pretrain(log, tmp_path / f"by-{factor}")
        return policy, np.asarray(log.states[::7])

    @pytest.mark.parametrize("factor", [1024.0, 1 / 128])
    def test_the_same_bits_for_powers_of_two(self, tmp_path, factor):
        policy, states = self.learnt(tmp_path, 1.0)
        other, _ = self.learnt(tmp_path, factor)
        for ours, theirs in zip(policy.model.network.weights, other.model.network.weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(policy.propose(states), other.propose(states))
        np.testing.assert_allclose(other.value(states), factor * policy.value(states), rtol=1e-6)

    @pytest.mark.parametrize("factor", [0.01, 1000.0])
    def test_the_same_policy_for_any_unit(self, tmp_path, factor):
        policy, states = self.learnt(tmp_path, 1.0)
        other, _ = self.learnt(tmp_path, factor)
        assert (policy.propose(states) == other.propose(states)).mean() > 0.99
        np.testing.assert_allclose(other.value(states), factor * policy.value(states), rtol=1e-2, atol=1e-2 * factor)

    def test_the_factor_is_in_run_json(self, tmp_path):
        self.learnt(tmp_path, 1000.0)
        stored = json.loads((tmp_path / "by-1000.0" / "run.json").read_text())["config"]["learner"]
        spread = Returns.of(rewarded(small_log(dtype=np.float32), np.float32(1000.0)), np.arange(300), 0.99).spread
        assert stored["reward_scale"] == pytest.approx(50 / spread)
        assert stored["alpha"] == 8.0


def test_alpha_that_drowns_the_rewards_is_told_at_the_start(caplog):
    for reward_scale, count in [(1e4, 0), (1.0, 1)]:
        log = small_log(reward=1e-3)
        OfflineLoop(log, resolve("oso-decqn", "smoke", {"reward_scale": reward_scale}, LogFacts.of(log)), seed=0)
        assert len(warnings_of(caplog, "little beside alpha = 8: only imitation will be learnt")) == count


def test_changed_log_is_refused(tmp_path, data, monkeypatch):
    path = tmp_path / "walk.npz"
    path.write_bytes(data.read_bytes())
    with monkeypatch.context() as patched:
        interrupt_at(patched, 20)
        with pytest.raises(KeyboardInterrupt):
            pretrain(path, tmp_path / "run")
    save(small_log(seed=1), path)
    with pytest.raises(ActionlessError, match=r"walk\.npz: the log has changed since .*run began \(fingerprint"):
        actionless.resume(tmp_path / "run")


def test_relative_paths_hold_from_any_directory(tmp_path, data, undisturbed, monkeypatch):
    monkeypatch.chdir(data.parent)
    with monkeypatch.context() as patched:
        interrupt_at(patched, 20)
        with pytest.raises(KeyboardInterrupt):
            pretrain(data.name, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    actionless.resume("run")
    assert_same_run(tmp_path / "run", undisturbed())


def test_log_from_memory_is_resumed_from_memory(tmp_path, data, undisturbed, monkeypatch):
    log = actionless.read(data)
    with monkeypatch.context() as patched:
        interrupt_at(patched, 20)
        with pytest.raises(KeyboardInterrupt):
            pretrain(log, tmp_path / "run")
    with pytest.raises(ActionlessError, match=r"handed over from Python: `actionless\.resume\('.*run', log\)`"):
        actionless.resume(tmp_path / "run")
    actionless.resume(tmp_path / "run", log)
    assert_same_run(tmp_path / "run", undisturbed())


def test_existing_out_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(ActionlessError, match=r"run exists: `actionless resume .*run` .* --overwrite"):
        pretrain(tmp_path / "no-such-file", tmp_path / "run")


def test_failure_before_the_first_update_leaves_nothing(tmp_path, data):
    with pytest.raises(ActionlessError, match="bins"):
        pretrain(data, tmp_path / "run", bins=5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", [method for method in METHODS if method != "bc-action"])
def test_state_policies_refuse_actions(tmp_path, data, method):
    with pytest.raises(ActionlessError, match=rf"{method} learns without actions: leave out --with-actions"):
        actionless.pretrain(data, tmp_path / "run", method=method, read=ReadOptions(with_actions=True))
    log = actionless.read(data, with_actions=True)
    with pytest.raises(ActionlessError, match=rf"read with its actions, and {method} learns without"):
        actionless.pretrain(log, tmp_path / "run", method=method)
    assert not (tmp_path / "run").exists()


def test_bc_action_must_be_given_actions(tmp_path, data):
    with pytest.raises(ActionlessError, match=r"bc-action imitates actions: ask for them with --with-actions"):
        actionless.pretrain(data, tmp_path / "run", method="bc-action")
    with pytest.raises(ActionlessError, match=r"bc-action imitates actions, and none were read"):
        actionless.pretrain(actionless.read(data), tmp_path / "run", method="bc-action")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, r"steps=0: choose at least 1"),
        ({"batch_size": -1}, r"batch_size=-1: choose at least 1"),
        ({"seed": -1}, r"seed=-1: choose a whole number between 0 and"),
        ({"alpha": -1.0}, r"alpha=-1\.0: choose a finite number of at least 0"),
        ({"alpha": float("nan")}, r"alpha=nan: choose a finite number"),
        ({"method": "decqn", "alpha": 1.0}, r"alpha: not an option of decqn, which knows .*discount, ensemble"),
        ({"method": "bc-delta", "logits": "scaled"}, r"logits: not an option of bc-delta"),
        ({"method": "bc-delta", "target": "min"}, r"target: not an option of bc-delta"),
        ({"ensemble": 0}, r"ensemble=0: choose at least 1"),
        ({"hidden": (8, 0)}, r"hidden, number 2=0: choose at least 1"),
        ({"discount": 1.5}, r"discount=1\.5: choose a number between 0 and 1"),
        ({"reward_scale": 0.0}, r"reward_scale=0\.0: choose a finite number above 0"),
        ({"held_out": 1.0}, r"held_out=1\.0: choose a number at least 0 and below 1"),
        (
            {"log_every": 30, "evaluate_every": 100},
            r"evaluate_every=100: choose a multiple of log_every",
        ),
        ({"log_every": 0}, r"log_every=0: choose at least 1"),
    ],
)
def test_options_that_cannot_work_are_named_before_anything_is_read(tmp_path, options, message):
    with pytest.raises(ActionlessError, match=message):
        actionless.pretrain("no-such-file", tmp_path / "run", **options)


def test_the_signature_and_the_documentation_have_every_setting():
    parameters, text = inspect.signature(actionless.pretrain).parameters, inspect.getdoc(actionless.pretrain)
    for setting in pretrain_options():
        assert parameters[setting.name].default == (None if setting.default is AUTO else setting.default)
        assert f"  {setting.name} = {setting.default!r}: " in text
        assert setting.help.split()[0] in text
    assert parameters["bins"].default == 3 and parameters["alpha"].default is None
    assert parameters["method"].default == "oso-decqn" and "settings" not in parameters


def test_departures_reach_the_learner_and_run_json(tmp_path, data):
    chosen = {"ensemble": 3, "hidden": (8,), "loss": "huber", "mask_terminals": False}
    policy = pretrain(data, tmp_path / "run", alpha=2.5, **chosen)
    assert [weight.shape for weight in policy.model.network.weights] == [(3, 3, 8), (3, 8, 9)]
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert stored["learner"]["alpha"] == 2.5
    assert (stored["learner"]["loss"], stored["learner"]["mask_terminals"]) == ("huber", False)
    assert stored["learner"]["logits"] == "utilities"


def test_policy_says_where_it_came_from_and_works_without_the_log(data, undisturbed):
    policy = StatePolicy.load(undisturbed() / "policy")
    log = actionless.read(data)
    assert policy.provenance["data"]["fingerprint"] == log.fingerprint
    assert policy.provenance["config"]["learner"]["alpha"] == 8.0
    assert policy.propose(log.states[:5]).shape == (5, 3)
    assert np.abs(policy.propose(log.states)).max() <= 1


def test_a_planner_asks_for_the_best_return_of_its_log(data, undisturbed):
    best = actionless.read(data).episode_returns.max()
    assert Planner.load(undisturbed("afdt")).config.target_return == best


@pytest.mark.parametrize(("lengths", "context", "measured"), [((1,) * 12, 3, "heldout"), ((9,), 1, "train")])
def test_a_planner_learns_from_the_shortest_episodes_and_from_single_steps(tmp_path, lengths, context, measured):
    chosen = {"context": context, "width": 4, "blocks": 1, "log_every": 10, "evaluate_every": 10}
    log = small_log(lengths)
    planner = actionless.pretrain(log, tmp_path / "run", method="afdt", steps=10, **chosen)
    assert np.isfinite(planner.plan(log.states[:2], log.rewards[:1])).all()
    assert f"{measured}/accuracy" in list(read_rows(tmp_path / "run" / "metrics.jsonl"))[-1]
