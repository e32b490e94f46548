"""What a plan takes on this machine: hours of a core and bytes of disk.

Two short measurements, on one thread as the runs have: an update of one network of each size that the plan needs, and
steps of a simulator. A run's time follows from how many such updates each of its steps makes. What has been run
already says it better: a finished run of the same kind gives its own rate.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from actionless.errors import ActionlessError
from actionless.execution.job import has_whole_result
from actionless.reproduction.plan import Piece
from actionless.runs.directory import read_result
from actionless.runs.threads import thread_variables
from actionless.settings import ScaleName
from actionless.training.online_settings import OnlineSettings
from actionless.training.pretrain_settings import PretrainSettings

UPDATES: Mapping[str, float] = {
    "oso-decqn": 1.7,
    "decqn": 1.7,
    "iql-delta": 2.7,
    "bc-delta": 1.0,
    "bc-next": 1.0,
    "bc-diff": 1.0,
    "bc-action": 1.0,
    "td3": 4.5,
    "sac": 6.5,
    "iql": 6.0,
    "awac": 6.0,
    "cal-ql": 14.0,
    "o3f": 14.0,
}
"""Updates of one network in each step: forward and backward passes counted, a forward pass alone as a third. For
methods with an ensemble, per member. A method that is not here counts as 6."""

_GUIDANCE: Mapping[str, float] = {"paper-switch": 2.0, "switch": 2.0, "potential": 0.5, "relabel": 2.5, "plans": 1.5}
_PLANNER_UPDATES = 30.0
"""AF-Guide's transformer, in updates of a network of two layers of its width on as many rows."""
_EXPERT_STEPS: Mapping[ScaleName, int] = {"smoke": 300, "cpu": 20_000, "paper": 500_000}
_EPISODE_STEPS = 1_000
_START_SECONDS = 8.0
"""Starting Python and compiling."""

Size = tuple[tuple[int, ...], int]
"""Hidden layers and batch of a network."""


@dataclass(frozen=True)
class Estimate:
    """What runs take."""

    runs: int
    seconds: float
    """Of one core."""
    bytes: int

    @property
    def text(self) -> str:
        """For a reader."""
        return f"{self.runs:,} runs, {duration(self.seconds)} of a core, {self.bytes / 1e9:.2g} GB of disk"


@dataclass(frozen=True)
class Rates:
    """Measured on one core of this machine."""

    updates: Mapping[Size, float]
    """Seconds of an update of one network."""
    environment_step: float
    """Seconds of a step of Hopper-v5, with a decision of a small network."""


def sizes_of(pieces: Sequence[Piece]) -> set[Size]:
    """The networks that are to be measured."""
    return {_size(piece) for piece in pieces if piece.settings is not None}


def measure(sizes: set[Size]) -> Rates:
    """Measure in a process of its own, which has one thread."""
    asked = json.dumps([[list(hidden), batch] for hidden, batch in sorted(sizes)])
    command = [sys.executable, "-m", "actionless.reproduction.probe", asked]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **thread_variables(1)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise ActionlessError(f"the speed of this machine could not be measured: {done.stderr.strip()[-200:]}")
    said = json.loads(done.stdout)
    return Rates(dict(zip(sorted(sizes), said["updates"], strict=True)), said["environment_step"])


def estimated(pieces: Sequence[Piece], rates: Rates, scale: ScaleName) -> Estimate:
    """What is left to do of these runs."""
    known = _finished_rates(pieces)
    left = [piece for piece in pieces if not piece.job.is_done]
    seconds = math.fsum(known.get(_kind(piece)) or _seconds(piece, rates, scale) for piece in left)
    return Estimate(len(left), seconds, sum(map(_bytes, left)))


def duration(seconds: float) -> str:
    """In the unit that suits."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} seconds"


def _finished_rates(pieces: Sequence[Piece]) -> dict[str, float]:
    """Mean seconds of finished runs by their kind: they differ in seed and log alone."""
    took: dict[str, list[float]] = {}
    for piece in pieces:
        if has_whole_result(piece.job.out):
            result = read_result(piece.job.out)
            assert result is not None
            took.setdefault(_kind(piece), []).append(result.seconds)
    return {kind: sum(seconds) / len(seconds) for kind, seconds in took.items()}


def _kind(piece: Piece) -> str:
    return f"{piece.verb} {piece.settings} {piece.environment} {piece.title if piece.settings is None else ''}"


def _size(piece: Piece) -> Size:
    assert piece.settings is not None
    learner = piece.settings.learner
    hidden = getattr(learner, "hidden", None)
    if hidden is None:  # AF-Guide's planner
        width, context = getattr(learner, "width", 128), getattr(learner, "context", 20)
        return (width, width), piece.settings.batch_size * context
    return tuple(hidden), piece.settings.batch_size


def _seconds(piece: Piece, rates: Rates, scale: ScaleName) -> float:
    if piece.settings is None:
        # The expert model is trained once for several evaluations; a tenth of it each.
        largest = max(rates.updates.values(), default=0.0)
        return _START_SECONDS + 0.1 * _EXPERT_STEPS[scale] * largest + 10 * _EPISODE_STEPS * rates.environment_step
    update = rates.updates[_size(piece)]
    if isinstance(piece.settings, PretrainSettings):
        method = piece.settings.method
        count = UPDATES.get(method, _PLANNER_UPDATES) * getattr(piece.settings.learner, "ensemble", 1)
        return _START_SECONDS + piece.settings.steps * count * update
    return _START_SECONDS + _online_seconds(piece.settings, rates, update)


def _online_seconds(settings: OnlineSettings, rates: Rates, update: float) -> float:
    count = UPDATES.get(settings.agent, 6.0)
    if settings.agent == "decqn":
        count = 1.7 * getattr(settings.learner, "ensemble", 5)
    count += sum(_GUIDANCE.get(str(part.kind), 1.0) for part in settings.guidance)
    evaluations = settings.all_steps // settings.evaluate_every
    acted = settings.steps + evaluations * settings.loop.episodes * _EPISODE_STEPS
    return settings.all_steps * count * update + acted * rates.environment_step


def _bytes(piece: Piece) -> int:
    """Three checkpoints at most: weights, their moments and target networks, and of agents the replay."""
    if piece.settings is None:
        return 100_000
    hidden, _ = _size(piece)
    layers = [piece.state_dim, *hidden, 3 * piece.state_dim]
    weights = 4 * sum(a * b for a, b in pairwise(layers))
    networks = 4 * weights * getattr(piece.settings.learner, "ensemble", 3)
    replay = 0
    if isinstance(piece.settings, OnlineSettings):
        replay = piece.settings.replay_size * (8 * piece.state_dim + 32)
    return 3 * (networks + replay)
