"""Classifiers that others would use for a few hundred examples, to compare with.

Every rival has ``fit(X, y)`` and ``predict_proba(X)``, with columns in the order of ``classes_``; those with
a score of familiarity of their own have ``evidence(X)``, larger for more familiar inputs. Inputs are taken as
they are: the caller scales them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pnca.exceptions import InvalidInputError
from pnca_studies.rivals import classical
from pnca_studies.rivals.dropout import MCDropoutClassifier
from pnca_studies.rivals.last_layer import LaplaceClassifier
from pnca_studies.rivals.networks import Augment
from pnca_studies.rivals.scores import nearest_distance, pca_residual
from pnca_studies.rivals.sngp import SNGPClassifier

__all__ = [
    "RIVALS",
    "LaplaceClassifier",
    "MCDropoutClassifier",
    "SNGPClassifier",
    "build_rival",
    "nearest_distance",
    "pca_residual",
]

_CLASSICAL: dict[str, Callable[[int], Any]] = {
    "logistic regression": classical.logistic_regression,
    "RBF-SVM": classical.rbf_svm,
    "random forest": classical.random_forest,
    "ExtraTrees": classical.extra_trees,
    "k-NN": classical.nearest_neighbours,
    "NCA + k-NN (scikit-learn)": classical.nca_neighbours,
    "Gaussian process": classical.gaussian_process,
}
_NETWORKS: dict[str, Callable[..., Any]] = {
    "MC dropout": MCDropoutClassifier,
    "SNGP": SNGPClassifier,
    "Laplace": LaplaceClassifier,
}

#: Names that :func:`build_rival` knows, the simplest first.
RIVALS: tuple[str, ...] = (*_CLASSICAL, *_NETWORKS)


def build_rival(name: str, *, random_state: int, augment: Augment | None = None) -> Any:  # noqa: ANN401
    """Build an unfitted rival.

    Parameters
    ----------
    name : str
        One of :data:`RIVALS`.
    random_state : int
        Seed of all that is random in it.
    augment : callable or None
        Maps a minibatch of inputs (b, p), a float32 tensor, to the one that is trained on. Networks call it;
        the other rivals, which see all examples at once, do without.

    Returns
    -------
    estimator
        With ``fit``, ``predict`` and ``predict_proba``, and ``evidence`` where the method has one.

    Examples
    --------
    >>> build_rival("SNGP", random_state=0)
    SNGPClassifier(random_state=0)
    """
    if name in _CLASSICAL:
        return _CLASSICAL[name](random_state)
    if name in _NETWORKS:
        return _NETWORKS[name](random_state=random_state, augment=augment)
    raise InvalidInputError(f"There is no rival {name!r}; the known ones are {', '.join(map(repr, RIVALS))}.")
