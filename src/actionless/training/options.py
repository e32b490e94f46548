"""What `pretrain` takes, and what a run makes of it."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_type_hints

import numpy as np
from jaxtyping import Float

from actionless.discretise import Spacing, check_bins
from actionless.errors import ActionlessError, require_extra
from actionless.offline.afdt import AfdtConfig
from actionless.offline.presets import SCALES, LearnerConfig, Method, ScaleName, length, plan_returns, preset
from actionless.runs.sinks import SinkName


@dataclass(frozen=True)
class LearnerOptions:
    """Departures from what method and scale set; None keeps it. Not every method knows every one."""

    ensemble: int | None = None
    """Number of networks."""
    hidden: tuple[int, ...] | None = None
    """Sizes of the hidden layers."""
    learning_rate: float | None = None
    """Step size of Adam."""
    discount: float | None = None
    """γ: what a reward one step later is worth."""
    target_rate: float | None = None
    """τ: how fast the target network follows."""
    loss: Literal["mse", "huber"] | None = None
    """Loss of the TD error."""
    logits: Literal["utilities", "scaled"] | None = None
    """Softmax and log-sum-exp of U_j, or of U_j / M."""
    penalty_on: Literal["mean", "members"] | None = None
    """Penalise the ensemble's mean utilities, or each member's own."""
    target: Literal["mean", "min"] | None = None
    """The TD target takes the mean or the minimum over members."""
    mask_terminals: bool | None = None
    """Stop the backup at terminals."""
    reward_scale: float | None = None
    """Rewards are multiplied by it inside the learner."""
    context: int | None = None
    """Steps that the transformer looks at (afdt)."""
    width: int | None = None
    """Numbers in each of its tokens (afdt)."""
    blocks: int | None = None
    """Number of its blocks (afdt)."""
    target_return: float | None = None
    """Return to ask for; if not given, as published for the paper's data sets, or the log's highest (afdt)."""


@dataclass(frozen=True)
class LoopOptions:
    """How the loop works. All but `held_out` leave what is learnt untouched."""

    held_out: float = 0.1
    """Share of the episodes that is kept out of training and measured on."""
    log_every: int = 100
    """Updates between two rows of metrics.jsonl."""
    evaluate_every: int = 1000
    """Updates between two measurements on held-out episodes, a multiple of `log_every`."""
    checkpoint_seconds: float = 30.0
    """Least time between two checkpoints, which are taken at measurements."""
    resident_gb: float = 2.0
    """Up to this size a log is kept on the device; beyond, batches are gathered from the host. Same results."""


@dataclass(frozen=True)
class PretrainOptions:
    """What to learn and for how long; None leaves it to the scale and, for alpha, to the log's name."""

    method: Method = "oso-decqn"
    """OSO-DecQN, the same without its penalty, imitation of Δs, s', s' - s, or the action, or AF-Guide's AFDT."""
    scale: ScaleName = "cpu"
    """Preset sizes: seconds for a test, minutes on two cores, or the paper's."""
    alpha: float | None = None
    """Weight of the conservative penalty; if not given, by the log's name and the scale."""
    steps: int | None = None
    """Number of updates."""
    batch_size: int | None = None
    """Transitions in each update; with afdt, windows of `context` of them."""
    seed: int = 0
    """Decides the initial weights, the held-out episodes and the order of the data."""
    bins: int = 3
    """Number of bins of each state variable's change."""
    spacing: Spacing = "epsilon"
    """Where bins begin: at ±epsilon, even over the range of changes, or at their quantiles."""
    epsilon: float = 1e-4
    """A change of at most this much, in units of a variable's spread, counts as `same`."""
    learner: LearnerOptions = field(default_factory=LearnerOptions)
    loop: LoopOptions = field(default_factory=LoopOptions)


