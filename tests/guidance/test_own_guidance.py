"""Guidance written outside of the package: what it may do, that it resumes bit for bit, and what is refused."""

import dataclasses
import json

import numpy as np
import pytest
from point_task import point_log
from small_log import save
from test_online import LOOP, STEPS, assert_same_run, interrupt_at, last_checkpoint, policy, run  # noqa: F401

import actionless
from actionless import Guidance
from actionless.errors import ActionlessError
from actionless.online.replay import Column
from actionless.randomness import generator
from actionless.runs.sinks import read_rows
from actionless.training import online

WARM_UP = 40


class Homing(Guidance):
    """Pushes the point home every third step, pays for being near, and counts what it sees."""

    headline = ("homing/seen",)
    columns = {"distance": Column(np.float32, fill=-1.0)}  # noqa: RUF012

    def __init__(self, weight=1.0):
        self.weight = weight
        self.state = {"seen": np.zeros((), np.int64), "learnt": np.zeros(2, np.int64), "firsts": np.zeros((), np.int64)}

    def propose(self, state, step):
        return np.clip(-5 * state, -1, 1) if step % 3 == 0 else None

    def observe(self, state, action, reward, next_state, step, *, terminated=False, first=False):
        self.state["seen"] += 1
        self.state["firsts"] += first
        # Left out at the first step of an episode: the column then holds its fill value.
        return {} if first else {"distance": float(np.abs(next_state).sum())}

    def change_batch(self, batch, draw):
        near = np.exp(-np.abs(batch.next_states).sum(axis=1))
        noise = generator(7, "homing: noise", draw.step).normal(size=len(near)).astype(np.float32)
        return dataclasses.replace(batch, rewards=batch.rewards + self.weight * near + 0.01 * noise)

    def learn(self, first, stop, act):
        self.state["learnt"] += (1, stop - first)
        assert act(np.zeros((2, 2))).shape == (2, 2)

    def metrics(self):
        return {"homing/seen": float(self.state["seen"])}


def stop_at(step, out, **options):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(online, "_SECONDS_PER_DISPATCH", 0.0)
        interrupt_at(patched, step)
        with pytest.raises(KeyboardInterrupt):
            run(out, **options)


def test_it_acts_observes_changes_batches_learns_and_reports(tmp_path):
    mine = Homing()
    run(tmp_path / "run", guidance=[mine])
    arrays = last_checkpoint(tmp_path / "run")
    guided = np.arange(42, STEPS, 3)
    states, actions = arrays[".replay.states"][guided], arrays[".replay.actions"][guided]
    np.testing.assert_allclose(actions, np.clip(-5 * states, -1, 1), rtol=1e-5)
    begins = np.concatenate([[True], arrays[".replay.ends"][:-1]])
    expected = np.where(begins, -1, np.abs(arrays[".replay.next_states"]).sum(axis=1))
    np.testing.assert_allclose(arrays[".replay.extra['distance']"], expected, rtol=1e-6)
    assert mine.state["seen"] == arrays[".guidance[0]['seen']"] == STEPS
    assert mine.state["firsts"] == begins.sum()
    assert mine.state["learnt"].tolist() == [20, STEPS - WARM_UP]  # four steps at a time, after the warm-up
    assert list(read_rows(tmp_path / "run" / "metrics.jsonl"))[-1]["homing/seen"] == STEPS
    (stored,) = json.loads((tmp_path / "run" / "run.json").read_text())["config"]["guidance"]
    assert stored["kind"] == "python"
    assert stored["name"].endswith("Homing")


class Together(Guidance):
    """Writes how far each state lies from home, for several steps at once."""

    columns = {"near": Column(np.float32, fill=-1.0)}  # noqa: RUF012

    def __init__(self):
        self.told, self.batches = [], []

    def observe_together(self, steps):
        self.told += range(steps.first, steps.first + len(steps.rewards))
        assert steps.actions.shape == (len(steps.rewards), 2)
        assert not steps.terminals.any()
        return {"near": np.abs(steps.next_states).sum(axis=1)}

    def change_batch(self, batch, draw):
        self.batches.append((batch, draw))
        return batch


def test_several_steps_are_observed_at_once_and_before_they_are_drawn(tmp_path):
    mine = Together()
    run(tmp_path / "run", guidance=[mine])
    assert mine.told == list(range(STEPS))
    replay = last_checkpoint(tmp_path / "run")
    expected = np.abs(replay[".replay.next_states"]).sum(axis=1)
    np.testing.assert_allclose(replay[".replay.extra['near']"], expected, rtol=1e-5)
    for batch, draw in mine.batches:
        drawn = batch.extra["near"][: draw.updates * draw.batch_size]
        np.testing.assert_allclose(drawn, np.abs(batch.next_states[: len(drawn)]).sum(axis=1), rtol=1e-5)


def test_columns_that_were_not_declared_are_refused(tmp_path):
    class Undeclared(Guidance):
        def observe_together(self, steps):
            return {"near": steps.rewards}

    with pytest.raises(ActionlessError, match="guidance 'Undeclared' gives values of 'near', which its columns lack"):
        run(tmp_path / "run", guidance=[Undeclared()])


def test_changed_rewards_are_what_the_agent_learns_from(tmp_path):
    for name, weight in (("paid", 5.0), ("unpaid", 0.0)):
        run(tmp_path / name, guidance=[Homing(weight)])
    paid, unpaid = (list(read_rows(tmp_path / name / "metrics.jsonl"))[-1] for name in ("paid", "unpaid"))
    assert paid["q_mean"] != unpaid["q_mean"]
    # What is reported and kept is in the environment's own units.
    stored = last_checkpoint(tmp_path / "paid")
    near = -np.abs(stored[".replay.next_states"]).sum(axis=1)
    np.testing.assert_allclose(stored[".replay.rewards"], near, rtol=1e-5)


