"""Tabular foundation models, where packages and weights are on the machine. Nothing is fetched."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from pnca.exceptions import MissingDataError

if TYPE_CHECKING:
    from typing_extensions import Self

FloatArray = NDArray[np.float64]


class _Library(NamedTuple):
    package: str
    estimator: str
    weights: str  # pattern of a file name
    path_argument: str
    categories_argument: str = ""  # of the constructor


FOUNDATION = {
    "TabPFN": _Library(
        "tabpfn",
        "TabPFNClassifier",
        "tabpfn*classifier*.ckpt",
        "model_path",
        "categorical_features_indices",
    ),
    "TabICL": _Library("tabicl", "TabICLClassifier", "tabicl*classifier*.ckpt", "model_path"),
}
#: Folder with the weights; without it their caches are searched.
WEIGHTS_VARIABLE = "PNCA_FOUNDATION_WEIGHTS"


def why_not_runnable(name: str) -> str:
    """Say what a foundation model lacks on this machine; nothing if it can run."""
    library = FOUNDATION[name]
    if find_spec(library.package) is None:
        return f"the package {library.package} is not installed"
    if _weights(library) is None:
        return f"no file {library.weights} is in the folder that {WEIGHTS_VARIABLE} names, or in a cache"
    return ""


class FoundationClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """TabPFN or TabICL on a raw table (n, p), with the settings that its package has as defaults."""

    def __init__(
        self,
        name: str,
        *,
        categories: Sequence[int] = (),
        device: str = "cpu",
        random_state: Any = None,  # noqa: ANN401
    ) -> None:
        self.name = name
        self.categories = categories
        self.device = device
        self.random_state = random_state

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Give the model its context: the training examples."""
        if reason := why_not_runnable(self.name):
            raise MissingDataError(f"{self.name} cannot run: {reason}.")
        library = FOUNDATION[self.name]
        os.environ["HF_HUB_OFFLINE"] = "1"  # no call to a network, whatever a package would like
        settings = {
            library.path_argument: str(_weights(library)),
            "device": self.device,
            "random_state": self.random_state,
        }
        if library.categories_argument:
            settings[library.categories_argument] = list(self.categories)
        build = getattr(import_module(library.package), library.estimator)
        self.model_ = build(**settings).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        """Predict the probability of each class (n, c)."""
        return np.asarray(self.model_.predict_proba(X), dtype=np.float64)


def _weights(library: _Library) -> Path | None:
    """The newest file of weights by name."""
    own = os.environ.get(WEIGHTS_VARIABLE)
    caches = [Path.home() / ".cache" / library.package, Path.home() / ".cache" / "huggingface" / "hub"]
    folders = [Path(own)] if own else caches
    found = [path for folder in folders if folder.is_dir() for path in folder.rglob(library.weights)]
    return max(found, key=lambda path: path.name, default=None)
