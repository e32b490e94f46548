import numpy as np
import pytest

from actionless.analysis import statistics
from actionless.analysis.statistics import (
    aggregate,
    mean_and_error,
    mean_over_episodes,
    probability_of_improvement,
    values_at,
)
from actionless.errors import ActionlessError

PEER_RESAMPLES = 4_000  # each is a call of Python

# Two tasks, four runs each.
SCORES = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 60.0], [6.0, 30.0]])


def some_scores(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).cumsum(axis=0)


class TestByHand:
    def test_mean_and_error(self):
        mean, error = mean_and_error(np.array([2, 4, 4, 4, 5, 5, 7, 9]))
        # Squares about the mean add up to 32.
        assert (mean, error) == pytest.approx((5.0, np.sqrt(32 / 7 / 8)))

    def test_mean_and_error_of_each_task(self):
        mean, error = mean_and_error(SCORES)
        np.testing.assert_allclose(mean, [3, 30])
        np.testing.assert_allclose(error, [np.sqrt(14 / 3 / 4), np.sqrt(1400 / 3 / 4)])

    def test_one_run_has_no_error(self):
        mean, error = mean_and_error(np.array([[3, 4]]))
        np.testing.assert_array_equal(mean, [3, 4])
        np.testing.assert_array_equal(error, [np.nan, np.nan])

    @pytest.mark.parametrize(
        ("how", "expected"),
        [
            ("mean", (3 + 30) / 2),
            ("median", (3 + 30) / 2),
            ("iqm", (3 + 6 + 10 + 20) / 4),
        ],
    )
    def test_aggregates(self, how, expected):
        assert aggregate(SCORES, how, resamples=1).value == pytest.approx(expected)

    def test_the_median_is_of_the_means_of_the_tasks(self):
        three = np.concatenate([SCORES, SCORES[:, :1] * 100], axis=1)
        assert aggregate(three, "median", resamples=1).value == 30

    def test_a_quarter_that_is_no_whole_number_is_cut_short(self):
        # A quarter of 7 is 1.75: one run is left out on either side.
        assert aggregate(np.array([[0.0, 1, 2, 3, 4, 5, 600]]).T, resamples=1).value == 3

    def test_improvement(self):
        # Task 0: 5 beats 1 and 5 ties with 5; 7 beats both. Task 1: nothing beats anything.
        ours, theirs = np.array([[5, 0], [7, 0]]), np.array([[1, 2], [5, 2]])
        assert probability_of_improvement(ours, theirs).value == pytest.approx((3.5 / 4 + 0) / 2)
        assert probability_of_improvement(theirs, ours).value == pytest.approx((0.5 / 4 + 1) / 2)

    def test_the_interval_over_episodes_of_one_run(self):
        # Of two episodes a quarter of the resamples has the first alone, a quarter the second alone.
        estimate = mean_over_episodes(np.array([[0.0, 10.0]]), confidence=0.6)
        assert (estimate.value, estimate.low, estimate.high) == (5, 0, 10)
        estimate = mean_over_episodes(np.array([[0.0, 10.0]]), confidence=0.4)
        assert (estimate.low, estimate.high) == (5, 5)

    def test_runs_are_resampled_before_their_episodes(self):
        # Episodes of a run are alike, runs are not: more episodes do not narrow the interval.
        apart = np.array([[0.0] * 50, [10.0] * 50])
        estimate = mean_over_episodes(apart, confidence=0.6)
        assert (estimate.value, estimate.low, estimate.high) == (5, 0, 10)
        alike = mean_over_episodes(np.array([[0.0, 10.0] * 25] * 2), confidence=0.6)
        assert 4 < alike.low < 5 < alike.high < 6

    def test_the_interval_of_two_runs(self):
        # Half of the resamples are mixed, a quarter each has one run alone.
        estimate = aggregate(np.array([[0.0], [1.0]]), "mean", confidence=0.6)
        assert (estimate.value, estimate.low, estimate.high) == (0.5, 0.0, 1.0)
        narrow = aggregate(np.array([[0.0], [1.0]]), "mean", confidence=0.4)
        assert (narrow.low, narrow.high) == (0.5, 0.5)


