"""The paper's second experiment: COVID-19 or not, from frozen features of chest X-rays.

Models are trained on four folds of five and tested on the fifth, on X-rays from another hospital (Actualmed),
and on X-rays of bones, which are out of distribution.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold

from pnca.exceptions import InvalidInputError
from pnca.vision import Backbone, image_features
from pnca_studies.data import (
    CovidFeatures,
    load_covid_features,
    read_actualmed,
    read_covid_chestxray,
    read_mura,
)
from pnca_studies.data.covid import ACTUALMED_FOLDER, COVID_CHESTXRAY_FOLDER, MURA_FOLDER
from pnca_studies.experiments.cells import CellResult, fingerprint
from pnca_studies.experiments.settings import Classifier, ModelSettings, load_exhibits
from pnca_studies.experiments.study import Cell, Options, Study, TestSet, fit_and_ask

N_FOLDS = 5
_QUICK_TRIALS = 1

#: Rows of the training folds, and of the fold that is held out.
Split = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True)
class CovidCell(Cell):
    """One model on four folds of a partition."""

    experiment: str = "covid"
    features: str  # "plain" or "equalised"
    labels: str  # "paper": all images, positive if exactly COVID-19; "any_covid": X-rays, if it is named
    folds: str  # "random" as in the paper, or "grouped", which never splits a patient
    trial: int  # seed of the partition
    fold: int  # the fold that is held out
    model: ModelSettings

    def settings(self) -> dict[str, Any]:
        """Return every constructor argument of the model that does not follow from the number of images."""
        arguments: dict[str, Any] = self.build(n_train=0).get_params()
        return arguments

    def build(self, n_train: int) -> Classifier:
        """Build the unfitted model for so many training images."""
        return self.model.build("covid", n_train, random_state=N_FOLDS * self.trial + self.fold)


def covid_study(
    data_dir: Path | None,
    options: Options | None = None,
    *,
    backbone: Backbone | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Study[CovidCell, Mapping[str, CovidFeatures]]:
    """Lay out the grid of (features, labels, folds, trial, fold, model) and load the features.

    With a backbone they are computed from the images in ``data_dir``; ``progress(n_done, n)`` is told.
    """
    options = options or Options()
    if options.train_sizes:
        raise InvalidInputError("covid trains on four folds of five: leave --train-sizes out.")
    if data_dir is None:
        raise InvalidInputError("covid needs the folder of its data: name it with --data-dir.")
    cells = _cells(options)
    data = {
        variant: load_covid_features(data_dir, variant)  # type: ignore[arg-type]
        if backbone is None
        else compute_covid_features(data_dir, backbone, equalise=variant == "equalised", progress=progress)
        for variant in sorted({cell.features for cell in cells})
    }
    lengths = cache(lambda cell: _test_sets(cell, data[cell.features]))
    return Study(
        name="covid",
        cells=cells,
        data=data,
        work=run_covid_cell,
        options=options,
        protocol={"data": {name: _describe(features) for name, features in data.items()}},
        seeds=f"partition t: random_state=t; its fold f: random_state={N_FOLDS} t + f",
        headline=[("validation", "accuracy"), ("validation", "auroc"), ("bones", "above_0.9")],
        test_sets=lambda cell: lengths(replace(cell, model=cells[0].model)),  # the same for all models
    )


def _cells(options: Options) -> list[CovidCell]:
    exhibits = load_exhibits("covid").values()
    # A quick run has the paper's own condition only.
    shown = [exhibit for exhibit in exhibits if exhibit.in_paper] if options.quick else exhibits
    cells = dict.fromkeys(
        CovidCell(features=features, labels=labels, folds=folds, trial=trial, fold=fold, model=model)
        for exhibit in shown
        for features, labels, folds, trial, fold, model in product(
            exhibit.features,
            exhibit.labels,
            exhibit.folds,
            options.pick_trials([exhibit], quick=_QUICK_TRIALS),
            range(N_FOLDS),
            options.pick_models(shown),
        )
    )
    return sorted(cells, key=lambda cell: (cell.trial, cell.fold))


def run_covid_cell(cell: CovidCell, data: Mapping[str, CovidFeatures]) -> CellResult:
    """Fit a cell's model to four folds and predict the fifth, Actualmed and the bones."""
    given = data[cell.features]
    inputs, labels, patients = labelled(given, cell.labels)
    train, held_out = split(patients, cell)
    tests: dict[str, TestSet] = {
        "validation": (inputs[held_out], labels[held_out]),
        "actualmed": (given.test_features, given.test_labels),
        "bones": (given.ood_features, None),
    }
    for group in sorted(set(given.ood_groups.tolist())):
        tests[f"bones {group}"] = given.ood_features[given.ood_groups == group], None
    return fit_and_ask(
        cell,
        cell.build(len(train)),
        inputs[train],
        labels[train],
        tests,
        reference="validation",
        n_classes=2,
    )


