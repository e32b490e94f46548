"""What pre-training gives: a state policy proposes Δs, and BC a's action policy gives actions.

States go in as NumPy arrays in the log's own units, one state or a batch. What JAX code needs inside `jit`
is the policy's `model`, which takes normalised states.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int8, Real

from actionless.discretise import Discretiser, Normaliser
from actionless.errors import ActionlessError
from actionless.networks import Ensemble
from actionless.offline import policy_files
from actionless.offline.learner import Batch, PolicyLabel, Spec, by_bin
from actionless.offline.recommendation import Recommendation
from actionless.offline.support import Support
from actionless.updates import Metrics

MOST_ROWS = 4096

Head = Literal["utilities", "logits", "next_state", "difference"]
"""What the outputs of a network mean: values of bins, logits of bins, or a state to be discretised."""


class PolicyModel(eqx.Module):
    """Network and bins: the part of a policy that computes, usable inside `jit`."""

    network: Ensemble
    discretiser: Discretiser
    head: Head = eqx.field(static=True)
    temperature: float = eqx.field(static=True)
    value_network: Ensemble | None = None
    """Of V(s), where a learner has one beside its Δs."""
    support: Support | None = None
    """What the log supports, where a learner knows it."""

    @property
    def has_values(self) -> bool:
        """Whether it says what return to expect."""
        return self.head == "utilities" or self.value_network is not None

    def scores(self, z: Float[Array, "batch dim"]) -> Float[Array, "members batch bins dim"]:
        """Utilities or logits of every bin; for a regressed state, 1 for the bin its change falls into."""
        outputs = self.network(z)
        if self.head in ("utilities", "logits"):
            return by_bin(outputs, Spec(self.discretiser.dim, self.discretiser.bins))
        change = outputs - z[None] if self.head == "next_state" else outputs
        index = self.discretiser.index(change)
        bins = jnp.arange(self.discretiser.bins, dtype=index.dtype)
        return (index[:, :, None] == bins[None, None, :, None]).astype(outputs.dtype)

    def index(self, z: Float[Array, "batch dim"]) -> Int[Array, "batch dim"]:
        """The proposed bin of each dimension: the best by the ensemble's mean."""
        return self.scores(z).mean(axis=0).argmax(axis=1)

    def probabilities(self, z: Float[Array, "batch dim"]) -> Float[Array, "batch dim bins"]:
        """Softmax of the ensemble's mean scores; for a regressed state, the share of members behind each bin."""
        mean = self.scores(z).mean(axis=0)
        if self.head in ("utilities", "logits"):
            mean = jax.nn.softmax(mean / self.temperature, axis=1)
        return mean.swapaxes(1, 2)

    def disagreement(self, z: Float[Array, "batch dim"]) -> Float[Array, "batch dim"]:
        """The share of members that would propose another bin than the ensemble does."""
        scores = self.scores(z)
        proposed = scores.mean(axis=0).argmax(axis=1)
        return (scores.argmax(axis=2) != proposed[None]).astype(scores.dtype).mean(axis=0)

    def outlook(self, z: Float[Array, "batch dim"]) -> Float[Array, "batch figures dim"]:
        """All that a recommendation needs: proposed bin, its probability, disagreement, the mean score of each bin.

        One program computes the scores they share only once.
        """
        index = self.index(z).astype(z.dtype)
        figures = jnp.stack([index, self.probabilities(z).max(axis=2), self.disagreement(z)], axis=1)
        return jnp.concatenate([figures, self.scores(z).mean(axis=0)], axis=1)

    def best_value(self, z: Float[Array, "batch dim"]) -> Float[Array, " batch"]:
        """The ensemble's mean V, or Q of the proposed Δs."""
        if self.value_network is not None:
            return self.member_values(z).mean(axis=0)
        return self.scores(z).mean(axis=0).max(axis=1).mean(axis=1)

    def member_values(self, z: Float[Array, "batch dim"]) -> Float[Array, "members batch"]:
        """Each member's V, or its Q of the Δs that the ensemble proposes."""
        if self.value_network is not None:
            return self.value_network(z)[..., 0]
        scores = self.scores(z)
        proposed = scores.mean(axis=0).argmax(axis=1)
        bins = jnp.arange(scores.shape[2], dtype=proposed.dtype)
        picked = (proposed[:, None] == bins[None, :, None]).astype(scores.dtype)
        return (scores * picked[None]).sum(axis=2).mean(axis=2)

    def value(self, z: Float[Array, "batch dim"], index: Int[Array, "batch dim"]) -> Float[Array, " batch"]:
        """The ensemble's mean Q of given bins."""
        picked = jnp.take_along_axis(self.scores(z).mean(axis=0), index[:, None], axis=1)
        return picked.mean(axis=(1, 2))