class TestBootstrap:
    def test_runs_are_drawn_within_their_task(self):
        # Each task's runs agree, so that whatever is drawn within it is the same.
        scores = np.tile([0.0, 1.0, 50.0], (6, 1))
        for how in ("mean", "median", "iqm"):
            estimate = aggregate(scores, how)
            assert estimate.low == pytest.approx(estimate.value) == estimate.high

    def test_intervals_of_the_mean_are_those_of_the_normal_distribution(self):
        scores = np.random.default_rng(0).normal(size=(400, 2))
        estimate = aggregate(scores, "mean")
        error = np.sqrt(np.square(scores - scores.mean(axis=0)).mean(axis=0).sum() / 400) / 2
        assert estimate.high - estimate.value == pytest.approx(1.96 * error, rel=0.03)
        assert estimate.value - estimate.low == pytest.approx(1.96 * error, rel=0.03)

    def test_the_seed_decides(self):
        scores = some_scores((5, 2))
        assert aggregate(scores, seed=1, resamples=100) == aggregate(scores, seed=1, resamples=100)
        assert aggregate(scores, seed=1, resamples=100) != aggregate(scores, seed=2, resamples=100)
        others = some_scores((4, 2), seed=1)
        first, second = (probability_of_improvement(scores, others, seed=seed, resamples=99) for seed in (1, 1))
        assert first == second

    def test_a_curve_is_its_steps(self):
        curves = some_scores((5, 2, 3))
        whole = aggregate(curves, resamples=500)
        each = [aggregate(curves[:, :, step], resamples=500) for step in range(3)]
        np.testing.assert_allclose(whole.value, [step.value for step in each])
        np.testing.assert_allclose(whole.low, [step.low for step in each])
        np.testing.assert_allclose(whole.high, [step.high for step in each])

    def test_blocks_that_are_not_whole(self, monkeypatch):
        scores, others = some_scores((5, 2)), some_scores((4, 2), seed=1)
        whole = aggregate(scores, resamples=101), probability_of_improvement(scores, others, resamples=20_000)
        monkeypatch.setattr(statistics, "_MOST_NUMBERS", 70)
        # The numbers drawn for runs are the same in one block or many; counts interleave the two sides.
        assert aggregate(scores, resamples=101) == whole[0]
        again = probability_of_improvement(scores, others, resamples=20_000)
        assert (again.low, again.high) == pytest.approx((whole[1].low, whole[1].high), abs=0.03)

    def test_single_precision_is_added_up_in_double(self):
        scores = np.full((3, 1), 16_777_217.0)
        assert aggregate(np.array([[2.0**24], [1.0], [1.0]], np.float32), "mean").value == (2.0**24 + 2) / 3
        assert aggregate(scores, "mean").value == 16_777_217.0


class TestCurves:
    def test_the_last_value_measured_counts(self):
        values = values_at(np.array([10, 15, 20, 29, 30]), np.array([10, 20, 30]), np.array([1.0, 2.0, 3.0]))
        np.testing.assert_array_equal(values, [1, 1, 2, 2, 3])

    @pytest.mark.parametrize("steps", [[5, 10], [10, 31]])
    def test_steps_that_were_not_reached(self, steps):
        with pytest.raises(
            ActionlessError,
            match=f"measured from step 10 to 30 does not cover the steps from {steps[0]} to {steps[1]}: ask for steps",
        ):
            values_at(np.array(steps), np.array([10, 30]), np.array([1.0, 2.0]))

    def test_nothing_measured(self):
        with pytest.raises(ActionlessError, match="measured at no step does not cover"):
            values_at(np.array([1]), np.array([], int), np.array([]))

    def test_rows_out_of_order(self):
        with pytest.raises(ActionlessError, match="must increase: sort its rows"):
            values_at(np.array([10]), np.array([10, 10]), np.array([1.0, 2.0]))


