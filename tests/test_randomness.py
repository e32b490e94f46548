"""Numbers that depend on the seed, their purpose and the step, and on nothing else."""

import hashlib
import inspect
import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator, Philox

from actionless import randomness
from actionless.randomness import PURPOSES, generator, purpose_number


def test_each_seed_purpose_and_step_has_its_own():
    places = itertools.product((0, 1), ("log rows", "switch", "episodes"), (0, 1, 2**62))
    draws = [generator(*place).random() for place in places]
    assert len(set(draws)) == 18


def test_the_same_place_gives_the_same_numbers():
    np.testing.assert_array_equal(generator(3, "switch", 7).random(5), generator(3, "switch", 7).random(5))


def test_neighbours_do_not_overlap():
    """A step may draw as much as it likes without meeting the next step's numbers."""
    assert generator(0, "switch", 7).bit_generator.state["state"]["counter"].tolist() == [0, 0, 3, 7]
    first = Generator(Philox(key=0, counter=[0, 0, 0, 5])).random(3)
    np.testing.assert_array_equal(generator(0, "log rows", 5).random(3), first)


def test_the_numbers_of_the_purposes_are_those_of_all_earlier_runs():
    """Runs on disk were drawn with these: a purpose may be added, none may change its number."""
    earlier = {
        "log rows": 0,
        "replay rows": 1,
        "warm-up actions": 2,
        "switch": 3,
        "episodes": 4,
        "idm rows": 5,
        "idm log rows": 6,
        "recorded episodes": 7,
        "recorded actions": 8,
    }
    assert earlier.items() <= PURPOSES.items()


def test_no_two_purposes_share_a_number():
    assert len(set(PURPOSES.values())) == len(PURPOSES)
    assert all(0 <= number < 2**63 for number in PURPOSES.values())
    # A dictionary would silently keep the last of two equal names.
    names = re.findall(r'^        "(.+)": \d+,$', inspect.getsource(randomness), re.MULTILINE)
    assert names == list(PURPOSES)
    assert not any(":" in name for name in names)


def test_a_purpose_from_outside_has_a_number_of_its_own():
    # By hand: the first eight bytes of SHA-256 of the name, with the highest bit set.
    digest = hashlib.sha256(b"mine: rows").digest()
    number = int.from_bytes(digest[:8], "big") | 1 << 63
    assert purpose_number("mine: rows") == number
    counter = generator(0, "mine: rows", 7).bit_generator.state["state"]["counter"].tolist()
    assert counter == [0, 0, number, 7]
    assert purpose_number("mine: other rows") not in {number, *PURPOSES.values()}


@given(st.text().map(lambda name: f"{name}:"))
def test_a_purpose_from_outside_never_meets_one_of_the_table(name):
    assert 2**63 <= purpose_number(name) < 2**64


def test_a_misspelt_purpose_is_refused():
    with pytest.raises(ValueError, match=r"no purpose 'swich' .*switch.*'my_package: swich'"):
        generator(0, "swich", 0)