@dataclass(frozen=True, eq=False)
class StatePolicy:
    """Proposes for each state which way every variable should move."""

    kind: ClassVar[str] = "state"
    does: ClassVar[str] = "proposes Δs"
    model: PolicyModel
    method: str
    state_names: tuple[str, ...]
    value_scale: float = 1.0
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Where it came from, as JSON: the log's fingerprint and what was read, config, versions."""
    average: Ensemble | None = None
    """The moving average of the network's weights, where the learner keeps one."""

    @classmethod
    def of(
        cls, model: PolicyModel, label: PolicyLabel, value_scale: float = 1.0, average: Ensemble | None = None
    ) -> "StatePolicy":
        """What a learner has learnt. Utilities times `value_scale` are returns in the log's own rewards."""
        return cls(model, label.method, label.state_names, value_scale, label.provenance, average)

    def averaged(self) -> "StatePolicy":
        """The policy of the averaged weights: it changes less from one checkpoint to the next."""
        model = dataclasses.replace(self.model, network=_require_average(self.average, self.method))
        return dataclasses.replace(self, model=model)

    def propose(self, states: Real[np.ndarray, "*batch dim"]) -> Int8[np.ndarray, "*batch dim"]:
        """Δs for one state or a batch, as labels: -1, 0, 1 with three bins."""
        index = self._compute(_index, states)
        return self.model.discretiser.labels(index)

    def probabilities(self, states: Real[np.ndarray, "*batch dim"]) -> Float[np.ndarray, "*batch dim bins"]:
        """How likely each bin is under the policy, lowest bin first."""
        return self._compute(_probabilities, states)

    def disagreement(self, states: Real[np.ndarray, "*batch dim"]) -> Float[np.ndarray, "*batch dim"]:
        """The share of ensemble members that would propose another Δs: 0 where all agree."""
        return self._compute(_disagreement, states)

    def value(self, states: Real[np.ndarray, "*batch dim"]) -> Float[np.ndarray, "*batch"]:
        """The return to expect from each state on, in units of the log's rewards: V, or Q of the proposed Δs."""
        self.require_values()
        return np.asarray(self._compute(_best_value, states) * np.float32(self.value_scale))

    def values(
        self,
        states: Real[np.ndarray, "*batch dim"],
        delta: Int[np.ndarray, "*batch dim"] | None = None,
    ) -> Float[np.ndarray, "*batch"]:
        """Q of given Δs, in units of the log's rewards; without them, the same as `value`."""
        if delta is None:
            return self.value(states)
        self.require_values()
        if self.model.head != "utilities":
            raise ActionlessError(f"{self.method} values states alone: leave out delta")
        index = self.model.discretiser.index_of(delta).astype(np.int32)
        if delta.shape != states.shape or (index < 0).any() or (index >= self.model.discretiser.bins).any():
            labels = self.model.discretiser.labels(np.arange(self.model.discretiser.bins)).tolist()
            raise ActionlessError(
                f"delta of shape {delta.shape}: needs one of {labels} for each variable; states have {states.shape}"
            )
        return np.asarray(self._compute(_value, states, index) * np.float32(self.value_scale))

    def value_disagreement(self, states: Real[np.ndarray, "*batch dim"]) -> Float[np.ndarray, "*batch"]:
        """The standard deviation of the members' values, in units of the log's rewards."""
        self.require_values()
        return np.asarray(self._compute(_value_disagreement, states) * np.float32(self.value_scale))

    def require_values(self) -> None:
        """Refuse a policy that does not say what return to expect."""
        if not self.model.has_values:
            raise ActionlessError(
                f"{self.method} learns no values: pre-train with a method that gives values; "
                "`actionless pretrain --help` says which do"
            )

    def recommend(
        self,
        states: Real[np.ndarray, "*batch dim"],
        next_states: Real[np.ndarray, "*batch dim"] | None = None,
    ) -> Recommendation:
        """Which way each variable should move, how sure that is, and for learners of values what it gains.

        Where it is known what happened next, `next_states` adds the gain over that.
        """
        index, probability, disagreement, *scores = np.moveaxis(self._compute(_outlook, states), -2, 0)
        utilities = np.stack(scores) * (self.value_scale / len(self.state_names))
        happened = None
        if next_states is not None:
            _check(next_states, self.state_names, "next states")
            happened = self.model.discretiser.delta(states, next_states)
        return Recommendation.of(
            self.state_names,
            self.model.discretiser,
            index.astype(np.int32),
            probability,
            disagreement,
            contributions=utilities if self.model.head == "utilities" else None,
            happened=happened,
        )

    def save(self, directory: str | Path) -> None:
        """Write the policy so that it loads without the log."""
        discretiser = self.model.discretiser
        description = {
            "kind": self.kind,
            "method": self.method,
            "head": self.model.head,
            "bins": discretiser.bins,
            "temperature": self.model.temperature,
            "value_scale": self.value_scale,
            "state_names": list(self.state_names),
            "provenance": dict(self.provenance),
        }
        bins = {"discretiser.edges": discretiser.edges, "discretiser.representatives": discretiser.representatives}
        arrays = _normaliser_arrays(discretiser.normaliser) | bins | _network_arrays(self.model.network)
        arrays |= _optional_network_arrays(self.model.value_network, "values")
        arrays |= _optional_network_arrays(self.average, "average")
        if self.model.support is not None:
            arrays |= _support_arrays(self.model.support)
        policy_files.write(Path(directory), description, arrays)

    @classmethod
    def load(cls, directory: str | Path) -> "StatePolicy":
        """The policy that was saved there, or that a run directory holds."""
        description, arrays = read_state_policy(directory)
        discretiser = Discretiser(
            _normaliser(arrays), arrays["discretiser.edges"], arrays["discretiser.representatives"]
        )
        head, temperature = description["head"], description["temperature"]
        values, average = (_optional_network(arrays, name) for name in ("values", "average"))
        model = PolicyModel(_network(arrays), discretiser, head, temperature, values, _support(arrays))
        label = PolicyLabel(description["method"], tuple(description["state_names"]), description["provenance"])
        return cls.of(model, label, description["value_scale"], average)

    def _compute(self, function: Callable[..., Array], states: np.ndarray, *more: np.ndarray) -> Any:
        z = _normalised(states, self.model.discretiser.normaliser, self.state_names)
        return _by_rows(function, self.model, z, *more)


