"""Show what is in a log: sizes, returns, the scale of each variable, how often it moves, and warnings.

DATA is a D4RL HDF5 file, `minari:ID` or a Minari folder, an npz file, a factorised DMC pickle, or a table
(Parquet, CSV, Arrow; several files or a glob). Options, or a TOML file beside a table, name its columns.

examples:
  actionless inspect hopper_medium-v2.hdf5
  actionless inspect minari:mujoco/hopper/medium-v0 --json
  actionless inspect 'plant/*.parquet' --state-columns 'temp_*,flow' --reward-column yield --episode-column batch
"""

import dataclasses
import json as json_module
from typing import Annotated

import tyro

from actionless.cli.read_flags import ReadFlags


@dataclasses.dataclass(frozen=True)
class Command:
    data: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DATA [DATA ...]")]
    """The log to read."""
    json: bool = False
    """Print everything as one JSON object."""
    epsilon: float = 1e-4
    """Largest change that counts as `same`, in standard deviations of the variable."""
    read: tyro.conf.OmitArgPrefixes[ReadFlags] = dataclasses.field(default_factory=ReadFlags)

    def run(self) -> None:
        """Read, inspect, print."""
        from actionless.analysis.inspection import inspect
        from actionless.data.read import read

        inspection = inspect(read(self.data, **self.read.given()), epsilon=self.epsilon)
        if self.json:
            print(json_module.dumps(inspection.to_dict(), indent=2, ensure_ascii=False))
        else:
            from actionless.cli.inspection_table import show

            show(inspection)
