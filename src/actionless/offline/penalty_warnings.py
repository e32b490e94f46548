"""Whether α suits the rewards: one sentence to the user, with the way out, where it does not.

The penalty's weight w is α times the scale's factor. In each of M dimensions a TD error e pulls at the utility of the
log's own Δs with 2|e|/M (at most 1/M by the Huber loss), and the penalty pulls back with w|p - f|/M, where p is the
policy's probability of that Δs and f its frequency in the log. So |p - f| settles at about 2|e|/w, which has two bad
ends. w has no unit of its own: only the scale of the rewards decides which one a log is near.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

TdLoss = Literal["mse", "huber"]
"""What is minimised of the TD error."""

_RISE = 1.1
_LEAST_SHIFT = 0.1

logger = logging.getLogger("actionless")


@dataclass(frozen=True)
class Penalty:
    """What is judged: how strong the penalty is beside the loss."""

    alpha: float
    factor: float = 1.0
    """What alpha is multiplied by."""
    loss: TdLoss = "mse"
    reward_scale: float = 1.0

    @property
    def weight(self) -> float:
        """What the penalty is multiplied by."""
        return self.alpha * self.factor

    def __str__(self) -> str:
        factor = f" times penalty_factor = {self.factor:g}" if self.factor != 1 else ""
        return f"alpha = {self.alpha:g}{factor}"

    def pull(self, td_loss: float) -> float:
        """M times what the typical error pulls with in each dimension: the loss's slope where it is the mean loss."""
        return 2 * math.sqrt(td_loss) if self.loss == "mse" else min(1.0, math.sqrt(2 * td_loss))


def warn_of_imitation(penalty: Penalty, return_spread: float) -> None:
    """At the start: no TD error lasts that is larger than the spread of returns.

    Where even that shifts probabilities by less than a tenth, nothing but near ties can turn out other than the log. On
    the bundled log, with rewards scaled so that the shift is 11, 1.1, 0.11 and 0.011, proposals agree with BC Δs
    in 86, 93, 93 and 93 of 100 cases (smoke scale, 3,000 updates).
    """
    shift = 2 * penalty.reward_scale * return_spread / penalty.weight if penalty.alpha > 0 else math.inf
    if penalty.loss == "mse" and shift < _LEAST_SHIFT:
        logger.warning(
            "the log's discounted returns spread by only %.3g, little beside %s: only imitation will be "
            "learnt; lower --alpha or raise --reward-scale, either by a factor of about %.2g",
            return_spread,
            penalty,
            _LEAST_SHIFT / max(shift, 1e-9),
        )


class PenaltyWatch:
    """While it learns: TD errors that outweigh the penalty drive the policy away from the log.

    Told once, when their pull exceeds the penalty's weight, the most that it can hold, and the penalty has risen by a
    tenth from its lowest. Either alone is no sign: the first errors are large in any run, and the penalty rises as a
    policy learns to prefer better Δs. On a Hopper replay log (experiments/pretraining), a weight of 3 has a pull of 1.3
    times the weight after 4,000 updates and 1.7 times after 8,000, with the penalty up from 0.40 to 0.69; the default,
    a weight of 15 (α = 3 times 5), ends after 25,000 with 0.85 times the weight and the penalty up from 0.33 to 0.63:
    strained, and still held.
    """

    def __init__(self, penalty: Penalty):
        self._penalty = penalty
        self._lowest = math.inf
        self._told = penalty.alpha == 0

    def __call__(self, step: int, metrics: Mapping[str, float]) -> None:
        """Judge one row of metrics."""
        risen, pull = metrics["penalty"], self._penalty.pull(metrics["td_loss"])
        self._lowest = min(self._lowest, risen)
        if self._told or pull <= self._penalty.weight or risen <= _RISE * self._lowest:
            return
        self._told = True
        logger.warning(
            "step %d: TD errors pull with %.3g, more than %s can hold, and the penalty has risen from %.2g to "
            "%.2g: proposals are leaving the log; start again with --alpha several times %.2g, or with a lower "
            "--reward-scale where rewards are far above 1 a step",
            step,
            pull,
            self._penalty,
            self._lowest,
            risen,
            pull / self._penalty.factor,
        )
