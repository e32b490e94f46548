"""Number of threads with which JAX computes on a CPU: the last bits of a matrix product depend on it."""

import os

from actionless.errors import ActionlessError

_VARIABLES = ("PJRT_NPROC", "NPROC")
"""XLA reads the size of its thread pool from these, in this order, before it counts cores."""


def threads_here() -> int:
    """Threads that JAX uses, or will use, in this process."""
    for variable in _VARIABLES:
        # XLA takes an empty variable for one that is not set.
        if said := os.environ.get(variable):
            # XLA ignores words and computes with one thread where the number is below 1: never what was meant.
            if not (said.isascii() and said.isdigit() and int(said) > 0):
                raise ActionlessError(f"{variable}={said}: give the number of threads, at least 1, or unset it")
            return int(said)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_variables(count: int) -> dict[str, str]:
    """Environment variables that make a process compute with `count` threads."""
    return dict.fromkeys(_VARIABLES, str(count))


def use_threads(count: int) -> None:
    """Make this process and its children compute with `count` threads; call it before JAX computes anything."""
    os.environ.update(thread_variables(count))
