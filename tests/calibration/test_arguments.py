"""Every argument that cannot be meant is refused by its name."""

import math

import numpy as np
import pytest

from pnca.calibration.arguments import check_max_error, check_min_familiarity, check_priors, check_share
from pnca.exceptions import InvalidInputError

CLASSES = np.array(["a", "b"])


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, math.nan, math.inf, True, "0.1", None, [0.1], 0.1j])
def test_share__lies_between_zero_and_one(value):
    with pytest.raises(InvalidInputError, match=r"^coverage is .*: pass a number above 0 and below 1\.$"):
        check_share("coverage", value)


def test_share__may_be_a_numpy_number():
    assert check_share("coverage", np.float32(0.5)) == 0.5


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "max_error is 0.0"),
        ({"a": 0.1}, "max_error lacks class 'b'"),
        ({"a": 0.1, "b": 0.1, "c": 0.1}, "max_error names 'c', which is no class"),
        ({"a": 0.1, "b": math.nan}, r"max_error\['b'\] is nan"),
    ],
)
def test_max_error__is_refused_by_name(value, words):
    with pytest.raises(InvalidInputError, match=words):
        check_max_error(value, CLASSES)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([0.5, 0.0], "priors gives class 'b' 0.0"),
        ([0.5, -1], "priors gives class 'b' -1"),
        ([0.5, math.nan], "priors gives class 'b' nan"),
        ([math.inf, 1], "priors gives class 'a' inf"),
        ([10**400, 1], "priors gives class 'a' 1000"),
        ([True, 1], "priors gives class 'a' True"),
        ([1, "2"], "priors gives class 'b' '2'"),
        ([1, 2, 3], "priors must be one number for each of the 2 classes"),
        (0.5, "priors must be one number for each of the 2 classes"),
        ([[1, 2]], "priors must be one number for each of the 2 classes"),
        (np.ones((2, 1)), "priors must be one number for each of the 2 classes"),
        ([[1], 2], r"priors gives class 'a' \[1\]"),
        ("ab", "priors must be one number for each of the 2 classes"),
        ({"a": 1}, "priors lacks class 'b'"),
        ({"a": 1, "b": 0}, "priors gives class 'b' 0"),
        ({"a": 1, "z": 1, "b": 1}, "priors names 'z'"),
    ],
)
def test_priors__are_refused_by_name(value, words):
    with pytest.raises(InvalidInputError, match=words):
        check_priors(value, CLASSES)


def test_priors__are_shares_and_may_be_a_pandas_series():
    pandas = pytest.importorskip("pandas")
    np.testing.assert_allclose(check_priors(np.array([1, 3]), CLASSES), [0.25, 0.75])
    np.testing.assert_allclose(check_priors(pandas.Series({"b": 30, "a": 10}), CLASSES), [0.25, 0.75])
    np.testing.assert_allclose(check_priors([1e308, 1e308], CLASSES), [0.5, 0.5])


@pytest.mark.parametrize("n", [1, 10, 28, 29, 30, 1000])
def test_min_familiarity__by_default_declines_at_least_what_has_less_evidence_than_all(n):
    level = check_min_familiarity(None, n)
    assert 1 / (n + 1) < level < max(0.051, 2 / (n + 1))


def test_min_familiarity__that_could_decline_nothing_is_refused_but_zero_is_not():
    assert check_min_familiarity(0, 10) == 0
    assert check_min_familiarity(0.1, 10) == 0.1
    with pytest.raises(InvalidInputError, match=r"with 10 independent examples .* 1/11 = 0.0909"):
        check_min_familiarity(0.05, 10)
    for value in (1, -0.1, math.nan, "a", True):
        with pytest.raises(InvalidInputError, match=r"min_familiarity is .*: pass 0, or a number"):
            check_min_familiarity(value, 10)
