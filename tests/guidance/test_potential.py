"""The potential: what it adds by hand, that no policy becomes better or worse by it, and that nothing is nothing."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from point_task import point_log
from small_log import save
from test_online import STEPS, TASK, last_checkpoint, run

import actionless
from actionless.discretise import Discretiser
from actionless.errors import ActionlessError
from actionless.guidance.interface import Draw, LogRows, OwnSteps
from actionless.guidance.potential import Potential, PotentialGuidance, PotentialSettings
from actionless.networks import Ensemble
from actionless.offline.state_policy import PolicyModel, StatePolicy
from actionless.offline.support import SupportLearner
from actionless.online.agent import Spec
from actionless.online.replay import Replay
from actionless.online.td3 import Td3Config
from actionless.runs.sinks import read_rows

DISCOUNT = 0.9


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    """The run of a state policy of the task that has values."""
    folder = tmp_path_factory.mktemp("values")
    data = save(point_log(), folder / "point.npz")
    actionless.pretrain(data, folder / "run", method="iql-delta", scale="smoke", steps=60)
    return folder / "run"


def linear(slopes, scale=1.0):
    """A policy of one variable whose members value a state z at slope · z."""
    rows = np.linspace(-1, 1, 50)[:, None]
    discretiser = Discretiser.fit(rows, rows + 0.1)
    discretiser = eqx.tree_at(lambda d: (d.normaliser.mean, d.normaliser.scale), discretiser, (np.zeros(1), np.ones(1)))
    weights = jnp.array(slopes, jnp.float32)[:, None, None]
    network = Ensemble((weights,), (jnp.zeros((len(slopes), 1, 1)),))
    deltas = Ensemble.create(1, (1, 3), jax.random.key(0))
    model = PolicyModel(deltas, discretiser, "logits", 1.0, network)
    return StatePolicy(model, "iql-delta", ("x",), scale)


def guidance(slopes=(10.0,), kappa=0.0, **settings):
    settings = PotentialSettings(kappa=kappa, **settings).completed("", STEPS)
    return PotentialGuidance(Potential.of(linear(slopes), kappa), settings)


def draw(step=STEPS, rows=1):
    return Draw(step, 1, rows, lambda rows: {})


def lived_through(guide, states, rewards, *, terminated=False):
    """A replay of one episode."""
    replay = Replay.create(10, Spec(1, 1, None), guide.columns)
    for t, reward in enumerate(rewards):
        last = t == len(rewards) - 1
        state, after = np.array([states[t]]), np.array([states[t + 1]])
        replay.add(state, np.zeros(1), reward, after, last and terminated, last)
    observe(guide, replay)
    return replay


def observe(guide, replay):
    """All steps of a replay at once."""
    made = slice(0, len(replay))
    columns = (replay.states, replay.actions, replay.rewards, replay.next_states, replay.terminals)
    replay.set_newest(guide.observe_together(OwnSteps(0, *(column[made] for column in columns))))


def test_pessimism_is_the_mean_less_kappa_standard_deviations():
    states = np.array([[2.0], [-1.0]])
    assert Potential.of(linear((1.0, 3.0)), 0.0)(states).tolist() == [4.0, -2.0]
    assert Potential.of(linear((1.0, 3.0)), 3.0)(states).tolist() == [-2.0, -5.0]
    assert Potential.of(linear((1.0, 3.0), scale=0.5), 3.0)(states).tolist() == [-1.0, -2.5]


@pytest.mark.parametrize("ends", [0.0, 1.0])
def test_the_distance_from_the_log_counts_where_episodes_end(ends):
    policy, states = linear((10.0,)), np.array([[2.0], [-1.0]])
    support = SupportLearner.create(1, (8,), 1e-3, jax.random.key(0)).support
    support = dataclasses.replace(support, lowest_value=jnp.array(-30.0), ends=jnp.array(ends))
    policy = dataclasses.replace(policy, model=dataclasses.replace(policy.model, support=support))
    far = np.asarray(support.distance(jnp.asarray(states, jnp.float32)))
    assert (far > 0.1).all()
    expected = -30 + (10 * states[:, 0] + 30) * np.exp(-ends * far / 2)
    np.testing.assert_allclose(Potential.of(policy, 0.0, reach=2.0)(states), expected, rtol=1e-5)


def test_a_target_of_one_step_by_hand():
    guide = guidance()
    replay = lived_through(guide, [0.1, 0.3, 0.2], [1.0, 2.0])
    batch = guide.change_batch(replay.sample(np.array([0, 1]), 1, DISCOUNT), draw())
    # Φ is 1, 3 and 2: 1 + 0.9 · 3 − 1, 2 + 0.9 · 2 − 3. The episode was cut off: its last state counts.
    np.testing.assert_allclose(batch.rewards, [2.7, 0.8], rtol=1e-6)
    np.testing.assert_allclose(batch.discounts, [0.9, 0.9], rtol=1e-6)


def test_a_target_of_three_steps_by_hand():
    guide = guidance()
    replay = lived_through(guide, [0.1, 0.3, 0.2, 0.5], [1.0, 2.0, 4.0])
    batch = guide.change_batch(replay.sample(np.array([0, 1]), 3, DISCOUNT), draw())
    # 1 + 0.9 · 2 + 0.81 · 4 + 0.729 · 5 − 1, and two steps from the second on: 2 + 0.9 · 4 + 0.81 · 5 − 3.
    np.testing.assert_allclose(batch.rewards, [8.685, 6.65], rtol=1e-6)


def test_metrics_count_what_is_added_as_the_agent_gets_it():
    guide = guidance()
    guide.agent_settings(Td3Config(discount=DISCOUNT))
    lived_through(guide, [0.1, 0.3, 0.2], [1.0, 2.0], terminated=True)
    metrics = guide.metrics()
    # 0.9 · 3 − 1 and, at a terminal, −3; rewards are 1.5 on average.
    assert metrics["potential/added"] == pytest.approx((1.7 + 3.0) / 2)
    assert metrics["potential/share"] == pytest.approx(2.35 / (2.35 + 1.5))


def test_disagreement_on_the_log_is_that_of_its_states():
    states = np.array([[2.0], [-1.0], [0.5]])
    assert Potential.of(linear((1.0, 3.0)), 0.0).disagreement(states) == pytest.approx(np.abs(states).mean())


def test_a_log_that_is_gone_costs_a_metric_and_a_warning(tmp_path, caplog):
    data = save(point_log(), tmp_path / "point.npz")
    actionless.pretrain(data, tmp_path / "values", method="iql-delta", scale="smoke", steps=20)
    data.unlink()
    run(tmp_path / "run", guide=tmp_path / "values", guidance="potential")
    assert "the guide's log cannot be read" in caplog.text
    assert "potential/log_disagreement" not in list(read_rows(tmp_path / "run" / "metrics.jsonl"))[-1]


def test_an_end_is_worth_nothing():
    guide = guidance()
    replay = lived_through(guide, [0.1, 0.3, 0.2], [1.0, 2.0], terminated=True)
    batch = guide.change_batch(replay.sample(np.array([0, 1]), 1, DISCOUNT), draw())
    np.testing.assert_allclose(batch.rewards, [2.7, -1.0], rtol=1e-6)
    assert batch.discounts.tolist() == [np.float32(0.9), 0.0]


def test_each_episode_begins_with_its_own_state():
    guide = guidance()
    lived_through(guide, [0.1, 0.3], [1.0])
    replay = lived_through(guide, [0.7, 0.2], [1.0])
    batch = guide.change_batch(replay.sample(np.array([0]), 1, DISCOUNT), draw())
    np.testing.assert_allclose(batch.rewards, [1 + 0.9 * 2 - 7], rtol=1e-5)


def test_rows_of_a_log_get_the_same():
    guide = guidance()
    states = np.array([[0.1], [0.3]])
    rows = LogRows(states, np.zeros(2), states + 0.1, np.zeros(2, bool))
    columns = guide.columns_of(rows)
    np.testing.assert_allclose(columns["potential"], [1.0, 3.0], rtol=1e-6)
    np.testing.assert_allclose(columns["next_potential"], [2.0, 4.0], rtol=1e-6)


def test_a_shorter_horizon_rises_to_the_agents_own():
    guide = guidance(horizon=0.8)
    assert [guide.horizon(step) for step in (0, STEPS // 4, STEPS // 2, STEPS)] == [0.8, pytest.approx(0.9), 1.0, 1.0]
    replay = lived_through(guide, [0.1, 0.3], [1.0])
    batch = guide.change_batch(replay.sample(np.array([0]), 1, DISCOUNT), draw(step=0))
    np.testing.assert_allclose(batch.discounts, [0.72], rtol=1e-6)
    np.testing.assert_allclose(batch.rewards, [2.7], rtol=1e-6)


def optimal(rewards, moves, terminals, discount):
    """Q of every state and action of a deterministic task, by value iteration."""
    q = np.zeros_like(rewards)
    for _ in range(2000):
        q = rewards + discount * ~terminals * q.max(axis=1)[moves]
    return q


@pytest.mark.parametrize("seed", range(5))
def test_the_best_policy_and_its_advantages_stay_whatever_the_potential(seed):
    """Every transition of a random task goes through the replay, as the end of an episode: ended or cut off."""
    rng = np.random.default_rng(seed)
    states, actions = 8, 3
    places = rng.normal(size=states)
    moves = rng.integers(0, states, (states, actions))
    rewards, terminals = rng.normal(size=(states, actions)), rng.random((states, actions)) < 0.2
    guide = guidance(slopes=rng.normal(0, 30, 4).tolist(), kappa=2.0)
    replay = Replay.create(states * actions, Spec(1, 1, None), guide.columns)
    for s in range(states):
        for a in range(actions):
            state, after = places[s, None], places[moves[s, a], None]
            end = bool(terminals[s, a])
            replay.add(state, np.zeros(1), rewards[s, a], after, end, True)
    observe(guide, replay)
    batch = guide.change_batch(replay.sample(np.arange(states * actions), 1, DISCOUNT), draw(rows=states * actions))
    shaped = np.asarray(batch.rewards, np.float64).reshape(states, actions)
    assert np.abs(shaped - rewards).max() > 1  # else nothing was shaped
    ours = optimal(shaped, moves, terminals, DISCOUNT)
    plain = optimal(rewards, moves, terminals, DISCOUNT)
    assert (ours.argmax(axis=1) == plain.argmax(axis=1)).all()
    potential = guide.potential(places[:, None])
    np.testing.assert_allclose(ours, plain - potential[:, None], atol=1e-3)


def test_a_shorter_horizon_is_hurl_shifted_by_the_potential():
    rng = np.random.default_rng(7)
    moves, rewards = rng.integers(0, 6, (6, 2)), rng.normal(size=(6, 2))
    phi, none, short = rng.normal(size=6), np.zeros((6, 2), bool), 0.7 * DISCOUNT
    ours = optimal(rewards + DISCOUNT * phi[moves] - phi[:, None], moves, none, short)
    hurl = optimal(rewards + (DISCOUNT - short) * phi[moves], moves, none, short)
    np.testing.assert_allclose(ours, hurl - phi[:, None], atol=1e-9)


def test_without_a_potential_it_is_the_agent_alone_to_the_bit(tmp_path, values):
    """Φ = 0 everywhere, λ = 1: `normalise` and nothing else."""
    policy = StatePolicy.load(values)
    assert policy.model.value_network is not None and policy.model.support is not None
    nothing = jax.tree.map(jnp.zeros_like, policy.model.value_network)
    support = dataclasses.replace(policy.model.support, lowest_value=jnp.zeros(()))
    model = dataclasses.replace(policy.model, value_network=nothing, support=support)
    dataclasses.replace(policy, model=model).save(tmp_path / "nothing")
    run(tmp_path / "shaped", guide=tmp_path / "nothing", guidance="potential")
    run(tmp_path / "alone", guide=tmp_path / "nothing", guidance="normalise")
    ours, theirs = last_checkpoint(tmp_path / "shaped"), last_checkpoint(tmp_path / "alone")
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def test_metrics_say_what_it_adds_and_returns_are_the_environments_own(tmp_path, values):
    run(tmp_path / "run", guide=values, guidance="potential")
    last = list(read_rows(tmp_path / "run" / "metrics.jsonl"))[-1]
    assert last["potential/added"] > 0
    assert 0 < last["potential/share"] < 1
    assert last["potential/disagreement"] > 0
    assert {"potential/mean", "eval/return", "episode/return"} <= last.keys()


def test_a_policy_without_values_is_refused(tmp_path):
    data = save(point_log(), tmp_path / "point.npz")
    actionless.pretrain(data, tmp_path / "bc", method="bc-delta", scale="smoke", steps=20)
    with pytest.raises(ActionlessError, match="bc-delta learns no values"):
        run(tmp_path / "run", task=TASK, guide=tmp_path / "bc", guidance="potential")
