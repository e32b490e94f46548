"""Methods, scales and the paper's α, as data."""

import re
from dataclasses import dataclass
from typing import Literal

from jaxtyping import PRNGKeyArray

from actionless.offline.afdt import Afdt, AfdtConfig
from actionless.offline.imitation import Imitation, ImitationConfig, Target
from actionless.offline.learner import OfflineLearner, Spec
from actionless.offline.oso_decqn import OsoDecqn, OsoDecqnConfig

Method = Literal["oso-decqn", "decqn", "bc-delta", "bc-next", "bc-diff", "bc-action", "afdt"]
ScaleName = Literal["smoke", "cpu", "paper"]
LearnerConfig = OsoDecqnConfig | ImitationConfig | AfdtConfig

_LEARNERS: dict[type, type[OfflineLearner]] = {
    OsoDecqnConfig: OsoDecqn,
    ImitationConfig: Imitation,
    AfdtConfig: Afdt,
}

_IMITATED: dict[Method, Target] = {
    "bc-delta": "delta",
    "bc-next": "next_state",
    "bc-diff": "difference",
    "bc-action": "action",
}


@dataclass(frozen=True)
class PlanScale:
    """How large AFDT is and how long it learns."""

    steps: int | None
    """None: as published, by the data set."""
    batch_size: int
    """Windows of `context` steps."""
    context: int
    width: int
    learning_rate: float
    warm_up: int


@dataclass(frozen=True)
class Scale:
    """How large the networks are and how long they learn."""

    steps: int
    batch_size: int
    ensemble: int
    hidden: tuple[int, ...]
    learning_rate: float
    target_rate: float
    alpha_factor: float
    """What the paper's α is multiplied by. In each dimension the TD loss pulls with 2|error|/M, the penalty with at
    most α/M; the paper's millions of updates bring the error down to its α, a short run has to bring α up to it."""
    plan: PlanScale


# `cpu` was found by trials on logs that no reported figure rests on: experiments/pretraining/README.md.
SCALES: dict[ScaleName, Scale] = {
    "smoke": Scale(300, 64, 2, (32, 32), 1e-3, 1e-2, 1.0, PlanScale(100, 16, 5, 16, 1e-3, 10)),
    "cpu": Scale(25_000, 256, 5, (256, 256), 3e-4, 5e-3, 5.0, PlanScale(5_000, 64, 20, 128, 3e-4, 500)),
    "paper": Scale(3_000_000, 256, 5, (512, 512, 512), 1e-4, 1e-3, 1.0, PlanScale(None, 64, 20, 128, 1e-4, 10_000)),
}

DEFAULT_ALPHA = 8.0
"""For a log that is none of the paper's: the value it uses most."""

_TASKS_OF_HUBER = ("cheetah-run", "quadruped-walk")

PAPER_ALPHA: dict[str, float] = {
    "hopper-medium-replay": 3.0,
    "hopper-medium": 8.0,
    "hopper-medium-expert": 10.0,
    "hopper-expert": 8.0,
    "halfcheetah-medium-replay": 2.0,
    "halfcheetah-medium": 3.0,
    "halfcheetah-medium-expert": 8.0,
    "halfcheetah-expert": 8.0,
    "walker2d-medium-replay": 10.0,
    "walker2d-medium": 8.0,
    "walker2d-medium-expert": 8.0,
    "walker2d-expert": 8.0,
    "cheetah-run-random-medium-expert": 5.0,
    "cheetah-run-medium": 5.0,
    "cheetah-run-medium-expert": 5.0,
    "cheetah-run-expert": 5.0,
    "quadruped-walk-random-medium-expert": 5.0,
    "quadruped-walk-medium": 5.0,
    "quadruped-walk-medium-expert": 5.0,
    "quadruped-walk-expert": 5.0,
}


PLAN_STEPS: dict[str, int] = {"medium-replay": 60_000, "medium-expert": 30_000}
"""Updates published for AFDT on these levels of data."""
DEFAULT_PLAN_STEPS = 15_000
"""As published for the level `medium`."""
PLAN_TARGETS: dict[str, float] = {"hopper": 3600.0, "halfcheetah": 6000.0, "walker2d": 5000.0}
"""The returns that AF-Guide asks for."""
PLAN_RETURN_SCALE = 1000.0


def data_set(log_name: str) -> str | None:
    """The paper's data set that a log's name stands for (`hopper_medium-v2`), if it is one of them."""
    name = re.sub(r"-v\d+$", "", log_name.lower().replace("_", "-"))
    return name if name in PAPER_ALPHA else None


def preset(method: Method, scale: Scale, log_name: str = "") -> LearnerConfig:
    """The config of a method at a scale, with the paper's α and loss where the log is one of its data sets."""
    if method in _IMITATED:
        return ImitationConfig(target=_IMITATED[method], hidden=scale.hidden, learning_rate=scale.learning_rate)
    if method == "afdt":
        plan = scale.plan
        return AfdtConfig(
            context=plan.context, width=plan.width, learning_rate=plan.learning_rate, warm_up=plan.warm_up
        )
    name = data_set(log_name)
    alpha = DEFAULT_ALPHA if name is None else PAPER_ALPHA[name]
    return OsoDecqnConfig(
        alpha=0.0 if method == "decqn" else alpha * scale.alpha_factor,
        ensemble=scale.ensemble,
        hidden=scale.hidden,
        learning_rate=scale.learning_rate,
        target_rate=scale.target_rate,
        loss="huber" if name is not None and name.startswith(_TASKS_OF_HUBER) else "mse",
    )


def length(method: Method, scale: Scale, log_name: str = "") -> tuple[int, int]:
    """Updates of a method at a scale, and what each of them learns from: transitions, or windows of them."""
    if method != "afdt":
        return scale.steps, scale.batch_size
    level = (data_set(log_name) or "").partition("-")[2]
    steps = PLAN_STEPS.get(level, DEFAULT_PLAN_STEPS) if scale.plan.steps is None else scale.plan.steps
    return steps, scale.plan.batch_size


def plan_returns(log_name: str, lowest: float, highest: float) -> tuple[float, float]:
    """What AFDT asks for, and what it divides returns by: as published, or by the episodes of the log."""
    task = (data_set(log_name) or "").partition("-")[0]
    if task in PLAN_TARGETS:
        return PLAN_TARGETS[task], PLAN_RETURN_SCALE
    return highest, max(abs(lowest), abs(highest)) or 1.0


def create_learner(spec: Spec, config: LearnerConfig, key: PRNGKeyArray) -> OfflineLearner:
    """The learner a config belongs to."""
    return _LEARNERS[type(config)].create(spec, config, key)
