import numpy as np
import pytest
from linear_environment import LINEAR, labelled_log

from actionless.analysis.scores import KNOWN, reference_scores
from actionless.data.recording import Recording, write_recording


def normalised_score(environment, episode_return, log=None):
    reference = reference_scores(environment, log)
    return None if reference is None else reference.score(episode_return)


@pytest.mark.parametrize(
    ("environment", "random", "expert"),
    [
        ("Hopper-v5", -20.272305, 3234.3),
        ("Hopper-v2", -20.272305, 3234.3),
        ("HalfCheetah-v4", -280.178953, 12135.0),
        ("Walker2d-v5", 1.629008, 4592.3),
        ("dmc:cheetah-run", 5.39, 664.57),
        ("dmc:quadruped-walk", 121.31, 781.19),
    ],
)
def test_by_the_name_of_the_environment(environment, random, expert):
    assert normalised_score(environment, random) == 0
    assert normalised_score(environment, expert) == pytest.approx(100)
    assert normalised_score(environment, (random + expert) / 2) == pytest.approx(50)


def test_worked_by_hand():
    # D4RL's own medium policy in Hopper: (1310 + 20.272305) / 3254.572305.
    assert normalised_score("Hopper-v5", 1310.0) == pytest.approx(40.874, abs=1e-3)
    # Worse than random actions, better than the expert.
    assert normalised_score("dmc:cheetah-run", 0.0) == pytest.approx(-0.8177, abs=1e-4)
    assert normalised_score("dmc:cheetah-run", 700.0) == pytest.approx(105.37, abs=1e-2)


@pytest.mark.parametrize(
    "environment", ["Ant-v5", "CartPole-v1", "dmc:hopper-hop", "own_environments:Hopper-v5", "hopper-medium"]
)
def test_an_environment_without_references_has_no_score(environment):
    assert normalised_score(environment, 1.0) is None


def recorded(path, **metadata):
    """A log with metadata about how it was made."""
    flags = np.array([False])
    states, actions = np.zeros((1, 2)), np.zeros((1, 2))
    recording = Recording(states, actions, np.zeros(1), states, flags, ~flags, None)
    write_recording(path, recording, metadata)
    return labelled_log(path=path)


class TestRecorded:
    def test_by_the_logs_own_references(self, tmp_path):
        log = recorded(tmp_path / "log.hdf5", environment=LINEAR, random_return=-10.0, expert_return=30.0)
        assert normalised_score(LINEAR, 0.0, log) == 25

    def test_the_benchmarks_go_first(self, tmp_path):
        log = recorded(tmp_path / "log.hdf5", environment="Hopper-v5", random_return=0.0, expert_return=1.0)
        assert reference_scores("Hopper-v5", log) is KNOWN["hopper"]

    def test_those_of_another_environment_are_not_used(self, tmp_path):
        log = recorded(tmp_path / "log.hdf5", environment="Ant-v5", random_return=-10.0, expert_return=30.0)
        assert normalised_score(LINEAR, 0.0, log) is None

    @pytest.mark.parametrize("returns", [{"random_return": 1.0}, {"random_return": 1.0, "expert_return": 1.0}])
    def test_a_log_without_an_expert_gives_none(self, tmp_path, returns):
        assert normalised_score(LINEAR, 0.0, recorded(tmp_path / "log.hdf5", environment=LINEAR, **returns)) is None

    def test_a_log_of_another_format_gives_none(self, tmp_path):
        assert normalised_score(LINEAR, 0.0, labelled_log(path=tmp_path / "log.csv")) is None
