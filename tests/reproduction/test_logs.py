"""Logs: found by their names, described, joined, and what is said where they are missing."""

import h5py
import numpy as np
import pytest

import actionless
from actionless.errors import ActionlessError
from actionless.execution.executor import Executor
from actionless.reproduction.logs import described, found_in, join, labelled_parts, located, record_missing


def write(path, episodes=2, length=5, seed=0):
    rng = np.random.default_rng(seed)
    steps = episodes * length
    states = rng.normal(size=(steps, 3))
    timeouts = np.arange(steps) % length == length - 1
    np.savez(
        path,
        states=states,
        next_states=states + 0.1,
        rewards=np.ones(steps),
        actions=rng.normal(size=(steps, 2)),
        terminals=np.zeros(steps, bool),
        timeouts=timeouts,
    )
    return path


def test_found_by_name(tmp_path):
    for name in (
        "hopper_medium_replay-v2.hdf5",
        "walker2d-expert.npz",
        "cheetah-run-medium",
        "notes.txt",
        ".hopper-medium",
    ):
        (tmp_path / name).touch()
    assert found_in(tmp_path) == {
        "hopper-medium-replay": tmp_path / "hopper_medium_replay-v2.hdf5",
        "walker2d-expert": tmp_path / "walker2d-expert.npz",
        "cheetah-run-medium": tmp_path / "cheetah-run-medium",
    }


def test_two_files_for_one_log(tmp_path):
    for name in ("hopper_medium-v2.hdf5", "hopper-medium.npz"):
        (tmp_path / name).touch()
    with pytest.raises(
        ActionlessError, match=r"hopper_medium-v2\.hdf5: stands for hopper-medium, as .*hopper-medium\.npz"
    ):
        found_in(tmp_path)


def test_missing_logs_are_named(tmp_path):
    (tmp_path / "hopper-medium.npz").touch()
    with pytest.raises(ActionlessError) as error:
        located(["hopper-medium", "hopper-expert", "cheetah-run-medium"], tmp_path, tmp_path)
    assert str(error.value).startswith(f"{tmp_path} lacks hopper_expert-v2.hdf5, cheetah-run-medium; add these logs")
    assert "--data-from-record" in str(error.value)
    with pytest.raises(ActionlessError, match=r"no --data was given: needed are hopper_medium-v2\.hdf5"):
        located(["hopper-medium"], None, tmp_path)
    with pytest.raises(ActionlessError, match="no such folder"):
        located(["hopper-medium"], tmp_path / "none", tmp_path)


def test_own_logs_stand_beside_their_declaration(tmp_path):
    found = located(["plant.csv", "/else/plant.csv", "minari:a/b-v0"], None, tmp_path)
    assert list(found.values()) == [str(tmp_path / "plant.csv"), "/else/plant.csv", "minari:a/b-v0"]


@pytest.mark.parametrize(
    ("name", "recorded", "said"),
    [
        ("hopper-medium", False, "10 transitions, regenerated: the paper's log has 1,000,000"),
        ("hopper-medium-replay", True, "10 transitions, regenerated with our own agents"),
        ("plant", False, "10 transitions"),
    ],
)
def test_what_is_said_of_a_log(tmp_path, name, recorded, said):
    assert described(name, str(write(tmp_path / "log.npz")), recorded=recorded).about.startswith(said)


def test_expert_models_learn_from_all_logs_of_the_robot(tmp_path):
    for number, level in enumerate(("medium", "medium-expert", "expert")):
        write(tmp_path / f"hopper-{level}.npz", seed=number)
    write(tmp_path / "walker2d-medium.npz")
    parts = labelled_parts("hopper-medium", {}, tmp_path)
    assert parts == [str(tmp_path / "hopper-expert.npz"), str(tmp_path / "hopper-medium.npz")]
    assert labelled_parts("plant", {"plant": "here.npz"}, tmp_path) == ["here.npz"]
    joined = actionless.read(join(parts, tmp_path / "joined" / "log.npz"), with_actions=True)
    one, other = (actionless.read(part, with_actions=True) for part in parts)
    np.testing.assert_array_equal(joined.actions, np.concatenate([one.actions, other.actions]))
    np.testing.assert_array_equal(joined.ends, np.concatenate([one.ends, other.ends]))
    before = (tmp_path / "joined" / "log.npz").stat().st_mtime_ns
    join(parts, tmp_path / "joined" / "log.npz")
    assert (tmp_path / "joined" / "log.npz").stat().st_mtime_ns == before


def test_logs_are_recorded_with_one_agent_for_each_robot(tmp_path, monkeypatch):
    class Done(Executor):
        def run(self, jobs, watch=None):
            asked.extend(" ".join(job.arguments[:2]) for job in jobs)
            return []

    def record(environment, out, *, level, run, **_):
        asked.append(f"record {environment} {level} {run.name}")
        with np.load(write(out.with_suffix(".npz"))) as arrays, h5py.File(out, "w") as file:
            for name, array in arrays.items():
                file[name] = array
        out.with_suffix(".npz").unlink()

    asked = []
    monkeypatch.setattr("actionless.reproduction.logs.record", record)
    names = ["hopper-medium-replay", "hopper-medium-expert", "walker2d-medium"]
    record_missing(names, tmp_path, "smoke", Done())
    assert asked == [
        "train Hopper-v5",
        "train Walker2d-v5",
        "record Hopper-v5 replay hopper.run",
        "record Hopper-v5 medium hopper.run",
        "record Hopper-v5 expert hopper.run",
        "record Walker2d-v5 medium walker2d.run",
    ]
    assert found_in(tmp_path).keys() >= set(names)
    assert len(actionless.read(tmp_path / "hopper-medium-expert.npz")) == 20
    record_missing(names, tmp_path, "smoke", Done())
    assert len(asked) == 6, "nothing is made twice"
