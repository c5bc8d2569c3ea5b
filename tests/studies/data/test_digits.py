import dataclasses
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from sklearn.datasets import load_digits

from pnca.exceptions import InvalidInputError
from pnca_studies.data import load_digits_experiment, render_letters, rotate


@pytest.fixture(scope="module")
def experiment():
    loaded = load_digits_experiment()
    for field in dataclasses.fields(loaded):
        value = getattr(loaded, field.name)
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return loaded


def _counts(images, labels):
    """Count each labelled image, so that duplicates are told from omissions."""
    return Counter((image.tobytes(), int(label)) for image, label in zip(images, labels, strict=True))


def test_load_digits_experiment__train_and_test_together_are_all_digits(experiment):
    digits = load_digits()
    together = _counts(experiment.train_images, experiment.train_labels)
    together += _counts(experiment.test_images, experiment.test_labels)
    assert together == _counts((digits.images / 16).astype(np.float32), digits.target)
    assert (len(experiment.train_images), len(experiment.test_images)) == (100, 1697)


def test_load_digits_experiment__no_training_image_is_tested(experiment):
    train = _counts(experiment.train_images, experiment.train_labels)
    test = _counts(experiment.test_images, experiment.test_labels)
    assert not train & test


@pytest.mark.parametrize("n_train", [20, 50, 100, 1787])
def test_load_digits_experiment__draw_is_stratified(n_train):
    labels = load_digits_experiment(n_train).train_labels
    expected = np.bincount(load_digits().target) * n_train / 1797
    # Whole images can follow the exact proportions to within one.
    assert np.abs(np.bincount(labels, minlength=10) - expected).max() <= 1
    assert len(labels) == n_train


def test_load_digits_experiment__types_and_ranges(experiment):
    for name in ("train_images", "test_images", "rotated_images", "ood_images"):
        images = getattr(experiment, name)
        assert images.shape[1:] == (8, 8)
        assert images.dtype == np.float32
        assert (images.min(), images.max()) == (0, 1)
    for name in ("train_labels", "test_labels", "ood_labels"):
        assert getattr(experiment, name).dtype == np.int64
    assert experiment.class_names == tuple("0123456789")


def test_load_digits_experiment__shifted_sets_match_the_test_set(experiment):
    np.testing.assert_array_equal(experiment.rotated_images, rotate(experiment.test_images, 60))
    letters, labels = render_letters(1697, random_state=0)
    np.testing.assert_array_equal(experiment.ood_images, letters)
    np.testing.assert_array_equal(experiment.ood_labels, labels)


def test_load_digits_experiment__degrees_reach_the_rotation():
    experiment = load_digits_experiment(1700, degrees=0)
    np.testing.assert_array_equal(experiment.rotated_images, experiment.test_images)


def test_load_digits_experiment__seed_decides_the_draw(experiment):
    np.testing.assert_array_equal(load_digits_experiment().train_images, experiment.train_images)
    other = load_digits_experiment(random_state=1)
    assert not np.array_equal(other.train_images, experiment.train_images)
    assert not np.array_equal(other.ood_images, experiment.ood_images)


def test_shift_experiment__is_frozen(experiment):
    with pytest.raises(dataclasses.FrozenInstanceError):
        experiment.class_names = ()


@pytest.mark.parametrize("n_train", [-5, 0, 19, 1788, 5000, 100.0, 0.1, "100", None, True])
def test_load_digits_experiment__refuses_sizes_that_lose_a_class(n_train):
    with pytest.raises(InvalidInputError, match=r"whole number from 20 to 1787, but it is"):
        load_digits_experiment(n_train)


def test_load_digits_experiment__accepts_numpy_integers():
    assert len(load_digits_experiment(np.int64(1700)).train_images) == 1700


def test_data__import_does_not_load_matplotlib():
    code = "import sys, pnca_studies.data; assert not {'matplotlib', 'PIL'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)