def _test_sets(cell: CovidCell, given: CovidFeatures) -> dict[str, int]:
    """Return the lengths of the test sets of :func:`run_covid_cell`."""
    _, held_out = split(labelled(given, cell.labels)[2], cell)
    groups, counts = np.unique(given.ood_groups, return_counts=True)
    return {
        "validation": len(held_out),
        "actualmed": len(given.test_labels),
        "bones": len(given.ood_groups),
        **{f"bones {group}": int(n) for group, n in zip(groups, counts, strict=True)},
    }


def labelled(
    given: CovidFeatures, labels: str
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.str_]]:
    """Return inputs (n, p), labels (n,) and patients (n,) by the rule that :class:`CovidCell` names."""
    if labels == "paper":
        return given.features, given.labels_paper, given.patients
    kept = given.is_xray
    return given.features[kept], given.labels_any_covid[kept], given.patients[kept]


def split(patients: NDArray[np.str_], cell: CovidCell) -> Split:
    """Return the rows of four folds, and of the fold that the cell holds out."""
    return partition(patients, cell.folds, cell.trial)[cell.fold]


def partition(patients: NDArray[np.str_], folds: str, trial: int) -> list[Split]:
    """Split images at random, or ``"grouped"`` by patient, into folds seeded by the trial."""
    if folds == "random":
        return list(KFold(N_FOLDS, shuffle=True, random_state=trial).split(patients))
    return list(GroupKFold(N_FOLDS, shuffle=True, random_state=trial).split(patients, groups=patients))


def compute_covid_features(
    data_dir: Path,
    backbone: Backbone,
    *,
    equalise: bool,
    progress: Callable[[int, int], None] | None = None,
) -> CovidFeatures:
    """Compute the features of the published images; ``equalise`` squashes and equalises each image first."""
    train = read_covid_chestxray(data_dir / COVID_CHESTXRAY_FOLDER)
    test, ood = read_actualmed(data_dir / ACTUALMED_FOLDER), read_mura(data_dir / MURA_FOLDER)
    paths = [*train.paths, *test.paths, *test.inconclusive_paths, *ood.paths]
    preprocessing = backbone.preprocessing
    if equalise:
        preprocessing = replace(preprocessing, mode="squash", resize=preprocessing.resized, equalise=True)
    features = image_features(paths, backbone, preprocessing=preprocessing, progress=progress)
    ends = np.cumsum([len(train.paths), len(test.paths), len(test.inconclusive_paths)])
    of_train, of_test, of_inconclusive, of_ood = np.split(features, ends)
    return CovidFeatures(
        features=of_train,
        labels_paper=train.labels_paper,
        labels_any_covid=train.labels_any_covid,
        is_xray=train.is_xray,
        patients=train.patients,
        ids=train.ids,
        test_features=of_test,
        test_labels=test.labels,
        test_patients=test.patients,
        inconclusive_features=of_inconclusive,
        ood_features=of_ood,
        ood_groups=ood.groups,
    )


def _describe(given: CovidFeatures) -> dict[str, Any]:
    """Return counts, and a fingerprint of everything that decides a cell."""
    groups, counts = np.unique(given.ood_groups, return_counts=True)
    arrays = (
        *(given.features, given.labels_paper, given.labels_any_covid, given.is_xray, given.patients),
        *(given.test_features, given.test_labels, given.ood_features, given.ood_groups),
    )
    return {
        "fingerprint": fingerprint(*arrays),
        "train": len(given.features),
        "train_positive": int(given.labels_paper.sum()),
        "xrays": int(given.is_xray.sum()),
        "xrays_positive": int(given.labels_any_covid[given.is_xray].sum()),
        "patients": len(np.unique(given.patients)),
        "actualmed_positive": int(given.test_labels.sum()),
        "actualmed_negative": int((given.test_labels == 0).sum()),
        "bones": dict(zip(groups.tolist(), counts.tolist(), strict=True)),
    }
