"""Load the data sets of the catalogue, those that are there."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import zoom
from sklearn import datasets

from pnca.exceptions import MissingDataError
from pnca_studies.data import load_covid_features, load_mnist, load_notmnist, rotate
from pnca_studies.data.tables import load_table
from pnca_studies.experiments.benchmark.catalogue import DATA_SETS, SITES, TEST, UNSEEN, DataSet
from pnca_studies.experiments.benchmark.problems import MOST_TESTED, Problem, Source, TestSet, draw_table
from pnca_studies.experiments.covid import N_FOLDS, partition
from pnca_studies.experiments.mnist import ROTATION, draw_rows

#: Every so many test digits, and rotated digits and letters, which tell little more when all are asked.
_STEP_TEST, _STEP_FOREIGN = 2, 5
#: Columns of pc1 in the order of kc2: two of them are exchanged.
_AS_KC2 = [*range(14), 15, 14, *range(16, 21)]


def load_sources(
    names: Iterable[str], data_dir: Path | None, *, download: bool = False
) -> tuple[dict[str, Source], list[str]]:
    """Load data sets by name, and say of those that are missing why."""
    sources: dict[str, Source] = {}
    missing: list[str] = []
    for name in names:
        data_set = DATA_SETS[name]
        load = _SMALL.get(name) or _OTHERS.get(data_set.group, _load_table)
        try:
            sources[name] = load(data_set, data_dir, download)
        except MissingDataError as error:
            missing.append(str(error))
    return sources, list(dict.fromkeys(missing))


def _load_table(data_set: DataSet, data_dir: Path | None, download: bool) -> Source:
    name = data_set.name.removesuffix(UNSEEN)
    table = load_table(name, data_dir, download=download)
    inputs, labels, n_classes = table.inputs, table.labels, int(table.labels.max()) + 1
    site = SITES.get(name)
    other = load_table(site, data_dir, download=download) if site else None

    def draw(size: str, seed: int) -> Problem:
        n = len(labels) // 2 if size == "half" else int(size)
        is_unseen = data_set.group == "unseen classes"
        problem = draw_table(
            inputs,
            labels,
            n,
            seed,
            left_out=seed % n_classes if is_unseen else None,
            kind="table",
            categories=table.categories,
        )
        if other is None:
            return problem
        rows = np.random.RandomState(seed).permutation(len(other.labels))[:MOST_TESTED]
        columns = _AS_KC2 if other.inputs.shape[1] == len(_AS_KC2) else slice(None)
        foreign: TestSet = other.inputs[rows][:, columns], other.labels[rows]
        return replace(problem, tests={**problem.tests, "other site": foreign})

    return Source(data_set=data_set, draw=draw, arrays=(inputs, labels))


def _load_small(
    data_set: DataSet, load: Callable[..., tuple[NDArray[np.float64], NDArray[np.int64]]]
) -> Source:
    inputs, labels = load(return_X_y=True)
    n_classes = int(labels.max()) + 1

    def draw(size: str, seed: int) -> Problem:
        left_out = seed % n_classes if n_classes > 2 else None
        return draw_table(inputs, labels, int(size), seed, left_out=left_out, kind=data_set.kind)

    return Source(data_set=data_set, draw=draw, arrays=(inputs, labels))


def _load_digits(data_set: DataSet, data_dir: Path | None, download: bool) -> Source:
    """Digits of 8 by 8 pixels; of another site are those of MNIST, if they are there, counted likewise."""
    inputs, labels = datasets.load_digits(return_X_y=True)
    inputs = (inputs / 16).astype(np.float32)
    try:
        mnist = load_mnist(data_dir, download=download)
        other = _in_blocks(mnist.test_images[:MOST_TESTED]), mnist.test_labels[:MOST_TESTED]
    except MissingDataError:
        other = None

    def draw(size: str, seed: int) -> Problem:
        left_out = seed % 10
        problem = draw_table(
            inputs, labels, int(size), seed, left_out=left_out, with_unit_error=False, kind=data_set.kind
        )
        if other is None:
            return problem
        known = other[1] != left_out
        codes = other[1][known] - (other[1][known] > left_out)
        return replace(problem, tests={**problem.tests, "other site": (other[0][known], codes)})

    return Source(data_set=data_set, draw=draw, arrays=(inputs, labels))


def _in_blocks(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bring images (n, 28, 28) to shares of ink (n, 64) in blocks, as scikit-learn's digits were."""
    large = np.stack([zoom(image / 255, 32 / 28, order=1) for image in images]) > 0.5
    shares: NDArray[np.float32] = large.reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4)).astype(np.float32)
    return shares.reshape(len(images), -1)


