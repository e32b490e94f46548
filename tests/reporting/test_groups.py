import dataclasses

from hand_made_runs import LOG, alone, guided, pretrained, returns, write_run

from actionless import LoopSettings, OnlineLoopSettings
from actionless.reporting.groups import _NO_EFFECT_ON_RESULTS, make_sections
from actionless.reporting.records import read_records


def sections_of(*runs):
    return make_sections(read_records(runs)[0])[0]


def labels(section):
    return {group.label: [record.manifest.seed for record in group.records] for group in section.groups}


def test_seeds_of_the_same_settings_are_one_group_and_guidance_names_it(tmp_path):
    (section,) = sections_of(
        alone(tmp_path / "b", 1.0, seed=1),
        guided(tmp_path / "c", 1.0, seed=0),
        alone(tmp_path / "a", 1.0, seed=0),
        guided(tmp_path / "d", 1.0, seed=1),
    )
    assert (section.verb, section.title) == ("train", "Hopper-v5")
    assert labels(section) == {"td3 alone": [0, 1], "td3 guided by switch": [0, 1]}


def test_where_nothing_is_guided_the_agent_is_name_enough(tmp_path):
    (section,) = sections_of(alone(tmp_path / "a", 1.0), alone(tmp_path / "b", 1.0, agent="sac"))
    assert labels(section) == {"sac": [0], "td3": [0]}


def test_no_more_settings_are_named_than_tell_groups_apart(tmp_path):
    learner = {"hidden": [8, 8], "discount": 0.9}
    (section,) = sections_of(
        alone(tmp_path / "a", 1.0),
        alone(tmp_path / "b", 1.0, scale="cpu", steps=900),
        alone(tmp_path / "c", 1.0, learner=learner),
    )
    assert sorted(labels(section)) == [
        "td3, scale cpu, discount 0.99",
        "td3, scale smoke, discount 0.9",
        "td3, scale smoke, discount 0.99",
    ]


def test_what_changes_nothing_learnt_makes_no_group(tmp_path):
    loop = {"log_every": 100, "checkpoint_seconds": 5.0}
    (section,) = sections_of(alone(tmp_path / "a", 1.0), alone(tmp_path / "b", 1.0, seed=1, loop=loop, sinks=["wandb"]))
    assert labels(section) == {"td3": [0, 1]}


def test_a_seed_of_the_guide_for_each_seed_of_the_agent_is_one_group(tmp_path):
    (section,) = sections_of(
        guided(tmp_path / "a", 1.0, seed=0, policy="/runs/hopper/seed-0"),
        guided(tmp_path / "b", 1.0, seed=1, policy="/runs/hopper/seed-1"),
    )
    assert labels(section) == {"td3 guided by switch": [0, 1]}


def test_the_same_run_twice_counts_once_with_a_note(tmp_path):
    records, _ = read_records([alone(tmp_path / "a", 1.0), alone(tmp_path / "copy", 1.0)])
    (section,), notes = make_sections(records)
    assert labels(section) == {"td3": [0]}
    (note,) = notes
    assert note.startswith(f"{tmp_path / 'copy'} has the same settings and seed as {tmp_path / 'a'}")


def test_tasks_and_logs_have_sections_of_their_own_training_first(tmp_path):
    other = {**LOG, "fingerprint": "f" * 64}
    sections = sections_of(
        pretrained(tmp_path / "p", 0.5),
        pretrained(tmp_path / "q", 0.5, log=other),
        alone(tmp_path / "a", 1.0, environment="Walker2d-v5"),
        alone(tmp_path / "b", 1.0),
    )
    assert [(section.verb, section.title) for section in sections] == [
        ("train", "Hopper-v5"),
        ("train", "Walker2d-v5"),
        ("pretrain", "walk (01234567)"),
        ("pretrain", "walk (ffffffff)"),
    ]


def test_a_run_of_a_verb_to_come_is_still_shown(tmp_path):
    (section,) = sections_of(write_run(tmp_path / "run", "distil", {"steps": 100}, returns(1.0)))
    assert (section.verb, section.title, section.groups[0].label) == ("distil", "log", "distil")


def test_the_settings_that_change_nothing_learnt_exist():
    """They are named here, not marked beside the field, so that a report does not import what learns."""
    loops = {f"loop.{field.name}" for cls in (LoopSettings, OnlineLoopSettings) for field in dataclasses.fields(cls)}
    assert set(_NO_EFFECT_ON_RESULTS) <= {"sinks", *loops}
