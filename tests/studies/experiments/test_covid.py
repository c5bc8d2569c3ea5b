import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import pnca_studies.experiments.covid as covid_module
from pnca.estimators import paper
from pnca.exceptions import InvalidInputError, MissingDataError
from pnca_studies.data import CovidFeatures
from pnca_studies.experiments.covid import (
    N_FOLDS,
    CovidCell,
    covid_study,
    labelled,
    run_covid_cell,
    split,
)
from pnca_studies.experiments.grid import Engine
from pnca_studies.experiments.settings import load_models
from pnca_studies.experiments.store import RunFolder
from pnca_studies.experiments.study import Options, run_study

SEVEN = ("DNN", "BNN", "BNN as published", "Ensemble", "NCA", "PNCA (paper)", "PNCA")
QUICK = Options(models=("NCA", "DNN"), quick=True)
GROUPS = ("MURA_XR_HAND", "MURA_XR_HUMERUS", "implants")


def make_features(seed=0, n=53, n_patients=19, p=6):
    """Features whose first column is the number of the image, so that rows can be told."""
    rng = np.random.RandomState(seed)

    def draw(n, centre=0.0):
        x = (centre + rng.normal(size=(n, p))).astype(np.float32)
        x[:, 0] = np.arange(n)
        return x

    labels = rng.permutation(n) % 3 > 0
    return CovidFeatures(
        features=draw(n),
        labels_paper=labels.astype(np.int64),
        labels_any_covid=(labels | (rng.rand(n) < 0.3)).astype(np.int64),
        is_xray=rng.rand(n) < 0.8,
        patients=np.array([f"p{number}" for number in rng.permutation(n) % n_patients]),
        ids=np.array([f"{row}.png" for row in range(n)]),
        test_features=draw(11, 1.0),
        test_labels=np.arange(11) % 2,
        test_patients=np.array([f"q{row}" for row in range(11)]),
        inconclusive_features=draw(3),
        ood_features=draw(12, 5.0),
        ood_groups=np.repeat(GROUPS, [3, 4, 5])[rng.permutation(12)],
    )


@pytest.fixture
def features(monkeypatch):
    """Both kinds of features, found wherever they are looked for; two epochs are a training."""
    both = {"plain": make_features(0), "equalised": make_features(1)}
    monkeypatch.setattr(covid_module, "load_covid_features", lambda folder, variant: both[variant])
    monkeypatch.setitem(paper._SHARED, "max_epochs", 2)
    return both


def make_cell(model="NCA", **changes):
    settings = {"features": "plain", "labels": "paper", "folds": "random", "trial": 0, "fold": 0, **changes}
    return CovidCell(model=load_models()[model], **settings)


# --- the grid -------------------------------------------------------------------------------------------


def test_covid_study__has_every_condition_and_the_papers_more_often(features, tmp_path):
    cells = covid_study(tmp_path).cells
    found = [(c.features, c.labels, c.folds, c.trial, c.fold, c.model.name) for c in cells]
    labels, folds = ("paper", "any_covid"), ("random", "grouped")
    conditions = product(("plain", "equalised"), labels, folds, range(1), range(N_FOLDS), SEVEN)
    papers = product(("plain",), ("paper",), ("random",), range(5), range(N_FOLDS), SEVEN)
    assert set(found) == {*conditions, *papers}
    assert len(found) == len(set(found)) == 420


def test_covid_study__rounds_are_trials_and_folds(features, tmp_path):
    rounds = [(cell.trial, cell.fold) for cell in covid_study(tmp_path).cells]
    assert rounds == sorted(rounds)


def test_covid_study__quick_is_the_papers_condition_once(features, tmp_path):
    study = covid_study(tmp_path, Options(quick=True))
    assert {(c.features, c.labels, c.folds, c.trial) for c in study.cells} == {
        ("plain", "paper", "random", 0)
    }
    assert len(study.cells) == N_FOLDS * len(SEVEN)
    assert list(study.data) == ["plain"]


def test_covid_study__options_narrow_the_grid(features, tmp_path):
    cells = covid_study(tmp_path, Options(models=("NCA",), trials=1)).cells
    assert {cell.model.name for cell in cells} == {"NCA"}
    assert {cell.trial for cell in cells} == {0}
    assert len(cells) == 8 * N_FOLDS


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (Options(train_sizes=(100,)), "four folds of five: leave --train-sizes out"),
        (Options(models=("SVM",)), r"\['SVM'\].*DNN, BNN,"),
        (Options(trials=0), "trials must be at least 1"),
    ],
)
def test_covid_study__bad_options_are_refused_before_data_are_read(tmp_path, options, match):
    with pytest.raises(InvalidInputError, match=match):
        covid_study(tmp_path, options)


