"""What sets AFDT apart: it learns from steps in a row, and goes where the return that is asked for lies."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actionless.discretise import Discretiser, Normaliser
from actionless.errors import ActionlessError
from actionless.offline.afdt import MOST_TIMES, Afdt, AfdtConfig, Windows
from actionless.offline.learner import Batch, LogFacts, PolicyLabel, Spec
from actionless.offline.methods import METHODS
from actionless.updates import train_state, updated

CONFIG = AfdtConfig(context=3, width=16, blocks=1, dropout=0.0, learning_rate=1e-2, warm_up=5, return_scale=10.0)


def batch_of(states, next_states, to_go, times):
    rows = len(states)
    return Batch(
        states=jnp.asarray(states, jnp.float32),
        next_states=jnp.asarray(next_states, jnp.float32),
        rewards=jnp.zeros(rows),
        masks=jnp.ones(rows),
        deltas=jnp.zeros((rows, states.shape[1]), jnp.int32),
        extra={"to_go": jnp.asarray(to_go, jnp.float32), "times": jnp.asarray(times, jnp.int32)},
    )


def test_windows_by_hand():
    states = np.arange(12.0).reshape(6, 2)
    windows = Windows.of(batch_of(states, states + 0.5, np.arange(6) * 20.0, [8, 0, 1, 2, 3, 4]), CONFIG)
    np.testing.assert_array_equal(windows.states[1, 0], [6, 7])
    np.testing.assert_array_equal(windows.changes, np.full((2, 3, 2), 0.5))
    np.testing.assert_array_equal(windows.to_go, [[0, 2, 4], [6, 8, 10]])
    np.testing.assert_array_equal(windows.inside, [[False, True, True], [True, True, True]])


def test_loss_is_the_absolute_error_of_steps_inside_the_episode():
    learner = Afdt.create(Spec(2, 3, longest_episode=5), CONFIG, jax.random.key(0))
    rng = np.random.default_rng(0)
    batch = batch_of(rng.normal(size=(6, 2)), rng.normal(size=(6, 2)), rng.normal(size=6), [4, 4, 0, 2, 3, 4])
    windows = Windows.of(batch, CONFIG)
    planned = eqx.filter_jit(learner.network)(windows.states, windows.to_go, windows.times)
    missed = np.abs(np.asarray(planned, np.float64) - np.asarray(windows.changes)).mean(axis=2)
    expected = (missed[0, 2] + missed[1].sum()) / 4
    loss = eqx.filter_jit(learner.loss)(learner.network, windows, jax.random.key(1))
    assert float(loss) == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def planner():
    """Learnt from walks: those with a return of +10 before them go up by 0.1 a step, those with -10 down."""
    learner = Afdt.create(Spec(1, 3, longest_episode=5), CONFIG, jax.random.key(0))
    rng = np.random.default_rng(0)
    updates, windows = 150, 32
    side = np.repeat(rng.choice([-1.0, 1.0], updates * windows), 3)
    times = np.tile([0, 1, 2], updates * windows)
    states = np.repeat(rng.normal(size=updates * windows), 3) + 0.1 * side * times
    batches = batch_of(states[:, None], (states + 0.1 * side)[:, None], 10 * side, times)
    state = learner_after(learner, batches, updates, 3 * windows)
    normaliser = Normaliser(np.array([5.0]), np.array([2.0]))
    bins = Discretiser(normaliser, np.array([[-0.1, 0.1]]), np.array([[-1.0, 0.0, 1.0]]))
    return state.policy(bins, PolicyLabel("afdt", ("x",)))


def learner_after(learner, batches, updates, rows):
    example = jax.tree.map(lambda array: array[:rows], batches)
    key = jax.random.key(1)
    return updated(train_state(learner, example, key), batches, 0, updates, key, rows).learner


@pytest.mark.parametrize("target, change", [(10.0, 0.2), (-10.0, -0.2)])
def test_it_goes_where_the_return_lies_that_is_asked_for(planner, target, change):
    """In the log's own units: a normalised 0.1 is 0.2."""
    states = np.array([[4.5], [5.0], [5.5]])
    planned = planner.plan(states[:, None], target_return=target)
    np.testing.assert_allclose(planned - states, change, atol=0.08)


def test_rewards_lower_what_is_asked_for(planner):
    states = np.array([[5.0], [5.2]])
    lowered = planner.plan(states, np.array([20.0]), target_return=10.0)
    z = planner.normaliser.normalise(states).astype(np.float32)
    window = [np.zeros((1, 3, 1), np.float32), np.zeros((1, 3), np.float32), np.array([[0, 0, 1]], np.int32)]
    window[0][0, 1:], window[1][0, 1:] = z, [1.0, -1.0]
    planned = eqx.filter_jit(planner.network)(*map(jnp.asarray, window))
    expected = planner.normaliser.denormalise(z[1] + np.asarray(planned)[0, -1])
    np.testing.assert_allclose(lowered, expected, rtol=1e-5)


def test_only_the_last_steps_are_looked_at(planner):
    states, rewards = np.linspace(4, 6, 5)[:, None], np.array([1.0, 2.0, 3.0, 4.0])
    other = states.copy()
    other[:2] += 1
    np.testing.assert_array_equal(planner.plan(other, rewards), planner.plan(states, rewards))
    other[2] += 1
    assert not np.array_equal(planner.plan(other, rewards), planner.plan(states, rewards))


@pytest.mark.parametrize(
    "states, rewards", [((1,), None), ((2, 1), None), ((0, 1), None), ((2, 1), (2,)), ((2, 2), (1,)), ((2, 2, 1), (1,))]
)
def test_what_does_not_fit_is_refused(planner, states, rewards):
    with pytest.raises(ActionlessError, match=r"give \[..., steps, 1\] and the rewards between the states"):
        planner.plan(np.zeros(states), None if rewards is None else np.zeros(rewards))


@pytest.mark.parametrize("states, rewards", [([[np.nan], [1.0]], [1.0]), ([[0.0], [1.0]], [np.inf])])
def test_what_is_not_finite_is_refused(planner, states, rewards):
    with pytest.raises(ActionlessError, match="not finite: give finite numbers"):
        planner.plan(np.array(states), np.array(rewards))


def test_a_recording_without_a_break_does_not_make_the_network_grow():
    endless = Spec(2, 3, longest_episode=10_000_000)
    learner = jax.eval_shape(lambda: Afdt.create(endless, CONFIG, jax.random.key(0)))
    assert learner.network.time.shape == (MOST_TIMES, CONFIG.width)


def test_the_published_lengths():
    paper = METHODS["afdt"].size("paper")
    levels = ("medium", "medium_replay", "medium_expert")
    assert [paper.steps_for(f"walker2d_{level}-v2") for level in levels] == [15_000, 60_000, 30_000]
    assert paper.batch_size == 64
    assert METHODS["oso-decqn"].size("paper").steps_for("walker2d_medium_replay-v2") == 3_000_000


@pytest.mark.parametrize(
    ("name", "returns", "expected"),
    [
        ("hopper_medium-v2", [10.0, 2000.0], (3600.0, 1000.0)),
        ("patients", [-400.0, 200.0], (200.0, 400.0)),
        ("patients", [0.0, 0.0], (0.0, 1.0)),
    ],
)
def test_returns_asked_for(name, returns, expected):
    config = AfdtConfig().for_log(LogFacts(name, np.array(returns)))
    assert (config.target_return, config.return_scale) == expected
