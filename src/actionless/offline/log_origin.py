"""Where a log came from, so that it can be read again."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from actionless.data.log import Log
from actionless.data.options import ReadOptions
from actionless.data.read import MINARI_PREFIX, read
from actionless.errors import ActionlessError
from actionless.offline.state_policy import StatePolicy
from actionless.settings import from_json


@dataclass(frozen=True)
class Origin:
    """What to read again, and how."""

    data: tuple[str, ...]
    read: ReadOptions

    @classmethod
    def of(cls, data: str | Path | Sequence[str | Path], read: ReadOptions) -> "Origin":
        """With absolute paths, so that it holds from any working directory."""
        parts = [data] if isinstance(data, str | Path) else list(data)
        return cls(tuple(_absolute(str(part)) for part in parts), read)


_WITHOUT = "choose guidance that needs no log: potential, or switch with --no-bootstrap (bootstrap=False)"


def require_log_of(policy: StatePolicy, log: Log) -> None:
    """Refuse a log that a policy cannot have been trained on."""
    dim = policy.model.discretiser.dim
    if log.state_dim != dim:
        raise ActionlessError(
            f"{log.source.path} has {log.state_dim} state variables, the state policy was trained on {dim}: "
            "give the log that the policy was trained on"
        )
    if len(log) == 0:
        raise ActionlessError(f"{log.source.path} holds no transitions: give the log that the policy was trained on")


def log_of(policy: StatePolicy, where: str) -> Log:
    """The log that a policy was trained on, read again without its actions."""
    data = policy.provenance.get("data", {})
    if not data.get("origin"):
        raise ActionlessError(
            f"{where}: does not say where its log is, which this guidance learns from: give it (log=... in Python), "
            f"or {_WITHOUT}"
        )
    origin = from_json(Origin, data["origin"], where)
    way_out = f"restore it, or {_WITHOUT}"
    try:
        log = read(origin.data, origin.read, with_actions=False)
    except ActionlessError as error:
        raise ActionlessError(f"the guide's log cannot be read ({error}): {way_out}") from error
    if log.fingerprint != data["fingerprint"]:
        raise ActionlessError(f"{log.source.path}: has changed since {where} was trained on it: {way_out}")
    return log


def _absolute(part: str) -> str:
    return part if part.startswith(MINARI_PREFIX) else str(Path(part).absolute())
