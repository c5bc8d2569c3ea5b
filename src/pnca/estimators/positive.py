"""Kernel masses by positive features, for models whose particles answer alone or in teams."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pnca.exceptions import InvalidInputError
from pnca.maths.features import orthogonal_frequencies
from pnca.maths.neighbours import one_hot, safe_log
from pnca.maths.positive import (
    Places,
    class_centres,
    class_log_features,
    log_inner_products,
    log_leave_one_out_masses,
    log_mean_features,
    place,
)

#: Numbers that the features of some points take at once. It bounds memory; results do not depend on it.
_MANY_NUMBERS = 2**23


class Clouds(NamedTuple):
    """Embeddings of n points, sorted by whose answer they belong to.

    With shared particles each is an answer of its own; otherwise each team is one.
    """

    parts: list[Tensor]  # (answers, particles, n, d) each; teams may differ in size

    @classmethod
    def of(cls, embeddings: Tensor, teams: list[slice] | None) -> Clouds:
        """Sort embeddings (m, n, d); without teams each particle answers alone."""
        if teams is None:
            return cls([embeddings[:, None]])
        return cls([embeddings[team][None] for team in teams])

    def rows(self, rows: slice) -> Clouds:
        """Only some of the points."""
        return Clouds([part[:, :, rows] for part in self.parts])

    def split(self, places: Places) -> list[slice]:
        """Rows whose features can be held at once."""
        n_particles = sum(part.shape[0] * part.shape[1] for part in self.parts)
        n_rows = max(1, _MANY_NUMBERS // (n_particles * places.log_scales.shape[-1]))
        n = self.parts[0].shape[2]
        return [slice(start, start + n_rows) for start in range(0, max(1, n), n_rows)]

    def log_features(self, places: Places) -> Tensor:
        """Log features (answers, n, f); ``places`` has those of each answer."""
        start, features = 0, []
        for part in self.parts:
            own = slice(start, start + len(part))
            start += len(part)
            of_part = Places(places.points[own], places.log_scales[own], places.bandwidth)
            features.append(log_mean_features(part, of_part))
        return torch.cat(features)


class Support(NamedTuple):
    """What prediction needs of the examples: places, and a vector for each class."""

    places: Places
    class_features: Tensor  # (answers, c, f), logarithms

    def log_masses(self, clouds: Clouds) -> Tensor:
        """Log kernel mass (answers, n, c) of each class, a part of the points at a time."""
        masses = [
            log_inner_products(clouds.rows(rows).log_features(self.places), self.class_features)
            for rows in clouds.split(self.places)
        ]
        return torch.cat(masses, dim=1)

    def log_kernel(self, a: Clouds, b: Clouds) -> Tensor:
        """Log kernel (answers, n_a, n_b) whose sums the masses are."""
        return log_inner_products(a.log_features(self.places), b.log_features(self.places))


def place_around_classes(
    clouds: Clouds, labels: Tensor, n_classes: int, weights: Tensor, directions: Tensor, bandwidth: float
) -> Places:
    """Put places where the classes are: those of each answer among the examples it is shown.

    Parameters
    ----------
    clouds : Clouds
        Embeddings of n examples.
    labels : Tensor of shape (n,)
        Their classes.
    n_classes : int
        Number of classes c.
    weights : Tensor of shape (n,) or (answers, n)
        Their weights; an example of weight zero has no influence.
    directions : Tensor of shape (d, f)
        See :func:`pnca.maths.positive.place`.
    bandwidth : float
        Of the latent kernel.

    Returns
    -------
    Places
        Of points (answers, f, d). Gradients pass through them. Taken as fixed they would draw the
        examples towards them, the classes would grow, the places move outwards with them, and so on.
    """
    members = one_hot(labels, n_classes, directions)
    start, found = 0, []
    for part in clouds.parts:
        shown = weights if weights.ndim == 1 else weights[start : start + len(part)]
        start += len(part)
        found.append(place(directions, *class_centres(part, members, shown), bandwidth))
    points, log_scales, _ = zip(*found, strict=True)
    return Places(torch.cat(points), torch.cat(log_scales), bandwidth)


def training_log_masses(
    queries: Clouds, support: Clouds, labels: Tensor, n_classes: int, log_weights: Tensor, places: Places
) -> Tensor:
    """Log mass (answers, n, c) of each class for each example, which is left out itself.

    ``log_weights`` are (n,) or (answers, n); see :func:`pnca.maths.positive.log_leave_one_out_masses`.
    """
    log_support = support.log_features(places)
    log_queries = log_support if queries is support else queries.log_features(places)
    return log_leave_one_out_masses(log_queries, log_support + log_weights[..., None], labels, n_classes)


def summarise(clouds: Clouds, labels: Tensor, n_classes: int, log_weights: Tensor, places: Places) -> Support:
    """Add up the features of each class, a part of the examples at a time."""
    sums = []
    for rows in clouds.split(places):
        log_features = clouds.rows(rows).log_features(places) + log_weights[..., rows, None]
        sums.append(class_log_features(log_features, labels[rows], n_classes))
    return Support(places, torch.stack(sums).logsumexp(dim=0))


class PositiveFeatures:
    """What a neighbour classifier needs for ``kernel="positive"``."""

    n_feature_blocks: int
    expectation: str
    classes_: NDArray[Any]
    class_weight_: NDArray[np.float64]
    bandwidth_: float
    support_labels_: NDArray[np.int64]
    support_embeddings_: NDArray[np.float64]

    def _draw_directions(self, n_components: int, generator: torch.Generator) -> None:
        # At least one block for each class; for bandwidth 2, because the places are scaled with it.
        n_blocks = max(self.n_feature_blocks, len(self.classes_))
        self.directions_ = orthogonal_frequencies(n_components, n_blocks, 2.0, generator).numpy()

    def _clouds(self, embeddings: Tensor, teams: list[slice]) -> Clouds:
        return Clouds.of(embeddings, None if self.expectation == "shared" else teams)

    def _positive_log_masses(
        self,
        outputs: Tensor,
        support: Tensor,
        labels: Tensor,
        shown: Tensor,
        directions: Tensor,
        teams: list[slice],
    ) -> Tensor:
        """Log mass (answers, n, c) of each class for the examples of a batch, without n x n kernels."""
        n_classes = len(self.classes_)
        of_support = self._clouds(support, teams)
        queries = of_support if support is outputs else self._clouds(outputs, teams)
        places = place_around_classes(of_support, labels, n_classes, shown, directions, self.bandwidth_)
        return training_log_masses(queries, of_support, labels, n_classes, safe_log(shown), places)

    def _summary(self, clouds: Clouds, labels: Tensor, weights: Tensor) -> Support:
        """Sum up examples of these weights (n,) by their features at the present bandwidth."""
        directions, n_classes = torch.from_numpy(self.directions_).to(weights), len(self.classes_)
        places = place_around_classes(clouds, labels, n_classes, weights, directions, self.bandwidth_)
        return summarise(clouds, labels, n_classes, safe_log(weights), places)

    def _keep_class_features(self) -> None:
        clouds = self._clouds(torch.from_numpy(self.support_embeddings_), [slice(None)])
        weights = torch.from_numpy(self.class_weight_[self.support_labels_])
        support = self._summary(clouds, torch.from_numpy(self.support_labels_), weights)
        self.class_features_ = support.class_features.numpy()
        self.places_, self.place_scales_ = support.places.points.numpy(), support.places.log_scales.numpy()

    def _support(self, like: Tensor) -> Support:
        if not hasattr(self, "class_features_"):
            raise InvalidInputError("kernel was set to 'positive' after the fit; fit again.")
        points, log_scales, sums = (
            torch.from_numpy(a).to(like) for a in (self.places_, self.place_scales_, self.class_features_)
        )
        return Support(Places(points, log_scales, self.bandwidth_), sums)
