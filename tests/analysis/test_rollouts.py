import dataclasses
import json

import numpy as np
import pytest
from linear_environment import (
    CHOOSING,
    LINEAR,
    Linear,
    action_policy,
    discretiser,
    labelled_log,
    planner,
    pushes,
    state_policy,
)

from actionless.analysis import rollouts as module
from actionless.analysis.expert_idm import ExpertIdmConfig
from actionless.analysis.rollouts import Decision, evaluate_in_environment, roll_out
from actionless.data import factorised_dmc
from actionless.errors import ActionlessError
from actionless.online.environments import Environment, make
from actionless.training.evaluation import episode_seed

CONFIG = ExpertIdmConfig(steps=600, hidden=(32, 32), batch_size=128, learning_rate=3e-3)


@pytest.fixture(autouse=True)
def quick_expert(monkeypatch):
    monkeypatch.setitem(module.EXPERT_IDM_SCALES, "smoke", CONFIG)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Tests that ask for the same expert share it."""
    return tmp_path_factory.mktemp("experts")


def evaluated(policy, cache, environment=LINEAR, log=None, **options):
    log = labelled_log() if log is None else log
    return evaluate_in_environment(policy, environment, log, scale="smoke", cache=cache, **options)


class Ends(Linear):
    """Ends after a given number of steps."""

    def __init__(self, length):
        self.left = length

    def moved(self, push):
        self.left -= 1
        state, reward, *_ = super().moved(push)
        return state, reward, self.left == 0, False, {}


def first_place(seed, number):
    return make(LINEAR).reset(episode_seed(seed, -1 - number))


@pytest.mark.parametrize("head", ["utilities", "logits", "next_state", "difference"])
def test_what_is_possible_is_realised_without_error(head, cache):
    """The first variable up, the second down: with the right actions every proposed Δs happens."""
    figures = evaluated(state_policy(head), cache, episodes=4)
    assert figures.to_dict()["rollout_delta_error"] == 0
    assert figures.to_dict()["rollout_delta_errors"] == {"s0": 0, "s1": 0}
    # Almost 1 in each step, until the first variable has left [-6, 6].
    steps = figures.rollouts.lengths
    np.testing.assert_allclose(figures.rollouts.returns, steps, rtol=0.15)
    assert (steps < 10).all()


def own_choices():
    push = pushes(600)
    return labelled_log(push, actions=push + 2)  # the environment counts from 1


def factorised_log():
    """Its actions are the indices of levels between the environment's limits."""
    push = pushes(600)
    log = labelled_log(push, actions=push + 1)
    return dataclasses.replace(log, source=dataclasses.replace(log.source, format=factorised_dmc.FORMAT))


@pytest.mark.parametrize(("environment", "log"), [(CHOOSING, own_choices()), (LINEAR, factorised_log())])
def test_choices_are_realised_exactly(environment, log, cache):
    figures = evaluated(state_policy("utilities"), cache, environment, log, episodes=3)
    starts = np.array([first_place(0, i)[0] for i in range(3)])
    np.testing.assert_array_equal(figures.rollouts.lengths, np.floor(6 - starts) + 1)
    np.testing.assert_array_equal(figures.rollouts.returns, figures.rollouts.lengths)
    assert (figures.to_dict()["rollout_delta_error"], figures.to_dict()["idm_error"]) == (0, 0)


def test_side_by_side_is_one_by_one(cache):
    together = evaluated(state_policy("difference", (1, 0)), cache, episodes=5, seed=3).rollouts
    assert len(set(together.lengths.tolist())) > 1  # some episodes end before others
    policy, environment = state_policy("difference", (1, 0)), make(LINEAR)
    expert = module.expert_idm(labelled_log(), environment, policy.model.discretiser, "difference", CONFIG, cache=cache)
    decide = module._through_expert(policy, expert)
    for i in range(5):
        alone = roll_out([environment], decide, [episode_seed(3, -1 - i)], policy.model.discretiser)
        assert alone.lengths[0] == together.lengths[i]
        np.testing.assert_allclose(alone.returns[0], together.returns[i], rtol=1e-5)
        np.testing.assert_array_equal(alone.delta_errors[0], together.delta_errors[i])


