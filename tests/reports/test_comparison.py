"""Comparisons of models: numbers against scikit-learn, and what is said of them."""

import json

import numpy as np
import pytest
from sklearn import metrics

from pnca.reports.comparison import (
    DEFAULT,
    LOGISTIC,
    SHARES,
    compare_predictions,
    comparison_lines,
    verdict,
)

FOLDS = np.stack([np.arange(150) % 5, np.arange(150) // 30])


def proba_of(labels, strength, seed):
    """Probabilities (2, n, 2) of two repeats that tell the classes apart so well."""
    rng = np.random.default_rng(10 + seed)
    logit = strength * (2 * labels - 1) + rng.normal(size=(2, len(labels)))
    p = 1 / (1 + np.exp(-logit))
    return np.stack([1 - p, p], axis=2)


def compared(groups=None, **strengths):
    labels = np.random.default_rng(0).integers(0, 2, 150)
    share = labels.mean()
    predictions = {name: proba_of(labels, s, k) for k, (name, s) in enumerate(strengths.items())}
    predictions[SHARES] = np.tile([1 - share, share], (2, 150, 1))
    seconds = dict.fromkeys(predictions, 1.0)
    found = compare_predictions(predictions, labels, FOLDS, seconds, groups=groups)
    return found, predictions, labels


def test_compare__means_are_those_of_scikit_learn():
    found, predictions, labels = compared(**{DEFAULT: 1.0, LOGISTIC: 1.0})
    for model in found.models:
        proba = predictions[model.name]
        assert model.nll == pytest.approx(np.mean([metrics.log_loss(labels, p) for p in proba]))
        expected = np.mean([metrics.accuracy_score(labels, p.argmax(axis=1)) for p in proba])
        assert model.accuracy == pytest.approx(expected)
        within = [
            metrics.roc_auc_score(labels[folds == k], p[folds == k, 1])
            for folds, p in zip(FOLDS, proba, strict=True)
            for k in range(5)
        ]
        assert model.auroc == pytest.approx(np.mean(within))
    line, default = found.of(LOGISTIC), found.of(DEFAULT)
    assert line.nll_difference.value == pytest.approx(line.nll - default.nll)
    assert line.auroc_difference.value == pytest.approx(line.auroc - default.auroc)
    assert found.of(SHARES).auroc == 0.5
    assert default.nll_difference is None
    json.dumps(found.as_dict(), allow_nan=False)


def test_compare__groups_widen_intervals():
    alone = compared(**{DEFAULT: 1.0, LOGISTIC: 0.7})[0].of(LOGISTIC).nll_difference
    labels_together = np.arange(150) // 30
    together = compared(groups=labels_together, **{DEFAULT: 1.0, LOGISTIC: 0.7})[0]
    assert together.n_groups == 5
    interval = together.of(LOGISTIC).nll_difference
    assert interval.value == pytest.approx(alone.value)
    assert interval != alone


@pytest.mark.parametrize(
    ("strengths", "begin"),
    [
        ({DEFAULT: 1.5, LOGISTIC: 1.5}, "Logistic regression is enough: with 150 examples neither"),
        ({DEFAULT: 2.5, LOGISTIC: 0.3}, "Logistic regression is not enough: its NLL is"),
        ({DEFAULT: 0.3, LOGISTIC: 2.5}, "Logistic regression is enough: its NLL is surely better"),
        ({DEFAULT: 0.0, LOGISTIC: 0.0}, "Nothing beats the class shares"),
    ],
)
def test_verdict__says_plainly_what_is_enough(strengths, begin):
    found = compared(**strengths)[0]
    assert verdict(found)[0].startswith(begin)
    assert comparison_lines(found)[-len(verdict(found)) :] == verdict(found)
