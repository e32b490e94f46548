"""Learning from a log with actions, then in its task: both phases of a run, and what it refuses."""

import dataclasses
import json
import tracemalloc
import weakref
from contextlib import closing

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.spaces import Box
from point_task import point_log
from small_log import save, small_log
from test_online import assert_same_run, interrupt_at, last_checkpoint
from toy_agents import leaves_equal

import actionless
from actionless.data import read as data_read
from actionless.data.log import Log, Source, default_state_names, returns_to_go
from actionless.errors import ActionlessError
from actionless.online import replay
from actionless.online.action_translation import normalised_actions
from actionless.online.environments import Environment, make
from actionless.online.labelled_log import UNKNOWN, LabelledLog
from actionless.online.replay import Replay
from actionless.runs.checkpoints import Checkpoints
from actionless.runs.sinks import read_rows
from actionless.training import finetune as module
from actionless.training import online
from actionless.training.finetune import finetune
from actionless.training.online_settings import OnlineLoopSettings, finetune_settings

TASK = "point_task:Point-v0"
OFFLINE, STEPS = 50, 60
LOOP = OnlineLoopSettings(log_every=40, evaluate_every=80, episodes=2, checkpoint_seconds=0.0, updates_together=4)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return save(labelled(), tmp_path_factory.mktemp("data") / "point.npz")


def labelled(**options):
    """The log of the task, with the pushes that were made."""
    log = point_log(**options)
    return dataclasses.replace(log, actions=(log.next_states - log.states) / 0.1)


def run(out, data, task=TASK, **options):
    sizes = {"scale": "smoke", "offline_steps": OFFLINE, "steps": STEPS, "batch_size": 16, "loop": LOOP}
    return finetune(task, data, out, **{**sizes, **options})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("undisturbed") / "run"
    run(path, data)
    return path


def test_rows_of_both_phases(undisturbed):
    rows = {row["step"]: row for row in read_rows(undisturbed / "metrics.jsonl")}
    # Regular rows, and one where acting begins; evaluations there, at their own steps and at the end.
    assert list(rows) == [40, 50, 80, 110]
    assert [step for step, row in rows.items() if "eval/return" in row] == [50, 80, 110]
    assert all("loss" in row and "value_loss" in row for row in rows.values())
    assert [step for step, row in rows.items() if "episode/return" in row] == [80, 110]
    arrays = last_checkpoint(undisturbed)
    # The log is in no checkpoint: only what was lived through.
    assert len(arrays[".replay.rewards"]) == arrays[".replay.added"] == STEPS
    assert json.loads((undisturbed / "result.json").read_text())["steps"] == OFFLINE + STEPS


@pytest.mark.parametrize("step", [16, 50, 68])
def test_ends_the_same_when_stopped_in_either_phase(tmp_path, data, undisturbed, monkeypatch, step):
    monkeypatch.setattr(online, "_SECONDS_PER_DISPATCH", 0.0)  # one cycle per dispatch
    with monkeypatch.context() as patched:
        interrupt_at(patched, step)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped", data)
    assert Checkpoints(tmp_path / "stopped" / "checkpoints").paths()[-1].name == f"step-{step:012d}"
    agent = actionless.resume(tmp_path / "stopped")
    assert_same_run(tmp_path / "stopped", undisturbed)
    states = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_array_equal(agent.act(states), actionless.AgentPolicy.load(undisturbed).act(states))


