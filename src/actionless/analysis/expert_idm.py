"""The expert inverse dynamics model: it finds the action for a proposed state change, trained on a log with actions.

It shows how good a state policy is when (almost) nothing is lost in the translation to actions. For analysis only: a
guide trains its own model online, without a log of actions.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from actionless.analysis.mixture_idm import MixtureDynamics, MixtureNetwork
from actionless.data.log import Log
from actionless.data.store import default_cache
from actionless.discretise import Discretiser
from actionless.errors import ActionlessError
from actionless.files import clear_leftovers, disk_trouble, remove, replace_folder, unique_aside
from actionless.guidance.idm import ActionNetwork, Examples, IdmBatch, IdmSpec, InverseDynamics
from actionless.offline import policy_files
from actionless.offline.learner import Batch
from actionless.offline.state_policy import Head
from actionless.online.action_translation import Translation, normalised_actions
from actionless.online.environments import Environment
from actionless.optimise import Adam
from actionless.runs.progress import ProgressDisplay
from actionless.settings import ScaleName, to_json
from actionless.training.batches import Draw, HostBatches, Preparation, Split
from actionless.trees import pack, unpack
from actionless.updates import means, reset_metrics, train_state, updated
from actionless.version import __version__

Target = Literal["delta", "next_state", "difference"]
"""Input of the model besides the state: Δs, s' or s' - s, the last two in normalised units."""

TARGETS: dict[Head, Target] = {
    "utilities": "delta",
    "logits": "delta",
    "next_state": "next_state",
    "difference": "difference",
}
"""For each kind of output of a state policy's network."""

HELD_OUT = 0.1
"""Share of the labelled episodes that the action error is measured on."""

_MEASURED_ROWS = 8192
_UPDATES_PER_DISPATCH = 200


@dataclass(frozen=True)
class ExpertIdmConfig:
    """Training settings of the expert. Its learning rate falls to 0 along half a cosine."""

    steps: int
    hidden: tuple[int, ...]
    batch_size: int
    learning_rate: float = 1e-3
    components: int = 0
    """Of a mixture density of the action; 0: a regression."""


EXPERT_IDM_SCALES: dict[ScaleName, ExpertIdmConfig] = {
    "smoke": ExpertIdmConfig(steps=300, hidden=(32, 32), batch_size=64),
    "cpu": ExpertIdmConfig(steps=40_000, hidden=(256, 256, 256), batch_size=512),
    "paper": ExpertIdmConfig(steps=500_000, hidden=(512, 512, 512), batch_size=512),
}


@dataclass(frozen=True, eq=False)
class ExpertIdm:
    """A trained network and its error on held-out labelled episodes."""

    network: ActionNetwork | MixtureNetwork
    held_out_error: float | None
    """Mean |a - I| of actions scaled to [-1, 1], or the share of wrong choices; None if there is only one episode."""


def expert_idm(
    labelled: Log,
    environment: Environment,
    discretiser: Discretiser,
    target: Target,
    config: ExpertIdmConfig,
    *,
    seed: int = 0,
    cache: Path | None = None,
) -> ExpertIdm:
    """The expert for policies with this discretiser: loaded from the cache, or trained and stored there.

    Without `cache`, it is the package's cache (ACTIONLESS_CACHE). A damaged model is trained again.
    """
    _check(labelled, environment, discretiser)
    _check_components(config.components, environment)
    spec = IdmSpec(
        discretiser.dim,
        discretiser.bins if target == "delta" else None,
        environment.spec.action_dim,
        environment.spec.bins,
    )
    key = _cache_key(labelled, environment.translation, discretiser, target, config, seed)
    folder = (default_cache() if cache is None else cache) / "expert-idm" / key
    try:
        return _stored(folder, spec, config)
    except (ActionlessError, OSError):
        with _cache_entry(folder) as aside:
            expert = _trained(labelled, environment.translation, discretiser, spec, target, config, seed)
            arrays, _ = pack(expert.network)
            policy_files.write(aside, {"kind": "expert-idm", "held_out_error": expert.held_out_error}, arrays)
    return expert


@contextmanager
def _cache_entry(folder: Path) -> Iterator[Path]:
    """A folder to write to, made before minutes of training begin, which takes the place of `folder` at the end.

    Two processes that need the same expert may both train it; each puts a whole one in place.
    """
    way_out = "set ACTIONLESS_CACHE to a writable folder"
    aside = unique_aside(folder)
    with disk_trouble(folder, way_out):
        clear_leftovers(folder)
        aside.mkdir(parents=True)
    try:
        yield aside
        with disk_trouble(folder, way_out):
            replace_folder(aside, folder)
    except BaseException:
        remove(aside)
        raise


