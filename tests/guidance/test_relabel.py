"""Recovered actions: of a linear system to the last digit that matters, only where the models agree, and nothing of
the log where nothing is asked for."""

import json

import jax
import numpy as np
import pytest
from point_task import point_log
from small_log import save
from test_online import last_checkpoint, run
from test_potential import values  # noqa: F401

import actionless
from actionless.data.log import Log
from actionless.discretise import Discretiser
from actionless.guidance import relabel
from actionless.guidance.idm import IdmConfig
from actionless.guidance.interface import Draw, Guidance, OwnSteps
from actionless.guidance.relabel import Relabel, RelabelSettings
from actionless.networks import Ensemble
from actionless.offline.state_policy import PolicyModel
from actionless.online.agent import Spec, Transitions
from actionless.online.replay import Column
from actionless.runs.sinks import read_rows

DIM, ACTIONS = 3, 2
RNG = np.random.default_rng(0)
A, B = np.eye(DIM) + 0.1 * RNG.normal(size=(DIM, DIM)), RNG.normal(size=(DIM, ACTIONS))


def system(rows, seed, bins=None):
    """Steps of s' = As + Ba, and their actions."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(rows, DIM))
    if bins is None:
        actions = rng.uniform(-0.8, 0.8, (rows, ACTIONS))
        pushes = actions
    else:
        actions = rng.integers(0, bins, (rows, ACTIONS))
        pushes = 2 * actions / (bins - 1) - 1
    return states, actions, states @ A.T + pushes @ B.T


def taught(settings, bins=None, steps=3000, updates=1500):
    """Guidance that has seen steps of the system."""
    states, _, after = system(500, 1, bins)
    rewards, ends = np.arange(500.0), np.arange(500) % 50 == 49
    log = point_log()
    log = Log(states, rewards, after, ends, ends, ("a", "b", "c"), log.source)
    bins_of_changes = Discretiser.fit(states, after)
    model = PolicyModel(Ensemble.create(1, (DIM, 3 * DIM), jax.random.key(0)), bins_of_changes, "logits", 1.0)
    guide = Relabel(log, model, Spec(DIM, ACTIONS, bins), settings, steps=steps, seed=0)
    guide.begin({"paid": Column(np.float32, fill=-1.0)})
    states, actions, after = system(steps, 2, bins)
    guide.observe_together(OwnSteps(0, states, actions, np.zeros(steps), after, np.zeros(steps, bool)))
    every = settings.inverse.every
    for t in range(updates):
        guide.learn(t * every, (t + 1) * every, lambda states: states)
    return guide


def batch_of(rows, action_type=np.float32):
    zeros = np.zeros(rows, np.float32)
    return Transitions(
        states=np.zeros((rows, DIM), np.float32),
        actions=np.zeros((rows, ACTIONS), action_type),
        rewards=zeros,
        next_states=np.zeros((rows, DIM), np.float32),
        discounts=zeros + 0.5,
        extra={"paid": zeros},
    )


def draw(step, updates=2, size=16):
    return Draw(step, updates, size, lambda rows: {"paid": np.asarray(rows.rewards * 2, np.float32)})


@pytest.fixture(scope="module")
def guide():
    return taught(RelabelSettings(share=0.5, inverse=IdmConfig(hidden=(64, 64), every=1)))


def mixed(guide, step=0, updates=2, size=16, action_type=np.float32):
    return guide.change_rows(batch_of((updates + 1) * size, action_type), draw(step, updates, size))


def filled(guide):
    """Until enough of the log carries actions."""
    for step in range(2 * relabel.POOL // relabel.ROWS_PER_STEP):
        batch = mixed(guide, step)
        if batch.states.any():
            return batch
    raise AssertionError("no rows of the log were used")


def test_actions_of_a_linear_system_are_recovered(guide):
    assert guide.metrics()["relabel/error"] < 0.03
    batch = filled(guide)
    from_log = batch.states.any(axis=1)
    pushes = np.linalg.lstsq(B, (batch.next_states - batch.states @ A.T)[from_log].T, rcond=None)[0].T
    assert np.abs(batch.actions[from_log] - pushes).mean() < 0.05


def test_rows_of_the_log_are_the_share_of_each_batch_that_was_asked_for(guide):
    batch = filled(guide)
    from_log = batch.states.any(axis=1)
    assert from_log.reshape(3, 16).sum(axis=1).tolist() == [8, 8, 0]  # nobody looks at the last
    assert (batch.extra["paid"][from_log] == 2 * batch.rewards[from_log]).all()
    ended = batch.rewards[from_log] % 50 == 49
    assert (batch.discounts[from_log][ended] == 0).all()
    assert (batch.discounts[from_log][~ended] == np.float32(0.99)).all()
    assert (batch.discounts[~from_log] == 0.5).all()


def test_choices_are_recovered_by_classification():
    guide = taught(RelabelSettings(inverse=IdmConfig(hidden=(64, 64), every=1)), bins=3, updates=800)
    assert guide.metrics()["relabel/error"] < 0.05
    for step in range(100):
        batch = mixed(guide, step, action_type=np.int32)
    assert batch.actions.dtype == np.int32
    from_log = batch.states.any(axis=1)
    pushes = np.linalg.lstsq(B, (batch.next_states - batch.states @ A.T)[from_log].T, rcond=None)[0].T
    assert (batch.actions[from_log] == np.round(pushes + 1)).mean() > 0.95


def test_the_limit_follows_the_disagreement_on_the_agents_own_steps(guide):
    filled(guide)
    metrics = guide.metrics()
    weighted, weight = guide.state.own
    assert weighted / weight == pytest.approx(metrics["relabel/own_disagreement"], rel=0.25)
    stored = min(int(guide.state.relabelled), relabel.POOL)
    within = guide.state.pool.disagreement[:stored] <= guide.settings.agreement * weighted / weight
    assert metrics["relabel/agreed"] == pytest.approx(within.mean())


def test_nothing_is_used_where_the_models_disagree():
    guide = taught(RelabelSettings(agreement=0.0, inverse=IdmConfig(hidden=(16,), every=1)), updates=5, steps=200)
    for step in range(20):
        batch = mixed(guide, step)
        assert not batch.states.any()
    metrics = guide.metrics()
    assert metrics["relabel/used"] == 0
    assert metrics["relabel/agreed"] == 0
    assert metrics["relabel/disagreement"] > 0


@pytest.mark.parametrize(
    "nothing", [{"guidance": "relabel", "share": 0.0, "plain_critics": True}, {"guidance": "switch", "beta": 0.0}]
)
def test_no_share_and_no_turn_are_the_agent_alone_to_the_bit(tmp_path, values, nothing):  # noqa: F811
    run(tmp_path / "none", guide=values, **nothing)
    run(tmp_path / "alone", guide=values, guidance="normalise")
    ours, theirs = last_checkpoint(tmp_path / "none"), last_checkpoint(tmp_path / "alone")
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def test_critics_get_layer_norm_unless_told_not_to(tmp_path, values):  # noqa: F811
    run(tmp_path / "normed", guide=values, guidance="relabel", share=0.0)
    run(tmp_path / "asked", guide=values, guidance="normalise", layer_norm=True)
    ours, theirs = last_checkpoint(tmp_path / "normed"), last_checkpoint(tmp_path / "asked")
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


class Watched(Guidance):
    """Remembers the rows that the agent learnt from."""

    def __init__(self):
        self.batches = []

    def change_batch(self, batch, draw):
        self.batches.append(jax.tree.map(lambda rows: rows[: draw.updates * draw.batch_size], batch))
        return batch


def test_rows_of_the_log_get_the_potential_too_in_either_order(tmp_path, values):  # noqa: F811
    kinds, watched = ["potential", "relabel"], Watched()
    for name, order in (("forth", kinds), ("back", kinds[::-1])):
        run(tmp_path / name, guide=values, guidance=[*order, watched], agreement=10.0)
    forth, back = (list(read_rows(tmp_path / name / "metrics.jsonl")) for name in ("forth", "back"))
    assert forth == back
    assert {"relabel/error", "potential/share", "potential/log_disagreement"} <= forth[-1].keys()
    assert forth[-1]["relabel/used"] > 0.1
    last = watched.batches[-1]
    paid = -np.abs(last.next_states).sum(axis=1)
    expected = paid + last.discounts * last.extra["next_potential"] - last.extra["potential"]
    np.testing.assert_allclose(last.rewards, expected, atol=1e-4)


def test_run_json_says_what_the_agent_is(tmp_path, values):  # noqa: F811
    run(tmp_path / "run", guide=values, guidance="relabel")
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["config"]["learner"]
    assert stored["standardise"]
    assert stored["layer_norm"]


def test_with_the_right_actions_it_is_training_on_the_labelled_log(guide, monkeypatch):
    """A batch of recovered rows equals one of the same rows with their actions: an update sees no difference."""
    inverse = np.linalg.pinv(B)
    scale, units = guide._changes, guide.normaliser

    def known(z, change):
        states = z * units.scale + units.mean
        after = (z + change * scale) * units.scale + units.mean
        return ((after - states @ A.T) @ inverse.T).astype(np.float32), np.zeros(len(z), np.float32)

    monkeypatch.setattr(guide, "_recovered", known)
    monkeypatch.setattr(
        guide, "state", guide.state._replace(own=np.array([1.0, 1.0]), relabelled=np.zeros((), np.int64))
    )
    states, actions, after = system(500, 1)
    for step in range(300):
        batch = mixed(guide, step)
    from_log = batch.states.any(axis=1)
    assert from_log.sum() == 16
    rows = batch.rewards[from_log].astype(int)  # each row's reward is its number
    np.testing.assert_array_equal(batch.states[from_log], states[rows].astype(np.float32))
    np.testing.assert_array_equal(batch.next_states[from_log], after[rows].astype(np.float32))
    np.testing.assert_allclose(batch.actions[from_log], actions[rows], atol=2e-5)
    np.testing.assert_array_equal(batch.discounts[from_log], np.float32(0.99) * (rows % 50 != 49))


def test_the_log_is_needed(tmp_path):
    data = save(point_log(), tmp_path / "point.npz")
    actionless.pretrain(data, tmp_path / "run", method="iql-delta", scale="smoke", steps=20)
    data.unlink()
    with pytest.raises(actionless.ActionlessError, match="the guide's log cannot be read"):
        run(tmp_path / "guided", guide=tmp_path / "run", guidance="relabel")