def test_covid_study__folder_is_needed():
    with pytest.raises(InvalidInputError, match="--data-dir"):
        covid_study(None)


def test_covid_study__absent_features_are_named(tmp_path):
    with pytest.raises(MissingDataError, match=r"covid_features_resnet50.*\.npz is not there"):
        covid_study(tmp_path)


def test_covid_study__stems_differ_with_condition_and_data(features, tmp_path):
    study = covid_study(tmp_path, Options(models=("NCA",)))
    stems = [study.stem(cell) for cell in study.cells]
    assert len(set(stems)) == len(stems)
    for name in ("features", "labels_paper", "patients", "test_labels", "ood_groups"):
        given = features["plain"]
        values = getattr(given, name).copy()
        other = next(row for row in range(len(values)) if np.any(values[row] != values[0]))
        values[0] = values[other]
        features["plain"] = replace(given, **{name: values})
        stems.append(covid_study(tmp_path, Options(models=("NCA",))).stem(study.cells[0]))
        features["plain"] = given
    assert len(set(stems)) == len(stems)


# --- labels and folds -----------------------------------------------------------------------------------


def test_labelled__paper_is_all_images():
    given = make_features()
    inputs, labels, patients = labelled(given, "paper")
    np.testing.assert_array_equal(inputs, given.features)
    np.testing.assert_array_equal(labels, given.labels_paper)
    np.testing.assert_array_equal(patients, given.patients)


def test_labelled__any_covid_is_x_rays_alone():
    given = make_features()
    inputs, labels, patients = labelled(given, "any_covid")
    rows = inputs[:, 0].astype(int)
    assert rows.tolist() == [row for row in range(53) if given.is_xray[row]]
    assert 0 < len(rows) < 53
    np.testing.assert_array_equal(labels, given.labels_any_covid[rows])
    np.testing.assert_array_equal(patients, given.patients[rows])
    assert (labels != given.labels_paper[rows]).any()


def test_split__folds_are_a_partition_and_random_ones_of_near_equal_size():
    patients = make_features().patients
    for folds, trial in product(("random", "grouped"), (0, 3)):
        parts = [split(patients, make_cell(folds=folds, trial=trial, fold=fold)) for fold in range(N_FOLDS)]
        assert all(sorted([*train, *rows]) == list(range(53)) for train, rows in parts)
        assert sorted(row for _, rows in parts for row in rows) == list(range(53))
        if folds == "random":
            assert sorted(len(rows) for _, rows in parts) == [10, 10, 11, 11, 11]


def test_split__grouped_folds_never_split_a_patient_and_random_ones_do():
    patients = make_features().patients

    def n_split(folds):
        parts = [split(patients, make_cell(folds=folds, fold=fold)) for fold in range(N_FOLDS)]
        return sum(len(set(patients[train]) & set(patients[rows])) for train, rows in parts)

    assert n_split("grouped") == 0
    assert n_split("random") > 0


@pytest.mark.parametrize("folds", ["random", "grouped"])
def test_split__is_of_the_trial_alone(folds):
    patients = make_features().patients

    def held_out(model="NCA", **changes):
        return split(patients, make_cell(model, folds=folds, **changes))[1].tolist()

    assert held_out(trial=1) == held_out(trial=1, model="DNN", labels="any_covid", features="equalised")
    assert held_out(trial=1) != held_out(trial=2)


# --- cells ----------------------------------------------------------------------------------------------


@pytest.fixture
def given_to_fit(monkeypatch):
    given = {}

    def note(cell, model, inputs, labels, tests, **kwargs):
        given.update(model=model, inputs=inputs, labels=labels, tests=tests, **kwargs)

    monkeypatch.setattr(covid_module, "fit_and_ask", note)
    return given


