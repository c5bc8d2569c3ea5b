"""Weights of examples: like copies that are not each other's neighbours, and zero like absence."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier

from models import ALL, NEIGHBOUR, draw, make, objective, planned
from pnca import NCAClassifier, PNCAClassifier, load, save
from pnca.calibration import fit_temperature
from pnca.estimators.base import _identity
from pnca.models import experts, neighbours
from pnca.models.experts import fit_forest, fit_linear
from pnca.models.options import Options
from pnca.training.sampling import Examples

#: Nothing follows from the inputs alone, and nothing is chosen.
BARE = {
    "scaling": None,
    "novelty": False,
    "input_weight": 0.0,
    "background": 0.1,
    "dropout": 0.0,
    "n_folds": None,
    "experts": (),
}


@pytest.fixture
def counts():
    """How often each of forty examples is there: one to three times."""
    return np.random.RandomState(0).randint(1, 4, size=40)


def repeated(X, y, counts):
    """Copies of the examples, and which example each is of."""
    rows = np.repeat(np.arange(len(X)), counts)
    return X[rows], y[rows], rows


def examples_of(X, y, **others):
    return Examples(X, y, np.arange(2), np.ones(2), (3,), **others)


# Like copies


@pytest.mark.parametrize("name", ["PNCA shared", "PNCA exact", "PNCA orthogonal", "NCA"])
def test_loss__is_that_of_copies_in_one_group(name, noisy, counts):
    # Weights have a mean of one, so all masses, and the sum of losses, are smaller by the mean count.
    X, y = noisy
    more_X, more_y, rows = repeated(X, y, counts)
    model = make(name, **({} if name == "NCA" else {**BARE, "max_epochs": 1}))
    weighted = objective(model, X, y, sample_weight=counts)
    copied = objective(model, more_X, more_y, groups=rows)
    copied = replace(copied, background=weighted.background * counts.mean())
    particles = draw(weighted)
    found, expected = (
        of.evaluate(particles, of.prepare(torch.arange(len(of.labels))), None, None)
        for of in (weighted, copied)
    )
    # The same float64 terms, by weights that were rounded to float32 on their way.
    torch.testing.assert_close(found.total_loss * counts.mean(), expected.total_loss, rtol=2e-7, atol=0)
    torch.testing.assert_close(found[1], expected[1], rtol=2e-7, atol=0)


@pytest.mark.parametrize("name", ["PNCA", "NCA", "DNN", "Ensemble"])
def test_fit__is_that_of_copies_in_one_group(name, noisy, counts):
    X, y = noisy
    more_X, more_y, rows = repeated(X, y, counts)
    few = {"max_epochs": 10}
    if name in ("DNN", "Ensemble"):
        weighted, copied = (make(name, batch_size=None, **few) for _ in range(2))
        copied.fit(more_X, more_y)
    elif name == "NCA":
        weighted, copied = make("NCA", **few), make("NCA", **few).fit(more_X, more_y, rows)
    else:
        weighted = make("PNCA", **{**BARE, **few})
        copied = make("PNCA", **{**BARE, **few, "background": 0.1 * counts.mean()}).fit(more_X, more_y, rows)
    weighted.fit(X, y, sample_weight=counts)
    queries = np.concatenate([X + 0.1, X[:3] + 5])
    # Ten steps in float32, each with its sums in another order.
    np.testing.assert_allclose(weighted.predict_proba(queries), copied.predict_proba(queries), atol=2e-4)
    if name in ("PNCA", "NCA"):
        shift = np.log(counts.mean())  # of the mass of examples with a mean weight of one
        np.testing.assert_allclose(weighted.evidence(X) + shift, copied.evidence(X), atol=2e-3)
        np.testing.assert_allclose(weighted.class_prior_, copied.class_prior_, rtol=1e-12)


def test_line__is_that_of_copies_in_the_same_folds(noisy, counts, monkeypatch):
    X, y = noisy
    more_X, more_y, rows = repeated(X, y, counts)
    folds, weights = np.arange(40) % 3, counts / counts.mean()
    monkeypatch.setattr(experts, "_RIDGES", (1.0,))
    found = fit_linear(examples_of(X, y, sample_weight=weights), folds, 0)
    monkeypatch.setattr(experts, "_RIDGES", (counts.mean(),))  # a ridge is against the sum of the weights
    expected = fit_linear(examples_of(more_X, more_y), folds[rows], 0)
    # Both stop where the slope of the loss is below 1e-4.
    torch.testing.assert_close(found.expert.coefficients, expected.expert.coefficients, rtol=0, atol=1e-2)
    torch.testing.assert_close(found.log_probabilities[rows], expected.log_probabilities, rtol=0, atol=1e-2)


def test_forest__has_the_weights_of_the_examples_in_its_leaves(noisy, counts):
    X, y = noisy
    weights = counts / counts.mean()
    forest = fit_forest(examples_of(X, y, sample_weight=weights), np.arange(40) % 3, 0).expert
    leaves = forest.trees.leaves(torch.from_numpy(X))  # (n, t)
    held = torch.zeros(len(forest.leaf_weights)).double()
    held.index_add_(0, leaves.flatten(), torch.from_numpy(weights)[:, None].expand(leaves.shape).flatten())
    torch.testing.assert_close(forest.leaf_weights, held)
    np.testing.assert_allclose(forest.class_shares, np.bincount(y, counts) / counts.sum())


def test_temperature__is_that_of_copies(counts):
    rng = np.random.RandomState(0)
    logs, labels = np.log(rng.dirichlet(np.ones(3), size=40)), rng.randint(3, size=40)
    rows = np.repeat(np.arange(40), counts)
    expected = fit_temperature(logs[rows], labels[rows], spread=None)
    assert fit_temperature(logs, labels, counts, spread=None) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match="sample_weight must have a number"):
        fit_temperature(logs, labels, -counts)


def test_choice__is_made_by_weighted_examples(noisy, counts):
    X, y = noisy
    model = make("PNCA")
    weights = torch.from_numpy(counts / counts.mean())
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        original = neighbours.choose
        patch.setattr(neighbours, "choose", lambda *args: asked.append(args[1]) or original(*args))
        patch.setattr(Examples, "in_own_order", lambda self: self)
        model.fit(X, y, sample_weight=counts)
    torch.testing.assert_close(asked[0].weights, weights)
    assert model.class_prior_ == pytest.approx(np.bincount(y, counts) / counts.sum())


# Only ratios count, beside those of classes


@pytest.mark.parametrize("name", ALL)
def test_weights__that_are_all_alike_change_nothing(name, noisy):
    X, y = noisy
    plain, weighted = make(name, max_epochs=3).fit(X, y), make(name, max_epochs=3)
    weighted.fit(X, y, sample_weight=np.full(40, 0.7))
    np.testing.assert_array_equal(weighted.predict_log_proba(X), plain.predict_log_proba(X))


@pytest.mark.parametrize("name", ["PNCA pooled", "PNCA positive", "DNN"])
def test_weights__multiply_those_of_the_classes(name, noisy):
    X, y = noisy
    by_class = make(name, max_epochs=3, class_weight={0: 1.0, 1: 6.0}).fit(X, y)
    by_both = make(name, max_epochs=3, class_weight={0: 2.0, 1: 4.0})
    by_both.fit(X, y, sample_weight=np.where(y == 0, 1.0, 3.0))
    if name == "PNCA pooled":  # the temperature of the forest follows the weights of the examples alone
        by_class, by_both = (
            make(name, max_epochs=3, experts=("linear",), class_weight=weight).fit(X, y, sample_weight=own)
            for weight, own in (({0: 1.0, 1: 6.0}, None), ({0: 2.0, 1: 4.0}, np.where(y == 0, 1.0, 3.0)))
        )
    # The same weights but for their last digit.
    np.testing.assert_allclose(by_both.predict_proba(X), by_class.predict_proba(X), atol=1e-5)


def test_balanced__gives_classes_the_same_sum_of_weights(noisy, counts):
    X, y = noisy
    weights = counts * np.where(y == 0, 1, 5)
    model = make("PNCA", max_epochs=2, class_weight="balanced").fit(X, y, sample_weight=weights)
    assert model.class_prior_ == pytest.approx([0.5, 0.5])
    support = model.fitted_.reader.support.weights.numpy()
    assert support.mean() == pytest.approx(1)
    assert np.bincount(y, support) == pytest.approx([20, 20])


@pytest.mark.parametrize("name", NEIGHBOUR)
def test_order__of_rows_does_not_matter(name, noisy, counts):
    X, y = noisy
    X = np.concatenate([X[:20], X[:20]])  # each input twice, with other weights
    y = np.concatenate([y[:20], y[:20]])
    order = np.random.RandomState(3).permutation(40)
    model, other = make(name, max_epochs=3), make(name, max_epochs=3)
    model.fit(X, y, sample_weight=counts)
    other.fit(X[order], y[order], sample_weight=counts[order])
    np.testing.assert_allclose(other.predict_proba(X + 0.1), model.predict_proba(X + 0.1), rtol=1e-9)


# Zero


@pytest.mark.parametrize("name", ["PNCA pooled", "NCA", "DNN"])
@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, torch.from_numpy, np.ndarray.tolist])
def test_zero__leaves_an_example_out(name, kind, noisy):
    X, y = noisy
    weights = np.ones(40)
    weights[[3, 17]] = 0
    kept = np.flatnonzero(weights)
    others = {} if name == "DNN" else {"groups": [f"p{i // 4}" for i in range(40)]}
    without = {} if name == "DNN" else {"groups": [others["groups"][row] for row in kept]}
    if name == "PNCA pooled":
        others = without = {}
    model = make(name, max_epochs=2).fit(kind(X), y, sample_weight=weights, **others)
    expected = make(name, max_epochs=2).fit(kind(X[kept]), y[kept], **without)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    assert model.n_samples_fit_ == 38
    if hasattr(model, "groups_"):
        np.testing.assert_array_equal(model.groups_, expected.groups_)


def test_zero__may_leave_out_a_class(noisy):
    X, y = noisy
    three = np.where(np.arange(40) < 5, 2, y)
    model = make("PNCA", max_epochs=2).fit(X, three, sample_weight=three != 2)
    assert model.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="at least 2 classes"):
        make("NCA").fit(X, y, sample_weight=y)


# Refused


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full(40, -1.0), "none below zero; it is -1.0 in row 0"),
        (np.r_[np.ones(39), np.nan], "it is nan in row 39"),
        (np.r_[np.inf, np.ones(39)], "it is inf in row 0"),
        (np.ones(39), "one number for each of the 40 examples"),
        (np.ones((40, 1)), "one number for each of the 40 examples"),
        (3.0, "one number for each of the 40 examples"),
        (np.zeros(40), "All sample weights are zero"),
        (["heavy"] * 40, "must hold numbers"),
        ([None] * 40, "must hold numbers|it is nan"),
        (np.ma.masked_array(np.ones(40), mask=np.arange(40) == 1), "masked"),
        (np.array(["2026-01-01"] * 40, dtype="M8[D]"), "must hold numbers"),
    ],
)
@pytest.mark.parametrize("name", ["PNCA", "DNN"])
def test_weights__that_are_none_are_refused_by_name(weights, message, name, noisy):
    X, y = noisy
    with pytest.raises(ValueError, match=message):
        make(name).fit(X, y, sample_weight=weights)


def test_other_complaints__come_through(noisy):
    X, y = noisy
    weights = np.arange(40)
    with pytest.raises(ValueError, match="groups has 39 entries"):
        make("NCA").fit(X, y, np.arange(39), sample_weight=weights)
    with pytest.raises(ValueError, match="inconsistent"):
        make("NCA").fit(X[:39], y, sample_weight=weights)
    with pytest.raises(ValueError, match="y"):
        make("NCA").fit(X, None, sample_weight=weights)


# What else knows of them


def test_fingerprint__tells_other_weights_and_none_from_these(noisy, counts):
    X, y = noisy
    model = make("PNCA")
    options = Options(**model.get_params(deep=False))
    names = [
        _identity("PNCA", options, planned(model, X, y, sample_weight=weights))
        for weights in (None, counts, counts[::-1], 2 * counts)
    ]
    assert "sample_weight" not in names[0]
    assert names[1]["sample_weight"] != names[2]["sample_weight"]
    assert names[1]["sample_weight"] == names[3]["sample_weight"]


@pytest.mark.parametrize("name", ["PNCA pooled", "NCA"])
def test_model_file__answers_with_the_weights_of_the_fit(name, noisy, counts, tmp_path):
    X, y = noisy
    model = make(name, max_epochs=2).fit(X, y, sample_weight=counts)
    again = load(save(model, tmp_path / "model.pnca"))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.neighbors(X)[1], model.neighbors(X)[1])


def test_neighbours__have_shares_by_weight(noisy):
    X, y = noisy
    same = np.concatenate([X, X[:1]])
    weights = np.r_[np.ones(40), 3.0]
    model = make("NCA", max_epochs=2).fit(same, np.r_[y, y[0]], sample_weight=weights)
    indices, shares = model.neighbors(X[:1])
    of = dict(zip(indices[0].tolist(), shares[0].tolist(), strict=True))
    assert of[40] == pytest.approx(3 * of[0])


def test_decisions__count_each_example_once(noisy, counts):
    X, y = noisy
    model = make("PNCA").fit(X, y, sample_weight=100.0**counts)
    assert model.familiarity(X + 1e4) == pytest.approx(np.full(40, 1 / 41))
    assert len(model.oof_proba_) == 40


def test_signatures__take_weights_by_name_alone(noisy):
    X, y = noisy
    for model in (PNCAClassifier(), NCAClassifier()):
        with pytest.raises(TypeError):
            model.fit(X, y, None, None, np.ones(40))


@pytest.mark.parametrize("ensemble", [AdaBoostClassifier, BaggingClassifier])
def test_ensembles_of_scikit_learn__pass_weights_on(ensemble, noisy, counts):
    X, y = noisy
    several = ensemble(make("PNCA", max_epochs=3), n_estimators=2, random_state=0)
    several.fit(X, y, sample_weight=counts)
    assert several.score(X, y) > 0.7
    alone = several.estimators_[0].fitted_.reader.support.weights
    assert ensemble is BaggingClassifier or alone.unique().numel() > 1
