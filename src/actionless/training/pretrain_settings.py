"""The settings of `pretrain`: one class, which run.json holds to the last detail."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from actionless.declared import Alternative, DeclaredSetting, declared_settings
from actionless.discretise import Spacing, check_bins
from actionless.errors import ActionlessError, require_extra
from actionless.offline.learner import LearnerConfig, LogFacts, OfflineLearner
from actionless.offline.methods import DEFAULT_METHOD, METHODS, Method, method_named
from actionless.old_runs import upgraded_config
from actionless.runs.directory import Manifest
from actionless.runs.sinks import SinkName
from actionless.settings import (
    Auto,
    Bounds,
    Count,
    Derived,
    NonNegative,
    ScaleName,
    Settings,
    changed,
    check_value,
    from_json,
)

DEFAULT_SCALE: ScaleName = "cpu"


@dataclass(frozen=True)
class LoopSettings(Settings):
    """How the loop works. Only `held_out` changes what is learnt."""

    held_out: Annotated[float, Bounds(0, 1, below=True)] = 0.1
    """Share of the episodes that is used for measurements, not for training."""
    log_every: Count = 100
    """Updates between two rows of metrics.jsonl."""
    evaluate_every: Count = 1000
    """Updates between two measurements on held-out episodes, a multiple of `log_every`."""
    checkpoint_seconds: NonNegative = 30.0
    """Shortest time between two checkpoints, which are written at measurements."""
    last_checkpoints: Count = 2
    """Number of last measurements whose checkpoints are written and kept, for `evaluate --last`."""
    resident_gb: NonNegative = 2.0
    """A log up to this size is copied to the device; of a larger one, batch by batch. The results are the same."""

    def check(self) -> None:
        """A measurement stands in a row of metrics.jsonl."""
        if self.evaluate_every % self.log_every:
            raise ActionlessError(
                f"evaluate_every={self.evaluate_every}: choose a multiple of log_every, which is {self.log_every}"
            )


@dataclass(frozen=True)
class PretrainSettings(Settings):
    """What is learnt from a log, with what and for how long."""

    method: Derived[str]
    scale: Derived[ScaleName]
    steps: Auto[Count]
    """Number of updates. By default the scale's."""
    batch_size: Auto[Count]
    """Transitions in each update; for a method that reads windows of the log, windows. By default the scale's."""
    learner: LearnerConfig
    bins: int = 3
    """Number of bins of each state variable's change."""
    spacing: Spacing = "epsilon"
    """Edges of the bins: at ±epsilon, evenly spaced over the range of changes, at quantiles of the changes, or
    (occupancy) on both sides of 0 at quantiles of their sizes, for each variable by itself."""
    epsilon: float = 1e-4
    """Largest change that counts as `same`, in standard deviations of the variable."""
    loop: LoopSettings = field(default_factory=LoopSettings)
    sinks: Derived[tuple[SinkName, ...]] = ()

    def check(self) -> None:
        """Bins must fit their spacing."""
        check_bins(self.bins, self.spacing, self.epsilon)

    @property
    def learner_class(self) -> type[OfflineLearner]:
        """What learns."""
        return method_named(self.method).learner


def resolve(
    method: str,
    scale: ScaleName,
    given: Mapping[str, Any],
    log: LogFacts | None = None,
    sinks: tuple[SinkName, ...] = (),
) -> PretrainSettings:
    """What the method is at a scale and for a log, with the changes that are given by flat name.

    Without a log, what follows from one is left at its default: to refuse what cannot work before anything is read.
    """
    entry = method_named(method)
    check_value("scale", scale, ScaleName)
    for sink in sinks:
        require_extra(sink, sink, f"logging to {sink}")
    size = entry.size(scale)
    settings = PretrainSettings(
        method=method,
        scale=scale,
        steps=size.steps_for("" if log is None else log.name),
        batch_size=size.batch_size,
        learner=entry.config_at(scale, log),
        sinks=sinks,
    )
    settings = changed(settings, given, method, fixed=tuple(entry.fixed))
    _require_fitting(settings.learner, method, entry)
    return settings


def stored_settings(run: str | Path, manifest: Manifest) -> PretrainSettings:
    """The settings that a run's run.json holds."""
    where = str(Path(run) / "run.json")
    return from_json(PretrainSettings, upgraded_config("pretrain", manifest.config), where)


def _require_fitting(learner: LearnerConfig, method: str, entry: Method) -> None:
    """Refuse a whole config, given as `learner`, that is another method's."""
    if type(learner) is not type(entry.config):
        raise ActionlessError(
            f"learner: {method} takes {type(entry.config).__name__}, not {type(learner).__name__}: give that, or "
            "settings by their names"
        )
    for name, value in entry.fixed.items():
        if getattr(learner, name) != value:
            raise ActionlessError(f"learner: {method} needs {name}={value!r}, not {getattr(learner, name)!r}")


def pretrain_options() -> tuple[DeclaredSetting, ...]:
    """Every setting that some method knows, for the flags of `pretrain` and for its signature in Python."""
    alternatives = {
        name: Alternative(
            examples=[entry.config_at(scale) for scale in entry.sizes],
            hidden=tuple(entry.fixed),
            auto=entry.config.set_by_log,
        )
        for name, entry in METHODS.items()
    }
    example = resolve(DEFAULT_METHOD, DEFAULT_SCALE, {})
    return declared_settings(example, {"learner": alternatives})
