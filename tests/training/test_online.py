"""The online loop from beginning to end, within this process; tests/cli/test_train.py kills real runs."""

import dataclasses
import json
import os
import signal

import numpy as np
import pytest
from point_task import point_log
from safetensors.numpy import load_file
from small_log import save, small_log

import actionless
from actionless.errors import ActionlessError
from actionless.guidance.guide import Guide
from actionless.online.environments import Environment
from actionless.online.sac import SacConfig
from actionless.runs.checkpoints import Checkpoints
from actionless.runs.sinks import read_rows
from actionless.settings import to_json
from actionless.training import online, online_settings
from actionless.training import train as train_module
from actionless.training.evaluation import episode_seed, returns_of
from actionless.training.online import OnlineLoop
from actionless.training.online_settings import OnlineLoopSettings
from actionless.training.train import train

TASK = "point_task:Point-v0"
STEPS = 120
LOOP = OnlineLoopSettings(log_every=40, evaluate_every=40, episodes=2, checkpoint_seconds=0.0, updates_together=4)


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """The run of a state policy of the task."""
    folder = tmp_path_factory.mktemp("policy")
    data = save(point_log(), folder / "point.npz")
    actionless.pretrain(data, folder / "run", scale="smoke", steps=50)
    return folder / "run"


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """The run of a planner of the task."""
    folder = tmp_path_factory.mktemp("plans")
    data = save(point_log(), folder / "point.npz")
    actionless.pretrain(data, folder / "run", method="afdt", scale="smoke", steps=30)
    return folder / "run"


def run(out, task=TASK, loop=LOOP, **options):
    return train(task, out, scale="smoke", steps=STEPS, warm_up=40, batch_size=16, loop=loop, **options)


def last_checkpoint(path):
    return load_file(Checkpoints(path / "checkpoints").paths()[-1] / "arrays.safetensors")