@dataclass(frozen=True)
class OfflineConfig:
    """A run to the last detail, as its run.json holds it."""

    method: Method
    scale: ScaleName
    steps: int
    batch_size: int
    bins: int
    spacing: Spacing
    epsilon: float
    learner: LearnerConfig
    loop: LoopOptions
    sinks: tuple[SinkName, ...] = ()

    @property
    def context(self) -> int:
        """Rows of the log, one behind the other, in each of the `batch_size` samples of an update."""
        return self.learner.context if isinstance(self.learner, AfdtConfig) else 1

    def to_json(self) -> dict[str, Any]:
        """Plain values for run.json."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "OfflineConfig":
        """What `to_json` wrote."""
        learner_type = type(preset(stored["method"], SCALES[stored["scale"]]))
        learner: dict[str, Any] = dict(stored["learner"])
        if "hidden" in learner:
            learner["hidden"] = tuple(learner["hidden"])
        parts = {
            "learner": learner_type(**learner),
            "loop": LoopOptions(**stored["loop"]),
            "sinks": tuple(stored["sinks"]),
        }
        return cls(**{**stored, **parts})


def check_options(options: PretrainOptions) -> None:
    """Refuse what cannot work, before any data is read. Python checks no annotation, so choices are checked too."""
    require_choices(options, "method", "scale", "spacing")
    require_choices(options.learner, "loss", "logits", "penalty_on", "target")
    check_bins(options.bins, options.spacing, options.epsilon)
    _learner_config(options, log_name="")
    loop = options.loop
    at_least_one(
        steps=options.steps, batch_size=options.batch_size, log_every=loop.log_every, evaluate_every=loop.evaluate_every
    )
    if not 0 <= options.seed < 2**32:
        raise ActionlessError(f"seed={options.seed}: choose between 0 and {2**32 - 1}")
    if loop.evaluate_every % loop.log_every:
        raise ActionlessError(
            f"evaluate_every={loop.evaluate_every}: choose a multiple of log_every, which is {loop.log_every}"
        )
    for name in ("checkpoint_seconds", "resident_gb"):
        if not (math.isfinite(getattr(loop, name)) and getattr(loop, name) >= 0):
            raise ActionlessError(f"{name}={getattr(loop, name)}: choose a finite number of at least 0")
    if not 0 <= loop.held_out < 1:
        raise ActionlessError(f"held_out={loop.held_out}: choose a share of the episodes from 0 to below 1")


def resolve(
    options: PretrainOptions,
    log_name: str,
    sinks: tuple[SinkName, ...] = (),
    episode_returns: Float[np.ndarray, " episodes"] | None = None,
) -> OfflineConfig:
    """Options with the gaps filled in by the scale, the log's name and, for afdt, the returns of its episodes."""
    for sink in sinks:
        require_extra(sink, sink, f"logging to {sink}")
    steps, batch_size = length(options.method, SCALES[options.scale], log_name)
    learner = _learner_config(options, log_name)
    if isinstance(learner, AfdtConfig) and episode_returns is not None:
        target, scale = plan_returns(log_name, float(episode_returns.min()), float(episode_returns.max()))
        asked = options.learner.target_return
        learner = dataclasses.replace(learner, target_return=target if asked is None else asked, return_scale=scale)
    return OfflineConfig(
        method=options.method,
        scale=options.scale,
        steps=steps if options.steps is None else options.steps,
        batch_size=batch_size if options.batch_size is None else options.batch_size,
        bins=options.bins,
        spacing=options.spacing,
        epsilon=options.epsilon,
        learner=learner,
        loop=options.loop,
        sinks=sinks,
    )


def require_choices(options: Any, *names: str) -> None:
    """That each of these fields holds one of the texts that its annotation lists."""
    annotations = get_type_hints(type(options))
    for name in names:
        value, kinds = getattr(options, name), (annotations[name], *get_args(annotations[name]))
        choices = [choice for kind in kinds for choice in get_args(kind) if isinstance(choice, str)]
        if value is not None and value not in choices:
            raise ActionlessError(f"{name}={value!r}: choose {', '.join(map(repr, choices))}")


def _learner_config(options: PretrainOptions, log_name: str) -> LearnerConfig:
    base = preset(options.method, SCALES[options.scale], log_name)
    departures = {"alpha": options.alpha, **dataclasses.asdict(options.learner)}
    given = {name: value for name, value in departures.items() if value is not None}
    fields = {config_field.name for config_field in dataclasses.fields(base)}
    known = departures.keys() & fields - _set_by_method(options.method)
    if foreign := sorted(given.keys() - known):
        raise ActionlessError(
            f"{foreign[0]}: not an option of {options.method}, which knows {', '.join(sorted(known))}"
        )
    require_sound(given)
    return dataclasses.replace(base, **given)


def _set_by_method(method: Method) -> set[str]:
    return {"oso-decqn": set[str](), "afdt": set[str](), "decqn": {"alpha"}}.get(method, {"target"})


def require_sound(given: dict[str, Any]) -> None:
    """Refuse settings of a learner or agent that no number of updates would mend."""
    for name in (
        "alpha",
        "learning_rate",
        "policy_learning_rate",
        "target_rate",
        "discount",
        "exploration_noise",
        "inverse_temperature",
        "guide_weight",
    ):
        value = given.get(name, 0.0)
        if not (math.isfinite(value) and value >= 0):
            raise ActionlessError(f"{name}={value}: choose a finite number of at least 0")
    for name in ("discount", "target_rate"):
        if given.get(name, 0.0) > 1:
            raise ActionlessError(f"{name}={given[name]}: choose at most 1")
    if not 0 < given.get("expectile", 0.5) < 1:
        raise ActionlessError(f"expectile={given['expectile']}: choose a number above 0 and below 1")
    for name in ("most_weight", "reward_scale"):
        if not 0 < given.get(name, 1.0) < math.inf:
            raise ActionlessError(f"{name}={given[name]}: choose a finite number above 0")
    if not math.isfinite(given.get("target_return", 0.0)):
        raise ActionlessError(f"target_return={given['target_return']}: choose a finite number")
    counts = ("ensemble", "n_step", "candidates", "penalty_every", "context", "width", "blocks")
    at_least_one(**{name: given.get(name) for name in counts})
    at_least_one(**{f"hidden layer {i + 1}": size for i, size in enumerate(given.get("hidden", ()))})


def at_least_one(**counts: int | None) -> None:
    """Refuse a count below one; None stands for a preset."""
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ActionlessError(f"{name}={count}: choose at least 1")
