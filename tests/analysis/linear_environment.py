"""A linear system in which Δs determines the action. Registered as `linear_environment:Linear-v0`."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from actionless.data.log import Log, Source, default_state_names
from actionless.discretise import Discretiser, Normaliser
from actionless.networks import Ensemble
from actionless.offline.planner import PlanConfig, Planner
from actionless.offline.state_policy import ActionPolicy, PolicyModel, StatePolicy
from actionless.offline.transformer import PlanNetwork

LINEAR = "linear_environment:Linear-v0"
CHOOSING = "linear_environment:Choosing-v0"
LOW, HIGH = np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32)


class Linear(gymnasium.Env):
    """Two coordinates, moved by the action scaled to [-1, 1]; it ends when the first one leaves [-6, 6]."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(LOW, HIGH)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 2)
        return self.place, {}

    def step(self, action):
        push = (action - (HIGH + LOW) / 2) / ((HIGH - LOW) / 2)
        return self.moved(push.astype(np.float64))

    def moved(self, push):
        self.place = self.place + push
        return self.place, float(push[0]), bool(abs(self.place[0]) > 6), False, {}


class Choosing(Linear):
    """The same with choices: down, stay, up."""

    action_space = spaces.MultiDiscrete([3, 3], start=[1, 1])

    def step(self, action):
        return self.moved(np.asarray(action, np.float64) - 2)


gymnasium.register("Linear-v0", Linear, max_episode_steps=10)
gymnasium.register("Choosing-v0", Choosing, max_episode_steps=10)


def pushes(rows, seed=0):
    return np.random.default_rng(seed).integers(-1, 2, (rows, 2))


def labelled_log(push=None, actions=None, length=10, path="linear.npz"):
    """Full strength either way or none, from anywhere; actions in the environment's own units."""
    push = pushes(600) if push is None else push
    rows = len(push)
    states = np.random.default_rng(1).uniform(-8, 8, (rows, 2))
    if actions is None:
        actions = (HIGH + LOW) / 2 + push * (HIGH - LOW) / 2
    return Log(
        states=states,
        rewards=push[:, 0].astype(float),
        next_states=states + push,
        terminals=np.zeros(rows, bool),
        ends=np.arange(rows) % length == length - 1,
        state_names=default_state_names(2),
        source=Source(str(path), "npz", ("states",)),
        actions=np.asarray(actions, np.float32),
    )


def discretiser(edge=0.1):
    edges = np.tile([-edge, edge], (2, 1))
    return Discretiser(Normaliser(np.array([1.0, 0.0]), np.array([2.0, 4.0])), edges, np.tile([-1.0, 0.0, 1.0], (2, 1)))


def state_policy(head, wanted=(1, -1)):
    """Proposes the same change in every state: by default the first variable up by 1, the second down by 1."""
    bins = discretiser()
    weights, change = np.zeros((2, 2)), np.array(wanted) / bins.normaliser.scale
    if head in ("utilities", "logits"):
        biases = (np.arange(-1, 2)[:, None] == np.array(wanted)).astype(float).reshape(-1)
        weights = np.zeros((2, 6))
    else:
        biases = change
        weights = np.eye(2) if head == "next_state" else weights
    network = Ensemble(
        weights=(jnp.asarray(weights, jnp.float32)[None],), biases=(jnp.asarray(biases, jnp.float32)[None, None],)
    )
    return StatePolicy(PolicyModel(network, bins, head, 1.0), head, default_state_names(2))


def action_policy(action):
    """BC a that gives the same action in every state, in the environment's own units."""
    network = Ensemble(weights=(jnp.zeros((1, 2, 2)),), biases=(jnp.asarray(action, jnp.float32)[None, None],))
    return ActionPolicy(network, discretiser().normaliser, "bc-action", default_state_names(2))


def planner():
    """AFDT without training."""
    network = PlanNetwork.create(2, longest=3, width=4, blocks=1, key=jax.random.key(0))
    config = PlanConfig(context=2, width=4, blocks=1)
    return Planner(network, config, discretiser().normaliser, "afdt", default_state_names(2))
