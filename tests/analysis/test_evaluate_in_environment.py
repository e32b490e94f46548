"""`actionless evaluate --env`: a run's policy in its environment, together with the figures from the log."""

import json
import shutil

import numpy as np
import pytest
from linear_environment import LINEAR, labelled_log

from actionless import cli
from actionless.offline import policy_files

PLAYED = ("--env", LINEAR, "--scale", "smoke", "--episodes", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A labelled log, a state policy and BC a."""
    folder = tmp_path_factory.mktemp("runs")
    log = labelled_log()
    np.savez(
        folder / "linear.npz",
        states=log.states,
        next_states=log.next_states,
        rewards=log.rewards,
        terminals=log.terminals,
        timeouts=log.ends,
        actions=log.actions,
    )
    brief = ["--scale", "smoke", "--steps", "10", "--log-every", "10", "--evaluate-every", "10"]
    for method, flags in (("bc-delta", []), ("bc-action", ["--with-actions"])):
        out = ["--out", str(folder / method), "--method", method]
        assert cli.run(["pretrain", str(folder / "linear.npz"), *out, *flags, *brief]) == 0
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ACTIONLESS_CACHE", str(tmp_path))
    return tmp_path


def evaluated(folder, capsys, method, *flags, log=None):
    capsys.readouterr()
    labelled = ["--labelled", str((log or folder) / "linear.npz")]
    assert cli.run(["evaluate", str(folder / method), *PLAYED, *labelled, *flags]) == 0
    return capsys.readouterr().out


def test_figures_of_the_log_and_of_the_environment(folder, capsys, cache):
    figures = json.loads(evaluated(folder, capsys, "bc-delta", "--json"))
    assert figures["rollout_episodes"] == 2
    assert 1 <= figures["rollout_length"] <= 10
    assert figures["score"] is None
    assert figures["rollout_delta_error"] == pytest.approx(sum(figures["rollout_delta_errors"].values()))
    assert figures["rollout_delta_errors"].keys() == {"s0", "s1"}
    assert 0 <= figures["delta_accuracy"] <= 1
    assert (cache / "expert-idm").is_dir()


def test_a_policy_of_actions_is_only_played(folder, capsys, cache):
    figures = json.loads(evaluated(folder, capsys, "bc-action", "--json"))
    assert figures["rollout_episodes"] == 2
    assert figures["rollout_delta_error"] is figures["delta_accuracy"] is figures["delta_error"] is None
    assert not (cache / "expert-idm").exists()


def test_a_saved_policy_is_enough_where_there_is_data(folder, capsys, tmp_path):
    shutil.copytree(folder / "bc-delta" / "policy", tmp_path / "copied")
    out = evaluated(tmp_path, capsys, "copied", "--data", str(folder / "linear.npz"), "--json", log=folder)
    assert {"delta_error", "return"} <= json.loads(out).keys()


class TestMistakes:
    def refused(self, capsys, run, folder, *flags):
        capsys.readouterr()
        assert cli.run(["evaluate", str(run), *PLAYED, "--labelled", str(folder / "linear.npz"), *flags]) == 2
        return capsys.readouterr().err

    def test_an_agent_is_no_state_policy(self, folder, capsys, tmp_path):
        policy_files.write(tmp_path, {"kind": "agent", "method": "td3"}, {})
        assert "holds a policy of td3, which is no state policy" in self.refused(capsys, tmp_path, folder)

    def test_actions_are_not_compared_with_a_log(self, folder, capsys):
        said = self.refused(capsys, folder / "bc-action", folder, "--data", str(folder / "linear.npz"))
        assert "bc-action proposes no Δs to compare: remove --data" in said


def test_in_the_terminal(folder, capsys):
    said = " ".join(evaluated(folder, capsys, "bc-delta").split())
    assert f"2 episodes of {LINEAR}: return " in said
    assert "; the inverse dynamics model is off by " in said
