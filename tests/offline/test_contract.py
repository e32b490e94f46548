"""What every offline learner must do. A new learner adds a line to CONFIGS and passes."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_learners import CONFIGS, SPEC, create_learner, leaves_equal, random_batch, random_discretiser

from actionless.errors import ActionlessError
from actionless.offline.learner import PolicyLabel, Returns, Spec
from actionless.offline.planner import Planner
from actionless.offline.policies import POLICY_KINDS, load_policy
from actionless.offline.state_policy import ActionPolicy
from actionless.settings import Settings, from_json, to_json

AVERAGED = ("oso-decqn", "decqn", "iql-delta", "bc-delta", "bc-next", "bc-diff", "bc-action")
"""Methods whose policies hold the moving average of their weights."""

update = eqx.filter_jit(lambda learner, batch, key: learner.update(batch, key))


@pytest.fixture(params=CONFIGS, scope="module")
def method(request):
    return request.param


@pytest.fixture(scope="module")
def learner(method):
    return create_learner(SPEC, CONFIGS[method], jax.random.key(0))


def learnt_by(learner, method):
    return learner.policy(random_discretiser(), PolicyLabel(method, ("x", "y", "z"), {"log": "a"}))


def answer(policy, states):
    if isinstance(policy, Planner):
        return policy.plan(states[..., None, :])
    return policy.act(states) if isinstance(policy, ActionPolicy) else policy.propose(states)


def test_update_keeps_the_tree_and_gives_scalar_metrics(learner):
    after, metrics = update(learner, random_batch(), jax.random.key(1))
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), (learner, after))
    assert shapes[0] == shapes[1]
    assert "loss" in metrics
    assert all(value.shape == () and jnp.isfinite(value) for value in metrics.values())
    assert not leaves_equal(learner.network, after.network)


def test_the_same_seed_gives_the_same_bits(method, learner):
    again = create_learner(SPEC, CONFIGS[method], jax.random.key(0))
    assert leaves_equal(learner, again)
    results = [update(start, random_batch(), jax.random.key(1)) for start in (learner, again)]
    assert leaves_equal(*results)
    other = create_learner(SPEC, CONFIGS[method], jax.random.key(5))
    assert not leaves_equal(learner.network, other.network)


def test_a_scan_may_donate_the_learner(method):
    @eqx.filter_jit(donate="all-except-first")
    def loop(batch, learner):
        keys = jax.random.split(jax.random.key(2), 3)
        return jax.lax.scan(lambda state, key: state.update(batch, key), learner, keys)

    batch = random_batch()
    after, _ = loop(batch, create_learner(SPEC, CONFIGS[method], jax.random.key(0)))
    expected = create_learner(SPEC, CONFIGS[method], jax.random.key(0))
    for key in jax.random.split(jax.random.key(2), 3):
        expected, _ = update(expected, batch, key)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), after.network, expected.network)


def test_updates_lower_the_loss_on_a_fixed_batch(learner):
    # Terminals everywhere: the target of a learner that masks them stands still, another's moves but little.
    batch = eqx.tree_at(lambda b: b.masks, random_batch(), jnp.zeros(32))
    losses = []
    for key in jax.random.split(jax.random.key(3), 200):
        learner, metrics = update(learner, batch, key)
        losses.append(float(metrics["loss"]))
    assert losses[-1] < 0.9 * losses[0]


def test_a_saved_policy_answers_as_before(method, learner, tmp_path):
    policy = learnt_by(learner, method)
    policy.save(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    assert type(loaded) is type(policy) is POLICY_KINDS[policy.kind]
    states = np.random.default_rng(0).normal(2, 3, (40, 3))
    np.testing.assert_array_equal(answer(loaded, states), answer(policy, states))
    assert (loaded.method, loaded.state_names, loaded.provenance) == (method, ("x", "y", "z"), {"log": "a"})


def test_averaged_weights_follow_those_that_learn(method, learner, tmp_path):
    if getattr(learnt_by(learner, method), "average", None) is None:
        assert method not in AVERAGED
        pytest.skip("keeps no average")
    after, _ = update(learner, random_batch(), jax.random.key(1))
    policy = learnt_by(after, method)
    before, behind = (of.averaged() for of in (learnt_by(learner, method), policy))
    states = np.random.default_rng(2).normal(2, 3, (20, 3))
    assert leaves_equal(before.average, learnt_by(learner, method).average)
    assert not leaves_equal(before.average, behind.average)
    behind.save(tmp_path / "policy")
    np.testing.assert_array_equal(answer(load_policy(tmp_path / "policy"), states), answer(behind, states))
    policy.save(tmp_path / "last")
    np.testing.assert_array_equal(answer(load_policy(tmp_path / "last").averaged(), states), answer(behind, states))


def test_policies_that_learnt_values_say_them(method, learner):
    policy = learnt_by(learner, method)
    states = np.random.default_rng(3).normal(2, 3, (2, 5, 3))
    if "values" in learner.config.declares.gives:
        value, disagreement = policy.value(states), policy.value_disagreement(states)
        assert value.shape == disagreement.shape == (2, 5)
        assert np.isfinite(value).all() and (disagreement > 0).all()
        np.testing.assert_allclose(policy.value(states[1, 2]), value[1, 2], rtol=1e-5)
        assert policy.value(states[:, :0]).shape == (2, 0)
    elif hasattr(policy, "value"):
        for asked in (policy.value, policy.value_disagreement):
            with pytest.raises(ActionlessError, match=f"{method} learns no values: pre-train with a method that gives"):
                asked(states)


def test_one_state_or_a_batch(method, learner):
    policy = learnt_by(learner, method)
    states = np.random.default_rng(1).normal(2, 3, (2, 5, 3))
    together = answer(policy, states)
    assert together.shape[:2] == (2, 5)
    np.testing.assert_allclose(answer(policy, states[1, 2]), together[1, 2], rtol=1e-5)
    assert answer(policy, states[:, :0]).shape[:2] == (2, 0)


def test_what_is_measured_has_the_declared_score(learner):
    declared = learner.config.declares
    measured = learner.measure(random_batch(), random_discretiser(), Returns(1.0, 0.5))
    assert declared.score in declared.shown
    assert {declared.score, *declared.shown} <= measured.keys()
    assert all(isinstance(value, float) and np.isfinite(value) for value in measured.values())


def test_settings_survive_json(method):
    stored = json.loads(json.dumps(to_json(CONFIGS[method])))
    assert from_json(Settings, stored, "run.json") == CONFIGS[method]


def test_bc_action_needs_actions():
    with pytest.raises(ActionlessError, match="read without"):
        create_learner(Spec(3, 3), CONFIGS["bc-action"], jax.random.key(0))
