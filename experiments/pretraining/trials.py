"""One trial of OSO-DecQN settings on a Hopper log: held-out figures, and the return through an inverse dynamics model.

    python experiments/pretraining/trials.py LOG LABELLED_LOG... --alpha 15 --target-rate 5e-3 [--imitate]

The policy is trained on LOG without actions. To see what its proposals are worth, and for that alone, an inverse
dynamics model is fitted to the labelled logs and ten episodes are played through it. Prints a JSON row per evaluation.
Here `--alpha` is the whole weight of the penalty: no scale multiplies it.
Needs gymnasium[mujoco].
"""

import argparse
import dataclasses
import json
from functools import partial
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

import actionless
from actionless.data.log import returns_to_go
from actionless.networks import MLP
from actionless.offline.learner import Batch, Spec
from actionless.offline.oso_decqn import OsoDecqn, OsoDecqnConfig, chosen, utilities
from actionless.optimise import Adam
from actionless.training.batches import Preparation, Split

BATCH, DISPATCH = 256, 500


def imitated(learner: OsoDecqn, batch: Batch) -> OsoDecqn:
    """A step on the penalty of each member alone: cross-entropy, BC Δs with the same ensemble."""

    def loss(network: Any) -> Float[Array, ""]:
        u = utilities(network, batch.states, learner.spec)
        return (jax.nn.logsumexp(u, axis=2) - chosen(u, batch.deltas)).mean()

    network, optimiser = learner.optimiser.step(learner.network, eqx.filter_grad(loss)(learner.network))
    return dataclasses.replace(learner, network=network, target_network=network, optimiser=optimiser)


@partial(eqx.filter_jit, donate="first")
def trained(learner: OsoDecqn, data: Batch, keys: PRNGKeyArray, imitate: bool) -> tuple[OsoDecqn, dict[str, Array]]:
    """One update per key; the means of their metrics."""
    arrays, static = eqx.partition(learner, eqx.is_array)

    def step(arrays: Any, key: PRNGKeyArray) -> tuple[Any, dict[str, Array]]:
        draw, sample = jax.random.split(key)
        rows = jax.random.randint(draw, (BATCH,), 0, len(data.rewards))
        batch = jax.tree.map(lambda array: array[rows], data)
        before = eqx.combine(arrays, static)
        after, metrics = (imitated(before, batch), {}) if imitate else before.update(batch, sample)
        return eqx.filter(after, eqx.is_array), metrics

    arrays, metrics = jax.lax.scan(step, arrays, keys)
    return eqx.combine(arrays, static), jax.tree.map(jnp.mean, metrics)


