"""Numbers that depend on the seed, their purpose and the step, and on nothing else."""

import itertools

import numpy as np
from numpy.random import Generator, Philox

from actionless.randomness import generator


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
