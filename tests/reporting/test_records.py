import pytest
from hand_made_runs import TRAIN, alone, returns, write_run

from actionless.errors import ActionlessError
from actionless.reporting.records import read_records


def test_metrics_become_curves_at_the_steps_where_they_were_measured(tmp_path):
    rows = [{"step": 100, "loss": 2.0}, {"step": 200, "loss": 1.0, "eval/return": 7}]
    (record,), notes = read_records([write_run(tmp_path / "run", "train", TRAIN, rows)])
    assert record.metrics["loss"].steps.tolist() == [100, 200]
    assert record.metrics["loss"].values.tolist() == [2.0, 1.0]
    assert record.metrics["eval/return"].steps.tolist() == [200]
    assert record.step == 200
    assert record.result is not None
    assert notes == []


def several(path, *seeds):
    config = {**TRAIN, "several_seeds": {"seeds": list(seeds)}}
    write_run(path, "train", config, [], finished=False)
    (path / "metrics.jsonl").unlink()
    return path


def test_a_run_of_several_seeds_is_its_seeds_in_order_and_each_counts_once(tmp_path):
    run = several(tmp_path / "run", 2, 10)
    alone(run / "seed-10", 1.0, seed=10)
    alone(run / "seed-2", 1.0, seed=2)
    records, _ = read_records([run, run / "seed-2"])
    assert [record.path.name for record in records] == ["seed-2", "seed-10"]


def test_a_seed_without_metrics_is_left_out_and_said(tmp_path):
    run = several(tmp_path / "run", 0, 1)
    alone(run / "seed-0", 1.0)
    alone(run / "seed-1", seed=1, finished=False)
    records, notes = read_records([run])
    assert [record.path.name for record in records] == ["seed-0"]
    assert notes == [f"{run / 'seed-1'} has no metrics yet and is left out."]


def test_the_half_written_last_row_of_a_run_at_work_is_not_read(tmp_path):
    run = alone(tmp_path / "run", 1.0, 2.0, finished=False)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 300, "eval/ret')
    (record,), _ = read_records([run])
    assert record.step == 200
    assert record.result is None


@pytest.mark.parametrize(
    "line",
    ["garbage", "[1]", '{"loss": 1.0}', '{"step": 300, "loss": NaN}', '{"step": 300, "loss": "high"}', '{"step": 200}'],
)
def test_an_unreadable_row_is_named(tmp_path, line):
    run = alone(tmp_path / "run", 1.0, 2.0)
    with (run / "metrics.jsonl").open("a") as file:
        file.write(line + '\n{"step": 400, "loss": 1.0}\n')
    with pytest.raises(ActionlessError, match=r"run/metrics\.jsonl, line 3: not a row of metrics .* leave out the run"):
        read_records([run])


def test_what_is_no_run_or_has_nothing_to_show_is_refused(tmp_path):
    with pytest.raises(ActionlessError, match=r"elsewhere: no run\.json there, so it is not a run directory"):
        read_records([tmp_path / "elsewhere"])
    with pytest.raises(ActionlessError, match="run: no metrics yet; wait for its first row, or `actionless resume"):
        read_records([alone(tmp_path / "run", finished=False)])
    with pytest.raises(ActionlessError, match="several: none of its seeds has metrics yet"):
        read_records([several(tmp_path / "several", 0)])
    with pytest.raises(ActionlessError, match="nothing to report"):
        read_records([])


def test_a_damaged_result_is_named(tmp_path):
    run = write_run(tmp_path / "run", "train", TRAIN, returns(1.0))
    (run / "result.json").write_text("{")
    with pytest.raises(ActionlessError, match=r"result\.json: .*restore it or start the run again"):
        read_records([run])
