"""How the examples of an epoch are dealt into batches."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pnca.exceptions import InvalidInputError

Indices = NDArray[np.intp]


def shuffled_batches(n_samples: int, batch_size: int | None, rng: np.random.RandomState) -> list[Indices]:
    """Deal shuffled examples into batches; the last one may be smaller.

    Parameters
    ----------
    n_samples : int
        Number of examples n.
    batch_size : int or None
        Examples per batch; None takes all of them, in their own order.
    rng : numpy.random.RandomState
        Source of the order.

    Returns
    -------
    list of arrays of indices
        Each example occurs once.

    Examples
    --------
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
    """Deal examples into batches in which each has another example of its class.

    Neighbour models learn from pairs of one class, so every class is spread evenly over the
    batches, but never so thinly that an example is left alone.

    Parameters
    ----------
    labels : array of shape (n,)
        Integer classes. A class of a single example cannot be given a partner.
    batch_size : int or None
        Examples per batch, approximately; None takes all of them, in their own order.
    rng : numpy.random.RandomState
        Source of the order.

    Returns
    -------
    list of arrays of indices
        Each example occurs once.

    Examples
    --------
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
    """Rows at random, always the same ones: the order of a file may mean something.

    Parameters
    ----------
    n : int
        Rows that there are.
    n_picked : int
        Rows to pick at most.

    Returns
    -------
    Tensor of shape (min(n, n_picked),)
        In ascending order.

    Examples
    --------
    >>> spread_rows(3, 5)
    tensor([0, 1, 2])
    """
    picked = np.random.RandomState(0).permutation(n)[:n_picked]
    return torch.from_numpy(np.sort(picked))
