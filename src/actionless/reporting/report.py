"""`report`: runs in, a page and figures out."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from actionless.files import disk_trouble, require_free_file, write_durably
from actionless.reporting.groups import make_sections
from actionless.reporting.page import render
from actionless.reporting.records import read_records


def report(
    runs: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    figures: str | Path | None = None,
    overwrite: bool = False,
) -> Path:
    """Write runs of any verb as one HTML file that needs no network; return where it is.

    Runs that differ in nothing but their seed are one group: a mean with its standard error. `figures` names a folder
    for the same charts as PNG and SVG. A directory with several seeds counts as its seeds.
    """
    paths = [Path(runs)] if isinstance(runs, str | Path) else [Path(run) for run in runs]
    target = Path(out)
    require_free_file(target, ".html", overwrite=overwrite)
    records, left_out = read_records(paths)
    sections, doubled = make_sections(records)
    if figures is not None:
        from actionless.reporting.figures import write_figures

        write_figures(sections, Path(figures), overwrite=overwrite)
    page = render(sections, [*left_out, *doubled], _command(paths, target, figures))
    with disk_trouble(target, "make room or choose a folder that can be written"):
        write_durably(target, page.encode())
    return target


def _command(paths: list[Path], out: Path, figures: str | Path | None) -> str:
    words = ["actionless", "report", *map(str, paths), "--out", str(out)]
    return shlex.join(words if figures is None else [*words, "--figures", str(figures)])