class TestBadInput:
    def test_a_failed_run(self):
        scores = SCORES.copy()
        scores[2, 1] = np.nan
        for function in (aggregate, mean_and_error):
            with pytest.raises(ActionlessError, match=r"nan at index \[2, 1\] \(run first\); leave out the run"):
                function(scores)
        with pytest.raises(ActionlessError, match="scores: nan"):
            probability_of_improvement(SCORES, scores)

    @pytest.mark.parametrize("shape", [(0, 2), (2, 0)])
    def test_nothing(self, shape):
        with pytest.raises(ActionlessError, match=r"scores of shape \(., .\): give at least one run"):
            aggregate(np.zeros(shape))

    def test_other_tasks(self):
        with pytest.raises(ActionlessError, match="scores of 2 tasks and of 1 tasks: compare on the same tasks"):
            probability_of_improvement(SCORES, SCORES[:, :1])

    @pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0])
    def test_confidence(self, confidence):
        with pytest.raises(ActionlessError, match=r"confidence=.*: choose a number between 0 and 1, such as 0.95"):
            aggregate(SCORES, confidence=confidence)

    def test_resamples(self):
        with pytest.raises(ActionlessError, match="resamples=0: choose at least 1"):
            probability_of_improvement(SCORES, SCORES, resamples=0)


@pytest.mark.peer
@pytest.mark.filterwarnings("default")  # rliable's dependencies deprecate each other
class TestBesideRliable:
    @pytest.mark.parametrize("shape", [(10, 3), (5, 4), (3, 1)])
    @pytest.mark.parametrize("how", ["mean", "median", "iqm"])
    def test_aggregates(self, how, shape):
        from rliable import library, metrics

        theirs = {"mean": metrics.aggregate_mean, "median": metrics.aggregate_median, "iqm": metrics.aggregate_iqm}
        scores = some_scores(shape)
        np.random.seed(0)
        points, intervals = library.get_interval_estimates(
            {"us": scores}, lambda x: np.array([theirs[how](x)]), reps=PEER_RESAMPLES
        )
        ours = aggregate(scores, how)
        assert ours.value == pytest.approx(points["us"][0], rel=1e-14)
        np.testing.assert_allclose([ours.low, ours.high], intervals["us"][:, 0], atol=monte_carlo_error(ours))

    def test_improvement(self):
        from rliable import library, metrics

        # Rounded, so that there are ties.
        scores, others = some_scores((6, 2)).round(), some_scores((8, 2), seed=1).round()
        np.random.seed(0)
        points, intervals = library.get_interval_estimates(
            {"us": (scores, others)},
            lambda x, y: np.array([metrics.probability_of_improvement(x, y)]),
            reps=PEER_RESAMPLES,
        )
        ours = probability_of_improvement(scores, others)
        assert ours.value == pytest.approx(points["us"][0], rel=1e-14)
        np.testing.assert_allclose([ours.low, ours.high], intervals["us"][:, 0], atol=monte_carlo_error(ours))

    def test_curves(self):
        from rliable import library, metrics

        curves = some_scores((6, 2, 4))
        np.random.seed(0)
        points, intervals = library.get_interval_estimates(
            {"us": curves},
            lambda x: np.array([metrics.aggregate_iqm(x[:, :, step]) for step in range(4)]),
            reps=PEER_RESAMPLES,
        )
        ours = aggregate(curves)
        np.testing.assert_allclose(ours.value, points["us"], rtol=1e-14)
        for step in range(4):
            one = aggregate(curves[:, :, step])
            theirs = intervals["us"][:, step]
            np.testing.assert_allclose([ours.low[step], ours.high[step]], theirs, atol=monte_carlo_error(one))


def monte_carlo_error(estimate):
    """Four standard errors of a 2.5 % quantile of the peer's draws, were they normal with this interval."""
    spread = (estimate.high - estimate.low) / (2 * 1.96)
    density = np.exp(-(1.96**2) / 2) / np.sqrt(2 * np.pi)
    return 4 * spread * np.sqrt(0.025 * 0.975 / PEER_RESAMPLES) / density
