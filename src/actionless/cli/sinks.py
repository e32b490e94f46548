"""Options of verbs that write metrics."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actionless.runs.sinks import SinkName


@dataclass(frozen=True)
class SinkFlags:
    """Where metrics go besides the run directory."""

    tensorboard: bool = False
    """Log to TensorBoard as well, under RUN/tensorboard."""
    wandb: bool = False
    """Log to Weights & Biases as well."""

    @property
    def chosen(self) -> "tuple[SinkName, ...]":
        """Names of the sinks that were asked for."""
        chosen: list[SinkName] = []
        if self.tensorboard:
            chosen.append("tensorboard")
        if self.wandb:
            chosen.append("wandb")
        return tuple(chosen)
