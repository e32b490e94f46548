"""The loop that learns from a log, the same for every learner.

Update t depends on the learner before it, the seed and t, and on nothing else. Dispatches may therefore be
as long as the machine likes, and a run may stop anywhere, without a bit of the result changing.
"""

import logging
import time

import equinox as eqx
import jax

from actionless.data.log import Log
from actionless.discretise import Discretiser
from actionless.offline.learner import Spec
from actionless.old_runs import OFFLINE_NAMES
from actionless.runs.engine import Advance, Loop
from actionless.training.batches import Batches, Draw, HostBatches, Preparation, ResidentBatches, Split
from actionless.training.heldout import HeldOut, possible_names
from actionless.training.pretrain_settings import PretrainSettings
from actionless.updates import TrainState, means, reset_metrics, train_state, updated

FIRST_ROW = 10
"""Updates before the first row of metrics: a run shows within seconds that it works."""

_BUFFER_BYTES = 64 * 2**20
_SECONDS_PER_DISPATCH = 1.0

logger = logging.getLogger("actionless")


class OfflineLoop(Loop[TrainState]):
    """Pre-training on one log."""

    old_names = OFFLINE_NAMES

    def __init__(self, log: Log, settings: PretrainSettings, seed: int):
        self.settings, self.steps = settings, settings.steps
        self.discretiser = Discretiser.fit(
            log.states, log.next_states, bins=settings.bins, spacing=settings.spacing, epsilon=settings.epsilon
        )
        declared = settings.learner.declares
        split = Split.by_episode(log, settings.loop.held_out, seed)
        preparation = Preparation.of(log, self.discretiser, declared.columns)
        # XLA's own generator: it compiles in a quarter of the time of JAX's default, and draws faster.
        self._initial_key, self._update_key = jax.random.split(jax.random.key(seed, impl="rbg"))
        actions = None if log.actions is None else log.actions.shape[1]
        self._spec = Spec(log.state_dim, settings.bins, actions, int(log.episode_lengths.max()))
        draw = Draw(len(split.training), settings.batch_size, seed, declared.window)
        self._batches = _batches(preparation, split, draw, settings)
        self._rows_per_update = draw.rows_per_update
        self._held_out = HeldOut.of(preparation, split, declared)
        self.score, self.lower_is_better = self._held_out.full_name(declared.score), declared.lower_is_better
        self.headline = shown_metrics(settings)
        self._pace = _Pace(self._batches.capacity)
        self._watch = settings.learner.watch(self._held_out.returns)
        if len(split.held_out) == 0:
            logger.warning("nothing is held out%s: measured on training data", _why(log))

    def begin(self) -> TrainState:
        """A learner that has learnt nothing."""
        create = eqx.filter_jit(self.settings.learner_class.create)
        learner = create(self._spec, self.settings.learner, self._initial_key)
        example = jax.tree.map(lambda array: array[: self._rows_per_update], self._held_out.data)
        return train_state(learner, example, self._update_key)

    def advance(self, state: TrainState, step: int) -> Advance[TrainState]:
        """About a second's worth of updates, up to the next row of metrics at most."""
        row = self._next_row(step)
        updates = min(self._pace.updates, row - step)
        began = time.perf_counter()
        batches = self._batches.of(step, updates)
        after = updated(state, batches, step, updates, self._update_key, self._rows_per_update)
        jax.block_until_ready(after)
        self._pace.record(updates, time.perf_counter() - began)
        if step + updates < row:
            return Advance(after, step + updates, {})
        metrics = means(after)
        if self._watch is not None:
            self._watch(row, metrics)
        if row == FIRST_ROW or row % self.settings.loop.evaluate_every == 0 or row == self.steps:
            metrics |= self._held_out.measure(after.learner)
        return Advance(reset_metrics(after), row, metrics)

    def _next_row(self, step: int) -> int:
        every = self.settings.loop.log_every
        row = FIRST_ROW if step < FIRST_ROW < every else (step // every + 1) * every
        return min(row, self.steps)


class _Pace:
    """How many updates make a dispatch of about a second: Ctrl-C waits for no more than that."""

    def __init__(self, most: int):
        self._most = most
        self._compiled = False
        self.updates = min(most, FIRST_ROW)

    def record(self, updates: int, seconds: float) -> None:
        """The first dispatch says nothing: it compiles."""
        if self._compiled:
            self.updates = max(1, min(self._most, int(updates * _SECONDS_PER_DISPATCH / max(seconds, 1e-9))))
        self._compiled = True


def shown_metrics(settings: PretrainSettings) -> tuple[str, ...]:
    """The metrics to watch while a run works."""
    return ("loss", *possible_names(settings.learner.declares.shown))


def _batches(preparation: Preparation, split: Split, draw: Draw, settings: PretrainSettings) -> Batches:
    batch_bytes = draw.rows_per_update * preparation.row_bytes
    capacity = max(1, min(settings.loop.log_every, _BUFFER_BYTES // batch_bytes))
    if len(split.training) * preparation.row_bytes > settings.loop.resident_gb * 1e9:
        return HostBatches(preparation, split.training, draw, capacity)
    data = preparation.many_rows(split.training).on_device()
    return ResidentBatches(data, draw, capacity)


def _why(log: Log) -> str:
    return " of a single episode" if len(log.episode_stops) == 1 else ""
