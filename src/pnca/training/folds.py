"""Folds of the training data, and the groups of particles that do not see them."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pnca.exceptions import InvalidInputError


def assign_folds(
    labels: NDArray[np.integer],
    n_folds: int,
    rng: np.random.RandomState,
    groups: NDArray[np.integer] | None = None,
) -> NDArray[np.int64]:
    """Deal examples into folds that each have every class in its share, as far as that goes.

    Parameters
    ----------
    labels : array of shape (n,)
        Integer classes.
    n_folds : int
        Number of folds, at least two; fewer are made if there are fewer examples or groups.
    rng : numpy.random.RandomState
        Source of the order.
    groups : array of shape (n,), optional
        Examples of one group go into one fold.

    Returns
    -------
    ndarray of shape (n,)
        Fold of each example.

    Examples
    --------
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
class Teams:
    """Particles in teams: one sees all examples, and one for each fold does not see that fold.

    Attributes
    ----------
    folds : ndarray of shape (n,), or None
        Fold of each example; None if there is only the team that sees all.
    n_particles : int
        Particles m of the team that sees all.
    n_per_fold : int
        Particles of each other team.
    n_kinds : int
        In how many ways particles are trained: they take turns. Each team has as many of every kind.
    """

    folds: NDArray[np.int64] | None
    n_particles: int
    n_per_fold: int = 0
    n_kinds: int = 1

    @property
    def n_folds(self) -> int:
        """Number of folds; zero without any."""
        return 0 if self.folds is None else int(self.folds.max()) + 1

    @property
    def n_total(self) -> int:
        """Particles of all teams."""
        return self.n_particles + self.n_folds * self.n_per_fold

    @property
    def full(self) -> slice:
        """Rows of the particles that see all examples."""
        return slice(0, self.n_particles)

    def without(self, fold: int) -> slice:
        """Rows of the particles that do not see a fold."""
        start = self.n_particles + fold * self.n_per_fold
        return slice(start, start + self.n_per_fold)

    @property
    def slices(self) -> list[slice]:
        """Rows of each team, the one that sees all first."""
        return [self.full, *(self.without(fold) for fold in range(self.n_folds))]

    def sees(self) -> Tensor:
        """Whether an example is shown to a team.

        Returns
        -------
        Tensor of shape (teams, n), bool
        """
        if self.folds is None:
            raise ValueError("There are no folds.")
        return torch.from_numpy(self.folds != np.arange(-1, self.n_folds)[:, None])

    def of_particles(self) -> Tensor:
        """Team of each particle.

        Returns
        -------
        Tensor of shape (particles,)
        """
        sizes = torch.tensor([self.n_particles, *[self.n_per_fold] * self.n_folds])
        return torch.arange(len(sizes)).repeat_interleave(sizes)

    def kinds(self) -> Tensor:
        """Kind of each particle.

        Returns
        -------
        Tensor of shape (particles,)
        """
        return torch.arange(self.n_total) % self.n_kinds
