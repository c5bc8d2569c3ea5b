"""Small-data classification problems with something foreign to ask about: what the benchmark is run on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from pnca.exceptions import MissingDataError
from pnca_studies.data import load_covid_features, load_mnist, load_notmnist, rotate
from pnca_studies.experiments.covid import N_FOLDS, partition
from pnca_studies.experiments.mnist import ROTATION, draw_rows
from pnca_studies.experiments.study import TestSet


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """One draw: what to train on and what to ask.

    Attributes
    ----------
    inputs : ndarray of shape (n, p) or (n, h, w), float32
        Training inputs.
    labels : ndarray of shape (n,)
        Their classes, from 0 to ``n_classes - 1``.
    tests : mapping of str to TestSet
        ``"test"``; ``"rotated"`` and ``"ood"``, the latter without labels, where there are such.
    n_classes : int
        Number of classes c.
    groups : ndarray of shape (n,), or None
        Whose examples belong together.
    """

    inputs: NDArray[np.float32]
    labels: NDArray[np.int64]
    tests: Mapping[str, TestSet]
    n_classes: int
    groups: NDArray[np.int64] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """A data set, from which problems of several sizes are drawn.

    Attributes
    ----------
    name : str
        Its name in tables.
    sizes : tuple of int
        Numbers of training examples.
    draw : callable
        ``draw(n, s)`` returns problem s with n examples.
    settings : str
        Whose settings of the paper its models use: ``"mnist"`` or ``"covid"``.
    has_images : bool
        Whether inputs are images and may be augmented.
    arrays : tuple of ndarray
        All that the problems are drawn from, to tell one version of the data from another.
    """

    name: str
    sizes: tuple[int, ...]
    draw: Callable[[int, int], Problem] = field(repr=False)
    settings: str = "mnist"
    has_images: bool = False
    arrays: tuple[NDArray[np.generic], ...] = field(default=(), repr=False)


def load_sources(data_dir: Path | None, *, quick: bool = False) -> tuple[dict[str, Source], list[str]]:
    """Load every data set there is.

    Parameters
    ----------
    data_dir : Path, optional
        Where MNIST, notMNIST and the COVID features are. The others come with scikit-learn.
    quick : bool
        A tenth of the test images.

    Returns
    -------
    sources : dict of str to Source
        By name.
    missing : list of str
        Why a data set was left out.
    """
    sources, missing = {}, []
    for load in (_mnist, _covid):
        try:
            found = load(data_dir, quick=quick)
        except MissingDataError as error:
            missing.append(str(error))
            continue
        sources.update({source.name: source for source in found})
    sources.update({source.name: source for source in _tables()})
    return sources, missing


def _mnist(data_dir: Path | None, *, quick: bool) -> list[Source]:
    mnist, letters = load_mnist(data_dir), load_notmnist(data_dir)
    step = 10 if quick else 1
    test = (mnist.test_images[::step] / 255).astype(np.float32)
    labels = mnist.test_labels[::step]
    images = {
        "test": (test, labels),
        "rotated": (rotate(test, ROTATION), labels),
        "ood": ((letters.images[::step] / 255).astype(np.float32), None),
    }
    pixels: dict[str, TestSet] = {name: (x.reshape(len(x), -1), y) for name, (x, y) in images.items()}

    def draw(n: int, s: int, *, flat: bool) -> Problem:
        rows = draw_rows(len(mnist.train_images), n, s)
        inputs = (mnist.train_images[rows] / 255).astype(np.float32)
        return Problem(
            inputs=inputs.reshape(n, -1) if flat else inputs,
            labels=mnist.train_labels[rows],
            tests=pixels if flat else images,
            n_classes=10,
        )

    sizes, arrays = (50, 100, 200, 400, 1000), (mnist.train_images, test, letters.images)
    return [
        Source(name="MNIST", sizes=sizes, draw=lambda n, s: draw(n, s, flat=True), arrays=arrays),
        Source(
            name="MNIST images",
            sizes=sizes,
            draw=lambda n, s: draw(n, s, flat=False),
            has_images=True,
            arrays=arrays,
        ),
    ]


def _covid(data_dir: Path | None, *, quick: bool) -> list[Source]:
    if data_dir is None:
        raise MissingDataError("The COVID features need --data-dir.")
    given = load_covid_features(data_dir)
    _, patients = np.unique(given.patients, return_inverse=True)

    def draw(n: int, s: int) -> Problem:
        trial, fold = divmod(s, N_FOLDS)
        train, held_out = partition(given.patients, "grouped", trial)[fold]
        return Problem(
            inputs=given.features[train],
            labels=given.labels_paper[train],
            tests={
                "test": (given.features[held_out], given.labels_paper[held_out]),
                "ood": (given.ood_features, None),
            },
            n_classes=2,
            groups=patients[train],
        )

    arrays = (given.features, given.labels_paper, given.ood_features)
    # Four folds of five, as near to this number as patients allow.
    n_train = len(patients) * (N_FOLDS - 1) // N_FOLDS
    return [Source(name="COVID", sizes=(n_train,), draw=draw, settings="covid", arrays=arrays)]


def _tables() -> list[Source]:
    """Data sets that come with scikit-learn; where there are three classes or more, one is held out."""
    digits = datasets.load_digits(return_X_y=True)
    return [
        _table("digits", digits, (50, 100, 200, 400, 1000), scale=1 / 16),
        _table("breast cancer", datasets.load_breast_cancer(return_X_y=True), (50, 100, 200, 400)),
        _table("wine", datasets.load_wine(return_X_y=True), (50,)),
        _table("iris", datasets.load_iris(return_X_y=True), (50,)),
    ]


def _table(
    name: str,
    data: tuple[NDArray[np.float64], NDArray[np.int64]],
    sizes: tuple[int, ...],
    scale: float | None = None,
) -> Source:
    """A data set as problems; columns are standardised by the training examples unless a scale is given."""
    inputs, labels = data
    classes = np.unique(labels)

    def draw(n: int, s: int) -> Problem:
        foreign = classes[s % len(classes)] if len(classes) > 2 else None
        familiar = np.flatnonzero(labels != foreign) if foreign is not None else np.arange(len(labels))
        rows = np.random.RandomState(s).permutation(familiar)
        train, test = rows[:n], rows[n:]
        centre, spread = inputs[train].mean(axis=0), inputs[train].std(axis=0)
        scaled = inputs * scale if scale else (inputs - centre) / np.where(spread > 0, spread, 1)
        x = scaled.astype(np.float32)
        _, y = np.unique(labels[familiar], return_inverse=True)
        numbers = np.full(len(labels), -1)
        numbers[familiar] = y
        tests: dict[str, TestSet] = {"test": (x[test], numbers[test])}
        if foreign is not None:
            tests["ood"] = x[labels == foreign], None
        return Problem(
            inputs=x[train],
            labels=numbers[train],
            tests=tests,
            n_classes=len(classes) - (foreign is not None),
        )

    return Source(name=name, sizes=sizes, draw=draw, arrays=(inputs, labels))