def inverse_dynamics(logs: list[str], discretiser: actionless.Discretiser, updates: int = 20_000) -> MLP:
    """(normalised state, Δs) → action, by L1 on labelled logs."""
    labelled = [actionless.read(log, with_actions=True) for log in logs]
    inputs = [
        np.concatenate([discretiser.normaliser.normalise(x.states), discretiser.delta(x.states, x.next_states)], axis=1)
        for x in labelled
    ]
    x = jnp.asarray(np.concatenate(inputs).astype(np.float32))
    y = jnp.asarray(np.concatenate([np.asarray(log.actions) for log in labelled]))
    model = MLP.create((x.shape[1], 256, 256, y.shape[1]), jax.random.key(7))
    optimiser = Adam.create(model, 1e-3)

    @jax.jit
    def fitted(model: MLP, optimiser: Adam, keys: PRNGKeyArray) -> tuple[MLP, Adam]:
        def step(carry: Any, key: PRNGKeyArray) -> tuple[Any, None]:
            model, optimiser = carry
            rows = jax.random.randint(key, (512,), 0, len(x))
            gradient = jax.grad(lambda m: jnp.abs(jnp.tanh(m(x[rows])) - y[rows]).mean())(model)
            return optimiser.step(model, gradient), None

        return jax.lax.scan(step, (model, optimiser), keys)[0]

    for i in range(updates // 1000):
        model, optimiser = fitted(model, optimiser, jax.random.split(jax.random.fold_in(jax.random.key(7), i), 1000))
    return model


def played(learner: OsoDecqn, discretiser: actionless.Discretiser, idm: MLP, episodes: int = 10) -> dict[str, float]:
    """Return and Δs error of episodes in which the policy's greedy proposals are followed through the IDM."""
    envs = gymnasium.make_vec("Hopper-v5", num_envs=episodes, vectorization_mode="sync")
    propose = eqx.filter_jit(lambda z: utilities(learner.network, z, learner.spec).mean(axis=0).argmax(axis=1))
    act = eqx.filter_jit(lambda x: jnp.tanh(idm(x)))
    state, _ = envs.reset(seed=1000)
    alive, returns, errors, steps = np.ones(episodes, bool), *np.zeros((3, episodes))
    while alive.any():
        z = discretiser.normaliser.normalise(state).astype(np.float32)
        delta = discretiser.labels(np.asarray(propose(jnp.asarray(z))))
        action = act(jnp.asarray(np.concatenate([z, delta.astype(np.float32)], axis=1)))
        next_state, reward, terminated, truncated, _ = envs.step(np.asarray(action))
        returns += np.where(alive, reward, 0.0)
        alive &= ~(terminated | truncated)
        # After the last step the environment shows the next episode's first state: nothing to compare with.
        errors += np.where(alive, np.abs(discretiser.delta(state, next_state) - delta).sum(axis=1), 0)
        steps += alive
        state = next_state
    envs.close()
    return {
        "return": float(returns.mean()),
        "return_se": float(returns.std() / np.sqrt(episodes)),
        "rollout_error": float((errors / np.maximum(steps, 1)).mean()),
    }


def main() -> None:
    """Train, and evaluate every so many updates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("labelled", nargs="+")
    parser.add_argument("--updates", type=int, default=12_000)
    parser.add_argument("--every", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--imitate", action="store_true")
    parser.add_argument("--ensemble", type=int, default=2)
    parser.add_argument("--alpha", type=float, default=15.0)
    parser.add_argument("--target-rate", type=float, default=5e-3)
    parser.add_argument("--reward-scale", type=float, default=1.0)
    parser.add_argument("--logits", default="utilities")
    parser.add_argument("--penalty-on", default="mean")
    arguments = parser.parse_args()

    settings = {name: getattr(arguments, name) for name in ("ensemble", "alpha", "target_rate", "reward_scale")}
    config = OsoDecqnConfig(
        hidden=(256, 256), learning_rate=3e-4, logits=arguments.logits, penalty_on=arguments.penalty_on, **settings
    )
    log = actionless.read(arguments.log)
    discretiser = actionless.Discretiser.fit(log.states, log.next_states)
    split, preparation = Split.by_episode(log, 0.1, seed=0), Preparation(log, discretiser)
    data, held_out = (preparation.many_rows(rows).on_device() for rows in (split.training, split.held_out))
    returns = returns_to_go(log.rewards, log.ends, config.discount)[split.held_out]
    idm = inverse_dynamics(arguments.labelled, discretiser)

    key = jax.random.key(arguments.seed)
    learner = OsoDecqn.create(Spec(log.state_dim, 3), config, key)
    for step in range(DISPATCH, arguments.updates + 1, DISPATCH):
        keys = jax.random.split(jax.random.fold_in(key, step // DISPATCH), DISPATCH)
        learner, metrics = trained(learner, data, keys, arguments.imitate)
        if step % arguments.every == 0:
            mean = np.asarray(utilities(learner.network, held_out.states, learner.spec).mean(axis=0))
            index, labels = mean.argmax(axis=1), np.asarray(held_out.deltas)
            q = np.take_along_axis(mean, labels[:, None].astype(int), axis=1).mean(axis=(1, 2)) / config.reward_scale
            row = {
                "step": step,
                **{name: float(metrics[name]) for name in ("td_loss", "penalty") if name in metrics},
                "heldout_error": float(np.abs(index - labels).sum(axis=1).mean()),
                "q_of_data": float(q.mean()),
                "data_return": float(returns.mean()),
                "correlation": float(np.corrcoef(q, returns)[0, 1]),
                **played(learner, discretiser, idm),
            }
            print(json.dumps({**vars(arguments), "labelled": len(arguments.labelled), **row}), flush=True)


if __name__ == "__main__":
    main()
