"""The runs of several seeds in one run directory: RUN/seed-N for each, and what RUN/run.json says of them."""

import dataclasses
from pathlib import Path

from actionless.runs.directory import Manifest

_KEY = "several_seeds"


@dataclasses.dataclass(frozen=True)
class SeveralSeeds:
    """What is to be known of several runs at once; stands in the run.json that they share."""

    seeds: tuple[int, ...]
    steps: int
    """Where each of them ends."""
    headline: tuple[str, ...]
    """The metrics shown while they work."""
    memory: int
    """Bytes that each process takes for its data alone."""


def with_several_seeds(manifest: Manifest, several: SeveralSeeds) -> Manifest:
    """The manifest of the directory that holds the seeds' runs."""
    return dataclasses.replace(manifest, config={**manifest.config, _KEY: dataclasses.asdict(several)})


def has_several_seeds(manifest: Manifest) -> bool:
    """Whether a run holds the runs of several seeds."""
    return _KEY in manifest.config


def several_seeds(manifest: Manifest) -> SeveralSeeds:
    """What such a run says of them."""
    stored = manifest.config[_KEY]
    return SeveralSeeds(tuple(stored["seeds"]), stored["steps"], tuple(stored["headline"]), stored["memory"])


def manifest_of_seed(manifest: Manifest, seed: int) -> Manifest:
    """What the run of one seed is told: its share of the threads, so that all seeds can run side by side."""
    config = {name: value for name, value in manifest.config.items() if name != _KEY}
    threads = max(1, manifest.threads // len(several_seeds(manifest).seeds))
    return dataclasses.replace(manifest, config=config, seed=seed, threads=threads)


def seed_paths(path: Path, manifest: Manifest) -> list[Path]:
    """Where the seeds' runs are."""
    return [path / f"seed-{seed}" for seed in several_seeds(manifest).seeds]
