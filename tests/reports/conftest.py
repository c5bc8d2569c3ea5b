"""Evaluations of arrays, and a report of a small model."""

import numpy as np
import pytest

from pnca.calibration.decisions import HeldOut, decide, decide_held_out
from pnca.reports import Said, evaluate

CLASSES = np.array(["ash", "birch", "<b>cedar</b>"])


def arrays(n, seed, spread=1.5):
    """Labels, probabilities and evidence of n inputs of three classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    logits = rng.normal(size=(n, 3)) + spread * np.eye(3)[labels]
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return labels, proba, rng.normal(size=n)


def evaluated(n=120, groups=None, max_error=0.2, **options):
    """An evaluation of n inputs, with unknown and out-of-distribution ones."""
    held_out = HeldOut(*(arrays(200, 1)[k] for k in (1, 2, 0)))
    asked = {"max_error": max_error, "confidence": 0.9, "min_familiarity": 0.05}

    def said(count, seed, shift=0.0):
        labels, proba, evidence = arrays(count, seed)
        decisions = decide(proba, evidence - shift, held_out, CLASSES, **asked)
        return labels, Said.by(decisions, proba, evidence - shift)

    labels, own = said(n, 2)
    return evaluate(
        own,
        labels,
        CLASSES,
        decide_held_out(held_out, CLASSES, **asked),
        shares=np.array([0.2, 0.5, 0.3]),
        groups=groups,
        unknown=(said(5, 3)[1], {"<i>oak</i>": 4, "fir": 1}),
        ood=said(30, 4, 3.0)[1],
        **options,
    )


@pytest.fixture(scope="session")
def evaluation():
    return evaluated()
