"""The score of a run: over seeds, last checkpoints and episodes, of the last weights or of their average."""

import json

import jax
import numpy as np
import pytest
from linear_environment import LINEAR, labelled_log

import actionless
from actionless import cli
from actionless.analysis import run_scores
from actionless.analysis.rollouts import EnvironmentFigures, Rollouts
from actionless.analysis.run_scores import Played, RunFigures, evaluate_run
from actionless.analysis.scores import ReferenceScores
from actionless.errors import ActionlessError
from actionless.offline.state_policy import StatePolicy
from actionless.training.pretrain import last_policies

BRIEF = {"scale": "smoke", "steps": 40, "log_every": 5, "evaluate_every": 10, "method": "bc-delta"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A log with actions, a run that keeps three checkpoints, one that keeps two, and one of two seeds."""
    folder = tmp_path_factory.mktemp("runs")
    log = labelled_log()
    columns = {"states": log.states, "next_states": log.next_states, "rewards": log.rewards, "actions": log.actions}
    np.savez(folder / "linear.npz", terminals=log.terminals, timeouts=log.ends, **columns)
    for name, options in {"three": {"last_checkpoints": 3}, "two": {}, "seeds": {"seeds": 2}}.items():
        actionless.pretrain(folder / "linear.npz", folder / name, **BRIEF, **options)
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ACTIONLESS_CACHE", str(tmp_path))


def equal(a, b):
    return all(jax.tree.leaves(jax.tree.map(lambda x, y: bool((x == y).all()), a, b)))


class TestByHand:
    """Two seeds with two checkpoints of two episodes."""

    def figures(self, returns):
        rollouts = Rollouts(np.array(returns), np.array([10, 20]), np.array([[1.0, 0.0], [0.0, 0.0]]))
        return EnvironmentFigures("there", rollouts, ReferenceScores(0.0, 200.0), ("x", "y"), 0.1)

    def test_all_together(self):
        of_seeds = {0: ([10.0, 20.0], [30.0, 40.0]), 1: ([50.0, 60.0], [70.0, 100.0])}
        played = [
            Played(seed, step, self.figures(returns))
            for seed, checkpoints in of_seeds.items()
            for step, returns in zip((100, 200), checkpoints, strict=True)
        ]
        run = RunFigures("averaged", tuple(played))
        np.testing.assert_array_equal(run.returns, [[20, 30], [60, 80]])
        figures = run.to_dict()
        assert (figures["return"], figures["score"], figures["rollout_episodes"]) == (47.5, 23.75, 8)
        assert (figures["rollout_length"], figures["rollout_delta_error"], figures["idm_error"]) == (15, 0.5, 0.1)
        low, high = figures["return_interval"]
        assert 20 <= low < 30 < 60 < high <= 80
        assert figures["score_interval"] == [low / 2, high / 2]
        assert figures["checkpoints"][3] == {
            "seed": 1,
            "step": 200,
            "return": 85.0,
            "score": 42.5,
            "rollout_delta_error": 0.5,
        }


def test_the_last_checkpoints_are_those_of_the_last_measurements(folder):
    policies = last_policies(folder / "three", 3)
    assert list(policies) == [20, 30, 40]
    at_the_end = StatePolicy.load(folder / "three")
    assert equal(policies[40].model, at_the_end.model)
    assert equal(policies[40].average, at_the_end.average)
    assert not equal(policies[30].model.network, at_the_end.model.network)
    assert policies[40].provenance == at_the_end.provenance


def test_a_checkpoint_of_a_run_that_was_stopped_is_none_of_them(folder, tmp_path):
    import shutil

    shutil.copytree(folder / "three", tmp_path / "stopped")
    checkpoints = tmp_path / "stopped" / "checkpoints"
    shutil.copytree(checkpoints / "step-000000000030", checkpoints / "step-000000000035")
    assert list(last_policies(tmp_path / "stopped", 2)) == [30, 40]


def test_averaged_weights_are_another_policy(folder):
    policy = StatePolicy.load(folder / "two")
    assert equal(policy.averaged().model.network, policy.average)
    assert not equal(policy.model.network, policy.average)
    alone = StatePolicy(policy.model, "mine", policy.state_names)
    with pytest.raises(ActionlessError, match=r"mine: this run kept no average of its weights: evaluate the last"):
        alone.averaged()


def test_seeds_and_checkpoints_play_the_same_episodes(folder, monkeypatch):
    asked = []

    def play(policy, environment, labelled, **options):
        asked.append((policy.model.network, options))
        return EnvironmentFigures(
            environment, Rollouts(np.arange(3.0), np.ones(3, np.int64), None), None, policy.state_names, None
        )

    monkeypatch.setattr(run_scores, "evaluate_in_environment", play)
    figures = evaluate_run(folder / "seeds", LINEAR, labelled_log(), last=2, weights="averaged", episodes=3, seed=7)
    assert [(each.seed, each.step) for each in figures.played] == [(0, 30), (0, 40), (1, 30), (1, 40)]
    assert all(options["seed"] == 7 and options["episodes"] == 3 for _, options in asked)
    assert equal(asked[1][0], StatePolicy.load(folder / "seeds" / "seed-0").average)


class TestCommand:
    def call(self, folder, capsys, run, *flags):
        labelled = ("--env", LINEAR, "--labelled", str(folder / "linear.npz"), "--scale", "smoke", "--episodes", "2")
        code = cli.run(["evaluate", str(folder / run), *labelled, *flags])
        said = capsys.readouterr()
        return code, said.out or said.err

    def test_several_checkpoints(self, folder, capsys):
        code, out = self.call(folder, capsys, "three", "--last", "3", "--weights", "averaged", "--json")
        figures = json.loads(out)
        assert (code, figures["weights"], figures["rollout_episodes"]) == (0, "averaged", 6)
        assert [(each["seed"], each["step"]) for each in figures["checkpoints"]] == [(0, 20), (0, 30), (0, 40)]
        low, high = figures["return_interval"]
        assert low <= figures["return"] <= high
        assert 0 <= figures["delta_accuracy"] <= 1

    def test_several_seeds(self, folder, capsys):
        code, out = self.call(folder, capsys, "seeds")
        said = " ".join(out.split())
        assert code == 0
        assert f"4 episodes of {LINEAR}: return " in said
        assert "; 2 policies, of which the best returned " in said

    @pytest.mark.parametrize(
        ("run", "flags", "message"),
        [
            ("two", ("--last", "3"), "keeps its last 2 checkpoints, and 3 are asked for: ask for fewer, or pre-train "),
            ("two", ("--last", "0"), "last=0: choose at least 1"),
            ("two/policy", ("--last", "1"), "no run.json there, so it is not a run directory"),
            ("seeds", ("--data", "x.npz"), "holds the runs of 2 seeds, which are measured on a log one by one: remove"),
        ],
    )
    def test_refused(self, folder, capsys, run, flags, message):
        data = ("--data", str(folder / "linear.npz")) if run == "two/policy" else ()
        code, err = self.call(folder, capsys, run, *flags, *data)
        assert code == 2
        assert message in err

    def test_only_in_an_environment(self, folder, capsys):
        assert cli.run(["evaluate", str(folder / "two"), "--last", "2"]) == 2
        assert "--last and --weights require --env" in capsys.readouterr().err