@pytest.mark.parametrize(("labels", "folds"), [("paper", "random"), ("any_covid", "grouped")])
def test_run_covid_cell__trains_on_four_folds_and_validates_on_the_fifth(given_to_fit, labels, folds):
    data = {"plain": make_features(0), "equalised": make_features(1)}
    cell = make_cell("BNN", features="equalised", labels=labels, folds=folds, trial=2, fold=3)
    run_covid_cell(cell, data)
    inputs, targets, patients = labelled(data["equalised"], labels)
    train, held_out = split(patients, cell)
    np.testing.assert_array_equal(given_to_fit["inputs"], inputs[train])
    np.testing.assert_array_equal(given_to_fit["labels"], targets[train])
    validation_inputs, validation_labels = given_to_fit["tests"]["validation"]
    np.testing.assert_array_equal(validation_inputs, inputs[held_out])
    np.testing.assert_array_equal(validation_labels, targets[held_out])
    assert not set(given_to_fit["inputs"][:, 0]) & set(validation_inputs[:, 0])
    assert given_to_fit["model"].prior_precision == len(train) ** 2 / 1e4
    assert given_to_fit["model"].random_state == 5 * 2 + 3
    assert (given_to_fit["reference"], given_to_fit["n_classes"]) == ("validation", 2)


def test_run_covid_cell__no_two_fits_share_a_seed(given_to_fit):
    seeds = set()
    for trial, fold in product(range(5), range(N_FOLDS)):
        run_covid_cell(make_cell(trial=trial, fold=fold), {"plain": make_features()})
        seeds.add(given_to_fit["model"].random_state)
    assert len(seeds) == 25


def test_run_covid_cell__asks_about_actualmed_and_each_group_of_bones(given_to_fit):
    features = make_features()
    run_covid_cell(make_cell(), {"plain": features})
    tests = given_to_fit["tests"]
    assert list(tests) == ["validation", "actualmed", "bones", *(f"bones {group}" for group in GROUPS)]
    np.testing.assert_array_equal(tests["actualmed"][0], features.test_features)
    np.testing.assert_array_equal(tests["actualmed"][1], features.test_labels)
    assert [len(tests[f"bones {group}"][0]) for group in GROUPS] == [3, 4, 5]
    for group in GROUPS:
        rows = tests[f"bones {group}"][0][:, 0].astype(int)
        assert set(features.ood_groups[rows]) == {group}
        assert tests[f"bones {group}"][1] is None
    np.testing.assert_array_equal(tests["bones"][0], features.ood_features)


def test_run_study__on_covid(features, tmp_path):
    study = covid_study(tmp_path, QUICK)
    folder = RunFolder.create(tmp_path / "run", resume=False)
    assert run_study(study, folder, Engine(jobs=1)) == []
    # The test sets of each result are those that the study expects of its cell.
    assert len(RunFolder.open(folder.path).finished()) == len(study.cells)
    rows = [json.loads(line) for line in (folder.path / "results.jsonl").read_text().splitlines()]
    names = ["validation", "actualmed", "bones", *(f"bones {group}" for group in GROUPS)]
    assert [(row["fold"], row["model"], row["test_set"]) for row in rows] == list(
        product(range(N_FOLDS), ("NCA", "DNN"), names)
    )
    assert sum(row["n"] for row in rows if row["test_set"] == "validation") == 2 * 53
    for test_set, measure in study.headline:
        assert all(measure in row for row in rows if row["test_set"] == test_set)
    data = folder.read_run()["protocol"]["data"]["plain"]
    assert (data["train"], data["actualmed_positive"], data["actualmed_negative"]) == (53, 5, 6)
    assert data["bones"] == dict(zip(GROUPS, [3, 4, 5], strict=True))
    assert data["patients"] == 19


# --- the real data --------------------------------------------------------------------------------------


def test_covid_study__real_data(data_dir):
    study = covid_study(data_dir)
    assert len(study.cells) == 420
    for name in ("plain", "equalised"):
        described = study.protocol["data"][name]
        assert (described["train"], described["train_positive"]) == (347, 275)
        assert (described["actualmed_positive"], described["actualmed_negative"]) == (58, 18)
        assert described["xrays"] < 347
        assert sum(described["bones"].values()) == len(study.data[name].ood_features)
    plain, equalised = (study.protocol["data"][name]["fingerprint"] for name in ("plain", "equalised"))
    assert plain != equalised
    sizes = [len(split(study.data["plain"].patients, make_cell(fold=fold))[1]) for fold in range(N_FOLDS)]
    assert sorted(sizes) == [69, 69, 69, 70, 70]
