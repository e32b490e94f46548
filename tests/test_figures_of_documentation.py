"""Figures that are computed from data show what the data and the code give today."""

import runpy

from documented import ROOT


def test_the_figure_of_delta():
    script = ROOT / "docs" / "figures" / "delta.py"
    assert runpy.run_path(str(script))["drawing"]() == script.with_suffix(".svg").read_text()
