import sys

import numpy as np
import pytest
import torch

from pnca.exceptions import MissingExtraError
from rivals.quick import needs_laplace, quick_rival


@pytest.fixture(scope="module")
def model(iris):
    return quick_rival("Laplace", hidden_layer_sizes=(20, 8)).fit(*iris)


@needs_laplace
def test_evidence__is_that_of_a_slow_posterior(model, iris):
    x = torch.tensor(iris[0]).double()
    with torch.no_grad():
        phi = model.network_[:-1](x).numpy()  # (n, d)
        p = model.network_(x).softmax(dim=1).numpy()  # (n, c)
    prior = float(model.laplace_.prior_precision)
    # Kronecker form: the sum over examples of a product is replaced by the product of the sums, over n.
    curvature = sum(np.diag(row) - np.outer(row, row) for row in p)  # (c, c), in the logits
    second_moment = phi.T @ phi / len(phi)  # (d, d)
    weights = np.linalg.inv(np.kron(curvature, second_moment) + prior * np.eye(3 * 8))
    biases = np.linalg.inv(curvature + prior * np.eye(3))
    variances = np.zeros((150, 3))
    for i, row in enumerate(phi):
        for k in range(3):
            derivative = np.kron(np.eye(3)[k], row)
            variances[i, k] = derivative @ weights @ derivative + biases[k, k]
    np.testing.assert_allclose(model.evidence(iris[0]), -variances.mean(axis=1), rtol=1e-6)


@needs_laplace
def test_predict_proba__is_laplace_torchs_own(model, iris):
    own = model.laplace_(torch.tensor(iris[0]).double(), pred_type="glm", link_approx="probit")
    np.testing.assert_allclose(model.predict_proba(iris[0]), own.numpy(), rtol=1e-9)


@needs_laplace
def test_prior__has_the_largest_marginal_likelihood(iris):
    # Small weights, so that the best precision is not close to 1, where the search begins.
    laplace = quick_rival("Laplace", weight_decay=0.1).fit(*iris).laplace_
    found = float(laplace.prior_precision)
    assert found > 2
    values = [
        float(laplace.log_marginal_likelihood(torch.tensor([found * factor]).double()))
        for factor in (0.8, 1.0, 1.25)
    ]
    assert values[1] == max(values)


@needs_laplace
def test_posterior__lowers_the_confidence_but_changes_few_labels(model, iris):
    plain = model.network_(torch.tensor(iris[0]).double()).softmax(dim=1).detach().numpy()
    proba = model.predict_proba(iris[0])
    assert proba.max(axis=1).mean() < plain.max(axis=1).mean()
    assert (proba.argmax(axis=1) == plain.argmax(axis=1)).mean() > 0.95


def test_missing_dependency__names_the_extra_before_anything_is_trained(iris, monkeypatch):
    monkeypatch.setitem(sys.modules, "laplace", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pnca\[benchmark\]'"):
        quick_rival("Laplace", max_epochs=10**9).fit(*iris)
