import pytest
from hand_made_runs import TRAIN, alone, write_run

from actionless.errors import ActionlessError
from actionless.reporting.figures import write_figures
from actionless.reporting.groups import make_sections
from actionless.reporting.records import read_records


def sections_of(*runs):
    return make_sections(read_records(runs)[0])[0]


def test_each_chart_is_written_as_png_and_svg_with_its_axes(tmp_path):
    rows = [{"step": step, "eval/return": 1.0, "guide/realised/height": 0.5} for step in (100, 200)]
    run = write_run(tmp_path / "a", "train", TRAIN, rows)
    paths = write_figures(sections_of(run), tmp_path / "figures")
    assert [path.name for path in paths] == [
        "train-Hopper-v5-return.png",
        "train-Hopper-v5-return.svg",
        "train-Hopper-v5-realised-td3.png",
        "train-Hopper-v5-realised-td3.svg",
    ]
    assert sorted(paths) == sorted((tmp_path / "figures").iterdir())
    assert all(path.read_bytes().startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml") for path in paths)
    for text in ("Hopper-v5: return in evaluation", "environment steps", "return per episode", "td3 (1 seed)"):
        assert f"<!-- {text} -->" in paths[1].read_text()
    assert "<!-- height -->" in paths[3].read_text()


def test_a_single_measurement_and_seeds_without_a_step_in_common_are_drawn(tmp_path):
    rows = {0: {"step": 100, "eval/return": 1.0, "guide/realised/height": 0.5}, 1: {"step": 200, "eval/return": 2.0}}
    runs = [write_run(tmp_path / f"{seed}", "train", TRAIN, [row], seed=seed) for seed, row in rows.items()]
    paths = write_figures(sections_of(*runs), tmp_path / "figures")
    assert "<!-- td3 (2 seeds) -->" in paths[1].read_text()
    assert "<!-- height -->" in paths[3].read_text()


def test_names_are_not_taken_for_mathematics(tmp_path):
    (_, svg) = write_figures(sections_of(alone(tmp_path / "a", 1.0, agent="$x$")), tmp_path / "figures")
    assert "<!-- $x$ (1 seed) -->" in svg.read_text()


def test_figures_that_are_there_are_kept_unless_asked(tmp_path):
    sections = sections_of(alone(tmp_path / "a", 1.0, 2.0), alone(tmp_path / "b", 2.0, 4.0, seed=1))
    paths = write_figures(sections, tmp_path / "figures")
    before = [path.read_bytes() for path in paths]
    with pytest.raises(ActionlessError, match=r"return\.png: already exists; choose another folder, or .*--overwrite"):
        write_figures(sections, tmp_path / "figures")
    write_figures(sections, tmp_path / "figures", overwrite=True)
    assert [path.read_bytes() for path in paths] == before
