"""How many threads JAX computes with on a CPU: it decides the last bits of a matrix product."""

import os

from actionless.errors import ActionlessError

_VARIABLE = "NPROC"  # what XLA asks for the size of its thread pool, before it counts cores


def threads_here() -> int:
    """Threads that JAX uses, or will use, in this process."""
    if said := os.environ.get(_VARIABLE):
        if not (said.isascii() and said.isdigit() and int(said) > 0):
            raise ActionlessError(f"{_VARIABLE}={said}: give the number of threads, at least 1, or unset it")
        return int(said)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_threads(count: int) -> None:
    """Have this process and its children use so many; JAX must not have computed anything yet."""
    os.environ[_VARIABLE] = str(count)
