import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_agents import CONFIGS, SPECS, member, random_batch

from actionless.online.sac import Sac, gaussian, sample, squash

SPEC, CONFIG, BATCH = SPECS["sac"], CONFIGS["sac"], random_batch(SPECS["sac"])


@pytest.fixture
def agent():
    agent = Sac.create(SPEC, CONFIG, jax.random.key(0))
    other = Sac.create(SPEC, CONFIG, jax.random.key(1))
    # Target critics and a temperature that differ from what they begin as, so that mistaking them shows.
    return eqx.tree_at(
        lambda a: (a.target_critics, a.log_temperature), agent, (other.target_critics, jnp.asarray(-0.7))
    )


def test_the_log_probability_is_that_of_the_change_of_variables():
    # P(a < x) = P(u < artanh x): its slope, taken by a difference, is the density of a.
    mean, log_std, noise = 0.3, -0.4, 0.8
    u = mean + np.exp(log_std) * noise
    action, log_probability = squash(*(jnp.full((1, 1), value) for value in (mean, log_std, noise)))
    np.testing.assert_allclose(action, np.tanh(u), rtol=1e-6)

    step = 1e-4
    low, high = (np.arctanh(np.tanh(u) + sign * step) for sign in (-1, 1))
    points = np.linspace(low, high, 10_001)
    normal = np.exp(-0.5 * ((points - mean) / np.exp(log_std)) ** 2) / (np.exp(log_std) * np.sqrt(2 * np.pi))
    density = np.trapezoid(normal, points) / (2 * step)
    np.testing.assert_allclose(log_probability, np.log(density), rtol=1e-4)


def test_the_density_over_all_actions_is_one():
    noise = jnp.linspace(-8, 8, 20_001)[:, None]
    action, log_probability = squash(jnp.full_like(noise, 0.5), jnp.full_like(noise, -0.2), noise)
    total = np.trapezoid(np.exp(np.asarray(log_probability, np.float64)), np.asarray(action, np.float64)[:, 0])
    np.testing.assert_allclose(total, 1, rtol=1e-3)


def test_log_probabilities_of_dimensions_add_up():
    mean, log_std, noise = (jax.random.normal(jax.random.key(seed), (4, 3)) for seed in range(3))
    together = squash(mean, log_std, noise)[1]
    apart = [squash(mean[:, [j]], log_std[:, [j]], noise[:, [j]])[1] for j in range(3)]
    np.testing.assert_allclose(together, sum(apart), rtol=1e-5)


@pytest.mark.parametrize("mean", [-40.0, 40.0])
def test_a_saturated_action_has_a_finite_log_probability_and_gradient(mean):
    def log_probability(mean):
        return squash(mean, jnp.full((1, 1), -20.0), jnp.ones((1, 1)))[1][0]

    value, slope = jax.value_and_grad(log_probability)(jnp.full((1, 1), mean))
    # log N = −½ + 20 − ½ log 2π; log(1 − tanh² 40) = 2 log 2 − 80 to all digits.
    np.testing.assert_allclose(value, 19.5 - 0.5 * np.log(2 * np.pi) - 2 * np.log(2) + 80, rtol=1e-6)
    np.testing.assert_allclose(slope, 2 * np.sign(mean), rtol=1e-6)


def test_the_log_standard_deviation_is_kept_in_its_range(agent):
    last = agent.actor.ensemble.biases[-1]
    actor = eqx.tree_at(lambda a: a.ensemble.biases[-1], agent.actor, last + jnp.asarray([[[0.0, 0, 90, -90]]]))
    _, log_std = gaussian(actor, BATCH.states)
    np.testing.assert_array_equal(log_std, np.tile([2.0, -20.0], (32, 1)))


def test_the_target_is_the_lesser_critic_and_the_entropy(agent):
    key = jax.random.key(4)
    states = np.asarray(BATCH.next_states, np.float64)
    mean, log_std = np.split(member(agent.actor.ensemble, 0, states), 2, axis=1)
    noise = np.asarray(jax.random.normal(key, mean.shape), np.float64)
    u = mean + np.exp(log_std) * noise
    log_normal = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
    log_probability = (log_normal - np.log(1 - np.tanh(u) ** 2)).sum(axis=1)
    inputs = np.concatenate([states, np.tanh(u)], axis=1)
    critics = [member(agent.target_critics.networks, i, inputs)[:, 0] for i in range(2)]
    value = np.minimum(*critics) - np.exp(-0.7) * log_probability
    expected = np.asarray(BATCH.rewards) + np.asarray(BATCH.discounts) * value
    np.testing.assert_allclose(agent.td_target(BATCH, key), expected, rtol=1e-4, atol=1e-5)


def test_the_actor_weighs_entropy_against_the_lesser_critic(agent):
    key = jax.random.key(5)
    actions, log_probability = sample(agent.actor, BATCH.states, key)
    q = np.minimum(*agent.critics(BATCH.states, actions))
    loss, metrics = agent.actor_loss(agent.actor, agent.critics, BATCH.states, key)
    np.testing.assert_allclose(loss, np.mean(np.exp(-0.7) * np.asarray(log_probability) - q), rtol=1e-5)
    np.testing.assert_allclose(metrics["entropy"], -np.mean(log_probability), rtol=1e-6)


@pytest.mark.parametrize("entropy, direction", [(-1.0, -1), (-3.0, 1)])
def test_the_temperature_drives_entropy_to_minus_the_action_dimensions(agent, entropy, direction):
    gradient = jax.grad(agent.temperature_loss)(agent.log_temperature, jnp.asarray(entropy))
    assert -gradient == direction


def test_the_best_action_is_the_squashed_mean(agent):
    mean = np.split(member(agent.actor.ensemble, 0, np.asarray(BATCH.states, np.float64)), 2, axis=1)[0]
    np.testing.assert_allclose(agent.behaviour.act(BATCH.states), np.tanh(mean), rtol=1e-4, atol=1e-6)
