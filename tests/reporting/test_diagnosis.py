"""What guidance did, in words."""

import pytest
from hand_made_runs import GUIDANCE, LOG, TRAIN, alone, guided, returns, write_run

from actionless.reporting.diagnosis import diagnosis
from actionless.reporting.groups import make_sections
from actionless.reporting.page import render
from actionless.reporting.records import read_records

POTENTIAL = {"potential/used": 1.0, "potential/share": 0.6, "potential/distance": 0.25}
RELABEL = {"relabel/used": 0.5, "relabel/agreed": 0.7, "relabel/error": 0.12}


def said(*paths):
    records, _ = read_records(list(paths))
    (section,), _ = make_sections(records)
    return diagnosis(section)


def run(path, *rows, seed=0):
    metrics = [{**row, **more} for row, more in zip(returns(*range(len(rows))), rows, strict=True)]
    data = {"guide": {"method": "iql-delta", "data": LOG}}
    return write_run(path, "train", {**TRAIN, "guidance": GUIDANCE}, metrics, seed=seed, data=data)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([POTENTIAL] * 2, "60% of the rewards that the agent learnt from, by size, came from the potential, at a"),
        ([{**POTENTIAL, "potential/distance": 3.0}], "the agent stayed far from the log (3.0 standard deviations"),
        (
            [POTENTIAL, {**POTENTIAL, "potential/used": 0.0, "potential/reward_correlation": -0.9}],
            "the potential was suspended for 50% of the run, because the rewards of steps near the log differ from the "
            "log's (correlation -0.90)",
        ),
        ([RELABEL], "50% of the rows in the batches were the log's. The recovered actions miss by 0.12 on held-out"),
        (
            [{**RELABEL, "relabel/used": 0.0, "relabel/suspended": 1.0}],
            "the use of the log's rows was suspended for 100% of the run, because the rewards",
        ),
        ([{**RELABEL, "relabel/used": 0.0, "relabel/agreed": 0.01}], "no row of the log was used: the models agreed"),
    ],
)
def test_sentences(tmp_path, rows, sentence):
    (found,) = said(run(tmp_path / "run", *rows))
    assert sentence in found


def test_the_switch_and_an_agent_alone(tmp_path):
    (found,) = said(guided(tmp_path / "guided", 1.0, 2.0), alone(tmp_path / "alone", 1.0, 2.0))
    assert "guided steps, 40% of all, paid more than the agent's own: 2 against 1." in found


def test_the_mean_of_the_seeds(tmp_path):
    runs = [run(tmp_path / f"run-{s}", {**POTENTIAL, "potential/share": 0.2 + 0.4 * s}, seed=s) for s in (0, 1)]
    (found,) = said(*runs)
    assert "40% of the rewards" in found


def test_the_page_shows_them(tmp_path):
    records, _ = read_records([run(tmp_path / "run", {**POTENTIAL, **RELABEL})])
    sections, _ = make_sections(records)
    page = render(sections, [], "actionless report")
    assert "<h3>What guidance did</h3><ul><li>" in page
    assert "60% of the rewards" in page
    assert page.count("standard deviations of each variable") == 1
