"""A log with actions, as agents of a task learn from it."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.core import Env
from toy_agents import CONFIGS, leaves_equal, random_batch

from actionless.data.factorised_dmc import FORMAT
from actionless.data.log import Log, Source
from actionless.errors import ActionlessError
from actionless.online.agents import create_agent
from actionless.online.environments import Environment
from actionless.online.labelled_log import UNKNOWN, LabelledLog, fill_returns
from actionless.online.replay import Replay, sample_both


class Task(Env):
    """Never stepped: its spaces alone are looked at."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(np.float32([-2, 0]), np.float32([2, 1]))


TASK = Environment("Valve-v0", Task())
LOG = Log(
    states=np.array([[0.0, 10.0], [2.0, 10.0], [4.0, 10.0]]),
    rewards=np.array([1.0, 2.0, 3.0]),
    next_states=np.array([[2.0, 10.0], [4.0, 10.0], [6.0, 10.0]]),
    terminals=np.array([False, False, True]),
    ends=np.array([False, True, True]),
    state_names=("s0", "s1"),
    source=Source("valve.npz", "npz", ("states", "actions")),
    actions=np.array([[-2.0, 0.0], [0.0, 0.5], [1.0, 3.0]]),
)


def test_actions_are_scaled_by_the_tasks_limits():
    labelled = LabelledLog.of(LOG, TASK, 0.5, 1.0)
    actions = labelled.sample(np.arange(3), 1, 0.5).actions
    np.testing.assert_array_equal(actions, np.float32([[-1, -1], [0, 0], [0.5, 1]]))
    assert len(labelled) == 3


def test_a_time_limit_is_no_terminal():
    batch = LabelledLog.of(LOG, TASK, 0.5, 1.0).sample(np.arange(3), 2, 0.5)
    # Two steps ahead from the first; the second is the last of its episode; the third ended the task.
    np.testing.assert_allclose(batch.rewards, [1 + 0.5 * 2, 2, 3])
    np.testing.assert_allclose(batch.discounts, [0.25, 0.5, 0])


def test_returns_go_to_the_end_of_each_episode():
    # Episodes of two steps and of one: 1 + ½ · 2, 2 and 3.
    np.testing.assert_allclose(LabelledLog.of(LOG, TASK, 0.5, 1.0).returns, [2, 2, 3])


def test_rewards_are_scaled_and_returns_with_them():
    batch = LabelledLog.of(LOG, TASK, 0.5, 10.0).sample(np.arange(3), 1, 0.5)
    np.testing.assert_allclose(batch.rewards, [10, 20, 30])
    np.testing.assert_allclose(batch.extra["returns"], [20, 20, 30])


def test_returns_of_what_is_lived_through_are_known_at_its_end():
    lived = Replay.create(3, TASK.spec, LabelledLog.columns)
    for reward in (1.0, 2.0, 3.0, 4.0):
        lived.add(np.zeros(2), np.zeros(2), reward, np.zeros(2), False, False)
    assert (lived.sample(np.arange(3), 1, 0.5).extra["returns"] == UNKNOWN).all()
    fill_returns(lived, 4, 0.5)
    # The first has been written over by the fourth: 4, 2 + ½ · 3 + ¼ · 4, 3 + ½ · 4.
    np.testing.assert_allclose(lived.extra["returns"], [4, 4.5, 5])
    lived.add(np.zeros(2), np.zeros(2), 5.0, np.zeros(2), True, True)
    assert lived.extra["returns"][1] == UNKNOWN
    fill_returns(lived, 1, 0.5)
    np.testing.assert_allclose(lived.extra["returns"], [4, 5, 5])


