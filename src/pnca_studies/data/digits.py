"""A hundred labelled digits, and three questions to ask of a model that learned from them.

The digits it has not seen, the same digits rotated, and letters, to which no digit is the answer.
"""

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
    """A small training set with three test sets: familiar, shifted, and foreign.

    Images are float32 with values from 0 to 1, labels int64.

    Attributes
    ----------
    train_images : ndarray of shape (n, h, w)
        What a model may learn from.
    train_labels : ndarray of shape (n,)
        Positions in ``class_names``.
    test_images : ndarray of shape (n_test, h, w)
        Unseen images drawn as the training images were.
    test_labels : ndarray of shape (n_test,)
        Positions in ``class_names``; they hold for ``rotated_images`` too.
    rotated_images : ndarray of shape (n_test, h, w)
        ``test_images``, each turned by the same angle.
    ood_images : ndarray of shape (n_test, h, w)
        Letters; whatever class a model names is wrong.
    ood_labels : ndarray of shape (n_test,)
        Which letter each is, 0 for A; not a position in ``class_names``.
    class_names : tuple of c str
        The classes, in label order.
    """

    train_images: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    rotated_images: NDArray[np.float32]
    ood_images: NDArray[np.float32]
    ood_labels: NDArray[np.int64]
    class_names: tuple[str, ...]


def load_digits_experiment(
    n_train: int = 100, *, degrees: float = 60.0, random_state: int = 0
) -> ShiftExperiment:
    """Split scikit-learn's 1797 digits and add the rotated digits and the letters.

    Parameters
    ----------
    n_train : int, default=100
        Training images, drawn at random with the classes in their overall proportions; all the other
        digits are for testing.
    degrees : float, default=60.0
        How far ``rotated_images`` are turned, counter-clockwise.
    random_state : int, default=0
        Seed of the draw and of the letters.

    Returns
    -------
    ShiftExperiment
        Images of shape (n, 8, 8).

    Raises
    ------
    InvalidInputError
        If ``n_train`` leaves a class without a training or without a test image.
    MissingExtraError
        If matplotlib, whose fonts draw the letters, is not installed.

    Examples
    --------
    >>> experiment = load_digits_experiment(100)
    >>> experiment.train_images.shape, experiment.test_images.shape
    ((100, 8, 8), (1697, 8, 8))
    """
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
