import logging

import pytest

from actionless.offline.penalty_warnings import Penalty, PenaltyWatch, warn_of_imitation

# td_loss and penalty by updates, on a Hopper replay log: experiments/pretraining/trials.csv; the last row of
# alpha 15 is that of experiments/pretraining/README.md after 25,000 updates, with five networks.
HOPPER_REPLAY = {
    3.0: [(10, 6.0, 1.1), (4000, 3.569, 0.402), (8000, 6.407, 0.691), (12000, 8.308, 0.988)],
    15.0: [(10, 6.0, 1.1), (4000, 4.418, 0.334), (8000, 9.135, 0.33), (12000, 15.041, 0.339), (25000, 41.0, 0.63)],
    60.0: [(10, 6.0, 1.1), (4000, 5.975, 0.323), (8000, 10.993, 0.306), (12000, 17.629, 0.301)],
}


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records]


def watch(strength, rows):
    look = PenaltyWatch(strength)
    for step, td_loss, penalty in rows:
        look(step, {"td_loss": td_loss, "penalty": penalty})


def test_the_papers_alpha_in_a_short_run_is_told_once(warnings):
    watch(Penalty(alpha=3.0), HOPPER_REPLAY[3.0])
    assert warnings() == [
        "step 8000: TD errors pull with 5.06, more than alpha = 3 can hold, and the penalty has risen from 0.4 to "
        "0.69: proposals are leaving the log; start again with --alpha several times 5.1, or with a lower "
        "--reward-scale where rewards are far above 1 a step"
    ]


def test_the_scales_factor_multiplies_what_alpha_can_hold(warnings):
    watch(Penalty(alpha=0.6, factor=5.0), HOPPER_REPLAY[3.0])
    assert warnings() == [
        "step 8000: TD errors pull with 5.06, more than alpha = 0.6 times penalty_factor = 5 can hold, and the penalty "
        "has risen from 0.4 to 0.69: proposals are leaving the log; start again with --alpha several times 1, or with "
        "a lower --reward-scale where rewards are far above 1 a step"
    ]
    watch(Penalty(alpha=3.0, factor=5.0), HOPPER_REPLAY[15.0])
    assert len(warnings()) == 1


@pytest.mark.parametrize("alpha", [15.0, 60.0])
def test_alpha_that_holds_is_not_complained_of(warnings, alpha):
    watch(Penalty(alpha=alpha), HOPPER_REPLAY[alpha])
    assert warnings() == []


def test_large_first_errors_are_no_sign(warnings):
    watch(Penalty(alpha=3.0), [(10, 100.0, 1.1), (100, 25.0, 0.8), (1000, 2.0, 0.4)])
    assert warnings() == []


def test_without_a_penalty_there_is_nothing_to_hold(warnings):
    watch(Penalty(alpha=0.0), [(10, 6.0, 1.1), (4000, 900.0, 50.0)])
    warn_of_imitation(Penalty(alpha=0.0), return_spread=0.0)
    assert warnings() == []


@pytest.mark.parametrize(("alpha", "told"), [(0.9, True), (1.1, False)])
def test_huber_pulls_with_one_at_most(warnings, alpha, told):
    watch(Penalty(alpha=alpha, loss="huber"), [(10, 50.0, 0.2), (100, 50.0, 0.9)])
    assert bool(warnings()) == told


def test_returns_that_alpha_drowns(warnings):
    # 2 × 0.1 / 40: the log's frequencies could be shifted by 0.005 at most, a twentieth of what is asked for.
    warn_of_imitation(Penalty(alpha=40.0), return_spread=0.1)
    assert warnings() == [
        "the log's discounted returns spread by only 0.1, little beside alpha = 40: only imitation will be learnt; "
        "lower --alpha or raise --reward-scale, either by a factor of about 20"
    ]


def test_the_factor_counts_when_returns_are_drowned(warnings):
    warn_of_imitation(Penalty(alpha=8.0, factor=5.0), return_spread=0.1)
    assert warnings() == [
        "the log's discounted returns spread by only 0.1, little beside alpha = 8 times penalty_factor = 5: only "
        "imitation will be learnt; lower --alpha or raise --reward-scale, either by a factor of about 20"
    ]


def test_returns_that_alpha_leaves_room_for(warnings):
    warn_of_imitation(Penalty(alpha=40.0), return_spread=72.0)  # Hopper, medium
    warn_of_imitation(Penalty(alpha=40.0, reward_scale=20.0), return_spread=0.101)
    assert warnings() == []
