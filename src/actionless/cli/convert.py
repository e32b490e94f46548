"""Write a log in another format, without loss.

OUT determines the format: `FILE.parquet` (one row per state, with a TOML file beside it that names the columns),
`FILE.npz`, or `minari:ID` for a data set in the local Minari folder. Actions are only written with `--with-actions`.

examples:
  actionless convert hopper_medium-v2.hdf5 --out hopper.parquet
  actionless convert 'plant/*.csv' --state-columns 'temp_*' --reward-column yield --out minari:plant/heater-v0
  actionless convert minari:mujoco/hopper/medium-v0 --with-actions --out hopper.npz
"""

import dataclasses
from typing import Annotated

import tyro

from actionless.cli.output import note, show_warnings
from actionless.cli.read_flags import ReadFlags
from actionless.data.convert import MinariStorageName, check_target, convert


@dataclasses.dataclass(frozen=True)
class Command:
    data: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DATA [DATA ...]")]
    """The log to read; see `actionless inspect --help`."""
    out: Annotated[str, tyro.conf.arg(metavar="OUT")]
    """Where to write: FILE.parquet, FILE.npz or minari:ID."""
    overwrite: bool = False
    """Replace existing files."""
    storage: MinariStorageName = "hdf5"
    """How a Minari data set is stored."""
    read: tyro.conf.OmitArgPrefixes[ReadFlags] = dataclasses.field(default_factory=ReadFlags)

    def run(self) -> None:
        """Read, write, print the size and fingerprint of the log."""
        from actionless.data.read import read

        check_target(self.out, overwrite=self.overwrite, storage=self.storage)
        log = read(self.data, **self.read.given())
        show_warnings(log)
        convert(log, self.out, overwrite=self.overwrite, storage=self.storage)
        note(f"wrote {self.out}: {len(log):,} transitions, fingerprint {log.fingerprint[:16]}")
