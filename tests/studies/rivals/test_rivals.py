"""What every baseline promises."""

import numpy as np
import pytest
import torch
from sklearn.base import clone

from pnca.exceptions import InvalidInputError
from pnca_studies.rivals import RIVALS, build_rival
from rivals.quick import parameters, quick_rival

EVERY = pytest.mark.parametrize("name", parameters())
WITH_EVIDENCE = ("Gaussian process", "MC dropout", "SNGP", "Laplace")


@EVERY
def test_rival__learns_and_gives_probabilities_in_the_order_of_its_classes(name, iris):
    X, y = iris
    model = quick_rival(name).fit(X[:100], y[:100])
    proba = model.predict_proba(X[100:])
    assert proba.shape == (50, 3)
    assert proba.min() >= 0
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-9)
    assert model.classes_.tolist() == [0, 1, 2]
    assert (proba.argmax(axis=1) == y[100:]).mean() > 0.85
    assert (model.predict(X[100:]) == y[100:]).mean() > 0.85


@EVERY
def test_rival__same_seed_same_answers_and_the_global_generators_untouched(name, iris):
    X, y = iris[0][:45], iris[1][:45]
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    expected = torch.rand(1), np.random.rand()  # noqa: NPY002
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    model = quick_rival(name, random_state=1)
    first = model.fit(X, y).predict_proba(iris[0])
    assert (torch.rand(1), np.random.rand()) == expected  # noqa: NPY002
    assert np.array_equal(clone(model).fit(X, y).predict_proba(iris[0]), first)
    assert np.array_equal(model.predict_proba(iris[0]), first)


@pytest.mark.parametrize("name", parameters("random forest", "ExtraTrees", "MC dropout", "SNGP", "Laplace"))
def test_random_rival__another_seed_gives_other_answers(name, iris):
    first, other = (
        quick_rival(name, random_state=seed).fit(iris[0][:45], iris[1][:45]).predict_proba(iris[0])
        for seed in (1, 2)
    )
    assert not np.array_equal(first, other)


#: A covariance within classes of one example each does not exist.
WITHOUT_COVARIANCE = [name for name in RIVALS if name != "shrinkage LDA"]


@pytest.mark.parametrize("name", parameters(*WITHOUT_COVARIANCE))
def test_rival__manages_classes_of_one_or_two_examples_and_string_labels(name, iris):
    X, y = iris
    names = np.array(["ash", "birch", "cedar"])[y]
    for counts in ((12, 2, 1), (3, 1, 1), (1, 1, 1)):
        rows = np.concatenate([np.flatnonzero(y == k)[:count] for k, count in enumerate(counts)])
        model = quick_rival(name).fit(X[rows], names[rows])
        assert model.classes_.tolist() == ["ash", "birch", "cedar"]
        proba = model.predict_proba(X)
        assert proba.shape == (150, 3)
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-9)
        assert set(model.predict(X)) <= set(names)


@EVERY
def test_rival__two_classes_work(name, iris):
    X, y = iris[0][:60], iris[1][:60] > 0
    model = quick_rival(name).fit(X, y)
    assert model.predict_proba(X).shape == (60, 2)
    assert (model.predict(X) == y).mean() > 0.95


@pytest.mark.parametrize("name", parameters(*WITH_EVIDENCE))
def test_evidence__is_one_finite_number_a_row(name, iris):
    evidence = quick_rival(name).fit(*iris).evidence(iris[0][:7])
    assert evidence.shape == (7,)
    assert evidence.dtype == np.float64
    assert np.isfinite(evidence).all()
    assert len(np.unique(evidence)) == 7


@pytest.mark.parametrize("name", parameters("Gaussian process", "SNGP", "Laplace"))
def test_evidence__falls_far_from_the_training_inputs(name, iris):
    model = quick_rival(name).fit(*iris)
    assert (model.evidence(20 * iris[0]) < model.evidence(iris[0])).all()


def test_evidence__only_of_methods_that_have_one():
    assert tuple(n for n in RIVALS if hasattr(build_rival(n, random_state=0), "evidence")) == WITH_EVIDENCE


def test_build__seed_and_augmentation_are_passed_on():
    for name in RIVALS:
        if name != "shrinkage LDA":  # draws nothing
            assert build_rival(name, random_state=5).get_params()["random_state"] == 5
    for name in ("MC dropout", "SNGP", "Laplace"):
        assert build_rival(name, random_state=5, augment=torch.sin).augment is torch.sin
    build_rival("k-NN", random_state=5, augment=torch.sin)  # has no use for it


def test_build__an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(InvalidInputError, match=r"no baseline 'kNN'; .*'k-NN', .*'MC dropout'"):
        build_rival("kNN", random_state=0)
