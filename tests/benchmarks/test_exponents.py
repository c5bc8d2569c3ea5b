"""Powers are found again, with the error that the formula of a regression gives."""

import math

import numpy as np
import pytest

from exponents import growth_law


@pytest.mark.parametrize("power", [0.0, 1.0, 2.5])
def test_growth_law__of_a_pure_power_is_that_power(power):
    sizes = [10, 20, 50, 400]
    law = growth_law(sizes, [3 * size**power for size in sizes])
    assert law.exponent == pytest.approx(power, abs=1e-12)
    assert law.at_end == pytest.approx(power, abs=1e-12)
    assert law.error == pytest.approx(0, abs=1e-12)


def test_growth_law__of_a_sum_lies_between_its_powers_and_ends_nearer_the_larger():
    sizes = [250, 500, 1000, 2000, 4000]
    law = growth_law(sizes, [size + 1e-3 * size**2 for size in sizes])
    assert 1 < law.exponent < law.at_end < 2


def test_growth_law__error_is_that_of_numpy():
    rng = np.random.RandomState(0)
    sizes = np.array([1, 2, 4, 8, 16])
    costs = sizes**1.5 * np.exp(0.1 * rng.normal(size=5))
    (slope, _), covariance = np.polyfit(np.log(sizes), np.log(costs), 1, cov=True)
    law = growth_law(sizes, costs)
    assert law.exponent == pytest.approx(slope)
    assert law.error == pytest.approx(math.sqrt(covariance[0, 0]))


def test_growth_law__needs_two_sizes():
    assert growth_law([5, 5], [1, 2]) is None
    assert growth_law([], []) is None
    assert growth_law([1, 2], [1, 0]) is None
    assert math.isnan(growth_law([1, 2], [1, 2]).error)
