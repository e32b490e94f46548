import jax.numpy as jnp
import numpy as np
import pytest
from small_log import small_log

from actionless.discretise import Discretiser
from actionless.networks import Ensemble
from actionless.offline.imitation import Imitation, ImitationConfig
from actionless.offline.learner import Declaration, Spec
from actionless.offline.oso_decqn import OsoDecqn, OsoDecqnConfig
from actionless.optimise import Adam
from actionless.training.batches import Preparation, Split
from actionless.training.heldout import MOST_ROWS, HeldOut, possible_names


def constant(outputs):
    """A network of two members that give the same outputs for every state."""
    outputs = jnp.asarray(outputs, jnp.float32)
    return Ensemble(
        weights=(jnp.zeros((2, 3, len(outputs))),), biases=(jnp.broadcast_to(outputs, (2, 1, len(outputs))),)
    )


def decqn(outputs, **options):
    network = constant(outputs)
    adam = Adam.create(network, 1e-3)
    return OsoDecqn(
        network=network, target_network=network, optimiser=adam, spec=Spec(3, 3), config=OsoDecqnConfig(**options)
    )


def imitation(outputs, target, spec):
    network = constant(outputs)
    config = ImitationConfig(target=target)
    return Imitation(network=network, optimiser=Adam.create(network, 1e-3), spec=spec, config=config)


@pytest.fixture
def log():
    return small_log((4, 6, 5))


def held_out(log, split=None, discount=0.5):
    preparation = Preparation(log, Discretiser.fit(log.states, log.next_states))
    split = split or Split(training=np.arange(4, 15), held_out=np.arange(4))
    return HeldOut.of(preparation, split, Declaration(discount=discount))


def test_accuracy_and_error_of_a_known_proposal(log):
    utilities = np.array([[0, 5, 0], [0, 0, 0], [9, 0, 1]])  # bins × dimensions: up, same, up
    measured = held_out(log).measure(decqn(utilities.reshape(-1)))
    labels = np.sign(log.next_states - log.states)[:4]
    distance = np.abs(labels - [1, -1, 1])
    assert measured["heldout/accuracy"] == pytest.approx((distance == 0).mean())
    assert measured["heldout/error"] == pytest.approx(distance.sum(axis=1).mean())


def test_values_are_in_the_rewards_of_the_log(log):
    utilities = np.array([[0, 5, 0], [0, 0, 0], [9, 0, 1]])
    measured = held_out(log).measure(decqn(utilities.reshape(-1), reward_scale=0.1))
    assert measured["q/mean"] == pytest.approx(50.0)
    assert measured["q/max"] == pytest.approx(50.0)
    assert measured["q/overestimation"] == pytest.approx(50.0 - measured["q/data_return"])


def test_return_of_the_data_by_hand(log):
    r = log.rewards
    returns = [r[0] + r[1] / 2 + r[2] / 4 + r[3] / 8, r[1] + r[2] / 2 + r[3] / 4, r[2] + r[3] / 2, r[3]]
    assert held_out(log).returns.mean == pytest.approx(np.mean(returns))
    assert held_out(log).returns.spread == pytest.approx(np.std(returns))


def test_return_leaves_out_what_the_recording_cuts_off(log):
    # The episode of rows 4 to 9 is cut, not terminal; 0.5^6 < 0.05 <= 0.5^4 leaves its first two rows.
    split = Split(training=np.arange(4), held_out=np.arange(4, 10))
    r = log.rewards[4:10]
    first = sum(r[i] / 2**i for i in range(6))
    second = sum(r[i + 1] / 2**i for i in range(5))
    assert held_out(log, split).returns.mean == pytest.approx((first + second) / 2)


def test_return_of_episodes_too_short_to_be_complete_is_what_there_is(log):
    split = Split(training=np.arange(4), held_out=np.arange(4, 10))
    expected = np.mean([log.rewards[i:10].sum() for i in range(4, 10)])
    assert held_out(log, split, discount=1.0).returns.mean == pytest.approx(expected)


def test_nothing_held_out_is_called_training_data(log):
    split = Split(training=np.arange(15), held_out=np.arange(0))
    assert held_out(log, split).measure(decqn(np.zeros(9))).keys() >= {"train/accuracy", "train/error"}


def test_regression_is_measured_by_the_bins_it_falls_into(log):
    learner = imitation([1.0, -1.0, 0.0], "difference", Spec(3, 3))
    measured = held_out(log, discount=None).measure(learner)
    distance = np.abs(np.sign(log.next_states - log.states)[:4] - [1, -1, 0])
    assert measured == {
        "heldout/accuracy": pytest.approx((distance == 0).mean()),
        "heldout/error": pytest.approx(distance.sum(axis=1).mean()),
    }


def test_action_error_by_hand():
    log = small_log((4, 6), with_actions=True)
    learner = imitation([0.5, -0.5], "action", Spec(3, 3, 2))
    expected = np.abs(log.actions[:4] - [0.5, -0.5]).mean()
    measured = held_out(log, Split(np.arange(4, 10), np.arange(4)), discount=None).measure(learner)
    assert measured == {"heldout/action_error": pytest.approx(expected, rel=1e-5)}


@pytest.mark.parametrize(("name", "held"), [("heldout", 4), ("train", 0)])
@pytest.mark.parametrize(("with_actions", "measure"), [(False, "accuracy"), (True, "action_error")])
def test_score_is_among_what_is_measured_and_shown(name, held, with_actions, measure):
    log = small_log((4, 6), with_actions=with_actions)
    sample = held_out(log, Split(np.arange(held, 10), np.arange(held)), discount=None)
    learner = imitation([0.5, -0.5], "action", Spec(3, 3, 2)) if with_actions else decqn(np.zeros(9))
    declared = learner.config.declares
    score = sample.full_name(declared.score)
    assert score == f"{name}/{measure}"
    assert declared.lower_is_better == with_actions
    assert score in sample.measure(learner).keys() & set(possible_names(declared.shown))


def test_a_large_log_is_measured_on_an_even_sample():
    log = small_log((MOST_ROWS, 2 * MOST_ROWS, 10))
    sample = held_out(log, Split(training=np.arange(len(log) - 10, len(log)), held_out=np.arange(3 * MOST_ROWS)))
    rows = np.linspace(0, 3 * MOST_ROWS - 1, MOST_ROWS).astype(int)
    np.testing.assert_array_equal(sample.data.rewards, log.rewards[rows].astype(np.float32))
