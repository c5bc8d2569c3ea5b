import numpy as np
import pytest

from pnca import BNNClassifier, EnsembleClassifier, PNCAClassifier, paper_settings
from pnca.exceptions import InvalidInputError
from pnca_studies.experiments.benchmark_data import Problem, Source
from pnca_studies.experiments.contenders import CONTENDERS, ON_IMAGES, PAPER, TRIVIAL, Contender, TrivialScore
from pnca_studies.rivals import nearest_distance, pca_residual

TABLE = Source(name="table", sizes=(20,), draw=None)
IMAGES = Source(name="images", sizes=(20,), draw=None, has_images=True)


@pytest.fixture
def problem():
    rng = np.random.RandomState(0)
    labels = np.arange(20) % 2
    images = (rng.rand(20, 6, 6) + 3 * labels[:, None, None]).astype(np.float32)
    return Problem(inputs=images, labels=labels, tests={}, n_classes=2, groups=np.arange(20) // 2)


def test_build__everyone_has_seed_and_settings_of_the_experiment():
    for name in CONTENDERS:
        Contender(name=name).build(TABLE, 100, 5)
    bnn = Contender(name="BNN").build(Source(name="x", sizes=(), draw=None, settings="covid"), 200, 5)
    assert type(bnn) is BNNClassifier
    expected = {**paper_settings("BNN", "covid", 200), "random_state": 5, "device": "cpu"}
    assert {key: bnn.get_params()[key] for key in expected} == expected
    assert Contender(name="PNCA (paper)").build(TABLE, 100, 5).kernel == paper_settings("PNCA")["kernel"]


def test_build__pnca_has_its_defaults_but_for_what_is_changed():
    default = Contender(name="PNCA", device="cpu").build(TABLE, 100, 3)
    assert default.get_params() == PNCAClassifier(random_state=3, device="cpu").get_params()
    changed = Contender(name="wide", estimator="PNCA", changes={"bandwidth": 7.0}).build(TABLE, 100, 3)
    assert changed.bandwidth == 7.0


def test_build__networks_get_300_epochs_or_6000_steps():
    for n, epochs in ((50, 300), (400, 300), (1000, 120)):
        ensemble = Contender(name="Ensemble + dropout").build(TABLE, n, 0)
        assert type(ensemble) is EnsembleClassifier
        assert ensemble.max_epochs == Contender(name="SNGP").build(TABLE, n, 0).max_epochs == epochs
    on_images = Contender(name="Ensemble + dropout").build(IMAGES, 100, 0)
    assert (ensemble.dropout, ensemble.augmentation) == (0.5, 0.0)
    assert (on_images.dropout, on_images.augmentation) == (0.2, 1.0)


def test_takes_part__images_are_for_those_that_learn_from_augmented_ones():
    assert [name for name in CONTENDERS if Contender(name=name).takes_part(IMAGES)] == [
        name for name in CONTENDERS if name in ON_IMAGES
    ]
    assert all(Contender(name=name).takes_part(TABLE) for name in CONTENDERS)
    assert not set(PAPER) & set(ON_IMAGES)


def test_fit__only_pnca_is_given_the_groups(problem):
    class Recorder:
        def fit(self, inputs, labels, **options):
            return options

    assert list(Contender(name="PNCA").fit(Recorder(), problem)) == ["groups"]
    assert Contender(name="k-NN").fit(Recorder(), problem) == {}


def test_baseline__takes_images_as_rows_and_learns_from_augmented_ones(problem):
    model = Contender(name="MC dropout").build(IMAGES, 20, 0)
    model.max_epochs = 3
    model.fit(problem.inputs, problem.labels)
    assert model.model_.augment is not None
    assert model.predict_proba(problem.inputs).shape == (20, 2)
    assert model.evidence(problem.inputs).shape == (20,)
    assert model.model_.n_features_in_ == 36
    plain = Contender(name="k-NN").build(TABLE, 20, 0).fit(problem.inputs, problem.labels)
    assert not hasattr(plain, "evidence")
    assert (plain.predict_proba(problem.inputs).argmax(axis=1) == problem.labels).all()


@pytest.mark.parametrize(("name", "score"), zip(TRIVIAL, (nearest_distance, pca_residual), strict=True))
def test_trivial_score__knows_the_inputs_and_the_class_frequencies(problem, name, score):
    labels = np.repeat([0, 3], [15, 5])
    model = TrivialScore(name).fit(problem.inputs, labels)
    assert model.classes_.tolist() == [0, 3]
    np.testing.assert_allclose(model.predict_proba(problem.inputs[:2]), [[0.75, 0.25]] * 2)
    rows, new = problem.inputs.reshape(20, -1), problem.inputs[:4] + 1
    np.testing.assert_allclose(model.evidence(new), -score(rows, new.reshape(4, -1)))


def test_contender__unknown_name_is_refused():
    with pytest.raises(InvalidInputError, match=r"\['SVM'\]; known are PNCA, DNN"):
        Contender(name="SVM")
