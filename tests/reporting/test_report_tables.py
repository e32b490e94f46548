import numpy as np
from hand_made_runs import alone, guided, pretrained, tuned

from actionless.reporting import tables
from actionless.reporting.curves import MeanCurve
from actionless.reporting.groups import make_sections
from actionless.reporting.records import read_records

TO_MATCH = "steps to match the unguided agent's final return"


def sections_of(*runs):
    return make_sections(read_records(runs)[0])[0]


def column(table, title):
    place = table.header.index(title)
    return {row[0]: row[place] for row in table.rows}


def test_summary_of_training(tmp_path):
    (section,) = sections_of(
        alone(tmp_path / "a", 10.0, 20.0, 30.0),
        alone(tmp_path / "b", 10.0, 40.0, 34.0, seed=1),
        guided(tmp_path / "c", 20.0, 32.0, 50.0),
    )
    table = tables.summary(section)
    assert column(table, "seeds") == {"td3 alone": "2", "td3 guided by switch": "1"}
    assert column(table, "final return") == {"td3 alone": "32 ± 2", "td3 guided by switch": "50"}
    assert column(table, "best of the mean") == {"td3 alone": "32 at 300", "td3 guided by switch": "50 at 300"}
    # (10 + 30) / 2 and (30 + 32) / 2, over two intervals of the same length
    assert column(table, "average return (area)") == {"td3 alone": "25.5", "td3 guided by switch": "33.5"}
    assert column(table, TO_MATCH) == {
        "td3 alone": "–",
        "td3 guided by switch": "200 of 300",
    }


def test_an_agent_that_began_with_a_log_is_measured_from_its_first_step_on(tmp_path):
    (section,) = sections_of(
        alone(tmp_path / "td3", 10.0, 20.0),
        tuned(tmp_path / "iql", 90.0, 50.0, 40.0, 60.0),
        tuned(tmp_path / "awac", 90.0, agent="awac", finished=False),
    )
    table = tables.summary(section)
    assert column(table, "steps") == {"awac with actions": "0", "iql with actions": "200", "td3 alone": "200"}
    assert column(table, "final return") == {"awac with actions": "–", "iql with actions": "60", "td3 alone": "20"}
    assert column(table, "best of the mean")["iql with actions"] == "60 at 200"
    # (50 + 40) / 2 and (40 + 60) / 2
    assert column(table, "average return (area)")["iql with actions"] == "47.5"
    assert column(table, "return from the log alone") == {
        "awac with actions": "–",
        "iql with actions": "50",
        "td3 alone": "–",
    }


def test_an_unguided_return_that_was_not_reached(tmp_path):
    (section,) = sections_of(alone(tmp_path / "a", 10.0, 20.0), guided(tmp_path / "b", 10.0, 19.0))
    assert column(tables.summary(section), TO_MATCH)["td3 guided by switch"] == "not reached (20)"


def test_an_unfinished_or_different_run_has_no_end_to_compare_with(tmp_path):
    for name, config in {"unfinished": {"finished": False}, "longer": {"steps": 900}}.items():
        folder = tmp_path / name
        (section,) = sections_of(alone(folder / "a", 10.0, 20.0, **config), guided(folder / "b", 30.0))
        (reached,) = [v for k, v in column(tables.summary(section), TO_MATCH).items() if "guided" in k]
        assert reached == "–"


def test_unfinished_runs_are_counted_up_to_where_they_are(tmp_path):
    (section,) = sections_of(
        alone(tmp_path / "a", 10.0, 20.0, 30.0), alone(tmp_path / "b", 10.0, seed=1, finished=False)
    )
    table = tables.summary(section)
    assert table.rows[0][:4] == ["td3", "2, 1 unfinished", "100", "10 ± 0"]
    assert column(tables.runs([section]), "state") == {
        str(tmp_path / "a"): "finished",
        str(tmp_path / "b"): "unfinished: step 100 of 300",
    }


def test_a_group_without_evaluations_has_no_return(tmp_path):
    run = alone(tmp_path / "a", 10.0)
    (run / "metrics.jsonl").write_text('{"step": 100, "loss": 1.0}\n')
    assert tables.summary(sections_of(run)[0]).rows == [["td3", "1", "100", "–", "–", "–"]]


def test_summary_of_pretraining_has_the_columns_that_were_measured(tmp_path):
    (section,) = sections_of(pretrained(tmp_path / "a", 0.5, 0.75))
    table = tables.summary(section)
    assert table.header == ["group", "seeds", "updates", "held-out accuracy", "loss"]
    assert table.rows == [["bc-delta", "1", "20", "0.75", "0.5"]]


def test_settings_that_differ_and_those_in_common(tmp_path):
    learner = {"hidden": [8, 8], "discount": 0.9}
    sections = sections_of(alone(tmp_path / "a", 1.0), alone(tmp_path / "b", 1.0, learner=learner))
    table = tables.settings_that_differ(sections)
    assert table.header == ["setting", "Hopper-v5: td3, discount 0.9", "Hopper-v5: td3, discount 0.99"]
    assert table.rows == [["learner.discount", "0.9", "0.99"]]
    assert column(tables.settings_in_common(sections), "value")["learner.hidden"] == "8, 8"
    assert tables.settings_that_differ(sections_of(alone(tmp_path / "c", 1.0))) is None


def test_logs_say_what_was_read_and_by_whom(tmp_path):
    sections = sections_of(guided(tmp_path / "a", 1.0), pretrained(tmp_path / "b", 0.5), alone(tmp_path / "c", 1.0))
    (row,) = tables.logs(sections).rows
    assert row[:5] == ["/logs/walk.npz", "npz", "2,000", "10", "states, rewards"]
    assert row[5].startswith("0123456789abcdef")
    assert row[6] == "Hopper-v5: td3 guided by switch; walk: bc-delta"
    assert tables.logs(sections_of(tmp_path / "c")) is None


def test_area_and_steps_to_reach():
    curve = MeanCurve(np.array([0, 100, 400]), np.array([0.0, 10.0, 10.0]), None)
    assert tables.area(curve) == (5 * 100 + 10 * 300) / 400
    assert tables.steps_to_reach(curve, 9.9) == 100
    assert tables.steps_to_reach(curve, 10.1) is None


def test_numbers_are_short_without_losing_digits_before_the_point():
    shown = {12345.6: "12,346", -123.4: "-123", 12.345: "12.3", 0.012345: "0.0123", 0.0: "0"}
    assert {value: tables.number(value) for value in shown} == shown
