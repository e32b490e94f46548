import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from toy_agents import CONFIGS, SPECS, random_batch

from actionless.networks import Ensemble
from actionless.online.o3f import O3f
from actionless.online.sac import SacBehaviour

SPEC, CONFIG = SPECS["o3f"], CONFIGS["o3f"]
STATE = jnp.array([0.3, -0.2, 0.5])


def normalised(ensemble, index, inputs):
    """One critic in NumPy: what enters each ReLU has mean 0 and spread 1."""
    x = np.asarray(inputs, np.float64)
    for layer, (weight, bias) in enumerate(zip(ensemble.weights, ensemble.biases, strict=True)):
        x = x @ np.asarray(weight[index], np.float64) + np.asarray(bias[index], np.float64)
        if layer + 1 < len(ensemble.weights):
            x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
            x = np.maximum(x, 0)
    return x


def test_the_candidate_is_tried_that_the_critics_together_value_most():
    behaviour, key = O3f.create(SPEC, CONFIG, jax.random.key(0)).behaviour, jax.random.key(1)
    best = np.asarray(SacBehaviour(behaviour.actor).act(STATE[None]))
    candidates = np.clip(best + 0.2 * np.asarray(jax.random.normal(key, (20, 2))), -1, 1)
    inputs = np.concatenate([np.tile(STATE, (20, 1)), candidates], axis=1)
    values = np.stack([normalised(behaviour.critics.networks, i, inputs)[:, 0] for i in range(3)])
    chosen = values.mean(axis=0).argmax()
    # The least of the critics would choose another: pessimism is for learning.
    assert chosen != values.min(axis=0).argmax()
    np.testing.assert_allclose(behaviour.explore(STATE, (), key)[0], candidates[chosen], rtol=1e-4)


def test_it_acts_as_sac_at_its_best():
    behaviour = O3f.create(SPEC, CONFIG, jax.random.key(0)).behaviour
    np.testing.assert_array_equal(behaviour.act(STATE[None]), SacBehaviour(behaviour.actor).act(STATE[None]))


def test_as_many_critics_as_asked_for_all_of_them_learning():
    agent = O3f.create(SPEC, dataclasses.replace(CONFIG, ensemble=5), jax.random.key(0))
    after, _ = eqx.filter_jit(agent.update)(random_batch(SPEC), jax.random.key(1))
    for critics in (lambda agent: agent.sac.critics, lambda agent: agent.sac.target_critics):
        before, now = (critics(which).networks.biases[-1] for which in (agent, after))
        assert before.shape[0] == 5
        assert (before != now).all()
    assert agent.sac.critics.networks.layer_norm


def test_layer_normalisation_by_hand():
    network = Ensemble.create(1, (1, 2, 1), jax.random.key(0), layer_norm=True)
    network = eqx.tree_at(
        lambda n: (n.weights, n.biases),
        network,
        ((jnp.array([[[1.0, 3.0]]]), jnp.array([[[2.0], [5.0]]])), (jnp.zeros((1, 1, 2)), jnp.ones((1, 1, 1)))),
    )
    # 4 and 12 become −1 and 1, the ReLU 0 and 1, and the last layer 5 + 1; twice the input changes nothing.
    np.testing.assert_allclose(network(jnp.array([[4.0], [8.0]]))[0], [[6], [6]], rtol=1e-5)