def test_errors_worked_by_hand():
    """Proposed is up and up; what happens is up and down: errors 0 and 2 in each step."""

    def decide(states):
        rows = len(states)
        return Decision(np.tile(np.float32([1, -1]), (rows, 1)), np.ones((rows, 2), np.int8))

    played = roll_out([make(LINEAR), make(LINEAR)], decide, [1, 2], discretiser())
    np.testing.assert_array_equal(played.delta_errors, [[0, 2], [0, 2]])
    np.testing.assert_array_equal(played.returns, played.lengths)


def test_an_error_is_a_mean_over_the_episode_and_then_over_episodes():
    """One episode of one step off by 2, one of ten steps without error: 1, not 2 / 11."""

    def decide(states):
        return Decision(np.array([[-1.0, 1.0], [1.0, 1.0]]), np.ones((2, 2), np.int8))

    played = roll_out([Environment("ends", Ends(length)) for length in (1, 10)], decide, [0, 0], discretiser())
    figures = module.EnvironmentFigures("ends", played, None, ("a", "b"), None).to_dict()
    assert figures["rollout_delta_error"] == 1
    assert figures["rollout_delta_errors"] == {"a": 1, "b": 0}
    assert figures["rollout_length"] == 5.5


class TestActionPolicy:
    def test_acts_by_itself_in_the_environments_own_units(self, tmp_path):
        # 1 of [-2, 2] is half strength up, 0.5 of [0, 1] stays: six units from the start, in steps of a half.
        figures = evaluated(action_policy([1.0, 0.5]), tmp_path, episodes=2)
        np.testing.assert_array_equal(figures.rollouts.lengths, [10, 10])
        np.testing.assert_allclose(figures.rollouts.returns, [5, 5])
        about = figures.to_dict()
        assert (about["rollout_delta_error"], about["rollout_delta_errors"], about["idm_error"]) == (None, None, None)
        assert not any(tmp_path.iterdir())  # no expert

    def test_chooses_the_nearest(self, tmp_path):
        figures = evaluated(action_policy([2.6, 9.0]), tmp_path, CHOOSING, episodes=1)
        assert figures.rollouts.returns[0] == figures.rollouts.lengths[0]


def test_a_planner_is_not_played(tmp_path):
    with pytest.raises(ActionlessError, match=r"afdt plans from many steps.*--agent sac --guide RUN"):
        evaluated(planner(), tmp_path)


def test_figures_are_plain_values(cache):
    about = evaluated(state_policy("utilities"), cache, episodes=3).to_dict()
    assert json.loads(json.dumps(about)) == about
    assert (about["environment"], about["rollout_episodes"], about["score"]) == (LINEAR, 3, None)
    assert about["return_std"] > 0
    assert about["idm_error"] < 0.15


def test_seeds_have_episodes_of_their_own(cache):
    policy = state_policy("utilities")
    first, same, other = (evaluated(policy, cache, episodes=4, seed=seed).rollouts for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.returns, same.returns)
    assert not np.array_equal(first.returns, other.returns)


class TestRefused:
    def test_no_episodes(self, tmp_path):
        with pytest.raises(ActionlessError, match="episodes=0: choose at least 1"):
            evaluated(state_policy("utilities"), tmp_path, episodes=0)

    def test_another_environment(self, tmp_path):
        with pytest.raises(ActionlessError, match="2 variables, but CartPole-v1 has 4: give the environment"):
            evaluated(state_policy("utilities"), tmp_path, "CartPole-v1")

    def test_a_log_without_actions(self, tmp_path):
        log = dataclasses.replace(labelled_log(), actions=None)
        with pytest.raises(ActionlessError, match="read without actions"):
            evaluated(state_policy("utilities"), tmp_path, log=log)

    def test_a_log_with_variables_in_another_order(self, tmp_path):
        log = dataclasses.replace(labelled_log(), state_names=("s1", "s0"))
        with pytest.raises(ActionlessError, match=r"'s1' has index 0, but index 1 in the policy .* order s0, s1"):
            evaluated(state_policy("utilities"), tmp_path, log=log)

    def test_an_episode_without_an_end(self, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "MOST_STEPS", 3)
        with pytest.raises(ActionlessError, match=r"does not end after 3 steps; .* with max_episode_steps"):
            evaluated(action_policy([0.0, 0.5]), tmp_path)
