import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold

from pnca.exceptions import InvalidInputError, MissingExtraError
from pnca_studies.data import LETTERS, render_letters
from pnca_studies.data.letters import _font_paths


def _nearest_centroid_accuracy(images, labels):
    """Five-fold accuracy of the class whose mean training image is closest."""
    points = images.reshape(len(images), -1)
    correct = np.zeros(len(points), dtype=bool)
    for train, test in StratifiedKFold(5).split(points, labels):
        centroids = np.stack([points[train][labels[train] == label].mean(0) for label in range(10)])
        distances = ((points[test][:, None] - centroids) ** 2).sum(-1)
        correct[test] = distances.argmin(1) == labels[test]
    return correct.mean()


def test_render_letters__shapes_and_types():
    images, labels = render_letters(12, size=16)
    assert (images.shape, images.dtype) == ((12, 16, 16), np.float32)
    assert (labels.shape, labels.dtype) == ((12,), np.int64)


def test_render_letters__same_seed_same_images():
    first, second = render_letters(30, random_state=3), render_letters(30, random_state=3)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


def test_render_letters__two_seeds_differ():
    first, second = render_letters(30, random_state=0), render_letters(30, random_state=1)
    assert not np.array_equal(first[0], second[0])
    assert not np.array_equal(first[1], second[1])


@pytest.mark.parametrize("n", [0, 1, 10, 57, 100])
def test_render_letters__classes_are_balanced_to_within_one(n):
    _, labels = render_letters(n)
    counts = np.bincount(labels, minlength=len(LETTERS))
    assert len(counts) == 10
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("size", [1, 5, 8, 28])
def test_render_letters__every_image_spans_up_to_one(size):
    images, _ = render_letters(40, size=size)
    assert images.min() >= 0
    np.testing.assert_array_equal(images.max(axis=(1, 2)), 1)


def test_render_letters__the_same_letter_is_drawn_in_many_ways():
    images, labels = render_letters(100)
    for label in range(10):
        assert len(np.unique(images[labels == label], axis=0)) == 10


def test_render_letters__intensities_resemble_the_digits():
    letters, _ = render_letters(500)
    digits = load_digits().images / 16
    # The digits' mean is 0.305; a tenth of it is far less than thin or bold type alone would differ by.
    assert letters.mean() == pytest.approx(digits.mean(), abs=0.03)


@pytest.mark.parametrize("size", [8, 32])
def test_render_letters__letters_can_be_told_apart(size):
    # Chance is 0.1; seeds 0 to 5 give 0.74 to 0.81, and rendering boxes for missing glyphs would give chance.
    assert _nearest_centroid_accuracy(*render_letters(400, size=size)) > 0.6


def test_render_letters__every_font_has_ten_different_glyphs():
    from PIL import ImageFont

    for path in _font_paths():
        font = ImageFont.truetype(str(path), 40)
        glyphs = {bytes(font.getmask(letter)) for letter in LETTERS}
        assert len(glyphs) == len(LETTERS), path.name


@pytest.mark.parametrize(("n", "size"), [(-1, 8), (3, 0)])
def test_render_letters__refuses_impossible_sizes(n, size):
    with pytest.raises(InvalidInputError, match=f"n={n} and size={size}"):
        render_letters(n, size=size)


def test_render_letters__names_the_extra_when_matplotlib_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pnca\[plots\]"):
        render_letters(1)
