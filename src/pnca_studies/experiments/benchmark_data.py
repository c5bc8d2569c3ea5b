"""The data sets of the benchmark: small classification problems, most with out-of-distribution inputs."""

from collections.abc import Callable, Collection, Mapping
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

_OF_MNIST, _OF_COVID = ("MNIST", "MNIST images"), ("COVID",)
#: All data sets, whether their files are there or not.
NAMES = (*_OF_MNIST, *_OF_COVID, "digits", "breast cancer", "wine", "iris")


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """One draw: training examples and test sets."""

    inputs: NDArray[np.float32]  # (n, p) or (n, h, w)
    labels: NDArray[np.int64]  # (n,), from 0 to n_classes - 1
    tests: Mapping[str, TestSet]  # "test"; where there are such, "rotated" and "ood"
    n_classes: int
    groups: NDArray[np.int64] | None = None  # (n,), patients


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """A data set, from which problems of several sizes are drawn."""

    name: str
    sizes: tuple[int, ...]  # numbers of training examples
    draw: Callable[[int, int], Problem] = field(repr=False)  # from n and a seed
    settings: str = "mnist"  # for which experiment of the paper its models are set: "mnist" or "covid"
    has_images: bool = False  # whether inputs are images and may be augmented
    arrays: tuple[NDArray[np.generic], ...] = field(default=(), repr=False)  # all of the data


def load_sources(
    data_dir: Path | None, names: Collection[str] | None = None, *, quick: bool = False
) -> tuple[dict[str, Source], list[str]]:
    """Load the data sets that are there, and say of the others why they are left out.

    Of those that ``names`` does not name the files are not looked for.
    """
    sources, missing = {}, []
    for load, theirs in ((_mnist, _OF_MNIST), (_covid, _OF_COVID)):
        if names is not None and not set(theirs) & set(names) and set(names) <= set(NAMES):
            continue
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
    """Return the data sets of scikit-learn; of three classes or more, one is out of distribution."""
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
    """Draw problems from a table, whose columns are standardised by the training examples or scaled."""
    inputs, labels = data
    classes = np.unique(labels)

    def draw(n: int, s: int) -> Problem:
        is_ood = (labels == classes[s % len(classes)]) & (len(classes) > 2)
        known = np.unique(labels[~is_ood])
        rows = np.random.RandomState(s).permutation(np.flatnonzero(~is_ood))
        train, test = rows[:n], rows[n:]
        centre, spread = inputs[train].mean(axis=0), inputs[train].std(axis=0)
        scaled = inputs * scale if scale else (inputs - centre) / np.where(spread > 0, spread, 1)
        x, y = scaled.astype(np.float32), np.searchsorted(known, labels)
        tests: dict[str, TestSet] = {"test": (x[test], y[test])}
        if is_ood.any():
            tests["ood"] = x[is_ood], None
        return Problem(inputs=x[train], labels=y[train], tests=tests, n_classes=len(known))

    return Source(name=name, sizes=sizes, draw=draw, arrays=(inputs, labels))