@cache
def _mnist_arrays(
    data_dir: Path | None, download: bool
) -> tuple[NDArray[np.uint8], NDArray[np.int64], dict[str, TestSet]]:
    mnist, letters = load_mnist(data_dir, download=download), load_notmnist(data_dir, download=download)
    test, foreign = slice(None, None, _STEP_TEST), slice(None, None, _STEP_FOREIGN)

    def scaled(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        return (images / 255).astype(np.float32)

    tests: dict[str, TestSet] = {
        TEST: (scaled(mnist.test_images[test]), mnist.test_labels[test]),
        "rotated": (rotate(scaled(mnist.test_images[foreign]), ROTATION), mnist.test_labels[foreign]),
        "letters": (scaled(letters.images[foreign]), None),
    }
    return mnist.train_images, mnist.train_labels, tests


def _load_mnist(data_set: DataSet, data_dir: Path | None, download: bool) -> Source:
    images, labels, tests = _mnist_arrays(data_dir, download)
    if data_set.kind == "pixels":
        tests = {name: (x.reshape(len(x), -1), y) for name, (x, y) in tests.items()}

    def draw(size: str, seed: int) -> Problem:
        rows = draw_rows(len(images), int(size), seed)
        inputs = (images[rows] / 255).astype(np.float32)
        return Problem(
            inputs=inputs.reshape(len(rows), -1) if data_set.kind == "pixels" else inputs,
            labels=labels[rows].astype(np.int64),
            tests=tests,
            n_classes=10,
            kind=data_set.kind,
        )

    return Source(data_set=data_set, draw=draw, arrays=(images, *(x for x, _ in tests.values())))


def _load_covid(data_set: DataSet, data_dir: Path | None, download: bool) -> Source:
    if data_dir is None:
        raise MissingDataError("The COVID features need --data-dir.")
    is_equalised = data_set.name != "COVID"
    given = load_covid_features(data_dir, "equalised" if is_equalised else "plain")
    _, patients = np.unique(given.patients, return_inverse=True)

    def draw(size: str, seed: int) -> Problem:
        trial, fold = divmod(seed, N_FOLDS)
        train, held_out = partition(given.patients, "grouped", trial)[fold]
        tests: dict[str, TestSet] = {
            TEST: (given.features[held_out], given.labels_paper[held_out]),
            "bones": (given.ood_features, None),
        }
        if is_equalised:
            tests["other site"] = given.test_features, given.test_labels
        return Problem(
            inputs=given.features[train],
            labels=given.labels_paper[train],
            tests=tests,
            n_classes=2,
            kind="features",
            groups=patients[train],
        )

    return Source(
        data_set=data_set, draw=draw, arrays=(given.features, given.labels_paper, given.ood_features)
    )


_OTHERS = {"images": _load_mnist, "features": _load_covid}
_SMALL = {
    "digits": _load_digits,
    "breast cancer": lambda data_set, *_: _load_small(data_set, datasets.load_breast_cancer),
    "wine": lambda data_set, *_: _load_small(data_set, datasets.load_wine),
    "iris": lambda data_set, *_: _load_small(data_set, datasets.load_iris),
}
