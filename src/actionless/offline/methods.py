"""The table of methods: what each is called, what it learns with, and how large it is at each scale.

A learner from outside the package is one more entry: `METHODS["mine"] = Method(...)`.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from actionless.errors import ActionlessError
from actionless.offline.afdt import Afdt, AfdtConfig, published_steps
from actionless.offline.imitation import Imitation, ImitationConfig, Target
from actionless.offline.iql_delta import IqlDelta, IqlDeltaConfig
from actionless.offline.learner import LearnerConfig, LogFacts, OfflineLearner, Output
from actionless.offline.oso_decqn import OsoDecqn, OsoDecqnConfig
from actionless.settings import ScaleName, table_entry


@dataclass(frozen=True)
class Size:
    """How large a method is at a scale, and how long it learns."""

    steps: int | Callable[[str], int]
    """Updates; where they depend on the log, by its name."""
    batch_size: int
    """Transitions, or windows of them, in each update."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the config has otherwise than by default."""

    def steps_for(self, log_name: str) -> int:
        """Updates on a log."""
        return self.steps(log_name) if callable(self.steps) else self.steps


@dataclass(frozen=True)
class Method:
    """A learner under a name."""

    learner: type[OfflineLearner]
    config: LearnerConfig
    sizes: Mapping[ScaleName, Size]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings that make the method what it is: no option of it."""
    about: str = ""
    """What it learns, for the help text."""

    @property
    def gives(self) -> tuple[Output, ...]:
        """What a run of it holds."""
        return dataclasses.replace(self.config, **self.fixed).declares.gives

    def config_at(self, scale: ScaleName, log: LogFacts | None = None) -> LearnerConfig:
        """The config at a scale; without the log, what does not follow from one."""
        config = self.config if log is None else self.config.for_log(log)
        return dataclasses.replace(config, **{**self.size(scale).settings, **self.fixed})

    def size(self, scale: ScaleName) -> Size:
        """Refuses a scale that the method does not have."""
        if scale not in self.sizes:
            raise ActionlessError(f"scale={scale!r}: choose {', '.join(map(repr, self.sizes))}")
        return self.sizes[scale]


# `cpu` was found by trials on logs that no reported figure rests on: experiments/pretraining/README.md. In each
# dimension the TD loss pulls with 2|error|/M, the penalty with at most α/M; the paper's millions of updates bring the
# error down to its α, a short run has to bring the penalty up to it, which `penalty_factor` does.
_VALUES: dict[ScaleName, Size] = {
    "smoke": Size(300, 64, {"ensemble": 2, "hidden": (32, 32), "learning_rate": 1e-3, "target_rate": 1e-2}),
    "cpu": Size(25_000, 256, {"hidden": (256, 256), "learning_rate": 3e-4, "target_rate": 5e-3, "penalty_factor": 5.0}),
    "paper": Size(3_000_000, 256),
}

_IMITATION: dict[ScaleName, Size] = {
    "smoke": Size(300, 64, {"hidden": (32, 32), "learning_rate": 1e-3}),
    "cpu": Size(25_000, 256, {"hidden": (256, 256), "learning_rate": 3e-4}),
    "paper": Size(3_000_000, 256),
}

_EXPECTILE: dict[ScaleName, Size] = {
    "smoke": Size(
        300,
        64,
        {"ensemble": 2, "hidden": (32, 32), "learning_rate": 1e-3, "target_rate": 1e-2, "average_rate": 1e-2},
    ),
    "cpu": Size(
        15_000,
        256,
        # All networks learn in every update: what guidance was measured with (experiments/guidance).
        {
            "ensemble": 5,
            "at_once": 5,
            "hidden": (256, 256),
            "learning_rate": 1e-3,
            "target_rate": 2e-2,
            "average_rate": 5e-3,
        },
    ),
    "paper": Size(1_000_000, 256),
}

_PLANS: dict[ScaleName, Size] = {
    "smoke": Size(100, 16, {"context": 5, "width": 16, "learning_rate": 1e-3, "warm_up": 10}),
    "cpu": Size(5_000, 64, {"learning_rate": 3e-4, "warm_up": 500}),
    "paper": Size(published_steps, 64),
}


def _imitation(target: Target, about: str) -> Method:
    return Method(Imitation, ImitationConfig(), _IMITATION, fixed={"target": target}, about=about)


METHODS: dict[str, Method] = {
    "oso-decqn": Method(OsoDecqn, OsoDecqnConfig(), _VALUES, about="values of Δs, kept close to the log"),
    "decqn": Method(
        OsoDecqn,
        OsoDecqnConfig(),
        _VALUES,
        fixed={"alpha": 0.0, "penalty_factor": 1.0},
        about="the same without the penalty",
    ),
    "iql-delta": Method(IqlDelta, IqlDeltaConfig(), _EXPECTILE, about="values of states, and the log's better Δs"),
    "bc-delta": _imitation("delta", "imitation of Δs"),
    "bc-next": _imitation("next_state", "imitation of the next state"),
    "bc-diff": _imitation("difference", "imitation of the difference s' - s"),
    "bc-action": _imitation("action", "imitation of the action, needs --with-actions"),
    "afdt": Method(Afdt, AfdtConfig(), _PLANS, about="AF-Guide's plans of the next state"),
}

DEFAULT_METHOD = "oso-decqn"


def method_named(name: str) -> Method:
    """The entry of the table; a name that is not there is refused."""
    return table_entry(METHODS, name, "method")
