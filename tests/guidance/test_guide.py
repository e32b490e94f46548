import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_guides import SMALL, SMALL_ALONE, UP_AND_DOWN, constant_policy, small_guide, walk_log

from actionless.errors import ActionlessError
from actionless.guidance.guide import Guide, GuideConfig
from actionless.guidance.idm import IdmConfig
from actionless.guidance.schedule import Fixed, PaperSchedule
from actionless.online.agent import AgentView

STATE = np.array([0.5, -0.5])
ACTION = np.array([0.25, -0.25], np.float32)


def no_act(states):
    raise AssertionError("the agent was asked")


def steady_act(states):
    return np.full((len(states), 2), 0.5, np.float32)


def walk(guide, steps, *, act=steady_act, start=0, every=4):
    """What an agent's loop does, with an agent that acts at random."""
    proposals = []
    for step in range(start, start + steps):
        rng = np.random.default_rng(step)
        state, own = rng.normal(size=2), rng.uniform(-1, 1, 2).astype(np.float32)
        proposal = guide.propose(state, step)
        action = own if proposal is None else proposal
        guide.observe(state, action, float(rng.normal()), state + action, step)
        if (step + 1) % every == 0:
            guide.learn(step + 1 - every, step + 1, act)
        proposals.append(None if proposal is None else proposal.tolist())
    return proposals


def saved(guide):
    return jax.tree.map(lambda leaf: leaf.copy(), guide.state)


def same(a, b):
    return all(jax.tree.leaves(jax.tree.map(lambda x, y: bool(np.array_equal(x, y)), a, b)))


class TestPropose:
    def test_is_the_idms_action_for_the_policys_delta(self):
        guide = small_guide(Fixed(1.0))
        state, delta = jnp.asarray(STATE[None], jnp.float32), jnp.asarray([[2, 0]], jnp.int8)
        expected = guide.state.learning.learner.act(state, delta)[0]
        proposal = guide.propose(STATE, 0)
        assert proposal.dtype == np.float32
        np.testing.assert_allclose(proposal, expected, rtol=1e-6)

    def test_an_action_that_is_not_finite_is_never_given(self):
        guide = small_guide(Fixed(1.0))
        broken = jax.tree.map(lambda array: jnp.full_like(array, jnp.nan), guide.state.learning.learner.network.mlp)
        learner = eqx.tree_at(lambda learner: learner.network.mlp, guide.state.learning.learner, broken)
        guide.state = guide.state._replace(learning=guide.state.learning._replace(learner=learner))
        with pytest.raises(ActionlessError, match="the guide's action at step 7 is not finite: its inverse dynamics"):
            guide.propose(STATE, 7)

    def test_factorised_actions_are_bins(self):
        proposal = small_guide(Fixed(1.0), bins=3).propose(STATE, 0)
        assert proposal.dtype == np.int32
        assert set(proposal.tolist()) <= {0, 1, 2}

    def test_happens_as_often_as_beta_says_whatever_came_before(self):
        steps = range(40)
        guide = small_guide(Fixed(0.5))
        once = [guide.propose(STATE, step) is None for step in steps]
        walk(guide, 8)
        assert [guide.propose(STATE, step) is None for step in steps] == once
        assert 0 < sum(once) < 40

    def test_the_default_schedule_ends_halfway(self):
        guide = small_guide(steps=50)
        assert [guide.beta(step) for step in (0, 5, 24, 25)] == [0.5, 0.4, 0.1, 0.0]
        assert all(guide.propose(STATE, step) is None for step in range(25, 50))


class TestObserve:
    def test_stores_what_happened(self):
        guide = small_guide(Fixed(1.0))
        guide.observe(STATE, ACTION, 1.0, STATE + np.array([0.2, 0.05]), 0)
        ring = guide.state.ring
        assert ring.stored == 1
        assert (ring.states[0].tolist(), ring.deltas[0].tolist(), ring.actions[0].tolist()) == (
            [0.5, -0.5],
            [2, 1],
            [0.25, -0.25],
        )

    def test_sees_small_changes_of_large_values(self):
        # Next to a billion, float32 cannot tell 1 apart.
        guide = small_guide(Fixed(1.0))
        guide.observe(np.full(2, 1e9), ACTION, 0.0, np.array([1e9 + 1, 1e9 - 1]), 0)
        assert guide.state.ring.deltas[0].tolist() == [2, 0]

    def test_keeps_the_newest(self):
        guide = small_guide(Fixed(1.0), config=dataclasses.replace(SMALL_ALONE, capacity=3))
        for step in range(5):
            guide.observe(np.array([step, 0.0]), ACTION, 0.0, STATE, step)
        assert guide.state.ring.stored == 3
        assert sorted(guide.state.ring.states[:, 0].tolist()) == [2, 3, 4]

    def test_keeps_no_more_than_guidance_can_use(self):
        capacities = [len(small_guide(schedule).state.ring.states) for schedule in (None, Fixed(0.5), Fixed(0.0))]
        assert capacities == [50, 100, 1]


