"""What a bug report needs: versions, devices, threads, memory, extras, directories, and speed of the machine."""

import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from actionless.errors import ActionlessError, first_line
from actionless.runs.threads import threads_here
from actionless.version import __version__

PROBE_SECONDS = 5.0
"""How long the two probes take together, compilation not counted."""

MATMUL = 1024
STATE_DIM = 17

# Variables that change how JAX, MuJoCo or this package work.
_VARIABLES = (
    "PJRT_NPROC",
    "NPROC",
    "XLA_FLAGS",
    "JAX_PLATFORMS",
    "CUDA_VISIBLE_DEVICES",
    "MUJOCO_GL",
    "ACTIONLESS_CACHE",
)

Found = TypeVar("Found")


@dataclass(frozen=True)
class Directory:
    """A directory to write to: no `free_gb` if it is not writable, no `path` if it could identify the user."""

    path: str | None
    free_gb: float | None


@dataclass(frozen=True)
class Speed:
    """Speed with the default number of threads, while other processes may be running."""

    matmul: str
    matmul_gflops: float
    updates: str
    updates_per_second: float
    cores_busy: float
    """CPU time divided by wall-clock time: well below `threads` if other processes use the cores."""


@dataclass(frozen=True)
class Examination:
    """All findings; `trouble` lists what must be fixed before anything works, each with what to do."""

    versions: dict[str, str | None]
    """Of this package and of the packages that it requires; None if absent."""
    machine: dict[str, str]
    cores: int
    threads: int | None
    """Threads with which JAX computes on a CPU; None if PJRT_NPROC or NPROC is not a number."""
    memory_gb: float
    memory_limit_gb: float | None
    """A log larger than this is memory-mapped. Unknown, like devices and speed, if a required package is broken."""
    devices: list[str]
    extras: dict[str, dict[str, str | None]]
    """The packages of each optional extra, None if absent."""
    environment: dict[str, str]
    directories: dict[str, Directory]
    speed: Speed | None
    trouble: list[str]


def examine(probe_seconds: float = PROBE_SECONDS) -> Examination:
    """Examine everything; a problem only prevents the examinations that depend on it."""
    needed, optional = _requirements()
    trouble = _import_troubles(needed)
    whole = not trouble
    directories = {
        "temporary": _directory(tempfile.gettempdir, shown=True),
        "current": _directory(os.getcwd, shown=False),
    }
    trouble += _directory_troubles(directories)
    devices = _tried(_devices, trouble) if whole else None
    return Examination(
        versions={"actionless": __version__, "python": platform.python_version()} | _versions([*needed, "jaxlib"]),
        machine={"system": f"{platform.system()} {platform.release()}", "processor": _processor()},
        cores=os.cpu_count() or 1,
        threads=_tried(threads_here, trouble),
        memory_gb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9,
        memory_limit_gb=_memory_limit() if whole else None,
        devices=devices or [],
        extras={extra: _versions(packages) for extra, packages in optional.items()},
        environment={name: _without_home(os.environ[name]) for name in _VARIABLES if name in os.environ},
        directories=directories,
        speed=_tried(lambda: _speed(probe_seconds), trouble) if devices else None,
        trouble=trouble,
    )


def _requirements() -> tuple[dict[str, str], dict[str, list[str]]]:
    """The requirements of the installed version by package, and the packages of each extra."""
    needed, optional = {}, {}
    for requirement in importlib.metadata.requires("actionless") or []:
        package = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"](.+?)['\"]", requirement)
        if extra is None:
            needed[package] = requirement
        elif extra[1] != "dev":
            optional.setdefault(extra[1], []).append(package)
    return needed, optional


def _versions(packages: Iterable[str]) -> dict[str, str | None]:
    return {package: _version(package) for package in packages}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _import_troubles(needed: dict[str, str]) -> list[str]:
    """Required packages that are absent or broken; each module has the name of its package."""
    troubles = []
    for package, requirement in needed.items():
        try:
            importlib.import_module(package)
        except Exception as error:
            way_out = f"pip install --force-reinstall '{requirement}'"
            troubles.append(f"{package} cannot be imported ({first_line(error)}): {way_out}")
    return troubles


