"""Whether a log fits: by hand, and in runs whose log pays the opposite of the environment."""

import dataclasses

import numpy as np
import pytest
from point_task import point_log
from small_log import save

import actionless
from actionless.guidance.log_check import LEAST_STEPS, NEAR, Sums
from actionless.runs.sinks import read_rows
from actionless.training.train import train


def fed(pay, expect, distance=0.1, steps=2000, seed=0):
    rng, sums = np.random.default_rng(seed), Sums.create()
    pairs = np.array([(pay(x, rng), expect(x, rng)) for x in rng.normal(size=steps)])
    sums.add(*pairs.T, np.full(steps, distance))
    return sums


def test_correlation_is_the_usual_one():
    rng, sums = np.random.default_rng(0), Sums.create()
    paid = rng.normal(3, 2, 600)
    expected = 0.5 * paid + rng.normal(size=600)
    sums.add(paid, expected, np.zeros(600))
    # Older steps count a little less, at most e^(-600/5000).
    assert sums.correlation == pytest.approx(np.corrcoef(paid, expected)[0, 1], abs=0.02)


def test_steps_count_the_same_together_or_one_by_one():
    rng = np.random.default_rng(0)
    paid, expected, distance = rng.normal(size=(3, 40))
    together, each = Sums.create(), Sums.create()
    together.add(paid, expected, distance + 0.9)
    for row in zip(paid, expected, distance + 0.9, strict=True):
        each.add(*np.array(row)[:, None])
    assert 5 < together.moments[0] < 35  # some steps are too far off
    np.testing.assert_allclose(together.moments, each.moments, rtol=1e-12)


def test_what_is_believed():
    assert fed(lambda x, _: x, lambda x, _: 2 * x + 7).fits
    assert not fed(lambda x, _: x, lambda x, _: -x).fits
    assert not fed(lambda x, _: x, lambda _, rng: rng.normal()).fits
    assert fed(lambda x, rng: x + rng.normal(), lambda x, _: x).correlation == pytest.approx(0.71, abs=0.05)


def test_what_cannot_be_known_is_believed():
    few = fed(lambda x, _: x, lambda x, _: -x, steps=int(LEAST_STEPS) - 10)
    assert few.correlation is None
    assert few.fits
    assert fed(lambda x, _: x, lambda x, _: -x, distance=NEAR + 0.1).fits
    assert fed(lambda x, _: 1.0, lambda x, _: x).correlation is None  # an environment that always pays the same
    assert fed(lambda x, _: 1e6, lambda x, _: x).correlation is None


@pytest.mark.parametrize(("sign", "used"), [(1.0, 1.0), (-1.0, 0.0)])
def test_a_log_that_pays_the_opposite_is_not_used(tmp_path, sign, used):
    log = point_log()
    data = save(dataclasses.replace(log, rewards=sign * log.rewards), tmp_path / "point.npz")
    actionless.pretrain(data, tmp_path / "values", method="iql-delta", scale="smoke", steps=1500)
    options = {"guide": tmp_path / "values", "guidance": "potential,relabel", "agreement": 10.0}
    train("point_task:Point-v0", tmp_path / "run", scale="smoke", steps=1500, batch_size=16, warm_up=100, **options)
    last = list(read_rows(tmp_path / "run" / "metrics.jsonl"))[-1]
    assert last["potential/used"] == used
    assert np.sign(last["potential/reward_correlation"]) == sign
    assert last["relabel/used"] == pytest.approx(0.5 * used)
