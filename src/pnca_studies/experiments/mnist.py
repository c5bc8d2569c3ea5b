"""The paper's first experiment: train on a few digits of MNIST, test on digits, rotated digits and letters.

The ablation is the same experiment with other models.
"""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import InvalidInputError
from pnca_studies.data import load_mnist, load_notmnist, rotate
from pnca_studies.experiments.cells import CellResult, fingerprint
from pnca_studies.experiments.settings import Classifier, ModelSettings, load_exhibits
from pnca_studies.experiments.study import Cell, Options, Study, TestSet, fit_and_ask

ROTATION = 60.0  # degrees, as in the paper
_N_CLASSES = 10
# At each angle of the curve over angles: the paper's grid has 210 fits, and thirteen angles of 10,000
# images each would take longer than the fits.
_N_BY_ANGLE = 2000
_N_QUICK, _N_QUICK_BY_ANGLE, _QUICK_ANGLES, _QUICK_TRIALS = 1000, 500, (0, 60, 120, 180), 2


@dataclass(frozen=True, kw_only=True)
class MnistCell(Cell):
    """One model on one draw of the training images; the experiment is ``"mnist"`` or ``"ablation"``."""

    n_train: int
    draw: int  # seed of the draw and of the model
    model: ModelSettings

    def settings(self) -> dict[str, Any]:
        """Return every constructor argument of the model."""
        arguments: dict[str, Any] = self.build().get_params()
        return arguments

    def build(self) -> Classifier:
        """Build the unfitted model."""
        return self.model.build("mnist", self.n_train, random_state=self.draw)


@dataclass(frozen=True, kw_only=True, eq=False)
class MnistData:
    """Training images to draw from, and the test sets."""

    images: NDArray[np.uint8]  # (60000, 784)
    labels: NDArray[np.int64]  # (60000,)
    tests: dict[str, TestSet]  # "test", "rotated", "notmnist", "angle 0" and so on


def mnist_study(
    data_dir: Path | None,
    options: Options | None = None,
    *,
    experiment: str = "mnist",
    download: bool = False,
) -> Study[MnistCell, MnistData]:
    """Lay out the grid of (n, draw, model) and load the data."""
    options = options or Options()
    exhibits = load_exhibits(experiment).values()
    models = options.pick_models(exhibits)
    sizes = sorted({n for exhibit in exhibits for n in exhibit.train_sizes})
    if options.quick:
        sizes = sizes[:1]
    sizes = list(dict.fromkeys(options.train_sizes or sizes))
    if wrong := [n for n in sizes if not 20 <= n <= 60_000]:
        raise InvalidInputError(f"train_sizes must be from 20 to 60000, but they include {wrong}.")
    draws = options.pick_trials(exhibits, quick=_QUICK_TRIALS)
    angles = sorted({angle for exhibit in exhibits for angle in exhibit.angles})
    if options.quick:
        angles = [angle for angle in angles if angle in _QUICK_ANGLES]
    data = _load(data_dir, angles, quick=options.quick, download=download)
    lengths = {name: len(x) for name, (x, _) in data.tests.items()}
    return Study(
        name=experiment,
        cells=[
            MnistCell(experiment=experiment, n_train=n, draw=draw, model=model)
            for draw, n, model in product(draws, sizes, models)
        ],
        data=data,
        work=run_mnist_cell,
        options=options,
        protocol={
            "training_images": fingerprint(data.images, data.labels),
            "test_sets": {
                name: {"n": len(x), "fingerprint": fingerprint(x, y)} for name, (x, y) in data.tests.items()
            },
        },
        seeds="draw s: numpy RandomState(s).choice(60000, n, replace=False) and random_state=s",
        headline=[("test", "accuracy"), ("rotated", "accuracy"), ("notmnist", "above_0.9")],
        test_sets=lambda cell: lengths,
    )


def run_mnist_cell(cell: MnistCell, data: MnistData) -> CellResult:
    """Fit a cell's model to its draw and predict the test sets."""
    rows = draw_rows(len(data.images), cell.n_train, cell.draw)
    return fit_and_ask(
        cell,
        cell.build(),
        _as_inputs(data.images[rows]),
        data.labels[rows],
        data.tests,
        reference="test",
        n_classes=_N_CLASSES,
    )


def draw_rows(n_images: int, n_train: int, draw: int) -> NDArray[np.int64]:
    """Draw rows (n_train,); a smaller draw of the same seed is the beginning of a larger one."""
    return np.random.RandomState(draw).choice(n_images, n_train, replace=False)


def _load(data_dir: Path | None, angles: list[int], *, quick: bool, download: bool) -> MnistData:
    mnist, letters = load_mnist(data_dir, download=download), load_notmnist(data_dir, download=download)
    n_test, n_letters = len(mnist.test_labels), len(letters.labels)
    # Spread over the files: letters may lie in order, and the first digits are harder than the rest.
    some = _spread(n_test, _N_QUICK if quick else n_test)
    few = _spread(n_test, _N_QUICK_BY_ANGLE if quick else _N_BY_ANGLE)
    some_letters = _spread(n_letters, _N_QUICK if quick else n_letters)
    pixels = (mnist.test_images / 255).astype(np.float32)
    images, labels = pixels[some], mnist.test_labels[some]
    tests: dict[str, TestSet] = {
        "test": (_flat(images), labels),
        "rotated": (_flat(rotate(images, ROTATION)), labels),
        "notmnist": (_as_inputs(letters.images[some_letters]), None),
    }
    for angle in angles:
        turned = rotate(pixels[few], angle) if angle else pixels[few]
        tests[f"angle {angle}"] = _flat(turned), mnist.test_labels[few]
    return MnistData(images=_flat(mnist.train_images), labels=mnist.train_labels, tests=tests)


def _spread(n: int, n_picked: int) -> NDArray[np.int64]:
    """Pick at most ``n_picked`` of n rows at equal distances."""
    return np.arange(n)[:: -(-n // n_picked)]


def _as_inputs(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    inputs: NDArray[np.float32] = (_flat(images) / 255).astype(np.float32)
    return inputs


def _flat(images: NDArray[Any]) -> NDArray[Any]:
    return images.reshape(len(images), -1)