def _tried(look: Callable[[], Found], trouble: list[str]) -> Found | None:
    try:
        return look()
    except ActionlessError as error:
        trouble.append(str(error))
    except Exception as error:
        way_out = "check JAX_PLATFORMS and XLA_FLAGS, or install jax and jaxlib again"
        trouble.append(f"JAX does not work here ({first_line(error)}): {way_out}")
    return None


def _memory_limit() -> float:
    from actionless.data.store import default_memory_limit

    return default_memory_limit() / 1e9


def _devices() -> list[str]:
    import jax

    return [f"{device.platform}:{device.id} {device.device_kind}" for device in jax.devices()]


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    if described.exists() and (model := re.search(r"model name\s*: (.*)", described.read_text())):
        return f"{model[1]}, {platform.machine()}"
    return platform.processor() or platform.machine()


def _directory(find: Callable[[], str], *, shown: bool) -> Directory:
    try:
        path = find()
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"x")
        return Directory(_without_home(path) if shown else None, shutil.disk_usage(path).free / 1e9)
    except OSError:
        return Directory(None, None)


def _directory_troubles(directories: dict[str, Directory]) -> list[str]:
    ways_out = {
        "temporary": "make room there, or set TMPDIR to one that can be written to",
        "current": "make room there, or change to one that can be written to",
    }
    return [
        f"the {name} directory cannot be written to: {ways_out[name]}"
        for name, directory in directories.items()
        if directory.free_gb is None
    ]


def _without_home(text: str) -> str:
    return text.replace(str(Path.home()), "~")


def _speed(seconds: float) -> Speed:
    import jax
    import jax.numpy as jnp
    import numpy as np

    from actionless.offline.learner import Batch, Spec
    from actionless.offline.methods import DEFAULT_METHOD, METHODS
    from actionless.updates import train_state, updated

    rng = np.random.default_rng(0)
    matrix = jnp.asarray(rng.normal(size=(MATMUL, MATMUL)) / MATMUL**0.5, jnp.float32)
    product = jax.jit(lambda a: a @ a)
    products, _ = _rate(lambda: product(matrix), seconds / 2)

    method, together = METHODS[DEFAULT_METHOD], 10
    config, batch_size = method.config_at("cpu"), method.size("cpu").batch_size
    rows = batch_size * together
    batches = Batch(
        states=jnp.asarray(rng.normal(size=(rows, STATE_DIM)), jnp.float32),
        next_states=jnp.asarray(rng.normal(size=(rows, STATE_DIM)), jnp.float32),
        rewards=jnp.asarray(rng.normal(size=rows), jnp.float32),
        masks=jnp.ones(rows, jnp.float32),
        deltas=jnp.asarray(rng.integers(0, 3, (rows, STATE_DIM)), jnp.int32),
    )
    key = jax.random.key(0, impl="rbg")
    learner = method.learner.create(Spec(STATE_DIM, bins=3), config, key)
    held = [train_state(learner, jax.tree.map(lambda rows: rows[:batch_size], batches), key)]

    def update() -> jax.Array:
        held[0] = updated(held[0], batches, 0, together, key, batch_size)
        return held[0].updates

    dispatches, busy = _rate(update, seconds / 2)
    return Speed(
        matmul=f"float32 product of {MATMUL} × {MATMUL}",
        matmul_gflops=products * 2 * MATMUL**3 / 1e9,
        updates=f"{DEFAULT_METHOD} at scale cpu, batch {batch_size}, {STATE_DIM} variables",
        updates_per_second=dispatches * together,
        cores_busy=busy,
    )


def _rate(work: Callable[[], object], seconds: float) -> tuple[float, float]:
    """Calls per second after one that compiles, and how many cores they kept busy."""
    import jax

    jax.block_until_ready(work())
    calls, start, cpu = 0, time.perf_counter(), time.process_time()
    while (passed := time.perf_counter() - start) < seconds or not calls:
        jax.block_until_ready(work())
        calls += 1
    return calls / passed, (time.process_time() - cpu) / passed