class TestLearn:
    def test_recovers_the_actions_of_a_linear_system(self):
        # s' = s + a, actions of ±0.8: the sign of each variable's change is the sign of the action.
        idm = IdmConfig(hidden=(32, 32), batch_size=64, learning_rate=3e-3, every=1)
        guide = small_guide(Fixed(1.0), config=GuideConfig(idm, bootstrap=False), steps=300)
        rng = np.random.default_rng(0)
        for step in range(300):
            state, action = rng.normal(size=2), rng.choice([-0.8, 0.8], 2).astype(np.float32)
            guide.observe(state, action, 0.0, state + action, step)
            if step % 50 == 49:
                guide.learn(step, step + 64, no_act)
        assert np.abs(guide.propose(STATE, 300) - [0.8, -0.8]).max() < 0.1
        assert guide.metrics()["idm/loss"] < 0.3

    def test_bootstrapping_pulls_towards_what_the_agent_does(self):
        # Nothing is known online but one transition: what the guide says about the log comes from the agent.
        log, asked = walk_log(), []

        def act(states):
            asked.append(states)
            return steady_act(states)

        guide = small_guide(Fixed(1.0), log=log)
        guide.observe(np.full(2, 50.0), -np.ones(2, np.float32), 0.0, np.full(2, 50.0), 0)
        for step in range(80):
            guide.learn(step, step + 4, act)
        assert all(states.shape == (32, 2) and states.dtype == np.float64 for states in asked)
        assert np.isin(np.concatenate(asked)[:, 0], log.states[:, 0]).all()
        deltas = UP_AND_DOWN.model.discretiser.delta(log.states, log.next_states) + np.int8(1)
        actions = guide.state.learning.learner.act(jnp.asarray(log.states, jnp.float32), jnp.asarray(deltas))
        assert np.abs(np.asarray(actions) - 0.5).mean() < 0.1
        assert {"idm/loss", "idm/online_loss", "idm/offline_loss"} <= guide.metrics().keys()

    def test_without_bootstrapping_the_agent_is_never_asked(self):
        guide = small_guide(Fixed(1.0), log=walk_log(), config=SMALL_ALONE)
        walk(guide, 8, act=no_act)
        metrics = guide.metrics()
        assert "idm/loss" in metrics
        assert "idm/offline_loss" not in metrics

    def test_factorised(self):
        guide = small_guide(Fixed(1.0), log=walk_log(), bins=3)
        guide.observe(STATE, np.array([2, 0]), 0.0, STATE, 0)
        guide.learn(0, 2, lambda states: np.ones((len(states), 2), np.int64))
        assert guide.metrics()["idm/loss"] == pytest.approx(2 * np.log(3), rel=0.3)

    def test_takes_any_number_of_updates(self):
        guide = small_guide(Fixed(1.0), log=walk_log())
        walk(guide, 4, every=100)
        for updates, total in ((3, 3), (4, 7), (0, 7), (1, 8)):
            guide.learn(3, 3 + updates, steady_act)
            assert int(guide.state.learning.learner.optimiser.count) == total

    def test_two_calls_learn_from_different_rows(self):
        guide, asked = small_guide(Fixed(1.0), log=walk_log(rows=1000)), []
        walk(guide, 4, every=100)
        for _ in range(2):
            guide.learn(3, 4, lambda states: asked.append(states) or steady_act(states))
        assert not np.array_equal(*asked)

    def test_the_agents_actions_are_a_detached_target(self):
        guide = small_guide(Fixed(1.0), log=walk_log())
        walk(guide, 4, every=100)

        def loss_of_an_agent(weight):
            guide.learn(3, 4, lambda states: weight * jnp.ones((len(states), 2)))
            return weight

        loss_of_an_agent(0.5)
        with pytest.raises(jax.errors.TracerArrayConversionError):  # no gradient gets through to the agent
            jax.grad(loss_of_an_agent)(0.5)

    def test_waits_for_the_first_transition(self):
        guide = small_guide(Fixed(1.0), log=walk_log())
        guide.learn(0, 1, no_act)
        assert guide.metrics() == {}

    def test_every_update_draws_from_the_whole_log(self):
        rows = np.arange(1000.0)
        log = dataclasses.replace(walk_log(rows=1000), states=np.stack([rows, rows], axis=1))
        batches = []

        def act(states):
            batches.extend(states[:, 0].reshape(-1, 8))
            return steady_act(states)

        guide = small_guide(Fixed(1.0), log=log)
        walk(guide, 8, act=act)
        assert len(batches) == 8
        assert all(batch.max() - batch.min() > 300 for batch in batches)
        assert len(np.unique(batches)) > 50


