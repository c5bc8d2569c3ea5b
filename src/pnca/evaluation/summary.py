"""All scores of one model on one test set."""

from numpy.typing import ArrayLike

from pnca.evaluation._validation import check_labels_and_probabilities
from pnca.evaluation.classification import (
    accuracy,
    balanced_accuracy,
    brier_score,
    expected_calibration_error,
    negative_log_likelihood,
)
from pnca.evaluation.selective import augrc, aurc


def summarise(labels: ArrayLike, probabilities: ArrayLike) -> dict[str, float]:
    r"""Score class probabilities in every way that needs only the true labels.

    The keys are ``accuracy``, ``balanced_accuracy``, ``nll``, ``brier``, ``ece``, ``mean_confidence``,
    ``aurc`` and ``augrc``. The last two rank the predictions by their confidence :math:`\max_k p_{ik}`.

    Parameters
    ----------
    labels, probabilities : array-like of shape (n,) and (n, c)
        Columns :math:`y_i` of the true classes, and class probabilities :math:`p_{ik}`.

    Examples
    --------
    >>> summarise([0, 1], [[1.0, 0.0], [0.5, 0.5]])["mean_confidence"]
    0.75
    """
    true, proba = check_labels_and_probabilities(labels, probabilities)
    correct, confidence = proba.argmax(axis=1) == true, proba.max(axis=1)
    return {
        "accuracy": accuracy(true, proba),
        "balanced_accuracy": balanced_accuracy(true, proba),
        "nll": negative_log_likelihood(true, proba),
        "brier": brier_score(true, proba),
        "ece": expected_calibration_error(true, proba),
        "mean_confidence": float(confidence.mean()),
        "aurc": aurc(correct, confidence),
        "augrc": augrc(correct, confidence),
    }