def test_agents_see_states_in_units_of_the_logs_spread():
    labelled = LabelledLog.of(LOG, TASK, 0.5, 1.0)
    agent = labelled.introduced_to(create_agent(TASK.spec, CONFIGS["iql"], jax.random.key(0)))
    # Mean 2 and spread √(8/3) in the first variable, 10 and none in the second; 1e-3 is added to each spread.
    raw = jnp.array([[6.0, 10.5]])
    seen = jnp.array([[4 / (np.sqrt(8 / 3) + 1e-3), 0.5 / 1e-3]], jnp.float32)
    np.testing.assert_allclose(agent.behaviour.act(raw), agent.agent.behaviour.act(seen), rtol=1e-4)
    explored, _ = agent.behaviour.explore(raw[0], (), jax.random.key(1))
    np.testing.assert_allclose(explored, agent.agent.behaviour.explore(seen[0], (), jax.random.key(1))[0], rtol=1e-4)


def test_updates_are_those_of_an_agent_given_z_scores():
    agent = create_agent(TASK.spec, CONFIGS["iql"], jax.random.key(0))
    agent = LabelledLog.of(LOG, TASK, 0.5, 1.0).introduced_to(agent)
    batch = random_batch(TASK.spec)
    seen = dataclasses.replace(batch, states=agent.states(batch.states), next_states=agent.states(batch.next_states))
    after, metrics = eqx.filter_jit(agent.update)(batch, jax.random.key(1))
    expected = eqx.filter_jit(agent.agent.update)(seen, jax.random.key(1))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), (after.agent, metrics), expected)
    assert leaves_equal(after.states, agent.states)


def test_two_replays_are_counted_through():
    logged, lived = LabelledLog.of(LOG, TASK, 0.5, 1.0), Replay.create(4, TASK.spec, LabelledLog.columns)
    lived.add(np.full(2, 7.0), np.full(2, 0.25), 9.0, np.full(2, 8.0), True, True)
    batch = sample_both(logged, lived, np.array([3, 0, 2, 3]), 1, 0.5)
    np.testing.assert_array_equal(batch.rewards, [9, 1, 3, 9])
    np.testing.assert_array_equal(batch.states[:, 0], [7, 0, 4, 7])
    np.testing.assert_array_equal(batch.actions[:, 1], [0.25, -1, 1, 0.25])
    np.testing.assert_array_equal(batch.discounts, [0, 0.5, 0, 0])


def test_however_a_batch_is_divided_jax_sees_one_shape():
    """It keeps a program for every shape it was ever given: a run of many steps filled the memory."""
    logged, lived = LabelledLog.of(LOG, TASK, 0.5, 1.0), Replay.create(4, TASK.spec, LabelledLog.columns)
    lived.add(np.full(2, 7.0), np.full(2, 0.25), 9.0, np.full(2, 8.0), True, True)
    for slots in ([0, 1, 2, 3], [0, 1, 3, 3], [3, 3, 3, 3]):
        leaves = jax.tree.leaves(sample_both(logged, lived, np.array(slots), 1, 0.5))
        assert all(type(rows) is np.ndarray and len(rows) == 4 for rows in leaves)


def test_a_replay_that_is_empty_gives_nothing():
    logged = LabelledLog.of(LOG, TASK, 0.5, 1.0)
    assert leaves_equal(
        sample_both(logged, Replay.create(4, TASK.spec, LabelledLog.columns), np.array([2, 0]), 3, 0.9),
        logged.sample(np.array([2, 0]), 3, 0.9),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": None}, r"valve\.npz: read without actions, which are learnt from: read it with_actions=True"),
        (
            {"states": np.zeros((3, 5)), "next_states": np.zeros((3, 5))},
            r"valve\.npz: has 5 state variables, and 'Valve-v0' has 2: give a log of this environment",
        ),
        ({"actions": np.zeros((3, 1))}, r"valve\.npz: has 1 numbers per action, and 'Valve-v0' takes 2: give a log"),
        ({"source": Source("valve.pkl", FORMAT, ())}, r"valve\.pkl: holds choices, and .* continuous actions"),
    ],
)
def test_a_log_that_does_not_fit_is_refused(change, message):
    with pytest.raises(ActionlessError, match=message):
        LabelledLog.of(dataclasses.replace(LOG, **change), TASK, 0.5, 1.0)