def _check(labelled: Log, environment: Environment, discretiser: Discretiser) -> None:
    path = labelled.source.path
    if labelled.actions is None:
        raise ActionlessError(f"{path}: read without actions, which the expert needs: read it with with_actions=True")
    if labelled.state_dim != discretiser.dim:
        raise ActionlessError(
            f"{path}: has {labelled.state_dim} state variables, but the policy was trained on {discretiser.dim}: "
            "give a log with actions of the same environment"
        )
    spec, name = environment.spec, environment.name
    if labelled.actions.shape[1] != spec.action_dim:
        raise ActionlessError(
            f"{path}: has {labelled.actions.shape[1]} numbers per action, but '{name}' takes {spec.action_dim}: "
            "give a log with actions of this environment"
        )
    if spec.bins is not None:
        choice = normalised_actions(environment.translation, np.asarray(labelled.actions))
        if choice.min() < 0 or choice.max() >= spec.bins:
            raise ActionlessError(
                f"{path}: has choices outside the {spec.bins} of '{name}': give a log with actions of this environment"
            )


def _check_components(components: int, environment: Environment) -> None:
    if components < 0:
        raise ActionlessError(f"components={components}: choose at least 0, which is a regression")
    if components and environment.spec.bins is not None:
        raise ActionlessError(
            f"components={components}: '{environment.name}' has choices for actions, and needs no mixture: leave it out"
        )


def _cache_key(
    labelled: Log,
    translation: Translation,
    discretiser: Discretiser,
    target: Target,
    config: ExpertIdmConfig,
    seed: int,
) -> str:
    about = [
        __version__,
        labelled.fingerprint,
        to_json(translation),
        target,
        "cosine",
        dataclasses.asdict(config),
        seed,
    ]
    digest = hashlib.sha256(json.dumps(about).encode())
    # Bins do not matter for s' and s' - s, so policies with different bins share these experts.
    edges = [discretiser.edges] if target == "delta" else []
    for array in (discretiser.normaliser.mean, discretiser.normaliser.scale, *edges):
        digest.update(np.ascontiguousarray(array, np.float64).data)
    return digest.hexdigest()[:20]


def _stored(folder: Path, spec: IdmSpec, config: ExpertIdmConfig) -> ExpertIdm:
    description, arrays = policy_files.read(folder)
    template = _network(spec, config, jax.random.key(0))
    return ExpertIdm(unpack(template, arrays, {}, folder), description["held_out_error"])


def _trained(
    labelled: Log,
    translation: Translation,
    discretiser: Discretiser,
    spec: IdmSpec,
    target: Target,
    config: ExpertIdmConfig,
    seed: int,
) -> ExpertIdm:
    actions = normalised_actions(translation, np.asarray(labelled.actions)).astype(np.float32)
    preparation = Preparation(dataclasses.replace(labelled, actions=actions), discretiser)
    split = Split.by_episode(labelled, HELD_OUT, seed)
    draw = Draw(len(split.training), config.batch_size, seed)
    batches = HostBatches(preparation, split.training, draw, min(config.steps, _UPDATES_PER_DISPATCH))
    key = jax.random.key(seed, impl="rbg")
    network = _network(spec, config, key)
    optimiser = Adam.create(network, config.learning_rate, decay=config.steps)
    regression = isinstance(network, ActionNetwork)
    learner = InverseDynamics(network, optimiser) if regression else MixtureDynamics(network, optimiser)
    state = train_state(learner, IdmBatch(_examples(batches.of(0, 1), spec, target), None), key)
    with ProgressDisplay("expert inverse dynamics", config.steps, 0, ("idm/loss",)) as display:
        for step in range(0, config.steps, batches.capacity):
            updates = min(batches.capacity, config.steps - step)
            batch = IdmBatch(_examples(batches.of(step, updates), spec, target), None)
            state = updated(state, batch, step, updates, key, config.batch_size)
            display.show(step + updates, means(state))
            state = reset_metrics(state)
    network = state.learner.network
    return ExpertIdm(network, _held_out_error(network, preparation, split, target))


def _network(spec: IdmSpec, config: ExpertIdmConfig, key: PRNGKeyArray) -> ActionNetwork | MixtureNetwork:
    if config.components == 0:
        return ActionNetwork.create(spec, config.hidden, key)
    return MixtureNetwork.create(spec, config.hidden, config.components, key)


def _examples(batch: Batch, spec: IdmSpec, target: Target) -> Examples:
    assert batch.actions is not None
    aims = {"delta": batch.deltas, "next_state": batch.next_states, "difference": batch.next_states - batch.states}
    return Examples(
        batch.states, aims[target], batch.actions if spec.action_bins is None else batch.actions.astype(jnp.int32)
    )


def _held_out_error(
    network: ActionNetwork | MixtureNetwork, preparation: Preparation, split: Split, target: Target
) -> float | None:
    count = len(split.held_out)
    if count == 0:
        return None
    rows = split.held_out[np.linspace(0, count - 1, min(count, _MEASURED_ROWS)).astype(int)]
    states, aims, actions = _examples(preparation.many_rows(rows).on_device(), network.spec, target)
    said: Any = _act(network, states, aims)
    return float((jnp.abs(said - actions) if network.spec.action_bins is None else said != actions).mean())


_act = jax.jit(lambda network, states, aims: network.act(states, aims))