@dataclass(frozen=True, eq=False)
class ActionPolicy:
    """The action the log's behaviour would take. The one kind of policy that was taught by actions."""

    kind: ClassVar[str] = "action"
    does: ClassVar[str] = "gives actions"
    network: Ensemble
    normaliser: Normaliser
    method: str
    state_names: tuple[str, ...]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    average: Ensemble | None = None
    """The moving average of the network's weights, where the learner keeps one."""

    def averaged(self) -> "ActionPolicy":
        """The policy of the averaged weights."""
        return dataclasses.replace(self, network=_require_average(self.average, self.method))

    def act(self, states: Real[np.ndarray, "*batch dim"]) -> Float[np.ndarray, "*batch actions"]:
        """The ensemble's mean action for one state or a batch."""
        z = _normalised(states, self.normaliser, self.state_names)
        return _by_rows(_mean_output, self.network, z)

    def save(self, directory: str | Path) -> None:
        """Write the policy so that it loads without the log."""
        description = {
            "kind": self.kind,
            "method": self.method,
            "state_names": list(self.state_names),
            "provenance": dict(self.provenance),
        }
        arrays = _normaliser_arrays(self.normaliser) | _network_arrays(self.network)
        arrays |= _optional_network_arrays(self.average, "average")
        policy_files.write(Path(directory), description, arrays)

    @classmethod
    def load(cls, directory: str | Path) -> "ActionPolicy":
        """The policy that was saved there."""
        description, arrays = policy_files.read_kind(Path(directory), cls.kind, "an action policy")
        names = tuple(description["state_names"])
        method, provenance, average = (
            description["method"],
            description["provenance"],
            _optional_network(arrays, "average"),
        )
        return cls(_network(arrays), _normaliser(arrays), method, names, provenance, average)


