import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from pnca.exceptions import InvalidInputError
from pnca_studies.data import rotate


@pytest.fixture
def images():
    # Not square and not symmetric, so that swapped axes or a wrong direction show.
    pixels = np.random.default_rng(0).uniform(0, 1, size=(4, 7, 9)).astype(np.float32)
    pixels.flags.writeable = False
    return pixels


@pytest.mark.parametrize("degrees", [-135.0, -30.0, 17.5, 60.0, 90.0, 200.0])
def test_rotate__equals_scipy_on_each_image(images, degrees):
    expected = [ndimage.rotate(image, degrees, reshape=False, order=1) for image in images]
    np.testing.assert_array_equal(rotate(images, degrees), expected)


def test_rotate__zero_degrees_is_identity(images):
    np.testing.assert_array_equal(rotate(images, 0), images)


@pytest.mark.parametrize("turns", [1, 2, 3, -1])
def test_rotate__quarter_turns_equal_rot90(turns):
    squares = np.random.default_rng(1).uniform(0, 1, size=(3, 8, 8))
    # Float32 rounding of values up to 1.
    np.testing.assert_allclose(rotate(squares, 90 * turns), np.rot90(squares, turns, axes=(1, 2)), atol=1e-6)


def test_rotate__keeps_shape_and_returns_float32_for_integers():
    counts = np.arange(2 * 8 * 8).reshape(2, 8, 8)
    rotated = rotate(counts, 33)
    assert (rotated.shape, rotated.dtype) == ((2, 8, 8), np.float32)
    np.testing.assert_array_equal(rotated, rotate(counts.astype(np.float64), 33))


@given(degrees=st.floats(-720, 720), seed=st.integers(0, 100))
def test_rotate__values_stay_between_zero_and_the_extremes(degrees, seed):
    images = np.random.default_rng(seed).normal(size=(2, 6, 6)).astype(np.float32)
    rotated = rotate(images, degrees)
    assert min(0, images.min()) <= rotated.min()
    assert rotated.max() <= max(0, images.max())


@pytest.mark.parametrize("shape", [(8,), (8, 8), (2, 8, 8, 3)])
def test_rotate__refuses_what_is_not_a_stack_of_images(shape):
    with pytest.raises(InvalidInputError, match=r"shape \(n, h, w\)"):
        rotate(np.zeros(shape), 10)
