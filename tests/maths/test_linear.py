"""The linear expert's loss and its optimum, against differences and scikit-learn."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.linear_model import LogisticRegression

from pnca.maths.linear import fit_ridge, ridge_loss


def problem(n, p, c, seed=0):
    rng = np.random.RandomState(seed)
    inputs, labels = rng.normal(size=(n, p)), rng.randint(c, size=n)
    labels[:c] = np.arange(c)
    return inputs, np.eye(c)[labels], labels, rng.uniform(0.5, 2, size=n)


def test_ridge_loss__is_the_equation_and_its_gradient_the_slope():
    inputs, targets, labels, weights = problem(12, 3, 4)
    coefficients = np.random.RandomState(1).normal(size=(4, 4))
    logits = inputs @ coefficients[:-1] + coefficients[-1]
    of_labels = np.exp(logits[np.arange(12), labels]) / np.exp(logits).sum(axis=1)
    expected = (-weights @ np.log(of_labels) + 0.7 / 2 * (coefficients[:-1] ** 2).sum()) / weights.sum()
    loss, _ = ridge_loss(coefficients, inputs, targets, weights, 0.7)
    assert loss == pytest.approx(expected)

    def part(index):
        return lambda flat: ridge_loss(flat.reshape(4, 4), inputs, targets, weights, 0.7)[index]

    error = check_grad(part(0), lambda flat: part(1)(flat).ravel(), coefficients.ravel())
    assert error < 1e-6


@pytest.mark.parametrize(("n", "p", "c"), [(60, 4, 3), (20, 30, 4)])
@pytest.mark.parametrize("ridge", [0.1, 10.0])
def test_fit_ridge__predicts_what_scikit_learn_does(n, p, c, ridge):
    inputs, targets, labels, weights = problem(n, p, c)
    found = fit_ridge(inputs, targets, weights, ridge, np.zeros((p + 1, c)))
    logits = inputs @ found[:-1] + found[-1]
    ours = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    theirs = LogisticRegression(C=1 / ridge, tol=1e-8, max_iter=10_000).fit(inputs, labels, weights)
    np.testing.assert_allclose(ours, theirs.predict_proba(inputs), atol=5e-3)


def test_fit_ridge__huge_logits_are_no_overflow():
    inputs, targets, _, weights = problem(10, 2, 2)
    found = fit_ridge(1e6 * inputs, targets, weights, 1e-3, np.full((3, 2), 1e6))
    assert np.isfinite(found).all()
