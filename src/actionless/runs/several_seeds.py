"""Several seeds in one run directory: a run RUN/seed-N for each, described in RUN/run.json."""

import dataclasses
from pathlib import Path

from actionless.runs.directory import Manifest

_KEY = "several_seeds"


@dataclasses.dataclass(frozen=True)
class SeveralSeeds:
    """What the seeds' runs have in common; stored in RUN/run.json."""

    seeds: tuple[int, ...]
    steps: int
    """Number of steps of each run."""
    headline: tuple[str, ...]
    """The metrics shown while the seeds are running."""
    memory: int
    """Bytes that the data takes in each process."""


def with_several_seeds(manifest: Manifest, several: SeveralSeeds) -> Manifest:
    """The manifest of the directory that holds the seeds' runs."""
    return dataclasses.replace(manifest, config={**manifest.config, _KEY: dataclasses.asdict(several)})


def has_several_seeds(manifest: Manifest) -> bool:
    """Whether a run holds the runs of several seeds."""
    return _KEY in manifest.config


def several_seeds(manifest: Manifest) -> SeveralSeeds:
    """Read it from the manifest of a run that has several seeds."""
    stored = manifest.config[_KEY]
    return SeveralSeeds(tuple(stored["seeds"]), stored["steps"], tuple(stored["headline"]), stored["memory"])


def manifest_of_seed(manifest: Manifest, seed: int) -> Manifest:
    """The manifest of one seed's run: it gets its share of the threads, so that all seeds can run at once."""
    config = {name: value for name, value in manifest.config.items() if name != _KEY}
    threads = max(1, manifest.threads // len(several_seeds(manifest).seeds))
    return dataclasses.replace(manifest, config=config, seed=seed, threads=threads)


def seed_paths(path: Path, manifest: Manifest) -> list[Path]:
    """Where the seeds' runs are."""
    return [path / f"seed-{seed}" for seed in several_seeds(manifest).seeds]