class TestNoGuidance:
    def test_a_schedule_of_zeros_does_nothing_at_all(self):
        guide = small_guide(Fixed(0.0), log=walk_log())
        before = saved(guide)
        assert walk(guide, 20, act=no_act) == [None] * 20
        assert same(guide.state.learning, before.learning)
        assert same(guide.state.ring, before.ring)

    def test_learning_stops_with_guidance(self):
        guide = small_guide(PaperSchedule(0.5, 0.5, 9))
        walk(guide, 8)
        learnt = saved(guide)
        assert int(learnt.learning.learner.optimiser.count) == 8
        walk(guide, 8, start=8, act=no_act)
        assert same(guide.state.learning, learnt.learning)

    def test_a_schedule_that_pauses_remembers_and_goes_on(self):
        guide = small_guide(lambda step: float(step >= 5))
        walk(guide, 4, act=no_act)
        assert int(guide.state.learning.learner.optimiser.count) == 0
        walk(guide, 4, start=4)
        assert guide.state.ring.stored == 8
        assert int(guide.state.learning.learner.optimiser.count) == 4


class TestMetrics:
    def test_four_steps_by_hand(self):
        # Up and down are proposed at steps 1 and 3.
        guide = small_guide(lambda step: float(step % 2))
        changes = [(0.0, 0.0), (0.5, -0.5), (0.5, -0.5), (0.5, 0.0)]
        for step, (change, reward) in enumerate(zip(changes, (1.0, 10.0, 2.0, 30.0), strict=True)):
            proposal = guide.propose(STATE, step)
            assert (proposal is None) == (step % 2 == 0)
            guide.observe(STATE, ACTION if proposal is None else proposal, reward, STATE + change, step)
        assert guide.metrics() == {
            "guided_share": 0.5,
            "beta": 1.0,
            "guide/reward": 20.0,
            "guide/own_reward": 1.5,
            "guide/realised": 0.75,
            "guide/realised/s0": 1.0,
            "guide/realised/s1": 0.5,
        }
        assert guide.metrics() == {}

    def test_what_was_not_counted_is_absent(self):
        guide = small_guide(Fixed(0.0))
        guide.observe(STATE, ACTION, 2.0, STATE, 0)
        assert guide.metrics() == {"guided_share": 0.0, "beta": 0.0, "guide/own_reward": 2.0}
        guide = small_guide(Fixed(1.0))
        guide.observe(STATE, guide.propose(STATE, 0), 2.0, STATE, 0)
        assert "guide/own_reward" not in guide.metrics()

    def test_the_loss_is_the_mean_over_updates(self):
        one, two = small_guide(Fixed(1.0)), small_guide(Fixed(1.0))
        losses = []
        for guide in (one, two):
            walk(guide, 4, every=100)
            guide.metrics()
        for step in (4, 5):
            one.learn(step, step + 1, no_act)
            losses.append(one.metrics()["idm/loss"])
            two.learn(step, step + 1, no_act)
        assert two.metrics()["idm/loss"] == pytest.approx(np.mean(losses))


class TestState:
    def test_goes_on_bit_by_bit(self):
        log = walk_log()
        whole = small_guide(log=log, steps=48)
        first = walk(whole, 13)
        middle = saved(whole)
        rest = walk(whole, 19, start=13)
        other = small_guide(log=log, steps=48)
        other.restore(middle)
        assert walk(other, 19, start=13) == rest
        assert any(first)
        assert any(rest)
        assert same(other.state, whole.state)
        assert other.metrics() == whole.metrics()

    def test_a_proposal_under_way_is_remembered(self):
        guide, other = small_guide(Fixed(1.0)), small_guide(Fixed(1.0))
        guide.propose(STATE, 3)
        other.restore(saved(guide))
        other.observe(STATE, ACTION, 0.0, STATE, 3)
        assert other.metrics()["guided_share"] == 1.0

    def test_is_finite_arrays_alone(self):
        leaves = jax.tree.leaves(small_guide().state)
        assert all(isinstance(leaf, np.ndarray | jax.Array) and np.isfinite(leaf).all() for leaf in leaves)

    def test_seeds_differ(self):
        one, two = small_guide(seed=0), small_guide(seed=1)
        assert not same(one.state.learning, two.state.learning)

    def test_refuses_another_guides_state(self):
        other = small_guide(steps=200)
        with pytest.raises(ActionlessError, match=re.escape("float32[100, 2] where it holds float32[50, 2]: restore")):
            small_guide().restore(other.state)


