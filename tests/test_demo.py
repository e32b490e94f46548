import numpy as np
import pytest

import actionless
from actionless.cli import run
from actionless.demo import LOG, Size, _outcome, demo, returns
from actionless.errors import ActionlessError
from actionless.runs.directory import read_manifest, read_result
from actionless.runs.sinks import read_rows

TINY = Size(updates=100, steps=300, random_steps=30, seeds=2, evaluations=3, episodes=1)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    out, said = tmp_path_factory.mktemp("demo") / "out", []
    page = demo(out, TINY, say=said.append)
    return out, page, "\n".join(said)


class TestWholeWay:
    def test_every_part_is_a_finished_run(self, shown):
        out, _, _ = shown
        steps = {name: read_result(out / name).steps for name in ("state-policy", "alone", "guided")}
        assert steps == {"state-policy": TINY.updates, "alone": TINY.steps, "guided": TINY.steps}

    def test_the_bundled_log_has_no_actions(self, shown):
        out, _, _ = shown
        read = read_manifest(out / "state-policy").data["read"]
        assert not [name for name in read if "action" in name]

    def test_the_agents_differ_in_the_guide_alone(self, shown):
        out, _, _ = shown
        alone, guided = (read_manifest(out / name / "seed-0").config for name in ("alone", "guided"))
        assert {name for name in alone if alone[name] != guided[name]} == {"guidance", "learner"}
        other = {name for name, value in alone["learner"].items() if value != guided["learner"][name]}
        assert other == {"layer_norm"}  # which guidance by rows of the log brings

    def test_guidance_changes_what_is_learnt(self, shown):
        out, _, _ = shown
        rows = list(read_rows(out / "guided" / "seed-0" / "metrics.jsonl"))
        assert max(row.get("potential/share", 0) for row in rows) > 0.1
        assert not np.array_equal(returns(out / "guided"), returns(out / "alone"))

    def test_the_report_holds_the_runs(self, shown):
        _, page, _ = shown
        assert "HalfCheetah-v5" in page.read_text()

    def test_says_what_came_out(self, shown):
        out, page, said = shown
        assert str(page) in said
        assert f"{returns(out / 'guided').mean():,.0f} ±" in said
        assert returns(out / "alone").shape == (TINY.seeds, TINY.evaluations)

    def test_is_not_overwritten_by_accident(self, shown):
        out, _, _ = shown
        with pytest.raises(ActionlessError, match="out already exists: choose another --out"):
            demo(out, TINY)


def test_a_folder_that_exists_is_exit_2(tmp_path, capsys):
    assert run(["demo", "--quick", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"actionless: {tmp_path} already exists")


class TestOutcome:
    @pytest.mark.parametrize(
        ("alone", "guided", "verdict"),
        [
            ([1, 2], [3, 4], "every guided agent is above every one alone"),
            ([3, 4], [1, 2], "every guided agent is below every one alone"),
            ([1, 3], [2, 4], "the seeds overlap: in 75% of pairs the guided agent is above"),
        ],
    )
    def test_in_words(self, alone, guided, verdict):
        curves = [np.array(ends, float)[:, None] * np.ones(10) for ends in (alone, guided)]
        assert verdict in _outcome(*curves, TINY)

    def test_in_numbers(self):
        alone = np.array([[0.0] * 7 + [10, 20, 30], [0.0] * 7 + [30, 40, 50]])
        said = _outcome(alone, 10 * alone, TINY).splitlines()
        assert said[1].split("evaluations")[1].split() == ["9", "±", "3", "90", "±", "30"]
        assert said[2].split("evaluations")[1].split() == ["30", "±", "10", "300", "±", "100"]


def test_the_log_holds_states_and_rewards_alone():
    log = actionless.read(LOG)
    assert (len(log), log.state_dim, log.actions) == (20_000, 17, None)
    assert set(log.source.read) == {*log.state_names, "reward", "episode", "time", "terminal"}
