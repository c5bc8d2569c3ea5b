from dataclasses import replace

import numpy as np
import pytest

import pnca_studies.experiments.benchmark as benchmark_module
from pnca.calibration import apply_temperature, fit_temperature
from pnca.exceptions import InvalidInputError
from pnca_studies.experiments.answers import ask, measure
from pnca_studies.experiments.benchmark import BenchmarkCell, benchmark_study, run_benchmark_cell
from pnca_studies.experiments.benchmark_data import load_sources
from pnca_studies.experiments.choices import load_questions
from pnca_studies.experiments.contenders import CONTENDERS, ON_IMAGES, Contender
from pnca_studies.experiments.study import Options


@pytest.fixture(scope="module")
def sources():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PNCA_CACHE_DIR", "/nowhere")
        tables, _ = load_sources(None)
    return {**tables, "images": replace(tables["iris"], name="images", has_images=True)}


@pytest.fixture
def plan(sources, monkeypatch):
    monkeypatch.setattr(benchmark_module, "load_sources", lambda *_, **__: (sources, ["no MNIST"]))

    def layout(options=None, **settings):
        return benchmark_study(None, options, **settings)[0]

    return layout


# --- the grid -------------------------------------------------------------------------------------------


def test_study__has_every_model_on_every_data_set_and_size(plan):
    cells = {(c.data, c.n_train, c.draw, c.model.name) for c in plan().cells}
    assert {name for data, _, _, name in cells if data == "digits"} == set(CONTENDERS)
    assert {name for data, _, _, name in cells if data == "images"} == set(ON_IMAGES)
    assert {n for data, n, _, _ in cells if data == "breast cancer"} == {50, 100, 200, 400}
    assert {draw for _, _, draw, _ in cells} == set(range(10))
    assert benchmark_study(None)[1] == ["no MNIST"]


def test_study__options_narrow_the_grid(plan):
    cells = plan(Options(models=("k-NN",), train_sizes=(200,), trials=3), data_sets=("digits", "wine")).cells
    # A data set of one size has no choice.
    assert {(c.data, c.n_train) for c in cells} == {("digits", 200), ("wine", 50)}
    assert len(cells) == 6
    quick = plan(Options(models=("k-NN",), quick=True)).cells
    assert {(c.data, c.n_train, c.draw) for c in quick if c.data == "digits"} == {
        ("digits", 100, 0),
        ("digits", 100, 1),
    }


def test_study__choices_are_pnca_and_its_variants_those_of_images_on_images_only(plan):
    study = plan(data_sets=("iris", "images"), choices=True)
    names = {data: {c.model.name for c in study.cells if c.data == data} for data in ("iris", "images")}
    of_images = {name for question in load_questions() if question.images for name in question.variants}
    assert study.name == "choices"
    assert names["images"] == {"PNCA"} | of_images
    assert not names["iris"] & of_images
    assert "cross" in names["iris"]
    assert {c.model.estimator for c in study.cells} == {"PNCA"}


@pytest.mark.parametrize(
    ("options", "settings", "message"),
    [
        (None, {"data_sets": ("MNIST",)}, r"No data sets \['MNIST'\]; there are digits, .* no MNIST"),
        (Options(models=("SVM",)), {}, r"Unknown models \['SVM'\]; known are PNCA, DNN"),
        (Options(models=("DNN",)), {"choices": True}, r"Unknown models \['DNN'\]; known are PNCA, "),
        (Options(train_sizes=(7,)), {"data_sets": ("digits",)}, "Nothing to fit: .* digits: 50, 100"),
    ],
)
def test_study__what_is_not_there_is_named_with_what_is(plan, options, settings, message):
    with pytest.raises(InvalidInputError, match=message):
        plan(options, **settings)


