"""Print a diagnosis: a row for each variable, figures about Q, and the verdict with its rules."""

import math

from rich.console import Console
from rich.table import Table
from rich.text import Text

from actionless.analysis.diagnostics import Diagnosis
from actionless.analysis.run_scores import RunFigures
from actionless.cli.inspection_table import printed


def show(diagnosis: Diagnosis | None, played: RunFigures | None) -> None:
    """Print the diagnosis and the episodes in the environment, if there are any."""

    def fill(console: Console) -> None:
        if diagnosis is not None:
            _diagnosis(console, diagnosis)
        if played is not None:
            console.print(_episodes(played))

    printed(fill)


def _diagnosis(console: Console, d: Diagnosis) -> None:
    sample = "" if d.log.measured == d.log.transitions else f", {d.log.measured:,} of them measured"
    console.print(
        Text(d.method, "bold"),
        f"on {d.log.path}, {d.log.measured_on}: {d.log.episodes:,} episodes, {d.log.transitions:,} transitions{sample}",
    )
    console.print(_variables(d))
    console.print(_remarks(d))
    console.print(Text(d.verdict.sentence, "bold"))
    for rule in d.verdict.rules:
        says = f"{rule.says}: {_number(rule.figure)} against {_number(rule.threshold)}"
        console.print(f"  {'yes' if rule.holds else 'no':<4}{says}")


def _episodes(played: RunFigures) -> Text:
    figures = played.to_dict()
    said = f"{figures['rollout_episodes']} episodes of {figures['environment']}: return {_number(figures['return'])}"
    said += f" ± {_number(figures['return_std'])}{_interval(figures['return_interval'])}"
    if figures["score"] is not None:
        said += f", score {_number(figures['score'])}{_interval(figures['score_interval'])}"
    if figures["rollout_delta_error"] is not None:
        said += f", Δs error {_number(figures['rollout_delta_error'])}"
    said += f", mean length {_number(figures['rollout_length'])}"
    if figures["idm_error"] is not None:
        said += f"; the inverse dynamics model is off by {_number(figures['idm_error'])} on actions it has not seen"
    if len(played.played) > 1:
        said += f"; {len(played.played)} policies, of which the best returned "
        said += _number(max(each["return"] for each in figures["checkpoints"]))
        said += f" and the worst {_number(min(each['return'] for each in figures['checkpoints']))}"
    return Text(said)


def _variables(d: Diagnosis) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("variable")
    for name in ("accuracy", "majority", "random", "error", "majority", "random", "ECE", "disagreement", "seen nearby"):
        table.add_column(name, justify="right")
    for a in (*d.dimensions, d.overall):
        table.add_row(
            a.name,
            *(f"{100 * share:.1f}%" for share in (a.accuracy, a.majority_accuracy, a.random_accuracy)),
            *(f"{error:.3f}" for error in (a.error, a.majority_error, a.random_error)),
            *(f"{100 * share:.1f}%" for share in (a.calibration_error, a.disagreement, a.seen_nearby)),
        )
    return table


def _remarks(d: Diagnosis) -> Table:
    table = Table.grid(padding=(0, 2))
    ensemble, reach = d.ensemble, d.reachability
    table.add_row(
        "members",
        f"agree on {ensemble.agreed_share:.1%} of the proposals; accuracy where they do "
        f"{_share(ensemble.accuracy_agreed)}, where they do not {_share(ensemble.accuracy_contested)}",
    )
    table.add_row(
        "nearby",
        f"the {reach.neighbours} nearest of {reach.seen:,} states, for {reach.states:,} states; "
        f"of what did happen {reach.observed:.1%} were seen nearby",
    )
    table.add_row("compared with", f"majority and neighbours of {d.log.compared_with}")
    if (values := d.values) is not None:
        table.add_row(
            "Q",
            f"{_number(values.q_of_proposals)} for proposals, {_number(values.gain)} above what happened; observed "
            f"return {_number(values.data_return)} ± {_number(values.return_std)} (γ = {values.discount:g}, "
            f"{values.states:,} states with a complete return); rank correlation {_number(values.rank_correlation)}",
        )
    return table


def _share(share: float | None) -> str:
    return "none" if share is None else f"{share:.1%}"


def _interval(ends: list[float]) -> str:
    return f" [{_number(ends[0])}, {_number(ends[1])}]"


def _number(value: float) -> str:
    if math.isnan(value):
        return "none"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