def assert_same_run(path, other):
    assert (path / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    ours, theirs = last_checkpoint(path), last_checkpoint(other)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


def interrupt_at(monkeypatch, step):
    """Ctrl-C within the dispatch that passes `step`."""
    advance = OnlineLoop.advance

    def interrupted(task, state, start):
        ahead = advance(task, state, start)
        if start < step <= ahead.step:
            os.kill(os.getpid(), signal.SIGINT)
        return ahead

    monkeypatch.setattr(OnlineLoop, "advance", interrupted)


@pytest.mark.parametrize(
    ("agent", "guide", "guidance"),
    [
        ("td3", None, {}),
        ("td3", "policy", {"guidance": "switch", "stretch": 3, "choice": 0.5}),
        ("td3", "policy", {"guidance": "potential,relabel", "horizon": 0.8, "agreement": 10.0}),
        ("sac", None, {}),
        ("sac", "plans", {}),
        ("sac", "policy", {"guidance": "switch,potential,relabel", "agreement": 10.0}),
        ("decqn", "policy", {"guidance": "paper"}),
        ("decqn", "policy", {"guidance": "relabel", "agreement": 10.0}),
    ],
    ids=["td3", "switch", "potential-relabel", "sac", "plans", "all-three", "paper", "relabel-choices"],
)
def test_ends_the_same_when_stopped_within_an_episode(tmp_path, request, monkeypatch, agent, guide, guidance):
    options = {"agent": agent, "guide": None if guide is None else request.getfixturevalue(guide), **guidance}
    run(tmp_path / "undisturbed", **options)
    monkeypatch.setattr(online, "_SECONDS_PER_DISPATCH", 0.0)  # one cycle per dispatch
    with monkeypatch.context() as patched:
        interrupt_at(patched, 68)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped", **options)
    assert Checkpoints(tmp_path / "stopped" / "checkpoints").paths()[-1].name == "step-000000000068"
    agent_again = actionless.resume(tmp_path / "stopped")
    assert_same_run(tmp_path / "stopped", tmp_path / "undisturbed")
    states = np.random.default_rng(0).normal(size=(5, 2))
    expected = actionless.AgentPolicy.load(tmp_path / "undisturbed").act(states)
    np.testing.assert_array_equal(agent_again.act(states), expected)


@pytest.mark.parametrize("step", [8, 40, 80])
def test_ends_the_same_when_stopped_in_the_warm_up_and_at_an_evaluation(tmp_path, policy, monkeypatch, step):
    """With a replay that is smaller than the run, so that it wraps around."""
    monkeypatch.setattr(online_settings, "REPLAY_LIMIT", 50)
    run(tmp_path / "undisturbed", guide=policy)
    monkeypatch.setattr(online, "_SECONDS_PER_DISPATCH", 0.0)
    with monkeypatch.context() as patched:
        interrupt_at(patched, step)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped", guide=policy)
    actionless.resume(tmp_path / "stopped")
    assert len(last_checkpoint(tmp_path / "stopped")[".replay.rewards"]) == 50
    assert_same_run(tmp_path / "stopped", tmp_path / "undisturbed")


def test_a_task_of_mixed_precision_can_be_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(online, "_SECONDS_PER_DISPATCH", 0.0)
    with monkeypatch.context() as patched:
        interrupt_at(patched, 68)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", "point_task:Mixed-v0")
    assert actionless.resume(tmp_path / "run").agent == "td3"


def test_a_task_that_raises_is_named_with_the_place(tmp_path):
    with pytest.raises(
        ActionlessError, match=r"the environment raised KeyError \('valve'\) at step 3 .*'point_task:Broken-v0'"
    ):
        run(tmp_path / "run", "point_task:Broken-v0")


def test_an_agent_that_diverges_is_not_blamed_on_the_task(tmp_path):
    with pytest.raises(ActionlessError, match=r"the agent's action is not finite between .*start again with a smaller"):
        run(tmp_path / "run", learning_rate=1e30)


@pytest.mark.parametrize("agent", ["td3", "decqn"])
def test_an_action_of_the_guide_that_is_not_finite_never_reaches_the_environment(tmp_path, policy, monkeypatch, agent):
    acted = []
    step, propose = Environment.step, Guide.propose

    def broken(guide, state, now):
        proposal = propose(guide, state, now)
        return proposal if proposal is None or now < 60 else np.full(2, np.nan)

    monkeypatch.setattr(Guide, "propose", broken)
    monkeypatch.setattr(Environment, "step", lambda task, action: acted.append(action) or step(task, action))
    message = r"the action that guidance 'switch' proposes is not finite between steps 41 and 6\d; "
    with pytest.raises(ActionlessError, match=message):
        run(tmp_path / "run", agent=agent, guide=policy, guidance="switch", beta=1.0)
    assert len(acted) >= 60
    assert np.isfinite(acted).all()


def test_a_guide_that_changed_is_noticed(tmp_path, monkeypatch):
    data = save(point_log(), tmp_path / "point.npz")
    actionless.pretrain(data, tmp_path / "policy", scale="smoke", steps=20)
    with monkeypatch.context() as patched:
        interrupt_at(patched, 40)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", guide=tmp_path / "policy")
    with pytest.raises(ActionlessError, match="its guide, or the guide's log, is not the one it began with"):
        actionless.resume(tmp_path / "run", log=point_log(seed=1))
    actionless.pretrain(data, tmp_path / "policy", scale="smoke", steps=20, seed=1, overwrite=True)
    with pytest.raises(ActionlessError, match="its guide, or the guide's log, is not the one it began with"):
        actionless.resume(tmp_path / "run")


def test_beta_0_is_an_unguided_run_to_the_bit(tmp_path, policy):
    run(tmp_path / "alone")
    run(tmp_path / "guided", guide=policy, guidance="paper", beta=0.0)
    alone, guided = last_checkpoint(tmp_path / "alone"), last_checkpoint(tmp_path / "guided")
    for name, array in alone.items():
        np.testing.assert_array_equal(array, guided[name], err_msg=name)
    for ours, theirs in zip(
        read_rows(tmp_path / "alone" / "metrics.jsonl"), read_rows(tmp_path / "guided" / "metrics.jsonl"), strict=True
    ):
        assert ours == {name: theirs[name] for name in ours}
        assert theirs["beta"] == theirs["guided_share"] == 0


def test_guided_steps_are_learnt_from_like_all_others(tmp_path, policy, monkeypatch):
    proposals = {}
    propose = Guide.propose

    def noted(guide, state, step):
        action = propose(guide, state, step)
        if action is not None:
            proposals[step] = action
        return action

    monkeypatch.setattr(Guide, "propose", noted)
    run(tmp_path / "run", guide=policy, guidance="switch", beta=0.5)
    actions = last_checkpoint(tmp_path / "run")[".replay.actions"]
    assert len(actions) == STEPS
    assert min(proposals) >= 40  # before, actions are random
    assert 20 <= len(proposals) <= 60
    for step, action in proposals.items():
        np.testing.assert_array_equal(actions[step], action)
    rows = list(read_rows(tmp_path / "run" / "metrics.jsonl"))
    shares = [row["guided_share"] for row in rows]
    assert sum(shares) * 40 == pytest.approx(len(proposals))
    assert rows[-1].keys() >= {"step", "loss", "eval/return", "beta", "idm/loss", "idm/online_loss", "idm/offline_loss"}
    assert rows[-1].keys() >= {"guide/realised", "guide/reward", "guide/own_reward", "episode/return"}


def test_a_planner_pays_for_every_step_and_takes_none(tmp_path, plans):
    run(tmp_path / "run", agent="sac", guide=plans, target_return=-5.0, guide_weight=2.0)
    arrays = last_checkpoint(tmp_path / "run")
    states, paid = arrays[".replay.states"], arrays[".replay.extra['guiding']"]
    planner = actionless.Planner.load(plans)
    ends = np.flatnonzero(arrays[".replay.ends"])
    for first, last in ((0, 0), (0, 3), (ends[0] + 1, ends[0] + 2)):  # of an episode, its second one too
        rewards = arrays[".replay.rewards"][first:last]
        planned = planner.plan(states[first : last + 1], rewards, target_return=-5.0)
        missed = (arrays[".replay.next_states"][last] - planned) / planner.normaliser.scale
        assert paid[last] == pytest.approx(-np.linalg.norm(missed), rel=1e-3)
    config = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert config["agent"] == "sac"
    assert config["guidance"][0]["guide_weight"] == 2.0
    rows = list(read_rows(tmp_path / "run" / "metrics.jsonl"))
    assert np.mean([row["guide/missed"] for row in rows]) == pytest.approx(-paid.mean(), rel=1e-5)
    assert "guided_share" not in rows[-1]
    # It acts as SAC does, and is loaded where no guidance is known.
    saved = json.loads((tmp_path / "run" / "policy" / "policy.json").read_text())["config"]
    assert saved["kind"] == "sac"
    assert saved.keys() == to_json(actionless.AgentPolicy.load(tmp_path / "run").config).keys()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agent": "td3"}, r"guidance by plans works with the agent sac alone: choose --agent sac"),
        ({"beta": 0.5}, r"beta: not an option of guidance by plans, which knows guide_we"),
        ({"guide_weight": -1.0}, r"guide_weight=-1\.0: choose a finite number"),
        ({"schedule": lambda step: 0.1}, r"schedule: not an option of guidance by plans, which knows guide_weight, t"),
        ({"log": point_log()}, r"its log is not needed by this guidance: leave it out"),
        ({"guidance": "switch"}, r"run: does not fit guidance 'switch': with it, use 'plans'"),
        ({"guidance": "plan"}, r"guidance='plan': choose 'switch', 'paper', 'potential'"),
    ],
)
def test_what_a_planner_cannot_do(tmp_path, plans, options, message):
    with pytest.raises(ActionlessError, match=message):
        run(tmp_path / "run", guide=plans, **({"agent": "sac"} | options))
    assert not (tmp_path / "run").exists()


