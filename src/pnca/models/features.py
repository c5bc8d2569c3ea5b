"""Class masses by positive random features: a class is summed up in one vector."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pnca.maths.neighbours import one_hot
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
    """Embeddings of n points, sorted by the member they belong to (see :mod:`pnca.models.kernels`)."""

    parts: list[Tensor]  # (members, particles, n, d) each; models may differ in size

    @classmethod
    def of(cls, embeddings: Tensor, models: list[slice] | None) -> Clouds:
        """Sort embeddings (m, n, d); None: each particle is a member of its own."""
        if models is None:
            return cls([embeddings[:, None]])
        return cls([embeddings[model][None] for model in models])

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
        """Log features (members, n, f); ``places`` has those of each member."""
        start, features = 0, []
        for part in self.parts:
            own = slice(start, start + len(part))
            start += len(part)
            of_part = Places(places.points[own], places.log_scales[own], places.bandwidth)
            features.append(log_mean_features(part, of_part))
        return torch.cat(features)


class ClassFeatures(NamedTuple):
    """What prediction needs of the examples: places, and a vector for each class."""

    places: Places
    log_sums: Tensor  # (members, c, f)

    def to(self, like: Tensor) -> ClassFeatures:
        """The same on a tensor's device and in its precision."""
        points, log_scales, bandwidth = self.places
        return ClassFeatures(Places(points.to(like), log_scales.to(like), bandwidth), self.log_sums.to(like))

    def log_masses(self, clouds: Clouds) -> Tensor:
        """Log kernel mass (members, n, c) of each class, a part of the points at a time."""
        masses = [
            log_inner_products(clouds.rows(rows).log_features(self.places), self.log_sums)
            for rows in clouds.split(self.places)
        ]
        return torch.cat(masses, dim=1)

    def log_kernel(self, a: Clouds, b: Clouds) -> Tensor:
        """Log kernel (members, n_a, n_b) whose sums the masses are."""
        return log_inner_products(a.log_features(self.places), b.log_features(self.places))


def place_around_classes(
    clouds: Clouds, labels: Tensor, n_classes: int, weights: Tensor, directions: Tensor, bandwidth: float
) -> Places:
    """Put places where the classes are: those of each member among the examples it is trained on.

    ``weights`` are (n,) or (members, n), zero for examples without influence; ``directions`` (d, f) are those
    of :func:`pnca.maths.positive.place`. The places' points are (members, f, d). Gradients pass through them:
    taken as fixed they would draw the examples towards them, the classes would grow, the places move outwards
    with them, and so on.
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
    """Log mass (members, n, c) of each class for each example, which is left out itself.

    ``log_weights`` are (n,) or (members, n); see :func:`pnca.maths.positive.log_leave_one_out_masses`.
    """
    log_support = support.log_features(places)
    log_queries = log_support if queries is support else queries.log_features(places)
    return log_leave_one_out_masses(log_queries, log_support + log_weights[..., None], labels, n_classes)


def summarise(
    clouds: Clouds, labels: Tensor, n_classes: int, log_weights: Tensor, places: Places
) -> ClassFeatures:
    """Add up the features of each class, a part of the examples at a time."""
    sums = []
    for rows in clouds.split(places):
        log_features = clouds.rows(rows).log_features(places) + log_weights[..., rows, None]
        sums.append(class_log_features(log_features, labels[rows], n_classes))
    return ClassFeatures(places, torch.stack(sums).logsumexp(dim=0))
