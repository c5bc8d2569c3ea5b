"""How examples are dealt into batches and folds, and which particles are trained on which folds."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pnca.exceptions import InvalidInputError

Indices = NDArray[np.intp]


def shuffled_batches(n_samples: int, batch_size: int | None, rng: np.random.RandomState) -> list[Indices]:
    """Deal shuffled examples into batches, the last perhaps smaller; without a size, all in their order.

    >>> [len(batch) for batch in shuffled_batches(7, 3, np.random.RandomState(0))]
    [3, 3, 1]
    """
    if batch_size is None or batch_size >= n_samples:
        return [np.arange(n_samples)]
    order = rng.permutation(n_samples)
    return [order[start : start + batch_size] for start in range(0, n_samples, batch_size)]


def partnered_batches(
    labels: NDArray[np.integer], batch_size: int | None, rng: np.random.RandomState
) -> list[Indices]:
    """Deal examples of classes ``labels`` (n,) into batches in which each has another example of its class.

    Neighbour models learn from pairs of one class, so every class is spread evenly over the batches, but
    never so thinly that an example is left alone, unless it is the only one of its class. Batches have about
    ``batch_size`` examples; None: one batch, in their order.

    >>> labels = np.array([0, 0, 0, 0, 1, 1])
    >>> batches = partnered_batches(labels, 4, np.random.RandomState(0))
    >>> sorted(sorted(labels[batch].tolist()) for batch in batches)
    [[0, 0], [0, 0, 1, 1]]
    """
    if batch_size is None or batch_size >= len(labels):
        return [np.arange(len(labels))]
    n_classes = len(np.unique(labels))
    if batch_size < 2 * n_classes:
        raise InvalidInputError(
            f"batch_size={batch_size} cannot hold two examples of each of the {n_classes} classes; "
            f"use batch_size >= {2 * n_classes}, or None for the whole training set at once."
        )
    n_batches = -(-len(labels) // batch_size)
    parts: list[list[Indices]] = [[] for _ in range(n_batches)]
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        n_groups = min(n_batches, max(1, len(members) // 2))
        chosen = rng.permutation(n_batches)[:n_groups]
        for batch, group in zip(chosen, np.array_split(members, n_groups), strict=True):
            parts[batch].append(group)
    return [rng.permutation(np.concatenate(part)) for part in parts if part]


def spread_rows(n: int, n_picked: int) -> Tensor:
    """At most ``n_picked`` of n rows, ascending: random, as their order may mean something, but repeatable.

    >>> spread_rows(3, 5)
    tensor([0, 1, 2])
    """
    picked = np.random.RandomState(0).permutation(n)[:n_picked]
    return torch.from_numpy(np.sort(picked))


def assign_folds(
    labels: NDArray[np.integer],
    n_folds: int,
    rng: np.random.RandomState,
    groups: NDArray[np.integer] | None = None,
) -> NDArray[np.int64]:
    """Deal examples of classes ``labels`` (n,) into folds (n,), each with every class as far as possible.

    Examples of one group (n,) go into one fold. There are fewer than ``n_folds`` with fewer examples or
    groups.

    >>> assign_folds(np.array([0, 0, 1, 1]), 2, np.random.RandomState(0)).tolist()
    [0, 1, 1, 0]
    """
    n = len(labels)
    if groups is None:
        order = np.lexsort((rng.permutation(n), labels))  # by class, at random within
        folds = np.empty(n, dtype=np.int64)
        folds[order] = np.arange(n) % min(n_folds, n)
        return folds
    # Here, because it loads much that nothing else needs.
    from sklearn.model_selection import StratifiedGroupKFold

    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise InvalidInputError("All examples are of one group, so none can be held out: leave groups out.")
    splitter = StratifiedGroupKFold(min(n_folds, n_groups), shuffle=True, random_state=rng)
    folds = np.empty(n, dtype=np.int64)
    # scikit-learn's stratification by class would refuse classes rarer than the number of folds, or warn.
    counts = np.bincount(labels)
    common = np.where(counts[labels] >= min(n_folds, n_groups), labels, counts.argmax())
    for fold, (_, held_out) in enumerate(splitter.split(groups, common, groups)):
        folds[held_out] = fold
    return folds


@dataclass(frozen=True, kw_only=True)
class FoldModels:
    """Rows of the stacked particles: the full model, then one fold model for each fold.

    The full model is trained on every example; a fold model is trained on all examples but those of its fold.
    """

    folds: NDArray[np.int64] | None  # (n,), of each example; None if there is only the full model
    n_particles: int  # of the full model
    n_per_fold: int = 0  # of each fold model
    n_kinds: int = 1  # ways to train particles; they alternate, so that each model has as many of every kind

    @property
    def n_folds(self) -> int:
        """Number of folds; zero without any."""
        return 0 if self.folds is None else int(self.folds.max()) + 1

    @property
    def n_total(self) -> int:
        """Particles of all models."""
        return self.n_particles + self.n_folds * self.n_per_fold

    @property
    def full(self) -> slice:
        """Rows of the full model's particles."""
        return slice(0, self.n_particles)

    def without(self, fold: int) -> slice:
        """Rows of the particles of the model that is not trained on a fold."""
        start = self.n_particles + fold * self.n_per_fold
        return slice(start, start + self.n_per_fold)

    @property
    def slices(self) -> list[slice]:
        """Rows of each model's particles, the full model first."""
        return [self.full, *(self.without(fold) for fold in range(self.n_folds))]

    def trained_on(self) -> Tensor:
        """Mask of the examples that each model is trained on: (models, n), bool."""
        if self.folds is None:
            raise ValueError("There are no folds.")
        return torch.from_numpy(self.folds != np.arange(-1, self.n_folds)[:, None])

    def of_particles(self) -> Tensor:
        """Model of each particle, the full model is 0: (particles,)."""
        sizes = torch.tensor([self.n_particles, *[self.n_per_fold] * self.n_folds])
        return torch.arange(len(sizes)).repeat_interleave(sizes)

    def kinds(self) -> Tensor:
        """Kind of each particle: (particles,)."""
        return torch.arange(self.n_total) % self.n_kinds
