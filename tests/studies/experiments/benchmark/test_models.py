import numpy as np
import pytest

from pnca import PNCAClassifier, paper_settings
from pnca_studies.experiments.benchmark import models
from pnca_studies.experiments.benchmark.models import MODELS, ON_IMAGES, PAPER, PNCA, Setting, build, fit
from pnca_studies.experiments.benchmark.problems import Problem
from pnca_studies.rivals import SCORES, EncodedClassifier

TABLE = Setting(kind="table", n_train=100, categories=(1,), image_shape=(3,))
PIXELS = Setting(kind="pixels", n_train=400, categories=(), image_shape=(9,))


def test_build__every_model_is_built_for_every_kind_that_it_takes_part_in():
    for model in MODELS:
        for kind in ("table", "pixels", "images", "features"):
            if models.takes_part(model, kind):
                setting = Setting(kind=kind, n_train=100, categories=(), image_shape=(4, 4))
                assert hasattr(build(model, setting, 0), "fit")


def test_build__pnca_has_its_defaults_and_knows_the_categories():
    plain = build(PNCA, PIXELS, 3)
    assert plain.get_params() == PNCAClassifier(random_state=3, device="cpu").get_params()
    assert build(PNCA, TABLE, 3).categorical_features == [1]
    assert build(PNCA, PIXELS, 3, changes={"bandwidth": 7.0}).bandwidth == 7.0


def test_build__all_but_pnca_and_boosted_trees_get_tables_as_numbers():
    for model in MODELS:
        is_encoded = isinstance(build(model, TABLE, 0), EncodedClassifier)
        takes_raw = model in (PNCA, models.CONSTANT, *models.BOOSTED, *models.OPTIONAL)
        assert is_encoded != takes_raw, model
        assert not isinstance(build(model, PIXELS, 0), EncodedClassifier)


def test_build__the_papers_models_have_its_settings_but_a_prior_that_does_not_grow():
    for n in (100, 1000):
        setting = Setting(kind="pixels", n_train=n, categories=(), image_shape=(9,))
        bnn = build("BNN", setting, 5)
        assert bnn.prior_precision == paper_settings("BNN", "mnist", 100)["prior_precision"]
    nca = build("NCA", Setting(kind="features", n_train=10, categories=(), image_shape=(9,)), 5)
    expected = {**paper_settings("NCA", "covid"), "random_state": 5, "device": "cpu"}
    assert {key: nca.get_params()[key] for key in expected} == expected


def test_build__networks_take_300_epochs_or_3000_steps():
    for n, epochs in ((100, 300), (200, 300), (400, 150), (1000, 60)):
        setting = Setting(kind="pixels", n_train=n, categories=(), image_shape=(9,))
        assert build("SNGP", setting, 0).max_epochs == epochs
        assert build(models.ENSEMBLE, setting, 0).estimator.max_epochs == epochs


def test_takes_part__images_are_for_those_that_learn_from_augmented_ones():
    assert not set(PAPER) & set(ON_IMAGES)
    assert set(SCORES) < set(ON_IMAGES)
    assert not models.takes_part("TabPFN", "pixels")
    assert models.takes_part(models.FROZEN, "images")
    assert not models.takes_part(models.FROZEN, "table")


@pytest.mark.parametrize("model", ["logistic regression", "PNCA"])
def test_fit__groups_are_given_to_those_that_use_them(model):
    rng = np.random.default_rng(0)
    problem = Problem(
        inputs=rng.normal(size=(40, 3)),
        labels=np.arange(40) % 2,
        tests={},
        n_classes=2,
        kind="features",
        groups=np.arange(40) // 4,
    )
    built = build(model, Setting.of(problem), 0, changes={"max_epochs": 1} if model == "PNCA" else None)
    fitted = fit(built, problem)
    if model == "PNCA":
        assert fitted.groups_.max() == 9
    assert fitted.oof_proba_.shape == (40, 2)
    some = fit(build("shrinkage LDA", Setting.of(problem), 0), problem, np.arange(40) < 20)
    assert some.classes_.tolist() == [0, 1]


def test_images__are_flattened_and_augmented_for_networks():
    rng = np.random.default_rng(0)
    images, labels = rng.random((20, 6, 6)).astype(np.float32), np.arange(20) % 2
    setting = Setting(kind="images", n_train=20, categories=(), image_shape=(6, 6))
    model = build("MC dropout", setting, 0)
    model.model.set_params(max_epochs=2)
    fitted = model.fit(images, labels)
    assert fitted.model_.augment is not None
    assert fitted.predict_proba(images).shape == (20, 2)
    assert fitted.evidence(images).shape == (20,)
    assert build(models.ENSEMBLE, setting, 0).estimator.augmentation == 1.0
