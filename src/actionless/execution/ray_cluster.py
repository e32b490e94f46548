"""Jobs on a Ray cluster whose machines share the disk that the runs are on.

The cluster keeps nothing: a task is given a job, and a job is a directory and a command line. What is done is on the
disk, and so a killed worker, a lost machine and a driver that is called again all lead to the same: what has a whole
result is left alone, what was started is resumed.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actionless.errors import ActionlessError, require_extra
from actionless.execution.executor import Executor, Plan
from actionless.execution.job import Job
from actionless.execution.local_processes import PROCESS_BYTES
from actionless.execution.outcome import Outcome
from actionless.execution.watch import Watch
from actionless.runs.directory import is_locked, locked
from actionless.runs.signals import STOP_WITH_PARENT, StopRequest
from actionless.runs.threads import thread_variables

_SECONDS_BETWEEN_LOOKS = 0.2
_ANSWER_SECONDS = 10.0
_LOCK_SECONDS = 120.0
"""How long a job waits for the process that worked on its run before, whose worker was lost, to stop."""

logger = logging.getLogger("actionless")


@dataclass(frozen=True)
class RayCluster(Executor):
    """One task for each job, with as many cores as it asks for, and JAX's threads to match.

    Ray runs a task again, on whichever machine has room, as often as its worker or machine is lost. A job that ends
    with an error of its own is not run again.
    """

    address: str = "auto"
    """Of the cluster; `auto` is the one that this machine belongs to, `local` starts one on this machine."""

    def run(self, jobs: Sequence[Job], watch: Watch | None = None) -> list[Outcome]:
        """Ctrl-C and SIGTERM stop every job after its checkpoint, then end the call as they would end a process."""
        require_extra("ray", "ray", "--ray")
        plan = Plan(jobs, watch)
        if plan.ready():
            ray = _connected(self.address)
            try:
                _warn_if_locks_do_not_hold(ray, jobs[0].out.parent)
                _work(ray, plan)
            finally:
                ray.shutdown()
        return plan.outcomes


def _connected(address: str) -> Any:
    import ray  # pyright: ignore[reportMissingImports]

    _require_answer(address)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=None if address == "local" else address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            namespace="actionless",
            include_dashboard=False if address == "local" else None,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ActionlessError(
            f"--ray {address}: no cluster answers ({line}); start one with `ray start --head`, or give its address"
        ) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray puts its own in the place of the caller's
    return ray


def _require_answer(address: str) -> None:
    """Ray itself tries an address for minutes, and then ends the process."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
        except OSError as error:
            raise ActionlessError(
                f"--ray {address}: no cluster answers ({error.strerror or error}); "
                "start one with `ray start --head`, or give its address"
            ) from error


def _work(ray: Any, plan: Plan) -> None:
    running: dict[Any, Job] = {}
    told = False
    with StopRequest() as stop:
        while running or (plan.ready() and not stop):
            if not stop:
                for job in plan.ready():
                    running[_submitted(ray, job, plan.begin(job))] = job
            elif not told:
                told = True
                for task in running:
                    ray.cancel(task)  # interrupts the task, which stops its process after a checkpoint
            done, _ = ray.wait(list(running), num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS)
            for task in done:
                _collect(ray, plan, running.pop(task), task, stop)
            plan.waiting()
        stop.obey()


def _submitted(ray: Any, job: Job, output: Path) -> Any:
    options = {
        "num_cpus": job.cores,
        "memory": PROCESS_BYTES + job.memory,
        "max_retries": -1,
        "retry_exceptions": False,
        "name": job.out.name,
    }
    return ray.remote(_done_by_worker).options(**options).remote(job, output)


def _collect(ray: Any, plan: Plan, job: Job, task: Any, stop: StopRequest) -> None:
    try:
        code = ray.get(task)
    except ray.exceptions.TaskCancelledError:
        return
    except ray.exceptions.RayError as error:
        if not stop:
            line = str(error).splitlines()[0]
            plan.ended(job, ActionlessError(f"{job.out}: Ray could not run it: {line}; call again to resume it"))
        return
    if code == 0 or not stop:
        plan.exited(job, code)


def _done_by_worker(job: Job, output: Path) -> int:
    """Runs on a machine of the cluster: the job's command in a process of its own. Returns its exit code."""
    _wait_until_free(job.out)
    if job.is_done:  # by the process of a worker that was lost
        return 0
    with output.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "actionless", *job.command],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            start_new_session=True,
            env={**os.environ, STOP_WITH_PARENT: "1", **thread_variables(job.cores)},
        )
    try:
        while process.poll() is None:  # not `wait`, which Ray's interrupt of a cancelled task does not reach
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return process.returncode
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise


def _wait_until_free(run: Path) -> None:
    """The process of a lost worker stops by itself, after a checkpoint; until then it holds the run's lock."""
    end = time.monotonic() + _LOCK_SECONDS
    while is_locked(run) and time.monotonic() < end:
        time.sleep(0.2)


def _warn_if_locks_do_not_hold(ray: Any, folder: Path) -> None:
    """Take a lock here and try to take it on every other machine.

    Where that works, the file system keeps no locks between machines: should a machine be cut off from the cluster
    and not from the disk, a run might be worked on twice.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # pyright: ignore[reportMissingImports]

    here = ray.get_runtime_context().get_node_id()
    others = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeID"] != here]
    probe = folder / ".locks"
    probe.mkdir(parents=True, exist_ok=True)
    with locked(probe):
        asked = [
            ray.remote(_sees_lock)
            .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
            .remote(probe)
            for node in others
        ]
        if not all(ray.get(asked)):
            logger.warning(
                "%s: a lock taken here is not seen on other machines; do not work on the same runs from two clusters, "
                "and before you start again make sure that no lost machine still works",
                folder,
            )


def _sees_lock(folder: Path) -> bool:
    if not folder.is_dir():
        raise ActionlessError(f"{folder}: not seen on every machine of the cluster; choose an --out on a shared disk")
    return is_locked(folder)
