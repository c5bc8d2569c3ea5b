import numpy as np
import pytest

from pnca_studies.reports.benchmark import Interval, Measure, writing


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.001, "< .01"), (0.25, ".25"), (9.87, "9.87"), (12.34, "12.3"), (123.4, "123")]
)
def test_seconds__in_three_digits(seconds, text):
    assert writing.seconds(np.array([seconds])) == text


@pytest.mark.parametrize(
    ("interval", "mark"), [((0.2, 0.1, 0.3), "**"), ((-0.2, -0.3, -0.1), "*"), ((0.1, -0.1, 0.3), "")]
)
def test_marked__bold_is_better_and_italic_is_worse(interval, mark):
    measure = Measure(name="", test_set="", column="", more=True)
    difference = Interval(*interval)
    assert writing.marked(difference, measure) == f"{mark}{difference}{mark}"


def test_names__in_a_row():
    assert writing.listed([]) == "none"
    assert writing.listed(["a"]) == "a"
    assert writing.listed(["a", "b", "c"]) == "a, b and c"
