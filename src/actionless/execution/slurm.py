"""Jobs as a script for SLURM: an array for each step of the order, submitted by the script itself.

actionless reproduce table-1 --data LOGS --slurm > table-1.sh
bash table-1.sh
"""

import shlex
from collections.abc import Sequence

from actionless.errors import ActionlessError
from actionless.execution.job import Job

_GIGABYTE = 1_000_000_000
_PROCESS_GIGABYTES = 1
"""What Python, JAX and a learner take."""


def array_script(jobs: Sequence[Job], name: str) -> str:
    """A Bash script. Called by hand it submits its arrays; called by SLURM as a task of an array it does one job.

    A job that is done is left alone, and one that was started is resumed, so that the script may be submitted again.
    A task that failed leaves those that need it undone: `afterany` lets them say so and end.
    """
    levels = _levels([job for job in jobs if not job.is_done])
    ordered = [job for level in levels for job in level]
    if not ordered:
        raise ActionlessError("nothing is left to do: call the same without --slurm to write the tables")
    memory = max(_PROCESS_GIGABYTES + -(-job.memory // _GIGABYTE) for job in ordered)
    cores = max(job.cores for job in ordered)
    submit, first = [], 0
    for level in levels:
        after = " --dependency=afterany:$before" if first else ""
        submit.append(f'  before=$(sbatch --parsable --array={first}-{first + len(level) - 1}{after} "$0")')
        first += len(level)
    cases = [
        f"  {number}) job {shlex.quote(str(job.out))} {shlex.join(job.arguments)} ;;"
        for number, job in enumerate(ordered)
    ]
    return "\n".join(
        [
            "#!/bin/bash",
            f"#SBATCH --job-name={name}",
            f"#SBATCH --cpus-per-task={cores}",
            f"#SBATCH --mem={memory}G",
            "#SBATCH --output=slurm-%A-%a.txt",
            "# Add what your cluster needs: --time, --partition, --account. After a time limit, submit again.",
            "set -eu",
            'if [ -z "${SLURM_ARRAY_TASK_ID:-}" ]; then',
            *submit,
            "  exit 0",
            "fi",
            f"export NPROC={cores} PJRT_NPROC={cores} OMP_NUM_THREADS={cores}",
            "job() {  # directory, command",
            "  local out=$1; shift",
            '  if [ -e "$out/result.json" ]; then return 0; fi',
            '  if [ -e "$out/run.json" ]; then actionless resume "$out"; else actionless "$@"; fi',
            "}",
            'case "$SLURM_ARRAY_TASK_ID" in',
            *cases,
            "esac",
            "",
        ]
    )


def _levels(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs by the number of jobs that must end one after the other before them."""
    depth: dict[str, int] = {}
    left = list(jobs)
    open_ = {str(job.out) for job in jobs}
    while left:
        for job in left:
            needed = [str(path) for path in job.after if str(path) in open_]
            if all(path in depth for path in needed):
                depth[str(job.out)] = 1 + max((depth[path] for path in needed), default=-1)
        left = [job for job in left if str(job.out) not in depth]
    return [
        [job for job in jobs if depth[str(job.out)] == level] for level in range(max(depth.values(), default=-1) + 1)
    ]
