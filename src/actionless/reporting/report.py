"""`report`: read runs, write a page and figures."""

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
    """Write runs of any verb as one HTML file that needs no network; return its path.

    Runs that differ only in their seed form one group, shown as a mean with its standard error. `figures` is a folder
    for the same charts as PNG and SVG. A directory with several seeds stands for the runs of its seeds.
    """
    paths = [Path(runs)] if isinstance(runs, str | Path) else [Path(run) for run in runs]
    target = Path(out)
    require_free_file(target, ".html", overwrite=overwrite)
    records, left_out = read_records(paths)
    sections, duplicates = make_sections(records)
    if figures is not None:
        from actionless.reporting.figures import write_figures

        write_figures(sections, Path(figures), overwrite=overwrite)
    page = render(sections, [*left_out, *duplicates], _command(paths, target, figures))
    with disk_trouble(target, "free some space, or choose a writable folder"):
        write_durably(target, page.encode())
    return target


def _command(paths: list[Path], out: Path, figures: str | Path | None) -> str:
    words = ["actionless", "report", *map(str, paths), "--out", str(out)]
    return shlex.join(words if figures is None else [*words, "--figures", str(figures)])