def test_study__stems_differ_with_device_changes_and_data(plan, sources):
    study = plan(Options(models=("PNCA",)), data_sets=("iris",))
    cell = study.cells[0]
    stems = [
        study.stem(cell),
        study.stem(replace(cell, model=replace(cell.model, device="cuda"))),
        study.stem(replace(cell, model=replace(cell.model, changes={"bandwidth": 2.0}))),
        plan(Options(models=("PNCA",)), data_sets=("iris", "wine")).stem(cell),
    ]
    assert len(set(stems)) == 4


# --- a cell ---------------------------------------------------------------------------------------------


def run(sources, name, draw=0):
    cell = BenchmarkCell(data="wine", n_train=50, draw=draw, model=Contender(name=name))
    return cell, sources["wine"].draw(50, draw), run_benchmark_cell(cell, sources)


def test_cell__measures_are_those_of_the_model_before_and_after_scaling(sources):
    cell, problem, result = run(sources, "logistic regression")
    model = cell.model.build(sources["wine"], 50, 0).fit(problem.inputs, problem.labels)
    answers = {
        name: ask(model, x, y, n_classes=2, with_evidence=True) for name, (x, y) in problem.tests.items()
    }
    expected = measure(answers, "test")
    assert {name: result.measures[name] for name in expected} == expected
    assert list(result.measures) == ["test", "ood", "test, scaled", "ood, scaled"]
    temperature = result.details["temperature"]
    scaled = apply_temperature(np.log(answers["test"].probabilities), temperature)
    shares = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    confidence = (shares.max(axis=1) / shares.sum(axis=1)).mean()
    assert result.measures["test, scaled"]["mean_confidence"] == pytest.approx(confidence, abs=1e-3)
    assert result.answers == {}  # a whole benchmark's would take gigabytes
    assert result.details["n_train"] == 50


def test_cell__temperature_is_fitted_to_predictions_out_of_fold(sources, monkeypatch):
    seen = []

    def note(logs, labels, *, spread):
        assert spread is None  # as all that is stored was measured
        seen.append((logs, labels))
        return fit_temperature(logs, labels, spread=spread)

    monkeypatch.setattr(benchmark_module, "fit_temperature", note)
    _, problem, result = run(sources, "random forest")
    ((logs, labels),) = seen
    np.testing.assert_array_equal(labels, problem.labels)
    # A forest is nearly sure of what it was trained on; held out, it is less so.
    assert np.isfinite(logs).any(axis=1).all()
    own = np.exp(logs[np.arange(50), labels])
    assert (own < 0.9).any()
    assert result.details["temperature"] == fit_temperature(logs, labels, spread=None)


def test_cell__a_score_without_a_classifier_is_not_scaled(sources):
    _, _, result = run(sources, "nearest distance")
    assert list(result.measures) == ["test", "ood"]
    assert "temperature" not in result.details
    assert result.measures["ood"]["ood_auroc_evidence"] > 0.8


def test_cell__what_pnca_chose_is_kept_and_its_own_predictions_out_of_fold_are_used(sources, monkeypatch):
    class Quick:
        classes_ = np.array([0, 1])
        bandwidth_, oof_loss_ = 2.0, 0.5

        def fit(self, inputs, labels):
            self.oof_proba_ = np.full((len(labels), 2), 0.5)
            return self

        def predict_proba(self, inputs):
            return np.full((len(inputs), 2), 0.5)

    monkeypatch.setattr(Contender, "build", lambda *_: Quick())
    _, problem, result = run(sources, "PNCA")
    assert (result.details["bandwidth"], result.details["oof_loss"]) == (2.0, 0.5)
    assert "best_epoch" not in result.details
    assert result.details["temperature"] == fit_temperature(
        np.full((50, 2), np.log(0.5)), problem.labels, spread=None
    )


@pytest.mark.parametrize("model", ["k-NN", "nearest distance"])
def test_test_sets__are_those_that_a_cell_is_measured_on(plan, sources, model):
    study = plan(Options(models=(model,), trials=1), data_sets=("wine", "breast cancer"))
    for cell in study.cells:
        measures = run_benchmark_cell(cell, sources).measures
        assert study.test_sets(cell) == {name: given["n"] for name, given in measures.items()}
