import math

import numpy as np
import pytest

from actionless.errors import ActionlessError
from actionless.guidance.schedule import Fixed, PaperSchedule, beta_at, follows_guide, guidance_end


class TestPaperSchedule:
    def test_falls_by_a_tenth_every_hundred_thousand_steps(self):
        steps = [0, 99_999, 100_000, 250_000, 399_999, 400_000, 499_999, 500_000, 2_000_000]
        assert [PaperSchedule()(step) for step in steps] == [0.5, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1, 0.0, 0.0]

    def test_a_million_steps_are_the_papers_own(self):
        assert PaperSchedule().for_run(1_000_000) == PaperSchedule()

    def test_a_run_of_another_length_is_guided_up_to_its_middle(self):
        schedule = PaperSchedule().for_run(200)
        assert [schedule(step) for step in (0, 19, 20, 40, 60, 80, 99, 100)] == [0.5, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1, 0.0]

    def test_a_run_of_a_few_steps_has_a_schedule(self):
        assert [PaperSchedule().for_run(3)(step) for step in (0, 1, 5)] == [0.5, 0.4, 0.0]

    @pytest.mark.parametrize("schedule", [PaperSchedule(), PaperSchedule(0.3, 0.1, 7), PaperSchedule(1.0, 0.3, 10)])
    def test_its_end_is_the_first_step_without_guidance(self, schedule):
        assert schedule(schedule.end - 1) > 0
        assert schedule(schedule.end) == 0

    def test_refuses_what_is_no_probability(self):
        with pytest.raises(ActionlessError, match=r"start=1.5: choose a number between 0 and 1"):
            PaperSchedule(start=1.5)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"decrement": 0.0}, r"decrement=0\.0: choose a finite number above 0"),
            ({"interval": 0}, "interval=0: choose at least 1"),
        ],
    )
    def test_refuses_to_stand_still(self, wrong, message):
        with pytest.raises(ActionlessError, match=message):
            PaperSchedule(**wrong)


class TestOtherSchedules:
    def test_fixed(self):
        assert [Fixed(0.3)(step) for step in (0, 10**6)] == [0.3, 0.3]

    @pytest.mark.parametrize("beta", [-0.1, 1.1, math.nan])
    def test_fixed_refuses_what_is_no_probability(self, beta):
        with pytest.raises(ActionlessError, match=f"beta={beta}: choose a number between 0 and 1"):
            Fixed(beta)

    def test_any_function_will_do(self):
        assert beta_at(lambda step: step / 100, 25) == 0.25

    @pytest.mark.parametrize("beta", [-0.5, 1.5, math.nan])
    def test_a_function_that_leaves_the_range_is_named_with_step_and_value(self, beta):
        with pytest.raises(ActionlessError, match=rf"gives β = {beta} at step 7: .* between 0 and 1"):
            beta_at(lambda _: beta, 7)

    def test_where_guidance_ends(self):
        schedules = [PaperSchedule(), Fixed(0.0), Fixed(0.1), lambda _: 0.0]
        assert [guidance_end(schedule) for schedule in schedules] == [500_000, 0, math.inf, math.inf]


class TestSwitch:
    def test_follows_the_guide_as_often_as_beta_says(self):
        steps, beta = 20_000, 0.3
        share = np.mean([follows_guide(3, step, beta) for step in range(steps)])
        assert abs(share - beta) < 4 * math.sqrt(beta * (1 - beta) / steps)

    def test_never_and_always(self):
        assert not any(follows_guide(0, step, 0.0) for step in range(100))
        assert all(follows_guide(0, step, 1.0) for step in range(100))

    def test_is_decided_by_seed_and_step_alone(self):
        forwards = [follows_guide(1, step, 0.5) for step in range(64)]
        backwards = [follows_guide(1, step, 0.5) for step in reversed(range(64))]
        assert forwards == backwards[::-1]
        assert forwards != [follows_guide(2, step, 0.5) for step in range(64)]


class TestStretches:
    def test_the_share_stays_beta_and_turns_last_longer(self):
        steps = 5_000
        for beta in (0.2, 0.5):
            turns = np.array([follows_guide(3, step, beta, stretch=10) for step in range(steps)])
            assert abs(turns.mean() - beta) < 0.05
            changes = np.count_nonzero(turns[1:] != turns[:-1])
            # A draw lasts ten steps on average, and changes sides in 2β(1 − β) of all cases.
            assert changes == pytest.approx(steps / 10 * 2 * beta * (1 - beta), rel=0.2)

    def test_a_stretch_of_one_is_a_draw_at_every_step(self):
        steps = range(200)
        stretched = [follows_guide(1, step, 0.5, stretch=1) for step in steps]
        assert stretched == [follows_guide(1, step, 0.5) for step in steps]

    def test_the_order_of_questions_does_not_matter(self):
        forwards = [follows_guide(1, step, 0.5, stretch=7) for step in range(64)]
        assert forwards[::-1] == [follows_guide(1, step, 0.5, stretch=7) for step in reversed(range(64))]