def read_state_policy(directory: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a state policy's files say, with nothing put on a device yet."""
    return policy_files.read_kind(Path(directory), StatePolicy.kind, "a state policy")


# How a learner of a state policy is measured on held-out rows.


def measured_proposals(model: PolicyModel, data: Batch) -> dict[str, float]:
    """How often Δs is proposed as it happened, and how far proposals are from what happened, over all dimensions."""
    return {name: float(value) for name, value in _proposals(model, data).items()}


def measured_values(model: PolicyModel, data: Batch, value_scale: float) -> dict[str, float]:
    """Q of the proposed Δs, in the log's own rewards."""
    return {name: float(value) * value_scale for name, value in _values(model, data).items()}


def compared(proposed: Int[Array, "rows dim"], happened: Int[Array, "rows dim"]) -> Metrics:
    """Accuracy and error of proposed bins."""
    distance = jnp.abs(proposed.astype(jnp.int32) - happened.astype(jnp.int32))
    return {"accuracy": (distance == 0).mean(), "error": distance.sum(axis=1).astype(jnp.float32).mean()}


@eqx.filter_jit
def _proposals(model: PolicyModel, data: Batch) -> Metrics:
    return compared(model.index(data.states), data.deltas)


@eqx.filter_jit
def _values(model: PolicyModel, data: Batch) -> Metrics:
    values = model.best_value(data.states)
    return {"q/mean": values.mean(), "q/max": values.max()}


# Compiled once per number of rows, whichever policy asks.
_index = eqx.filter_jit(PolicyModel.index)
_probabilities = eqx.filter_jit(PolicyModel.probabilities)
_disagreement = eqx.filter_jit(PolicyModel.disagreement)
_outlook = eqx.filter_jit(PolicyModel.outlook)
_best_value = eqx.filter_jit(PolicyModel.best_value)
_value = eqx.filter_jit(PolicyModel.value)
_value_disagreement = eqx.filter_jit(lambda model, z: model.member_values(z).std(axis=0))
_mean_output = eqx.filter_jit(lambda network, z: network(z).mean(axis=0))


def _normalised(states: np.ndarray, normaliser: Normaliser, names: tuple[str, ...]) -> np.ndarray:
    _check(states, names, "states")
    return normaliser.normalise(states).astype(np.float32)


def _check(states: np.ndarray, names: tuple[str, ...], what: str) -> None:
    dim = len(names)
    if states.shape[-1:] != (dim,):
        raise ActionlessError(
            f"{what} of shape {states.shape}: the policy was trained on {dim} variables per state "
            f"({', '.join(names[:8])}{', …' if dim > 8 else ''})"
        )
    if not np.isfinite(states).all():
        place = np.argwhere(~np.isfinite(states))[0]
        row = f"row {place[0]}, " if len(place) > 1 else ""
        value = states[tuple(place)]
        raise ActionlessError(f"{what}: {row}variable '{names[place[-1]]}' is {value}; give finite numbers")


def _by_rows(function: Callable[..., Array], model: eqx.Module, *arrays: np.ndarray) -> np.ndarray:
    """Apply `function` to blocks of rows, padded to a power of two so that few sizes are ever compiled."""
    leading = arrays[0].shape[:-1]
    rows = [a.reshape(-1, a.shape[-1]) for a in arrays]
    parts = []
    for start in range(0, max(1, len(rows[0])), MOST_ROWS):
        block = [a[start : start + MOST_ROWS] for a in rows]
        count = len(block[0])
        size = 1 << max(0, count - 1).bit_length()
        padded = [np.concatenate([a, np.zeros((size - count, a.shape[1]), a.dtype)]) for a in block]
        parts.append(np.asarray(function(model, *padded))[:count])
    result = np.concatenate(parts)
    return result.reshape((*leading, *result.shape[1:]))


def _normaliser_arrays(normaliser: Normaliser) -> dict[str, np.ndarray]:
    return {"normaliser.mean": normaliser.mean, "normaliser.scale": normaliser.scale}


def _normaliser(arrays: Mapping[str, np.ndarray]) -> Normaliser:
    return Normaliser(arrays["normaliser.mean"], arrays["normaliser.scale"])


def _network_arrays(network: Ensemble, name: str = "network") -> dict[str, np.ndarray]:
    weights = {f"{name}.weights.{i}": np.asarray(w) for i, w in enumerate(network.weights)}
    return weights | {f"{name}.biases.{i}": np.asarray(b) for i, b in enumerate(network.biases)}


def _network(arrays: Mapping[str, np.ndarray], name: str = "network") -> Ensemble:
    layers = range(sum(key.startswith(f"{name}.weights.") for key in arrays))
    return Ensemble(
        weights=tuple(jnp.asarray(arrays[f"{name}.weights.{i}"]) for i in layers),
        biases=tuple(jnp.asarray(arrays[f"{name}.biases.{i}"]) for i in layers),
    )


def _optional_network_arrays(network: Ensemble | None, name: str) -> dict[str, np.ndarray]:
    return {} if network is None else _network_arrays(network, name)


def _optional_network(arrays: Mapping[str, np.ndarray], name: str) -> Ensemble | None:
    return _network(arrays, name) if f"{name}.weights.0" in arrays else None


def _require_average(average: Ensemble | None, method: str) -> Ensemble:
    if average is None:
        raise ActionlessError(
            f"{method}: this run kept no average of its weights: evaluate the last ones, or pre-train again (where the "
            "method has --average-rate, with one above 0)"
        )
    return average


def _support_arrays(support: Support) -> dict[str, np.ndarray]:
    networks = _network_arrays(support.distances, "distances") | _network_arrays(support.rewards, "rewards")
    return networks | {"lowest_value": np.asarray(support.lowest_value), "ends": np.asarray(support.ends)}


def _support(arrays: Mapping[str, np.ndarray]) -> Support | None:
    if "lowest_value" not in arrays:
        return None
    networks = _network(arrays, "distances"), _network(arrays, "rewards")
    # The first policies that knew a distance did not say whether the log's episodes end.
    return Support(*networks, jnp.asarray(arrays["lowest_value"]), jnp.asarray(arrays.get("ends", np.float32(1))))