def test_it_resumes_bit_for_bit_and_says_how(tmp_path):
    run(tmp_path / "undisturbed", guidance=[Homing()])
    stop_at(68, tmp_path / "stopped", guidance=[Homing()])
    with pytest.raises(ActionlessError, match=r"give Homing again: `actionless\.resume\(.*, guidance=\[\.\.\.\]\)`"):
        actionless.resume(tmp_path / "stopped")
    with pytest.raises(ActionlessError, match="give Homing again"):
        actionless.resume(tmp_path / "stopped", guidance=[Guidance()])
    actionless.resume(tmp_path / "stopped", guidance=[Homing()])
    assert_same_run(tmp_path / "stopped", tmp_path / "undisturbed")


def test_beside_a_kind_of_the_package(tmp_path, policy):  # noqa: F811
    """Homing comes first at every third step; the switch observes all steps and takes what is left."""
    options = {"guide": policy, "beta": 1.0}
    run(tmp_path / "undisturbed", guidance=[Homing(), "switch"], **options)
    last = list(read_rows(tmp_path / "undisturbed" / "metrics.jsonl"))[-1]
    assert last["guided_share"] == pytest.approx(27 / 40)  # of the last 40 steps, 13 are Homing's
    assert {"idm/loss", "homing/seen"} <= last.keys()
    stop_at(68, tmp_path / "stopped", guidance=[Homing(), "switch"], **options)
    actionless.resume(tmp_path / "stopped", guidance=[Homing()])
    assert_same_run(tmp_path / "stopped", tmp_path / "undisturbed")


def test_one_that_does_nothing_changes_nothing(tmp_path):
    run(tmp_path / "alone")
    run(tmp_path / "beside", guidance=[Guidance()])
    assert_same_run(tmp_path / "alone", tmp_path / "beside")


class Wrong(Guidance):
    """Does what a test tells it to."""

    def __init__(self, **methods):
        for name, method in methods.items():
            setattr(self, name, method)


@pytest.mark.parametrize(
    ("guidance", "message"),
    [
        (
            [Wrong(propose=lambda state, step: np.array([2.0, 0.0]))],
            r"guidance 'Wrong' proposed \[2\.0, 0\.0\] at step 40, where 2 numbers from -1 to 1 are needed",
        ),
        (
            [Wrong(propose=lambda state, step: np.zeros(3))],
            r"guidance 'Wrong' proposed \[0\.0, 0\.0, 0\.0\] at step 40, where 2 numbers",
        ),
        (
            [Wrong(propose=lambda state, step: np.array([0.0, np.nan]))],
            r"the action that guidance 'Wrong' proposes is not finite between steps 41 and 41; ",
        ),
        (
            [Wrong(observe=lambda *_, **__: {"height": 1.0})],
            r"guidance 'Wrong' gives values of 'height', which its columns lack",
        ),
        (
            [Wrong(change_batch=lambda batch, draw: dataclasses.replace(batch, rewards=batch.rewards.astype(float)))],
            r"guidance 'Wrong' changed the shape or the type of number of 'rewards' in a batch",
        ),
        ([Homing(), Homing()], r"guidance 'Homing' declares the column 'distance', which there is already"),
    ],
)
def test_what_is_wrong_is_said_with_its_name(tmp_path, guidance, message):
    with pytest.raises(ActionlessError, match=message):
        run(tmp_path / "run", guidance=guidance)


def test_several_seeds_cannot_have_it(tmp_path):
    with pytest.raises(ActionlessError, match=r"seeds=2: each has a process of its own, which an object, function or"):
        run(tmp_path / "run", guidance=[Homing()], seeds=2)


def test_options_of_a_kind_that_is_not_there(tmp_path):
    message = r"beta: not an option of guidance by an object from Python, which knows none"
    with pytest.raises(ActionlessError, match=message):
        run(tmp_path / "run", guidance=[Homing()], beta=0.5)


def test_a_run_of_another_verb_has_no_guidance(tmp_path):
    data = save(point_log(), tmp_path / "point.npz")
    actionless.pretrain(data, tmp_path / "run", scale="smoke", steps=10)
    with pytest.raises(ActionlessError, match="a run of 'pretrain' has no guidance; resume it without"):
        actionless.resume(tmp_path / "run", guidance=[Homing()])


class Odd(Guidance):
    """Breaks one rule of the interface."""

    def __init__(self, **methods):
        for name, returned in methods.items():
            setattr(self, name, lambda *_, _returned=returned, **__: _returned)


@pytest.mark.parametrize(
    ("guidance", "message"),
    [
        (Odd(metrics={"step": 5.0}), "guidance 'Odd' reports 'step', which there is already: rename it"),
        (Odd(metrics={"loss": 5.0}), "guidance 'Odd' reports 'loss', which there is already: rename it"),
        (Odd(observe=None), "guidance 'Odd': observe gave None, and has to return its columns"),
        (Odd(change_batch=None), "guidance 'Odd' gave None as a batch, and has to return the batch"),
    ],
)
def test_a_mistake_in_your_own_guidance_is_named(tmp_path, guidance, message):
    with pytest.raises(ActionlessError, match=message):
        run(tmp_path / "run", guidance=[guidance])


def test_half_a_choice_is_refused(tmp_path):
    message = r"guidance 'Odd' proposed \[0\.5, 1\.0\] at step 40, where 2 whole numbers from 0 to 2 are needed"
    with pytest.raises(ActionlessError, match=message):
        run(tmp_path / "run", agent="decqn", guidance=Odd(propose=np.array([0.5, 1.0])))
