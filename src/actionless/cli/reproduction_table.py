"""What `reproduce --list` and `--dry-run` print."""

from collections.abc import Sequence

from actionless.reproduction.reproduce import Experiments, Listed


def show_experiments(rows: Sequence[Listed]) -> None:
    """Each experiment: what it shows, its logs, and what it takes."""
    for row in rows:
        print(f"{row.name:<16} {row.title}")
        if row.robots:
            print(f"{'':<16} logs of {', '.join(row.robots)}; {'; '.join(row.takes)}")
    print(
        "\nTimes are of one core of this machine, from a short measurement. Experiments share runs in the same --out."
    )


def show_plan(experiments: Experiments) -> None:
    """Runs of each experiment, what is done, and what the rest takes."""
    for planned in experiments.planned:
        runs = {piece.job.out: piece.job for cell in planned.cells for piece in cell.pieces}
        done = sum(job.is_done for job in runs.values())
        print(f"{planned.declaration.name}: {planned.declaration.title}: {done} of {len(runs)} numbers are there")
    for piece in experiments.pieces:
        state = "done" if piece.job.is_done else "resume" if piece.job.out.exists() else "start"
        print(f"  {state:<7}{piece.job.out.name}")
    print(f"left to do: {experiments.estimate().text}")
