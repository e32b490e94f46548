"""Hours and disk from rates made by hand."""

import json

import pytest
from declared import declaration, log_file, planner

from actionless.reproduction.estimate import Rates, duration, estimated, measure, sizes_of

TEXT = """
title = "x"
logs = ["hopper-medium"]
values = ["score"]

[[line]]
name = "{method}"
pretrain = { method = ["bc-delta", "oso-decqn"] }

[[line]]
name = "TD3"
train = { steps = 1000, evaluate_every = 500, episodes = 2 }
"""


def pieces_in(folder, seeds=1):
    mine = planner(folder, [log_file()])
    mine.plan(declaration(TEXT), ["hopper-medium"], seeds)
    return list(mine.pieces.values())


def test_time_follows_from_the_updates_of_each_step(tmp_path):
    bc, oso, td3 = pieces_in(tmp_path)
    assert sizes_of([bc, oso, td3]) == {((32, 32), 64)}
    rates = Rates({((32, 32), 64): 1e-3}, environment_step=1e-4)
    start = 8.0
    assert estimated([bc], rates, "smoke").seconds == pytest.approx(start + 300 * bc.settings.learner.ensemble * 1e-3)
    assert estimated([oso], rates, "smoke").seconds == pytest.approx(start + 300 * 1.7 * 2 * 1e-3)
    acted = 1000 + 2 * 2 * 1000
    assert estimated([td3], rates, "smoke").seconds == pytest.approx(start + 1000 * 4.5e-3 + acted * 1e-4)
    assert estimated([td3], rates, "smoke").bytes > 3 * 1000 * 8 * 11


def test_a_finished_run_says_it_better(tmp_path):
    *_, first, second = sorted(pieces_in(tmp_path, seeds=2), key=lambda piece: (piece.verb == "train", piece.seed))
    first.job.out.mkdir(parents=True)
    result = {"verb": "train", "steps": 1000, "seconds": 77.0, "final": {}}
    (first.job.out / "result.json").write_text(json.dumps(result))
    left = estimated([first, second], Rates({((32, 32), 64): 1.0}, 1.0), "smoke")
    assert (left.runs, left.seconds) == (1, 77.0)


def test_this_machine_is_measured():
    rates = measure({((8,), 4), ((16, 16), 8)})
    assert all(0 < seconds < 1 for seconds in (*rates.updates.values(), rates.environment_step))


@pytest.mark.parametrize(
    ("seconds", "said"), [(3.0, "3 seconds"), (150.0, "2.5 minutes"), (9e3, "2.5 hours"), (864e3, "10 days")]
)
def test_durations(seconds, said):
    assert duration(seconds) == said
