"""A job: a directory, and the command line that makes it. Everything that is known of a job is on the disk."""

from dataclasses import dataclass
from pathlib import Path

from actionless.errors import ActionlessError
from actionless.offline import policy_files
from actionless.runs.directory import read_manifest, read_result
from actionless.runs.several_seeds import has_several_seeds, seed_paths

_MANIFEST = "run.json"
_OUTPUT = "output.txt"


@dataclass(frozen=True)
class Job:
    """One call of `actionless` and the directory it makes; the directory may be on a disk that machines share."""

    out: Path
    """What the command line gives to `--out`: a run directory, or a folder that gets a result.json."""
    arguments: tuple[str, ...]
    """The command line, without the word `actionless`."""
    after: tuple[Path, ...] = ()
    """The `out` of the jobs that must be done first."""
    cores: int = 1
    memory: int = 0
    """Bytes that its data takes."""

    def __post_init__(self) -> None:
        if self.cores < 1 or self.memory < 0:
            raise ValueError(f"{self.out}: cores={self.cores}, memory={self.memory}: at least 1 core and 0 bytes")

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return is_done(self.out)

    @property
    def command(self) -> tuple[str, ...]:
        """The command line to call now: a run that was started is resumed."""
        return ("resume", str(self.out)) if (self.out / _MANIFEST).exists() else self.arguments

    @property
    def output(self) -> Path:
        """The file for what it prints: beside `out` until `out` exists, which a new run must not."""
        return self.out / _OUTPUT if self.out.is_dir() else self.out.with_name(f"{self.out.name}.{_OUTPUT}")

    def gather_output(self) -> None:
        """Move what it printed before `out` existed into `out`."""
        beside = self.out.with_name(f"{self.out.name}.{_OUTPUT}")
        if self.out.is_dir() and beside.exists():
            with self.output.open("ab") as output:
                output.write(beside.read_bytes())
            beside.unlink()


def is_done(path: Path) -> bool:
    """Whether the result there is whole, and with it the policy of a run, or every run of several seeds.

    Looked at without JAX: a process that has used an accelerator keeps most of its memory.
    """
    if not has_whole_result(path):
        return False
    if not (path / _MANIFEST).exists():
        return True
    try:
        manifest = read_manifest(path)
        if has_several_seeds(manifest):
            return all(is_done(seed) for seed in seed_paths(path, manifest))
        policy_files.read(path)
    except ActionlessError:
        return False
    return True


def has_whole_result(path: Path) -> bool:
    """Whether the result.json there can be read; one that is damaged counts as none."""
    try:
        return read_result(path) is not None
    except (ValueError, TypeError):  # no JSON, or JSON with other keys
        return False