def test_an_agent_cannot_guide(tmp_path):
    run(tmp_path / "agent", agent="sac")
    with pytest.raises(ActionlessError, match=r"agent: holds no state policy and no plans, .* whose method gives one"):
        run(tmp_path / "run", agent="sac", guide=tmp_path / "agent")
    assert not (tmp_path / "run").exists()


def test_options_of_a_planner_beside_a_state_policy(tmp_path, policy):
    with pytest.raises(ActionlessError, match="target_return: not an option of guidance by switch, which knows beta"):
        run(tmp_path / "run", agent="sac", guide=policy, guidance="switch", target_return=1.0)


def test_the_kind_of_guidance_can_be_named(tmp_path, policy):
    run(tmp_path / "named", guide=policy, guidance="potential,relabel")
    run(tmp_path / "by-itself", guide=policy)
    assert_same_run(tmp_path / "named", tmp_path / "by-itself")
    config = json.loads((tmp_path / "named" / "run.json").read_text())["config"]
    assert config["guide"] == str(policy)
    assert [stored["kind"] for stored in config["guidance"]] == ["potential", "relabel"]


def test_settings_of_the_switch_are_stored_to_the_last_detail(tmp_path, policy):
    run(tmp_path / "run", guide=policy, guidance="switch")
    (stored,) = json.loads((tmp_path / "run" / "run.json").read_text())["config"]["guidance"]
    assert stored["schedule"] == {"kind": "paper", "start": 0.5, "decrement": 0.1, "interval": STEPS // 10}
    assert stored["idm"] == {"hidden": [32, 32], "learning_rate": 1e-3, "batch_size": 64, "every": 4}


def test_a_kind_without_a_guide(tmp_path):
    with pytest.raises(ActionlessError, match=r"guidance 'switch' without a guide: .*--guide RUN"):
        run(tmp_path / "run", guidance="switch")


def test_beta_and_a_schedule_contradict_each_other(tmp_path, policy):
    with pytest.raises(ActionlessError, match=r"beta=0\.5 and a schedule: give one of them"):
        run(tmp_path / "run", guide=policy, guidance="switch", beta=0.5, schedule=lambda step: 0.1)


def test_one_update_for_each_step_after_the_warm_up(tmp_path, monkeypatch):
    counts = []
    updated = online.updated
    monkeypatch.setattr(online, "updated", lambda *parts: counts.append(parts[2:4]) or updated(*parts))
    run(tmp_path / "run", loop=OnlineLoopSettings(log_every=60, evaluate_every=60, episodes=1, updates_together=6))
    assert counts[0] == (40, 2)  # the warm-up ends within a cycle
    assert [first for first, _ in counts[1:]] == list(range(42, STEPS, 6))
    assert sum(updates for _, updates in counts) == STEPS - 40


def test_the_first_actions_are_random_and_within_limits(tmp_path):
    run(tmp_path / "run")
    arrays = last_checkpoint(tmp_path / "run")
    first = arrays[".replay.actions"][:40]
    assert np.abs(first).max() <= 1
    assert np.abs(first.mean()) < 0.25
    assert first.std() == pytest.approx(1 / np.sqrt(3), abs=0.1)
    assert arrays[".replay.states"].shape == (STEPS, 2)


def test_a_task_that_does_not_repeat_itself_starts_a_new_episode_and_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(online, "_SECONDS_PER_DISPATCH", 0.0)
    with monkeypatch.context() as patched:
        interrupt_at(patched, 68)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", "point_task:Forgetful-v0")
    assert "cannot be restored" not in caplog.text
    actionless.resume(tmp_path / "run")
    assert "point_task:Forgetful-v0: the episode cannot be restored" in caplog.text
    arrays = last_checkpoint(tmp_path / "run")
    assert arrays[".replay.ends"][67]  # no target reaches over the gap
    assert json.loads((tmp_path / "run" / "result.json").read_text())["steps"] == STEPS


def test_evaluation_has_episodes_of_its_own():
    assert len({episode_seed(0, number) for number in range(-50, 50)}) == 100
    assert episode_seed(0, 3) != episode_seed(1, 3)


def test_returns_by_hand():
    from actionless.online.environments import make

    environment = make(TASK)
    start = environment.reset(episode_seed(0, -1))
    still = returns_of(environment, lambda states: np.zeros((len(states), 2), np.float32), 2, 0)
    assert still[0] == pytest.approx(-15 * np.abs(start).sum())
    assert still[1] != still[0]


def test_a_policy_of_another_task_is_refused(tmp_path):
    data = save(small_log(), tmp_path / "walk.npz")
    actionless.pretrain(data, tmp_path / "walk", scale="smoke", steps=20)
    with pytest.raises(
        ActionlessError, match="proposes changes of 3 variables, and point_task:Point-v0 has 2: pre-train"
    ):
        run(tmp_path / "run", guide=tmp_path / "walk")
    assert not (tmp_path / "run").exists()


def test_a_policy_of_an_environment_with_as_many_variables_brings_a_warning(tmp_path, caplog):
    log = point_log()
    far_away = dataclasses.replace(log, states=log.states + 100, next_states=log.next_states + 100)
    actionless.pretrain(save(far_away, tmp_path / "far.npz"), tmp_path / "far", scale="smoke", steps=20)
    run(tmp_path / "run", guide=tmp_path / "far")
    assert "far.npz: this log may come from a different environment" in caplog.text
    assert "point_task:Point-v0 starts with s0 = 0.397, but its range in the log is 99.1 to 101; " in caplog.text


def test_a_log_given_that_is_not_the_policys_is_refused(tmp_path, policy):
    message = "walk.npz has 3 state variables, the state policy was trained on 2: give the log that the policy was"
    with pytest.raises(ActionlessError, match=message):
        run(tmp_path / "run", guide=policy, log=small_log())
    assert not (tmp_path / "run").exists()


def test_a_guide_that_is_over_before_it_may_act_is_not_passed_over(tmp_path, policy, caplog):
    options = {"scale": "smoke", "steps": 100, "batch_size": 16, "loop": LOOP, "guide": policy, "guidance": "switch"}
    train(TASK, tmp_path / "over", warm_up=50, **options)
    assert "the guide never acts: the first 50 steps are random (warm_up), and from step 50 on β is 0" in caplog.text
    caplog.clear()
    train(TASK, tmp_path / "never", warm_up=50, **options, beta=0.0)  # as asked for
    train(TASK, tmp_path / "acts", warm_up=49, **options)
    assert "never acts" not in caplog.text


def test_several_seeds_warn_of_an_unfamiliar_log_once_and_before_all(tmp_path, caplog):
    log = point_log()
    far_away = dataclasses.replace(log, states=log.states + 100, next_states=log.next_states + 100)
    actionless.pretrain(save(far_away, tmp_path / "far.npz"), tmp_path / "far", scale="smoke", steps=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_module, "start_seeds", lambda *arguments, **named: [])
        assert run(tmp_path / "runs", guide=tmp_path / "far", seeds=2) == []
    assert caplog.text.count("point_task:Point-v0 starts with s0 = 0.397") == 1


def test_a_log_that_is_gone_is_named_with_the_way_out(tmp_path):
    data = save(point_log(), tmp_path / "point.npz")
    actionless.pretrain(data, tmp_path / "policy", scale="smoke", steps=20)
    data.unlink()
    with pytest.raises(ActionlessError, match=r"the guide's log cannot be read \(.*point.npz.*--no-bootstrap"):
        run(tmp_path / "run", guide=tmp_path / "policy")


def test_a_log_from_python_must_be_given_again(tmp_path):
    actionless.pretrain(point_log(), tmp_path / "policy", scale="smoke", steps=20)
    with pytest.raises(ActionlessError, match=r"does not say where its log is.*--no-bootstrap"):
        run(tmp_path / "run", guide=tmp_path / "policy")
    guided = run(tmp_path / "run", guide=tmp_path / "policy", guidance="switch", bootstrap=False)
    assert guided.agent == "td3"
    assert "idm/offline_loss" not in list(read_rows(tmp_path / "run" / "metrics.jsonl"))[-1]


def test_a_schedule_from_python(tmp_path, policy, monkeypatch):
    def schedule(step):
        return float(step >= 80)

    with monkeypatch.context() as patched:
        interrupt_at(patched, 80)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", guide=policy, guidance="switch", schedule=schedule)
    with pytest.raises(ActionlessError, match=r"its schedule was handed over from Python.*schedule=\.\.\."):
        actionless.resume(tmp_path / "run")
    actionless.resume(tmp_path / "run", schedule=schedule)
    shares = [row["guided_share"] for row in read_rows(tmp_path / "run" / "metrics.jsonl")]
    assert shares == [0, 0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed=-1: choose a whole number between 0 and"),
        ({"warm_up": None, "steps": 200}, r"steps=200: the first 200 steps are random \(warm_up\): choose more steps"),
        ({"warm_up": 120}, r"steps=120: the first 120 steps are random \(warm_up\): choose more steps"),
        ({"agent": "decqn", "action_bins": 1}, "action_bins=1: choose at least 2"),
        ({"action_bins": 5}, "action_bins: not an option of td3, which knows"),
        ({"beta": 0.2}, "beta: guidance options require --guide"),
        ({"learner": SacConfig()}, "learner: SacConfig is not what td3 takes: give a Td3Config"),
        (
            {"log_every": 40, "evaluate_every": 50},
            "evaluate_every=50: choose a multiple of log_ev",
        ),
        ({"log_every": 41}, "log_every=41: choose a multiple of updates_together, which is 5"),
        ({"steps": 0}, "steps=0: nothing would be learnt; choose at least 1"),
    ],
)
def test_mistakes(tmp_path, options, message):
    with pytest.raises(ActionlessError, match=message):
        train(TASK, tmp_path / "run", **{"scale": "smoke", "steps": STEPS, "warm_up": 40, **options})
    assert not (tmp_path / "run").exists()
