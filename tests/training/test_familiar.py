"""A log of another task that has as many variables."""

import dataclasses
import logging

import numpy as np
import pytest
from point_task import point_log

import actionless
from actionless.data.log import Log, Source
from actionless.training import finetune, train
from actionless.training.familiar import unfamiliar, warn_if_unfamiliar


@pytest.fixture
def log():
    """Height between 1 and 2, speed between 0 and 4, and a constant."""
    states = np.array([[1.0, 0.0, 7.0], [1.5, 4.0, 7.0], [2.0, 2.0, 7.0]])
    ends = np.array([False, False, True])
    names = ("height", "speed", "constant")
    return Log(states, np.zeros(3), states, ends, ends, names, Source("walker.npz", "npz", ()))


@pytest.mark.parametrize(
    "first",
    [
        [1.2, 3.0, 7.0],
        [0.5, 0.0, 7.0],  # half of the range below it
        [2.5, 6.0, 7.0],
        [1.5, 2.0, 9.0],  # another constant
    ],
)
def test_what_the_log_has_come_near_to_is_familiar(log, first):
    assert unfamiliar(log, np.array(first)) is None


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ([0.4, 2.0, 7.0], "height = 0.4, where the log has 1 to 2"),
        ([1.5, 6.5, 7.0], "speed = 6.5, where the log has 0 to 4"),
        ([0.0, 6.5, 7.0], "height = 0, where the log has 1 to 2"),  # the further of the two, in ranges
    ],
)
def test_what_it_never_came_near_to_is_named(log, first, said, caplog):
    assert unfamiliar(log, np.array(first)) == said
    with caplog.at_level(logging.WARNING, "actionless"):
        warn_if_unfamiliar(log, np.array(first), "Cheetah-v5")
    assert caplog.messages == [f"walker.npz: Cheetah-v5 begins with {said}: is it a log of this task?"]


class BegunError(Exception):
    """A run that was let through: a doubt is no refusal."""


def far_away():
    """A log of the point's task, with pushes, as seen from elsewhere."""
    log = point_log()
    elsewhere = {"states": log.states + 100, "next_states": log.next_states + 100}
    return dataclasses.replace(log, **elsewhere, actions=(log.next_states - log.states) / 0.1)


def test_guided_training_and_finetuning_say_so(tmp_path, monkeypatch, caplog):
    labelled, task = far_away(), "point_task:Point-v0"
    log = dataclasses.replace(labelled, actions=None)
    actionless.pretrain(log, tmp_path / "policy", scale="smoke", steps=20)

    def begun(run, task):
        raise BegunError

    for module in (train, finetune):
        monkeypatch.setattr(module, "work", begun)
    with caplog.at_level(logging.WARNING, "actionless"):
        with pytest.raises(BegunError):
            actionless.train(task, tmp_path / "guided", scale="smoke", guide=tmp_path / "policy", log=log)
        with pytest.raises(BegunError):
            actionless.finetune(task, labelled, tmp_path / "labelled", scale="smoke")
    doubts = [message for message in caplog.messages if message.endswith("is it a log of this task?")]
    assert len(doubts) == 2 and all(f"{task} begins with " in doubt for doubt in doubts)
