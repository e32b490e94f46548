"""What is printed at the end of a run: where its policy is, and its main metrics."""

from pathlib import Path

from actionless.runs.directory import read_result

_HEADLINES = (
    ("eval/return", "evaluation return"),
    ("episode/return", "return while learning"),
    ("heldout/accuracy", "held-out Δs accuracy"),
    ("heldout/error", "held-out Δs error"),
    ("heldout/action_error", "held-out action error"),
    ("train/accuracy", "Δs accuracy on training data"),
    ("train/error", "Δs error on training data"),
    ("train/action_error", "action error on training data"),
    ("q/mean", "Q mean"),
    ("q/data_return", "discounted return of the log"),
)


def show_summary(run: Path) -> None:
    """Print one line; for several seeds one line each, and their mean."""
    seeds = sorted(run.glob("seed-*"), key=lambda path: int(path.name.removeprefix("seed-")))
    for path in seeds or [run]:
        print(f"{path / 'policy'}: {_headline(path, 'steps in')}")
    if seeds:
        print(f"mean of {len(seeds)} seeds: {_headline(run, 'steps each, together')}")


def _headline(run: Path, took: str) -> str:
    result = read_result(run)
    if result is None:
        return "not finished"
    shown = [f"{title} {result.final[name]:.4g}" for name, title in _HEADLINES if name in result.final]
    return ", ".join([*shown, f"{result.steps:,} {took} {result.seconds:,.0f} s"])