class TestErrors:
    def test_bootstrapping_needs_the_log(self):
        with pytest.raises(
            ActionlessError, match=r"give the log that the policy was trained on, or set bootstrap=Fals"
        ):
            small_guide(config=SMALL)

    def test_a_log_of_other_states(self):
        with pytest.raises(ActionlessError, match=r"walk.npz has 3 state variables, the state policy was trained on 2"):
            small_guide(log=walk_log(dim=3))

    @pytest.mark.parametrize("call", ["propose", "observe"])
    def test_a_task_of_other_states(self, call):
        guide = small_guide(Fixed(1.0))
        wrong = np.zeros(3)
        with pytest.raises(
            ActionlessError, match=r"have shape \(3,\), the state policy was trained on 2 variables \(s0"
        ):
            guide.propose(wrong, 0) if call == "propose" else guide.observe(wrong, ACTION, 0.0, wrong, 0)

    @pytest.mark.parametrize("action", [[2.0, 0.0], [0.0], [0.0, np.nan]])
    def test_actions_that_were_not_scaled(self, action):
        with pytest.raises(ActionlessError, match=r"at step 5: the guide needs 2 numbers from -1 to 1, scaled"):
            small_guide().observe(STATE, np.array(action, np.float32), 0.0, STATE, 5)

    def test_factorised_actions_out_of_range(self):
        with pytest.raises(ActionlessError, match=r"action \[0, 3\] at step 5: the guide needs 2 numbers from 0 to 2"):
            small_guide(bins=3).observe(STATE, np.array([0, 3]), 0.0, STATE, 5)

    def test_an_agent_that_gives_other_actions(self):
        guide = small_guide(Fixed(1.0), log=walk_log())
        guide.observe(STATE, ACTION, 0.0, STATE, 0)
        message = r"act gave actions of shape \(8, 3\) for 8 states: it has to give one row of 2 for each"
        with pytest.raises(ActionlessError, match=message):
            guide.learn(0, 1, lambda states: np.zeros((len(states), 3)))

    def test_a_schedule_out_of_range(self):
        with pytest.raises(ActionlessError, match=r"gives β = 2.0 at step 9"):
            small_guide(lambda _: 2.0).propose(STATE, 9)


def test_a_policy_that_regresses_guides_too():
    regressing = constant_policy([0.5, -0.5], "difference")
    options = {"action_dim": 2, "steps": 100, "log": None, "schedule": Fixed(1.0), "config": SMALL_ALONE}
    proposals = [Guide.create(policy, **options).propose(STATE, 0) for policy in (regressing, UP_AND_DOWN)]
    np.testing.assert_array_equal(*proposals)


class TestTheCriticsChoice:
    """The guide's action is worth `guides`, the agent's own `own`."""

    def share(self, guides, own, choice=0.1, steps=400):
        config = dataclasses.replace(SMALL_ALONE, choice=choice)
        guide = small_guide(Fixed(1.0), config=config, log=None)

        class View(AgentView):
            def __init__(self):
                """Without an agent."""

            def act(self, states):
                return np.full((len(states), 2), 0.125, np.float32)

            def values(self, states, actions):
                assert actions[1].tolist() == [0.125, 0.125]
                return np.array([guides, own], np.float64)

        taken = [guide.accepts(guide.propose(STATE, step), STATE, step, View()) for step in range(steps)]
        return np.mean(taken), guide

    def test_is_a_softmax_of_both(self):
        assert self.share(2.0, 2.0)[0] == pytest.approx(0.5, abs=0.07)
        # A tenth of 2 better is one temperature: 1 / (1 + e⁻¹).
        assert self.share(2.0, 1.8)[0] == pytest.approx(0.731, abs=0.07)
        assert self.share(1.0, 2.0)[0] < 0.01
        assert self.share(-1e30, 1e30)[0] == 0

    def test_does_not_depend_on_the_unit_of_rewards(self):
        assert self.share(2000.0, 1800.0)[0] == self.share(2.0, 1.8)[0]

    def test_a_proposal_that_was_not_taken_counts_as_the_agents_own_step(self):
        _, guide = self.share(1.0, 2.0, steps=1)
        guide.observe(STATE, ACTION, 1.0, STATE, 0)
        assert guide.metrics()["guided_share"] == 0

    def test_without_it_every_proposal_is_taken(self):
        guide = small_guide(Fixed(1.0))
        nobody = AgentView.__new__(AgentView)
        assert guide.accepts(guide.propose(STATE, 0), STATE, 0, nobody)
