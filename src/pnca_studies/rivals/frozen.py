"""The practical recipe for images: logistic regression on the features of a frozen network."""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import zoom
from sklearn.base import BaseEstimator, ClassifierMixin

from pnca.exceptions import MissingDataError
from pnca.files import cache_folder, make_folder, write_atomically
from pnca_studies.rivals.classical import logistic_regression

if TYPE_CHECKING:
    from typing_extensions import Self

    from pnca.vision import Backbone

FloatArray = NDArray[np.float64]

#: Names the frozen network: timm:NAME, whose weights are in a cache, or the path of an ONNX file.
BACKBONE_VARIABLE = "PNCA_BACKBONE"
_AT_ONCE = 32


def why_no_backbone() -> str:
    """Say what is missing for a frozen network; nothing if one is named."""
    return "" if os.environ.get(BACKBONE_VARIABLE) else f"{BACKBONE_VARIABLE} names no network"


class FrozenNetwork(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A tuned logistic regression on standardised features of grey images (n, h, w), from 0 to 1.

    Features are computed once for each set of images and kept in the cache folder.
    """

    def __init__(self, *, random_state: Any = None) -> None:  # noqa: ANN401
        self.random_state = random_state

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Compute the features and fit the regression."""
        features = frozen_features(X)
        self.centre_, spread = features.mean(axis=0), features.std(axis=0)
        self.spread_ = np.where(spread > 0, spread, 1.0)
        self.model_ = logistic_regression(self.random_state).fit((features - self.centre_) / self.spread_, y)
        self.classes_, self.oof_proba_ = self.model_.classes_, self.model_.oof_proba_
        return self

    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        """Predict the probability of each class (n, c)."""
        return self.model_.predict_proba((frozen_features(X) - self.centre_) / self.spread_)


def frozen_features(images: NDArray[Any]) -> FloatArray:
    """Features (n, q) of grey images (n, h, w) by the network that the environment names."""
    if reason := why_no_backbone():
        raise MissingDataError(f"A frozen network is needed: {reason}.")
    network = _load(os.environ[BACKBONE_VARIABLE])
    folder = make_folder(cache_folder() / "benchmark")
    path = folder / f"{_digest(images, network.key)}.npy"
    if not path.exists():
        starts = range(0, len(images), _AT_ONCE)
        parts = [network(_as_pictures(images[i : i + _AT_ONCE], network.size)) for i in starts]

        def write(temporary: Any) -> None:  # noqa: ANN401
            with temporary.open("wb") as file:
                np.save(file, np.concatenate(parts), allow_pickle=False)

        write_atomically(path, write)
    features: FloatArray = np.load(path, allow_pickle=False).astype(np.float64)
    return features


def _as_pictures(images: NDArray[Any], size: int) -> NDArray[np.uint8]:
    """Bring grey images (n, h, w) to a square and to three equal channels (n, size, size, 3)."""
    factors = (1, size / images.shape[1], size / images.shape[2])
    large = zoom(images, factors, order=1, grid_mode=True, mode="nearest").clip(0, 1)
    return np.repeat((255 * large).round().astype(np.uint8)[..., None], 3, axis=3)


def _digest(images: NDArray[Any], key: str) -> str:
    content = np.ascontiguousarray(images)
    return sha256(f"{key} {content.shape} {content.dtype}".encode() + content.tobytes()).hexdigest()[:24]


@cache
def _load(spec: str) -> Backbone:
    from pnca.vision import load_backbone

    return load_backbone(spec)
