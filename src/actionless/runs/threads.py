"""How many threads JAX computes with on a CPU: it decides the last bits of a matrix product."""

import os

from actionless.errors import ActionlessError

_VARIABLES = ("PJRT_NPROC", "NPROC")
"""What XLA asks for the size of its thread pool, in this order, before it counts cores."""


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
    """Environment variables with which a process computes on so many threads, whatever else its environment says."""
    return dict.fromkeys(_VARIABLES, str(count))


def use_threads(count: int) -> None:
    """Have this process and its children use so many; JAX must not have computed anything yet."""
    os.environ.update(thread_variables(count))
