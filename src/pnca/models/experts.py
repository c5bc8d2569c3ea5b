"""Experts that a pool hears beside the neighbours: a straight line, and a forest read as neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pnca.calibration import fit_temperature
from pnca.maths.linear import fit_ridge
from pnca.maths.pool import tempered
from pnca.training.sampling import Examples

FloatArray = NDArray[np.float64]

#: Ridges that are tried, the strongest first: each optimum starts the next.
_RIDGES = (100.0, 10.0, 1.0, 0.1, 0.01, 0.001)
#: Trees of the forest, and of the forest of each fold, which only weights are learnt by.
_TREES, _TREES_IN_FOLDS = 300, 100
#: Log-probability of a class that a fold's forest has never seen.
_LEAST = -20.0
#: Examples that a tree is grown from; all of them are found in its leaves.
_MOST_PER_TREE = 5000
#: Numbers from which on threads grow a forest sooner than one does.
_WORTH_THREADS = 20_000


class Expert(Protocol):
    """Predicts classes from scaled inputs alone."""

    def log_probabilities(self, inputs: Tensor) -> Tensor:
        """Log class probabilities (n, c) of scaled inputs (n, ...), float64."""
        ...

    def log_shares(self, inputs: Tensor) -> Tensor | None:
        """Log share (n, n_train) of each training example in the answer; None if no single one carries it."""
        ...

    def at(self, rows: NDArray[np.intp]) -> Expert:
        """The same with the training examples in another order."""
        ...

    @property
    def numbers_per_row(self) -> int:
        """Numbers that one query takes."""
        ...


class Fit(NamedTuple):
    """An expert, and what its fold models predict of the examples that they were not fitted to."""

    expert: Expert
    log_probabilities: Tensor  # (n, c), out of fold
    rounded: tuple[Tensor, ...] = ()  # what another processor would round otherwise, of the expert


@dataclass(frozen=True, eq=False)
class LinearExpert:
    """Logistic regression with a ridge that is chosen out of fold."""

    coefficients: Tensor  # (p + 1, c), the last row the intercepts
    ridge: float

    def log_probabilities(self, inputs: Tensor) -> Tensor:
        """Log class probabilities (n, c); see :class:`Expert`."""
        x, coefficients = inputs.flatten(start_dim=1).double(), self.coefficients.to(inputs.device)
        return (x @ coefficients[:-1] + coefficients[-1]).log_softmax(dim=1)

    def log_shares(self, inputs: Tensor) -> None:
        """No single example carries a line."""
        return

    def at(self, rows: NDArray[np.intp]) -> LinearExpert:
        """The same: it keeps no examples."""
        return self

    @property
    def numbers_per_row(self) -> int:
        """Numbers that one query takes."""
        return self.coefficients.shape[1]


@dataclass(frozen=True, kw_only=True, eq=False)
class Trees:
    """Decision trees as arrays; the nodes of all trees are numbered in one row."""

    roots: Tensor  # (t,), int64
    children: Tensor  # (nodes, 2), int64: where inputs up to the threshold go, and others; a leaf's is itself
    features: Tensor  # (nodes,), int64: the column that is compared
    thresholds: Tensor  # (nodes,), float64
    depth: int  # of the deepest

    def leaves(self, inputs: Tensor) -> Tensor:
        """Leaf (n, t) that inputs (n, p) reach in each tree."""
        x, nodes = inputs.double(), self.roots.to(inputs.device).expand(len(inputs), -1)
        children, features, thresholds = (
            part.to(inputs.device) for part in (self.children, self.features, self.thresholds)
        )
        for _ in range(self.depth):
            goes_right = x.gather(1, features[nodes]) > thresholds[nodes]
            nodes = children[nodes, goes_right.long()]
        return nodes


@dataclass(frozen=True, kw_only=True, eq=False)
class ForestExpert:
    r"""A random forest read as neighbours: whoever shares a leaf with an input is one, the leaf shared out.

    .. math:: f_{ij} = \frac{1}{t + 1} \Big( \sum_\tau \frac{w_j [\ell_\tau(x_i) = \ell_\tau(x_j)]}
              {\sum_{j'} w_{j'} [\ell_\tau(x_i) = \ell_\tau(x_{j'})]} + \frac{w_j}{\sum_{j'} w_{j'}} \Big)

    One more tree has a single leaf, so that no class is impossible. The classes' sums are sharpened by a
    temperature, which keeps the ratios of the examples of one class.
    """

    trees: Trees
    leaf_probabilities: Tensor  # (nodes, c), shares of the classes in each leaf
    leaf_weights: Tensor  # (nodes,), of all examples in it
    class_shares: Tensor  # (c,), of all examples: the tree of a single leaf
    of_examples: Tensor  # (n_train, t), the leaf of each training example
    labels: Tensor  # (n_train,)
    weights: Tensor  # (n_train,), float64
    temperature: float = 1.0

    def log_probabilities(self, inputs: Tensor) -> Tensor:
        """Log class probabilities (n, c); see :class:`Expert`."""
        return tempered(self._sums(self._leaves(inputs)).log(), self.temperature)

    def log_shares(self, inputs: Tensor) -> Tensor:
        """Log share (n, n_train) of each training example; see :class:`Expert`."""
        leaves, device = self._leaves(inputs), inputs.device
        of_examples, weights, labels = (
            part.to(device) for part in (self.of_examples, self.weights, self.labels)
        )
        shares = (weights / weights.sum()).expand(len(inputs), -1).clone()
        for of_inputs, of_tree in zip(leaves.T, of_examples.T, strict=True):
            in_leaf = weights / self.leaf_weights.to(device)[of_tree]
            shares += torch.where(of_inputs[:, None] == of_tree, in_leaf, 0.0)
        sums = self._sums(leaves)
        ratio = tempered(sums.log(), self.temperature) - sums.log()
        return (shares / (leaves.shape[1] + 1)).log() + ratio[:, labels]

    def at(self, rows: NDArray[np.intp]) -> ForestExpert:
        """The same with the training examples in another order."""
        return replace(
            self, of_examples=self.of_examples[rows], labels=self.labels[rows], weights=self.weights[rows]
        )

    def counting(self, labels: Tensor, weights: Tensor) -> ForestExpert:
        """The same trees with other labels (n,) and weights (n,) of the examples in their leaves.

        A leaf that is left without an example answers as all of them do.
        """
        n_nodes, n_classes = self.leaf_probabilities.shape
        shares, totals = leaf_shares(self.of_examples, labels, weights, n_nodes, n_classes)
        of_all = weights.new_zeros(n_classes).index_add_(0, labels, weights) / weights.sum()
        return replace(
            self,
            leaf_probabilities=torch.where(totals[:, None] > 0, shares, of_all),
            leaf_weights=totals,
            class_shares=of_all,
            labels=labels,
            weights=weights,
        )

    @property
    def numbers_per_row(self) -> int:
        """Numbers that one query takes."""
        return self.of_examples.shape[1] * (self.leaf_probabilities.shape[1] + 2)

    def _leaves(self, inputs: Tensor) -> Tensor:
        return self.trees.leaves(inputs.flatten(start_dim=1))

    def _sums(self, leaves: Tensor) -> Tensor:
        """Sum of the shares of each class (n, c), before the temperature."""
        probabilities = self.leaf_probabilities.to(leaves.device)[leaves].sum(dim=1)
        return (probabilities + self.class_shares.to(leaves.device)) / (leaves.shape[1] + 1)


def fit_linear(examples: Examples, folds: NDArray[np.int64], seed: int) -> Fit:
    """Fit a line for each ridge and fold, and take the ridge under which the held out are most probable."""
    inputs = examples.inputs.reshape(len(examples.labels), -1).astype(np.float64)
    centre = inputs.mean(axis=0)
    points, directions = inputs - centre, None
    if points.shape[1] > len(points):  # a ridge lets nothing leave the plane of the points
        directions = np.linalg.svd(points, full_matrices=False)[2]
        points = points @ directions.T
    targets, weights = np.eye(len(examples.classes))[examples.labels], examples.weights
    held_out = np.empty((len(_RIDGES), *targets.shape))
    for fold in range(folds.max() + 1):
        shown = folds != fold
        found = np.zeros((points.shape[1] + 1, targets.shape[1]))
        for of_ridge, ridge in zip(held_out, _RIDGES, strict=True):
            found = fit_ridge(points[shown], targets[shown], weights[shown], ridge, found)
            of_ridge[~shown] = points[~shown] @ found[:-1] + found[-1]
    logs = torch.from_numpy(held_out).log_softmax(dim=2)
    losses = -(logs * torch.from_numpy(targets * weights[:, None])).sum(dim=(1, 2))
    best = int(losses.argmin())
    found = np.zeros((points.shape[1] + 1, targets.shape[1]))
    for ridge in _RIDGES[: best + 1]:
        found = fit_ridge(points, targets, weights, ridge, found)
    slopes = found[:-1] if directions is None else directions.T @ found[:-1]
    coefficients = torch.from_numpy(np.vstack([slopes, found[-1] - centre @ slopes]))
    return Fit(LinearExpert(coefficients, _RIDGES[best]), logs[best], (coefficients,))


def fit_forest(examples: Examples, folds: NDArray[np.int64], seed: int) -> Fit:
    """Grow a forest, and one for each fold, by which the temperature is found."""
    inputs = examples.inputs.reshape(len(examples.labels), -1).astype(np.float32)
    labels, weights, n_classes = examples.labels, examples.weights, len(examples.classes)
    logs = torch.empty(len(labels), n_classes, dtype=torch.float64)
    for fold in range(folds.max() + 1):
        shown = folds != fold
        of_fold = _grow(inputs[shown], labels[shown], weights[shown], n_classes, _TREES_IN_FOLDS, seed)
        held_out = of_fold.log_probabilities(torch.from_numpy(inputs[~shown]))
        logs[torch.from_numpy(~shown)] = held_out.clamp_min(_LEAST)
    # Shares of leaves are no calibrated probabilities, so a temperature of one is not to be expected of them.
    temperature = fit_temperature(logs.numpy(), labels, examples.sample_weight, spread=None)
    forest = _grow(inputs, labels, weights, n_classes, _TREES, seed)
    return Fit(replace(forest, temperature=temperature), tempered(logs, temperature))


#: How each expert is fitted, by its name: from examples, folds (n,) and a seed.
EXPERTS: dict[str, Callable[[Examples, NDArray[np.int64], int], Fit]] = {
    "linear": fit_linear,
    "forest": fit_forest,
}


def _grow(
    inputs: NDArray[np.float32],
    labels: NDArray[np.int64],
    weights: FloatArray,
    n_classes: int,
    n_trees: int,
    seed: int,
) -> ForestExpert:
    # Here, because it loads much that nothing else needs.
    from sklearn.ensemble import RandomForestClassifier

    most = None if len(inputs) <= _MOST_PER_TREE else _MOST_PER_TREE
    n_jobs = torch.get_num_threads() if inputs.size >= _WORTH_THREADS else 1  # the trees are the same
    forest = RandomForestClassifier(n_trees, max_samples=most, random_state=seed, n_jobs=n_jobs)
    grown = [tree.tree_ for tree in forest.fit(inputs, labels, sample_weight=weights).estimators_]
    roots = np.cumsum([0, *(tree.node_count for tree in grown)])
    own = np.arange(roots[-1])[:, None]
    sides = np.concatenate([np.stack([t.children_left, t.children_right], axis=1) for t in grown])
    is_leaf = sides < 0
    children = np.where(is_leaf, own, sides + np.repeat(roots[:-1], np.diff(roots))[:, None])
    trees = Trees(
        roots=torch.from_numpy(roots[:-1]),
        children=torch.from_numpy(children),
        features=torch.from_numpy(np.concatenate([t.feature for t in grown]).clip(min=0).astype(np.int64)),
        thresholds=torch.from_numpy(np.concatenate([t.threshold for t in grown])),
        depth=max(tree.max_depth for tree in grown),
    )
    leaves = trees.leaves(torch.from_numpy(inputs))
    given = torch.from_numpy(weights)
    shares, totals = leaf_shares(leaves, torch.from_numpy(labels), given, len(own), n_classes)
    return ForestExpert(
        trees=trees,
        leaf_probabilities=shares,
        leaf_weights=totals,
        class_shares=torch.from_numpy(np.bincount(labels, weights, n_classes) / weights.sum()),
        of_examples=leaves,
        labels=torch.from_numpy(labels),
        weights=given,
    )


def leaf_shares(
    leaves: Tensor, labels: Tensor, weights: Tensor, n_nodes: int, n_classes: int
) -> tuple[Tensor, Tensor]:
    """Shares of the classes (nodes, c) in each leaf, and the weight of its examples (nodes,).

    Of examples in these leaves (n, t), of classes ``labels`` (n,) and ``weights`` (n,).
    """
    by_class = weights.new_zeros(n_nodes * n_classes)
    cells = leaves * n_classes + labels[:, None]
    by_class.index_add_(0, cells.flatten(), weights[:, None].expand(cells.shape).flatten())
    by_class = by_class.reshape(-1, n_classes)
    totals = by_class.sum(dim=1)
    return by_class / totals.clamp_min(torch.finfo(totals.dtype).tiny)[:, None], totals