def test_cal_ql_draws_half_of_each_batch_from_whole_episodes_and_ends_the_same(tmp_path, data, monkeypatch):
    drawn = []

    def sample_both(first, second, slots, *rest):
        ended = np.flatnonzero(second.ends[: len(second)])
        whole = int(ended[-1]) + 1 if len(ended) else 0
        # Four updates together, save where a phase ends; what is beyond them is not looked at.
        drawn.extend((len(second), whole, places) for places in (slots - len(first)).reshape(4, 16)[:2])
        return replay.sample_both(first, second, slots, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(online, "sample_both", sample_both)
        run(tmp_path / "undisturbed", data, method="cal-ql")
    # Half a batch of a few steps undoes what the log taught, so until an episode has ended all is drawn from the log.
    assert any(lived > 0 for lived, whole, _ in drawn if whole == 0)
    assert any(lived > whole > 0 for lived, whole, _ in drawn)
    for _, whole, places in drawn:
        assert (places[:8] < 0).all()
        assert ((places[8:] >= 0) & (places[8:] < whole)).all() if whole else (places[8:] < 0).all()
    arrays = last_checkpoint(tmp_path / "undisturbed")
    ended = np.flatnonzero(arrays[".replay.ends"])[-1]
    assert (arrays[".replay.extra['returns']"][: ended + 1] > UNKNOWN).all()
    assert (arrays[".replay.extra['returns']"][ended + 1 :] == UNKNOWN).all()
    monkeypatch.setattr(online, "_SECONDS_PER_DISPATCH", 0.0)
    with monkeypatch.context() as patched:
        interrupt_at(patched, 68)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped", data, method="cal-ql")
    actionless.resume(tmp_path / "stopped")
    assert_same_run(tmp_path / "stopped", tmp_path / "undisturbed")


def test_returns_of_an_episode_that_cannot_be_resumed_are_known(tmp_path, data, monkeypatch):
    monkeypatch.setattr(online, "_SECONDS_PER_DISPATCH", 0.0)
    task = "point_task:Forgetful-v0"
    with monkeypatch.context() as patched:
        interrupt_at(patched, 68)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", data, method="cal-ql", task=task)
    actionless.resume(tmp_path / "run")
    arrays = last_checkpoint(tmp_path / "run")
    cut = 68 - OFFLINE - 1
    assert arrays[".replay.ends"][cut]
    # Whatever is drawn as a whole episode has its returns.
    ended = np.flatnonzero(arrays[".replay.ends"])[-1]
    assert (arrays[".replay.extra['returns']"][: ended + 1] > UNKNOWN).all()


def test_whole_episodes_in_a_replay_that_has_gone_round(data):
    """Ten slots after 14 steps: steps 10 to 13 are in slots 0 to 3, and those of the running episode are not drawn."""
    log = actionless.read(data, with_actions=True)
    given = {"offline_steps": 0, "steps": 50, "batch_size": 16, "loop": LOOP}
    config = dataclasses.replace(finetune_settings(TASK, "cal-ql", "smoke", given, log=log), replay_size=10)
    task = module._loop(config, 0, log)
    state = task.begin()
    for step in range(14):
        state.replay.add(np.full(2, float(step)), np.zeros(2), 0.0, np.zeros(2), False, step == 11)

    def steps_drawn(running):
        episode = state.episode._replace(length=running)
        batches = task._batches(state._replace(episode=episode), 14, 4)
        return np.asarray(batches.states).reshape(4, 16, -1)[:, 8:, 0]

    assert set(np.unique(steps_drawn(2))) == set(range(4, 12))
    logged = np.unique(log.states.astype(np.float32)[:, 0])
    assert np.isin(steps_drawn(10), logged).all() and np.isin(steps_drawn(14), logged).all()
    task.close()


@pytest.mark.parametrize("method", ["awac", "o3f"])
def test_other_methods_end_the_same_when_stopped_while_acting(tmp_path, data, monkeypatch, method):
    run(tmp_path / "undisturbed", data, method=method)
    monkeypatch.setattr(online, "_SECONDS_PER_DISPATCH", 0.0)
    with monkeypatch.context() as patched:
        interrupt_at(patched, 68)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped", data, method=method)
    agent = actionless.resume(tmp_path / "stopped")
    assert agent.agent == method
    assert_same_run(tmp_path / "stopped", tmp_path / "undisturbed")


def test_iql_learns_from_rewards_in_units_of_the_logs_returns(undisturbed):
    returns = point_log().episode_returns
    scale = json.loads((undisturbed / "run.json").read_text())["config"]["reward_scale"]
    assert scale == pytest.approx(1000 / (returns.max() - returns.min()))
    arrays = last_checkpoint(undisturbed)
    rewards = -np.abs(arrays[".replay.next_states"]).sum(axis=1)
    np.testing.assert_allclose(arrays[".replay.rewards"], scale * rewards, rtol=1e-5)
    # What is reported is in the task's own units: here of the episodes that ended within the first 30 steps.
    last = np.flatnonzero(arrays[".replay.ends"][:30])
    row = next(row for row in read_rows(undisturbed / "metrics.jsonl") if row["step"] == 80)
    assert row["episode/return"] == pytest.approx(rewards[: last[-1] + 1].sum() / len(last), rel=1e-5)


@pytest.mark.parametrize(
    ("method", "given", "scale"),
    [("awac", {}, 1), ("cal-ql", {}, 1), ("o3f", {}, 1), ("iql", {"reward_scale": 0.5}, 0.5)],
)
def test_rewards_of_others_are_as_they_are_and_any_scale_can_be_asked_for(method, given, scale):
    assert finetune_settings(TASK, method, "cpu", given, log=labelled()).reward_scale == scale


def test_what_a_scale_sets_can_be_set_otherwise():
    for given, every in (({}, 8), ({"penalty_every": 1}, 1)):
        config = finetune_settings(TASK, "cal-ql", "cpu", given, log=labelled())
        assert config.learner.penalty_every == every


def test_several_seeds_have_the_log_in_their_own_processes_alone(tmp_path, data, monkeypatch):
    logs, planned = [], []

    def read(*arguments):
        log = data_read.read(*arguments)
        logs.append(weakref.ref(log))
        return log

    def start_seeds(out, manifest, several, **options):
        planned.append((logs[0](), several))
        return []

    monkeypatch.setattr(module, "read_log", read)
    monkeypatch.setattr(module, "start_seeds", start_seeds)
    run(tmp_path / "run", data, seeds=2)
    [(log, several)] = planned
    assert log is None
    assert (several.seeds, several.steps) == ((0, 1), OFFLINE + STEPS)
    # 300 steps of states, next states and actions as read, and their returns; of the replay also rewards and two flags.
    assert several.memory == 300 * (4 * 8 + 2 * 4 + 4) + STEPS * (6 * 4 + 10)


def test_a_policy_sees_states_in_units_of_the_logs_spread(undisturbed):
    behaviour = actionless.AgentPolicy.load(undisturbed).behaviour
    states = point_log().states
    np.testing.assert_allclose(behaviour.states.mean, states.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(behaviour.states.scale, states.std(axis=0) + 1e-3, rtol=1e-5)


def test_a_log_that_changed_is_noticed(tmp_path, monkeypatch):
    data = save(labelled(), tmp_path / "point.npz")
    monkeypatch.setattr(online, "_SECONDS_PER_DISPATCH", 0.0)
    with monkeypatch.context() as patched:
        interrupt_at(patched, 8)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", data)
    save(labelled(seed=1), data)
    with pytest.raises(ActionlessError, match=r"point\.npz: the log has changed since .*run began"):
        actionless.resume(tmp_path / "run")


@pytest.mark.parametrize(
    ("log", "options", "message"),
    [
        (labelled(), {"offline_steps": -1}, "offline_steps=-1: choose at least 0"),
        (labelled(), {"offline_steps": 0, "steps": 0}, "steps=0: nothing would be learnt; choose at least 1"),
        (labelled(), {"expectile": 1.0}, "expectile=1.0: choose a number above 0 and below 1"),
        (labelled(), {"most_weight": 0.0}, "most_weight=0.0: choose a finite number above 0"),
        (labelled(), {"most_weight": np.inf}, "most_weight=inf: choose a finite number"),
        (
            labelled(),
            {"method": "cal-ql", "policy_learning_rate": -1.0},
            "policy_learning_rate=-1.0: choose a finite number of at least 0",
        ),
        (
            labelled(),
            {"method": "cal-ql", "penalty_every": 0},
            "penalty_every=0: choose at least 1",
        ),
        (
            labelled(),
            {"method": "awac", "expectile": 0.6},
            "expectile: not an option of awac, which knows batch_size, checkpoint_seconds, discount, ",
        ),
        (labelled(), {"reward_scale": 0.0}, "reward_scale=0.0: choose a finite number above 0"),
        (labelled(), {"reward_scale": -1.0}, "reward_scale=-1.0: choose a finite number above 0"),
        (
            labelled(episodes=1),
            {},
            "point.npz: iql scales rewards by the spread of the episodes' returns, and all are .* 1 leaves them",
        ),
        (labelled(), {"seeds": 2}, "handed over from Python, and each of 2 seeds has a process"),
        (point_log(), {}, "point.npz: read without actions, which are learnt from: read it with_actions=True"),
        (small_log(with_actions=True), {}, "walk.npz: has 3 state variables, and 'point_task:Point-v0' has 2"),
    ],
)
def test_mistakes(tmp_path, log, options, message):
    with pytest.raises(ActionlessError, match=message):
        run(tmp_path / "run", log, **options)
    assert not (tmp_path / "run").exists()


def test_a_log_of_another_environment_brings_a_warning(tmp_path, caplog):
    log = labelled()
    far_away = dataclasses.replace(log, states=log.states + 100, next_states=log.next_states + 100)
    run(tmp_path / "run", far_away, steps=0)
    assert "point.npz: this log may come from a different environment" in caplog.text
    assert "point_task:Point-v0 starts with s0 = 0.397, but its range in the log is 99.1 to 101; " in caplog.text


def test_a_file_without_actions_is_named(tmp_path):
    with pytest.raises(ActionlessError, match=r"point\.npz: no key 'actions'; .*: give a log with actions, or learn"):
        run(tmp_path / "run", save(point_log(), tmp_path / "point.npz"))
    assert not (tmp_path / "run").exists()


class Wide(gymnasium.Env):
    """Never stepped: its spaces alone are looked at."""

    observation_space = Box(-np.inf, np.inf, (200,))
    action_space = Box(-2.0, 2.0, (2,), np.float32)


def test_a_memory_mapped_log_is_not_copied(tmp_path):
    """Of 100 times as many state variables as usual, a hundredth is held: its returns, and the batches."""
    rows, dim = 20_000, 200
    rng = np.random.default_rng(0)
    arrays = {name: np.memmap(tmp_path / name, np.float64, "w+", shape=(rows, dim)) for name in ("states", "next")}
    for array in arrays.values():
        array[:] = rng.normal(size=(rows, dim))
    log = Log(
        states=arrays["states"],
        rewards=rng.normal(size=rows),
        next_states=arrays["next"],
        terminals=np.zeros(rows, bool),
        ends=np.arange(rows) % 100 == 99,
        state_names=default_state_names(dim),
        source=Source("wide.npz", "npz", ("states", "actions")),
        actions=np.memmap(tmp_path / "actions", np.float64, "w+", shape=(rows, 2)),
    )
    environment = Environment("wide", Wide())
    tracemalloc.start()
    labelled_log = LabelledLog.of(log, environment, 0.99, 0.5)
    after = tracemalloc.take_snapshot()
    batch = labelled_log.sample(rng.integers(0, rows, 64), 3, 0.99)
    held = sum(trace.size for trace in after.traces)
    tracemalloc.stop()
    assert held < 0.02 * (arrays["states"].nbytes + arrays["next"].nbytes)
    assert isinstance(labelled_log.log.states, np.memmap)
    assert all(type(rows) is np.ndarray for rows in jax.tree.leaves(batch))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batches_are_those_of_a_log_copied_into_a_replay(dtype):
    """Rows are scaled and translated one batch at a time, to the same bits as all at once."""
    log = labelled()
    floats = {name: getattr(log, name).astype(dtype) for name in ("states", "next_states", "rewards", "actions")}
    log = dataclasses.replace(log, **floats)
    with closing(make(TASK)) as environment:
        ours = LabelledLog.of(log, environment, 0.9, 0.37)
        copied = Replay.create(len(log), environment.spec, LabelledLog.columns)
        scaled, actions = log.rewards * 0.37, normalised_actions(environment.translation, log.actions)
        returns = returns_to_go(scaled, log.ends, 0.9)
        for i in range(len(log)):
            flags = bool(log.terminals[i]), bool(log.ends[i])
            step = (log.states[i], actions[i], float(scaled[i]), log.next_states[i], *flags)
            copied.add(*step, {"returns": float(returns[i])})
    slots = np.random.default_rng(0).integers(0, len(log), 500)
    for n_step in (1, 3):
        assert leaves_equal(ours.sample(slots, n_step, 0.9), copied.sample(slots, n_step, 0.9))
