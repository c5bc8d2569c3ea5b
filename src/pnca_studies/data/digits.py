"""A hundred labelled digits and three test sets: other digits, the same digits rotated, and letters."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from pnca.exceptions import InvalidInputError
from pnca_studies.data.letters import render_letters
from pnca_studies.data.shifts import rotate

_WHITE = 16.0  # load_digits counts the inked points of each four-by-four block


# Compared by identity: equality of arrays is not one truth value.
@dataclass(frozen=True, kw_only=True, eq=False)
class ShiftExperiment:
    """A small training set with three test sets: in distribution, shifted, and out of distribution.

    Images (n, h, w) have values from 0 to 1.
    """

    train_images: NDArray[np.float32]
    train_labels: NDArray[np.int64]  # (n,), positions in class_names
    test_images: NDArray[np.float32]
    test_labels: NDArray[np.int64]  # (n,), of the test images and of the rotated ones
    rotated_images: NDArray[np.float32]  # the test images, each turned by the same angle
    ood_images: NDArray[np.float32]  # letters
    ood_labels: NDArray[np.int64]  # (n,), 0 for A; not positions in class_names
    class_names: tuple[str, ...]


def load_digits_experiment(
    n_train: int = 100, *, degrees: float = 60.0, random_state: int = 0
) -> ShiftExperiment:
    """Split scikit-learn's 1797 digits, by class, and add test digits turned by ``degrees`` and letters."""
    digits = load_digits()
    images = (digits.images / _WHITE).astype(np.float32)  # (1797, 8, 8)
    labels = digits.target.astype(np.int64)  # (1797,)
    class_names = tuple(str(name) for name in digits.target_names)
    _check_n_train(n_train, len(images), len(class_names))
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, train_size=int(n_train), stratify=labels, random_state=random_state
    )
    ood_images, ood_labels = render_letters(len(test_images), size=images.shape[1], random_state=random_state)
    return ShiftExperiment(
        train_images=train_images,
        train_labels=train_labels,
        test_images=test_images,
        test_labels=test_labels,
        rotated_images=rotate(test_images, degrees),
        ood_images=ood_images,
        ood_labels=ood_labels,
        class_names=class_names,
    )


def _check_n_train(n_train: int, n_images: int, n_classes: int) -> None:
    """Refuse a split in which a class could be missing from one side, or has no pair to learn from."""
    least, most = 2 * n_classes, n_images - n_classes
    is_count = isinstance(n_train, Integral) and not isinstance(n_train, bool)
    if not (is_count and least <= n_train <= most):
        raise InvalidInputError(
            f"n_train must be a whole number from {least} to {most}, but it is {n_train!r}."
        )
