import numpy as np
import pytest

from pnca_studies.reports.benchmark import Interval, Measure


@pytest.mark.parametrize(
    ("interval", "more", "side"),
    [
        ((0.2, 0.1, 0.3), True, "win"),
        ((0.2, 0.1, 0.3), False, "loss"),
        ((-0.2, -0.3, -0.1), True, "loss"),
        ((-0.2, -0.3, -0.1), False, "win"),
        ((0.2, 0.0, 0.3), True, "tie"),
        ((0.0, 0.0, 0.0), False, "tie"),
        ((0.2, np.nan, np.nan), True, ""),
    ],
)
def test_interval__side(interval, more, side):
    measure = Measure(name="", test_set="", column="", more=more)
    assert Interval(*interval).side(measure) == side


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ((0.0021, 0.0012, 0.003), "+.002 (+.001 to +.003)"),
        ((0.0021, 0.0002, 0.003), "+.0021 (+.0002 to +.0030)"),
        ((-0.5, -1.25, 0.0), "-.500 (-1.250 to .000)"),
        ((0.25, np.nan, np.nan), "+.250"),
    ],
)
def test_interval__an_end_near_zero_does_not_look_like_zero(interval, text):
    assert str(Interval(*interval)) == text
