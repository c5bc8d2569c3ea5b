"""Baselines: classifiers that others would use for a few hundred examples, and out-of-distribution scores.

Each has ``fit(X, y)`` and ``predict_proba(X)``, with columns in the order of ``classes_``; those with an
out-of-distribution score of their own have ``evidence(X)``, larger for inputs more like the training data,
and those that cross-validate themselves keep ``oof_proba_``. The folds of a ``fit`` that takes ``groups``
split none. Inputs are taken as they are: raw tables need :class:`EncodedClassifier`, but for boosted trees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pnca.exceptions import InvalidInputError
from pnca_studies.rivals.boosting import CatBoost, hist_gradient_boosting, light_gbm
from pnca_studies.rivals.classical import CLASSICAL
from pnca_studies.rivals.dropout import MCDropoutClassifier
from pnca_studies.rivals.encoding import EncodedClassifier, fit_with_groups
from pnca_studies.rivals.ensembles import tuned_ensemble
from pnca_studies.rivals.foundation import FOUNDATION, FoundationClassifier, why_not_runnable
from pnca_studies.rivals.frozen import FrozenNetwork, why_no_backbone
from pnca_studies.rivals.gates import GatedClassifier
from pnca_studies.rivals.last_layer import LaplaceClassifier
from pnca_studies.rivals.networks import Augment
from pnca_studies.rivals.pooled import LinearAndForest
from pnca_studies.rivals.scores import SCORES, ClassShares, ScoreAlone, nearest_distance, pca_residual
from pnca_studies.rivals.sngp import SNGPClassifier

__all__ = [
    "FOUNDATION",
    "RIVALS",
    "SCORES",
    "CatBoost",
    "ClassShares",
    "EncodedClassifier",
    "FoundationClassifier",
    "FrozenNetwork",
    "GatedClassifier",
    "LaplaceClassifier",
    "LinearAndForest",
    "MCDropoutClassifier",
    "SNGPClassifier",
    "ScoreAlone",
    "build_rival",
    "fit_with_groups",
    "hist_gradient_boosting",
    "light_gbm",
    "nearest_distance",
    "pca_residual",
    "tuned_ensemble",
    "why_no_backbone",
    "why_not_runnable",
]

_NETWORKS: dict[str, Callable[..., Any]] = {
    "MC dropout": MCDropoutClassifier,
    "SNGP": SNGPClassifier,
    "Laplace": LaplaceClassifier,
}

#: Names that :func:`build_rival` knows: baselines that take numbers, the simplest first.
RIVALS: tuple[str, ...] = (*CLASSICAL, *_NETWORKS)


def build_rival(name: str, *, random_state: int, augment: Augment | None = None) -> Any:  # noqa: ANN401
    """Build an unfitted baseline; the networks train on ``augment(x)`` of every minibatch x (b, p)."""
    if name in CLASSICAL:
        return CLASSICAL[name](random_state=random_state)
    if name in _NETWORKS:
        return _NETWORKS[name](random_state=random_state, augment=augment)
    raise InvalidInputError(
        f"There is no baseline {name!r}; the known ones are {', '.join(map(repr, RIVALS))}."
    )
