"""Experts against scikit-learn and against sums over single trees and examples."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.ensemble import RandomForestClassifier

from pnca.models import experts
from pnca.models.experts import EXPERTS, fit_forest, fit_linear, linear_loss
from pnca.models.pooling import prior_counts
from pnca.training.sampling import Examples


def examples(n=40, p=5, c=3, seed=0, weights=None):
    rng = np.random.RandomState(seed)
    labels = np.arange(n) % c
    return Examples(
        inputs=(rng.normal(size=(n, p)) + rng.normal(size=(c, p))[labels]).astype(np.float32),
        labels=labels,
        classes=np.arange(c),
        class_weight=np.ones(c) if weights is None else np.array(weights),
        input_shape=(p,),
    )


def some_queries(n=7, p=5):
    return torch.from_numpy(np.random.RandomState(9).normal(size=(n, p)))


FOLDS = np.arange(40) // 2 % 5


@pytest.fixture(scope="module")
def forest():
    given = examples(weights=[0.5, 1.0, 1.5])
    return given, fit_forest(given, FOLDS, 3).expert


def slow_shares(given, queries, n_trees):
    """Share of each example in each query's leaf, tree by tree, from scikit-learn's own forest."""
    x = given.inputs
    theirs = RandomForestClassifier(n_trees, random_state=3).fit(x, given.labels, given.weights)
    of_examples, of_queries = theirs.apply(x), theirs.apply(queries.numpy().astype(np.float32))
    shares = np.zeros((len(queries), len(x)))
    for i, leaves in enumerate(of_queries):
        for tree, leaf in enumerate(leaves):
            inside = given.weights * (of_examples[:, tree] == leaf)
            shares[i] += inside / inside.sum()
    return (shares + given.weights / given.weights.sum()) / (n_trees + 1)


def test_forest__its_shares_and_probabilities_are_those_of_scikit_learns_leaves(forest):
    given, expert = forest
    queries = some_queries().float().double()
    shares = slow_shares(given, queries, len(expert.trees.roots))
    sums = np.stack([shares[:, given.labels == c].sum(axis=1) for c in range(3)], axis=1)
    expected = log_softmax(np.log(sums) / expert.temperature, axis=1)
    np.testing.assert_allclose(expert.log_probabilities(queries).numpy(), expected, rtol=1e-9, atol=1e-12)
    ratio = np.exp(expected) / sums
    np.testing.assert_allclose(
        expert.log_shares(queries).exp().numpy(), shares * ratio[:, given.labels], rtol=1e-9, atol=1e-15
    )


def test_forest__the_shares_of_a_class_sum_to_its_probability(forest):
    given, expert = forest
    queries = some_queries()
    shares, probabilities = expert.log_shares(queries).exp(), expert.log_probabilities(queries).exp()
    for c in range(3):
        torch.testing.assert_close(shares[:, given.labels == c].sum(dim=1), probabilities[:, c])


def test_forest__examples_in_another_order_keep_their_shares(forest):
    _, expert = forest
    order = np.random.RandomState(0).permutation(40)
    queries = some_queries()
    torch.testing.assert_close(expert.at(order).log_shares(queries), expert.log_shares(queries)[:, order])
    torch.testing.assert_close(expert.at(order).log_probabilities(queries), expert.log_probabilities(queries))


@pytest.mark.parametrize("name", EXPERTS)
def test_experts__what_they_say_of_a_fold_does_not_depend_on_its_labels(name, monkeypatch):
    monkeypatch.setattr(experts, "_RIDGES", (1.0,))  # which is chosen by all labels, like the temperature
    given = examples()
    held_out, flipped = FOLDS == 1, given.labels.copy()
    flipped[held_out] = (flipped[held_out] + 1) % 3
    before, after = (EXPERTS[name](given._replace(labels=y), FOLDS, 0) for y in (given.labels, flipped))
    a, b = (fit.log_probabilities[torch.from_numpy(held_out)].numpy() for fit in (before, after))
    scale = getattr(after.expert, "temperature", 1) / getattr(before.expert, "temperature", 1)
    np.testing.assert_allclose(log_softmax(b * scale, axis=1), a, atol=1e-9)


@pytest.mark.parametrize("p", [5, 100])
def test_linear__more_columns_than_rows_change_nothing_but_the_time(p):
    given = examples(p=p)
    fit = fit_linear(given, FOLDS, 0)
    padded = np.hstack([given.inputs, np.zeros((40, 200), np.float32)])  # now there are more columns
    other = fit_linear(given._replace(inputs=padded, input_shape=(p + 200,)), FOLDS, 0)
    queries = some_queries(p=p)
    np.testing.assert_allclose(
        other.expert.log_probabilities(torch.hstack([queries, torch.ones(7, 200)])).exp(),
        fit.expert.log_probabilities(queries).exp(),
        atol=1e-2,
    )


def test_linear__learns_a_line_and_is_held_to_a_strong_ridge_on_noise():
    rng = np.random.RandomState(0)
    x = rng.normal(size=(40, 5)).astype(np.float32)
    of_line = examples(c=2)._replace(inputs=x, labels=(x[:, 0] > 0).astype(np.int64))
    of_noise = of_line._replace(labels=rng.permutation(40) % 2)
    line, noise = (fit_linear(given, FOLDS, 0).expert for given in (of_line, of_noise))
    assert line.ridge < noise.ridge
    assert noise.log_probabilities(torch.from_numpy(x)).exp().max() < 0.65


@pytest.mark.parametrize("name", EXPERTS)
def test_experts__a_class_of_one_example_makes_no_nan(name):
    given = examples()
    labels = np.where(np.arange(40) == 0, 2, np.arange(40) % 2)
    fit = EXPERTS[name](given._replace(labels=labels), FOLDS, 0)
    assert torch.isfinite(fit.log_probabilities).all()
    assert torch.isfinite(fit.expert.log_probabilities(some_queries() * 1e6)).all()


@pytest.mark.parametrize("name", EXPERTS)
def test_experts__are_repeatable(name):
    a, b = (EXPERTS[name](examples(), FOLDS, 5) for _ in range(2))
    assert torch.equal(a.log_probabilities, b.log_probabilities)
    assert torch.equal(a.expert.log_probabilities(some_queries()), b.expert.log_probabilities(some_queries()))


def test_prior_counts__experts_begin_with_less_the_more_classes_there_are_and_neighbours_with_nothing():
    assert prior_counts(2, 2, 100).tolist() == [0.0, 2.0, 2.0]
    assert prior_counts(1, 5, 1001).tolist() == [0.0, 0.5]


@pytest.mark.parametrize("n_columns", [101, 784, 1000])
def test_prior_counts__neighbours_are_trusted_beforehand_with_as_many_columns_as_pixels(n_columns):
    assert prior_counts(2, 10, n_columns).tolist() == [10.0, 2 / 9, 2 / 9]


def test_linear_loss__is_that_of_the_line_which_is_fitted():
    data = examples()
    held_out = fit_linear(data, FOLDS, 0).log_probabilities.numpy()
    loss = linear_loss(torch.from_numpy(data.inputs), torch.from_numpy(data.labels), 3, FOLDS)
    assert loss == pytest.approx(-held_out[np.arange(40), data.labels].mean(), rel=1e-6)
