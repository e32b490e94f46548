"""Recording with a small task, within this process; one training run for all levels."""

import inspect
import os
import signal

import h5py
import numpy as np
import pytest

import actionless
from actionless import cli
from actionless.data.recording import Recording, read_metadata, write_recording
from actionless.errors import ActionlessError
from actionless.online.action_translation import Choice, Limits
from actionless.online.agent import Spec
from actionless.online.environments import Environment, make
from actionless.online.replay import Replay
from actionless.runs.sinks import read_rows
from actionless.training import train as training
from actionless.training.evaluation import returns_of
from actionless.training.online import OnlineLoop
from actionless.training.record import expert_step, from_replay, medium_step, record, roll_out
from actionless.training.train import replay_of

TASK = "point_task:Point-v0"
TRAINING = {"scale": "smoke", "train_steps": 1000}
STEPS = 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Every level of the task, from one run."""
    folder = tmp_path_factory.mktemp("recorded")
    for level in ("random", "medium", "expert", "replay"):
        record(TASK, folder / f"{level}.hdf5", level=level, steps=STEPS, run=folder / "run", **TRAINING)
    return folder


def evaluations_of(run):
    return {row["step"]: row["eval/return"] for row in read_rows(run / "metrics.jsonl") if "eval/return" in row}


class TestChoice:
    def test_expert_is_the_best_and_medium_the_first_a_third_of_the_way(self):
        evaluations = {100: 2.0, 200: 3.9, 300: 4.0, 400: 10.0, 500: 3.0, 600: 10.0}
        assert expert_step(evaluations) == 400
        assert medium_step(evaluations, random_return=1.0) == 300  # the bar is 1 + 9 / 3
        assert medium_step(evaluations, random_return=0.0) == 200  # 10 / 3

    def test_of_negative_returns(self):
        # From -1200 to -300, the bar is at -900.
        assert medium_step({1: -1000.0, 2: -901.0, 3: -899.0, 4: -300.0}, random_return=-1200.0) == 3

    def test_an_agent_that_learnt_nothing_has_no_medium(self):
        with pytest.raises(ActionlessError, match=r"never became better than random .*-3 at best, -2\.5 by chance"):
            medium_step({100: -4.0, 200: -3.0}, random_return=-2.5)


@pytest.mark.parametrize("level", ["random", "medium", "expert"])
def test_reads_back_as_it_was_lived_through(folder, level):
    log = actionless.read(folder / f"{level}.hdf5", with_actions=True)
    assert (len(log), log.state_dim, log.warnings) == (STEPS, 2, ())
    assert log.states.dtype == np.float64
    # The point moves by a tenth of the action, in the task's own units.
    np.testing.assert_allclose(log.next_states - log.states, 0.1 * log.actions, atol=1e-6)
    assert np.abs(log.actions).max() > 1
    np.testing.assert_allclose(log.rewards, -np.abs(log.next_states).sum(axis=1))
    np.testing.assert_array_equal(log.terminals, np.abs(log.next_states).max(axis=1) > 1.5)
    assert log.episode_lengths.max() == 15
    assert actionless.read(folder / f"{level}.hdf5").actions is None
    about = read_metadata(folder / f"{level}.hdf5")
    assert about["mean_return"] == pytest.approx(log.episode_returns.mean())
    assert (about["steps"], about["episodes"]) == (STEPS, len(log.episode_lengths))


def test_time_limits_and_the_end_of_the_recording_are_timeouts(folder):
    with h5py.File(folder / "expert.hdf5") as file:
        terminals, timeouts = file["terminals"][:], file["timeouts"][:]
        actions = actionless.read(folder / "expert.hdf5", with_actions=True).actions
        np.testing.assert_array_equal(file["actions"][:], actions)
        assert "action_indices" not in file
    ends = np.flatnonzero(terminals | timeouts)
    assert not (terminals & timeouts).any()
    assert ends[-1] == STEPS - 1
    lengths = np.diff(ends, prepend=-1)
    assert (lengths[:-1][timeouts[ends[:-1]]] == 15).all()


def test_replay_holds_what_the_run_lived_through_until_it_was_medium(folder):
    about = read_metadata(folder / "replay.hdf5")
    step = about["agent_step"]
    assert step == read_metadata(folder / "medium.hdf5")["agent_step"]
    replay = replay_of(folder / "run")
    log = actionless.read(folder / "replay.hdf5", with_actions=True)
    np.testing.assert_array_equal(log.states, replay.states[step - STEPS : step])
    np.testing.assert_array_equal(log.actions, 2 * replay.actions[step - STEPS : step])
    np.testing.assert_array_equal(log.ends[:-1], replay.ends[step - STEPS : step - 1])


def test_reference_scores(folder):
    abouts = [read_metadata(folder / f"{level}.hdf5") for level in ("random", "medium", "expert", "replay")]
    for name in ("random_return", "expert_return", "reference_episodes", "agent", "train_steps", "environment", "seed"):
        assert len({about[name] for about in abouts}) == 1
    assert [about["level"] for about in abouts] == ["random", "medium", "expert", "replay"]
    first = abouts[0]
    assert (first["agent"], first["train_steps"], first["environment"], first["seed"]) == ("td3", 1000, TASK, 0)
    assert "agent_step" not in first
    # As good as one draw of twenty episodes lets one say.
    environment, draw = make(TASK), np.random.default_rng(0)
    by_chance = returns_of(environment, lambda states: draw.uniform(-1, 1, states.shape).astype(np.float32), 100, 7)
    assert first["random_return"] == pytest.approx(by_chance.mean(), abs=4 * by_chance.std() / np.sqrt(20))
    assert first["expert_return"] > first["random_return"]


def test_the_agents_that_are_watched(folder):
    random_return = read_metadata(folder / "medium.hdf5")["random_return"]
    evaluations = evaluations_of(folder / "run")
    assert list(evaluations) == [250, 500, 750, 1000]
    assert read_metadata(folder / "expert.hdf5")["agent_step"] == expert_step(evaluations)
    assert read_metadata(folder / "medium.hdf5")["agent_step"] == medium_step(evaluations, random_return)
    for step in evaluations:
        actionless.AgentPolicy.load(folder / "run" / "snapshots" / f"step-{step:012d}")
    last = actionless.AgentPolicy.load(folder / "run" / "snapshots" / "step-000000001000")
    states = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_array_equal(last.act(states), actionless.AgentPolicy.load(folder / "run").act(states))


def test_levels_share_no_episodes(folder):
    starts = [actionless.read(folder / f"{level}.hdf5").states[0] for level in ("random", "medium", "expert")]
    assert len({tuple(start) for start in starts}) == 3


def test_a_finished_run_is_used_again(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "drive", None)  # nothing can be trained
    record(TASK, tmp_path / "again.hdf5", level="medium", steps=STEPS, run=folder / "run", **TRAINING)
    ours, theirs = actionless.read(tmp_path / "again.hdf5"), actionless.read(folder / "medium.hdf5")
    assert ours.fingerprint == theirs.fingerprint


def test_random_without_a_run_trains_nothing(tmp_path):
    record(TASK, tmp_path / "random.hdf5", level="random", steps=20)
    assert [path.name for path in tmp_path.iterdir()] == ["random.hdf5"]
    about = read_metadata(tmp_path / "random.hdf5")
    assert "random_return" in about and "expert_return" not in about


def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


def sudden_death():
    raise MemoryError


@pytest.mark.parametrize(("end", "cause"), [(ctrl_c, KeyboardInterrupt), (sudden_death, MemoryError)])
def test_a_stopped_training_is_resumed(folder, tmp_path, monkeypatch, end, cause):
    advance = OnlineLoop.advance

    def interrupted(task, state, start):
        ahead = advance(task, state, start)
        if start < 500 <= ahead.step:
            end()
        return ahead

    options = {"level": "expert", "steps": STEPS, **TRAINING}
    with monkeypatch.context() as patched:
        patched.setattr(OnlineLoop, "advance", interrupted)
        with pytest.raises(cause):
            record(TASK, tmp_path / "expert.hdf5", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["expert.hdf5.run"]
    assert len(list((tmp_path / "expert.hdf5.run" / "snapshots").iterdir())) == 2
    record(TASK, tmp_path / "expert.hdf5", **options)
    ours, theirs = (actionless.read(place / "expert.hdf5", with_actions=True) for place in (tmp_path, folder))
    assert ours.fingerprint == theirs.fingerprint


def test_factorised_actions_are_kept_as_indices_too(tmp_path):
    environment, draw = make(TASK, bins=3), np.random.default_rng(0)
    recording = roll_out(environment, lambda *_: draw.integers(0, 3, 2, dtype=np.int32), 30, lambda number: number)
    write_recording(tmp_path / "file.hdf5", recording, {"level": "random"})
    with h5py.File(tmp_path / "file.hdf5") as file:
        indices = file["action_indices"][:]
        np.testing.assert_array_equal(file["actions"][:], np.float32([-2, 0, 2])[indices])
    assert set(indices.ravel()) == {0, 1, 2}


class TestFromReplay:
    def lived(self, capacity=8, steps=10):
        replay = Replay.create(capacity, Spec(1, 1, None))
        for t in range(steps):
            replay.add(np.array([1.0 * t]), np.array([t / 10]), float(t), np.array([t + 1.0]), t == 5, t in (5, 7))
        return replay

    limits = Limits(np.array([-10.0]), np.array([10.0]))

    def test_by_hand(self):
        recording = from_replay(self.lived(), self.limits, until=9, steps=5)
        assert recording.states[:, 0].tolist() == [4, 5, 6, 7, 8]
        np.testing.assert_allclose(recording.actions[:, 0], [4, 5, 6, 7, 8], rtol=1e-6)
        assert recording.terminals.tolist() == [False, True, False, False, False]
        assert recording.timeouts.tolist() == [False, False, False, True, True]
        assert recording.episode_returns.tolist() == [9, 13, 8]

    def test_fewer_than_asked_for(self, caplog):
        assert from_replay(self.lived(), self.limits, until=6, steps=100).rewards.tolist() == [2, 3, 4, 5]
        assert "medium at step 6: 4 transitions instead of 100" in caplog.text

    def test_none_is_left(self):
        with pytest.raises(ActionlessError, match=r"kept its newest 8 transitions, and was medium at step 2"):
            from_replay(self.lived(), self.limits, until=2, steps=100)


def test_choices_of_a_task_are_one_number_each(tmp_path):
    flags = np.array([False, True])
    recording = Recording(
        states=np.zeros((2, 1)),
        actions=Choice(5)(np.array([[1], [0]], np.int32)),
        rewards=np.zeros(2),
        next_states=np.zeros((2, 1)),
        terminals=flags,
        timeouts=flags & False,
        action_indices=np.array([[1], [0]], np.int32),
    )
    write_recording(tmp_path / "file.hdf5", recording, {})
    assert actionless.read(tmp_path / "file.hdf5", with_actions=True).actions.tolist() == [[6], [5]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "good"}, "level='good': choose 'random', 'medium', 'expert', 'replay'"),
        ({"steps": 0}, "steps=0: choose at least 1"),
        ({"seed": -1}, "seed=-1: choose a whole number between"),
        ({"out": "file.npz"}, r"file\.npz: a recording is an HDF5 file: name it FILE\.hdf5"),
        ({"out": "none/file.hdf5"}, "the folder .*none does not exist; create it first"),
    ],
)
def test_mistakes(tmp_path, options, message):
    out = tmp_path / options.pop("out", "file.hdf5")
    with pytest.raises(ActionlessError, match=message):
        # Without the check of annotations, which users do not have.
        inspect.unwrap(record)(TASK, out, **{"level": "random", "steps": 10, **options})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agent": "sac"}, "trained with agent=td3, asked for is sac: choose another --run"),
        ({"train_steps": 2000}, "trained with steps=1000, asked for is 2000"),
        ({"seed": 1}, "trained with seed=0, asked for is 1"),
    ],
)
def test_a_run_of_other_settings(folder, tmp_path, options, message):
    with pytest.raises(ActionlessError, match=message):
        record(TASK, tmp_path / "x.hdf5", level="expert", steps=9, run=folder / "run", **{**TRAINING, **options})


def test_a_run_without_snapshots(tmp_path):
    actionless.train(TASK, tmp_path / "run", scale="smoke", steps=250, warm_up=249)
    with pytest.raises(ActionlessError, match="was trained without --snapshots, which are needed here"):
        record(TASK, tmp_path / "x.hdf5", level="expert", steps=9, run=tmp_path / "run", scale="smoke", train_steps=250)


def test_a_file_that_exists_is_replaced_only_when_told_to(tmp_path, monkeypatch):
    out = tmp_path / "random.hdf5"
    record(TASK, out, level="random", steps=20)
    with pytest.raises(ActionlessError, match="already exists; choose another name, or replace it with --overwrite"):
        record(TASK, out, level="random", steps=30)
    assert len(actionless.read(out)) == 20
    with monkeypatch.context() as patched:
        patched.setattr(h5py.Group, "create_group", lambda *_: 1 / 0)  # what was begun is not kept
        with pytest.raises(ZeroDivisionError):
            record(TASK, out, level="random", steps=30, overwrite=True)
    assert len(actionless.read(out)) == 20
    assert [path.name for path in tmp_path.iterdir()] == ["random.hdf5"]
    record(TASK, out, level="random", steps=30, overwrite=True)
    assert len(actionless.read(out)) == 30


def test_command_line(folder, tmp_path, capsys):
    out = tmp_path / "medium.hdf5"
    arguments = ["record", TASK, "--level=medium", "--steps=60", f"--run={folder / 'run'}", f"--out={out}"]
    assert cli.run([*arguments, "--scale=smoke", "--train-steps=1000"]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: 60 transitions in ")
    assert cli.run(["inspect", str(out)]) == 0
    assert cli.run(arguments) == 2
    assert "already exists" in capsys.readouterr().err
    assert cli.run(["record", TASK, "--level=good", "--steps=60", "--out=x.hdf5"]) == 2
    assert "good" in capsys.readouterr().err


def test_metadata_of_other_files(tmp_path):
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["observations"] = np.zeros((2, 1))
    with pytest.raises(ActionlessError, match="has no metadata about how it was made"):
        read_metadata(tmp_path / "other.hdf5")
    (tmp_path / "text.hdf5").write_text("no")
    with pytest.raises(ActionlessError, match="cannot be read as HDF5"):
        read_metadata(tmp_path / "text.hdf5")


def test_the_replay_of_a_run_leaves_no_simulator_open(folder, monkeypatch):
    opened, closed = [], []
    create, close = Environment.__init__, Environment.close

    def noted(task, name, simulator, *, bins=None):
        opened.append(task)
        create(task, name, simulator, bins=bins)

    monkeypatch.setattr(Environment, "__init__", noted)
    monkeypatch.setattr(Environment, "close", lambda task: closed.append(task) or close(task))
    replay_of(folder / "run")
    record(TASK, folder / "again.hdf5", level="replay", steps=STEPS, run=folder / "run", **TRAINING)
    assert opened
    assert {*map(id, opened)} == {*map(id, closed)}
