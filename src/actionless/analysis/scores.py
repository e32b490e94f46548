"""Normalised scores: 0 for random actions, 100 for the expert of the benchmark or of the recording."""

import re
from dataclasses import dataclass
from pathlib import Path

from actionless.data.log import Log
from actionless.data.recording import read_metadata
from actionless.errors import ActionlessError
from actionless.online.environments import SUITE


@dataclass(frozen=True)
class ReferenceScores:
    """The mean returns that define a score of 0 and a score of 100."""

    random: float
    expert: float

    def score(self, episode_return: float) -> float:
        """A return as a percentage of the way from random to expert."""
        return 100 * (episode_return - self.random) / (self.expert - self.random)


KNOWN: dict[str, ReferenceScores] = {
    # D4RL's values for the MuJoCo environments, whatever their version.
    "hopper": ReferenceScores(-20.272305, 3234.3),
    "halfcheetah": ReferenceScores(-280.178953, 12135.0),
    "walker2d": ReferenceScores(1.629008, 4592.3),
    # The action-factorised logs of the DeepMind Control Suite.
    f"{SUITE}cheetah-run": ReferenceScores(5.39, 664.57),
    f"{SUITE}quadruped-walk": ReferenceScores(121.31, 781.19),
}


def reference_scores(environment: str, log: Log | None = None) -> ReferenceScores | None:
    """The benchmark's values, for comparison with published scores; else those stored by `actionless record`."""
    known = KNOWN.get(re.sub(r"-v\d+$", "", environment.lower()))
    return known if known is not None or log is None else _recorded(environment, log)


def _recorded(environment: str, log: Log) -> ReferenceScores | None:
    """The values that `actionless record` stored, if the log is of this environment and has an expert's return."""
    try:
        about = read_metadata(Path(log.source.path))
    except ActionlessError:
        return None
    random, expert = about.get("random_return"), about.get("expert_return")
    if about.get("environment") != environment or random is None or expert is None or random == expert:
        return None
    return ReferenceScores(random, expert)
