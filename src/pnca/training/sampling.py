"""The examples, how they are dealt into batches and folds, and which particles are trained on which folds."""

import datetime
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import compute_class_weight
from torch import Tensor

from pnca.columns import Columns
from pnca.exceptions import InvalidInputError
from pnca.maths.inputs import Scaler, merged_columns
from pnca.record import Record, is_missing, names_of

Indices = NDArray[np.intp]


class Examples(NamedTuple):
    """Training examples, checked, in an order of their own, and scaled."""

    inputs: NDArray[np.floating[Any]]  # (n, ...), rows of numbers unless a module takes them as they are
    labels: NDArray[np.int64]  # (n,), positions in classes
    classes: NDArray[Any]  # (c,)
    class_weight: NDArray[np.float64]  # (c,), mean one over the examples
    input_shape: tuple[int, ...]  # of one input as it was given
    groups: NDArray[np.int64] | None = None  # (n,), equal for examples that belong together
    given_rows: NDArray[np.intp] | None = None  # (n,), where each was when it came in; None: where it is
    scaler: Scaler | None = None  # what was done to the inputs
    columns: Columns | None = None  # how they were made from a table; None for images and modules
    record: Record | None = None  # all as it came in, in that order
    sample_weight: NDArray[np.float64] | None = None  # (n,), mean one; None: all count alike

    @property
    def n_groups(self) -> int:
        """Number of groups; zero without any."""
        return 0 if self.groups is None else int(self.groups.max()) + 1

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weight of each example: (n,), mean one."""
        of_classes: NDArray[np.float64] = self.class_weight[self.labels]
        return of_classes if self.sample_weight is None else of_classes * self.sample_weight

    @property
    def place(self) -> NDArray[np.intp]:
        """Where the example of each row that came in is now: (n,)."""
        n = len(self.labels)
        return np.arange(n) if self.given_rows is None else self.given_rows.argsort()

    def at(self, rows: NDArray[np.intp]) -> "Examples":
        """The same in another order (n,)."""
        return self._replace(
            inputs=self.inputs[rows],
            labels=self.labels[rows],
            groups=None if self.groups is None else self.groups[rows],
            given_rows=rows if self.given_rows is None else self.given_rows[rows],
            sample_weight=None if self.sample_weight is None else self.sample_weight[rows],
        )

    def in_own_order(self) -> "Examples":
        """The same in an order that follows from them: sums are rounded and folds are dealt by it."""
        keys = (self.inputs, self.labels, self.groups, self.sample_weight)
        return self.at(row_order(*(key for key in keys if key is not None)))

    def as_given(self) -> "Examples":
        """The same in the order in which they came in."""
        return self if self.given_rows is None else self.at(self.place)

    def on(self, device: torch.device) -> dict[str, Tensor]:
        """Inputs (n, ...), labels (n,) and weights (n,) on a device."""
        inputs, labels = (torch.from_numpy(part).to(device) for part in (self.inputs, self.labels))
        return {"inputs": inputs, "labels": labels, "weights": torch.from_numpy(self.weights).to(inputs)}


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


def row_order(*keys: NDArray[Any]) -> NDArray[np.intp]:
    """Order (n,) of rows by their numbers, whatever order they come in; ``keys`` (n, ...), first one first.

    ``np.lexsort`` with the keys' columns, last first, would find it in many passes.

    >>> row_order(np.array([[1.0, 0.0], [-2.0, 5.0], [1.0, -1.0]]), np.array([0, 1, 1])).tolist()
    [1, 2, 0]
    """
    parts = []
    for key in keys:
        rows = key.reshape(len(key), -1)
        # Zero is added because -0.0 equals 0.0. Of negative numbers the larger have the larger bits.
        bits = (np.ascontiguousarray(rows) + rows.dtype.type(0)).view(f"i{rows.itemsize}")
        if rows.dtype.kind == "f":
            bits = bits ^ ((bits >> (8 * rows.itemsize - 1)) & np.iinfo(bits.dtype).max)
        # Big-endian and without a sign, numbers are in the order of their bytes.
        parts.append((bits ^ np.iinfo(bits.dtype).min).astype(bits.dtype.newbyteorder(">")).view(np.uint8))
    together = np.concatenate(parts, axis=1)
    order: NDArray[np.intp] = together.view(f"V{together.shape[1]}")[:, 0].argsort(kind="stable")
    return order


def numbered_groups(groups: ArrayLike, n: int) -> NDArray[np.int64]:
    """Number the groups (n,) of examples, whatever they are called; an error if one is missing."""
    names = names_of("groups", groups, n)
    try:
        numbers: NDArray[np.intp] = np.unique(names, return_inverse=True)[1]
    except TypeError:  # names of several types have no order
        numbers = np.unique([repr(name) for name in names.tolist()], return_inverse=True)[1]
    return numbers.astype(np.int64)


def class_weights(
    given: Any,  # noqa: ANN401
    classes: NDArray[Any],
    targets: NDArray[Any],
    sample_weight: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Weight of each class (c,); an error that names a class whose weight is none.

    Classes of ``targets`` (n,) are balanced by the weights of the examples (n,), if there are some.
    """
    if sample_weight is not None and isinstance(given, str):
        # Releases of scikit-learn before 1.7 balance by counts alone.
        totals = np.bincount(np.searchsorted(classes, targets), sample_weight)
        balanced: NDArray[np.float64] = totals.sum() / (len(classes) * totals)
        return balanced
    try:
        weights: NDArray[np.float64] = compute_class_weight(given, classes=classes, y=targets)
        wrong = ~((weights > 0) & (weights < np.finfo(np.float64).max / len(targets)))
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidInputError(f"class_weight must hold positive, finite numbers: {error}.") from error
    if wrong.any():
        wrong_ones = ", ".join(
            f"{name!r}: {value}" for name, value in zip(classes[wrong].tolist(), weights[wrong], strict=True)
        )
        raise InvalidInputError(f"class_weight must hold positive, finite numbers; got {wrong_ones}.")
    if weights.min() < weights.max() * np.finfo(np.float32).tiny:  # in which networks are trained
        raise InvalidInputError(
            f"class_weight gives class {classes.tolist()[weights.argmin()]!r} {weights.min():g}, which is "
            f"nothing beside {weights.max():g}: leave the class out, or give weights that lie less far apart."
        )
    return weights


def holds_dates(X: Any) -> bool:  # noqa: ANN401
    """Whether a list or an array of objects holds dates, which numpy would turn into numbers."""
    if not isinstance(X, list | tuple) and getattr(getattr(X, "dtype", None), "kind", "") != "O":
        return False
    try:
        values = np.asarray(X, dtype=object).ravel()
    except ValueError:  # of no shape
        return False
    dates = np.datetime64 | np.timedelta64 | datetime.date | datetime.timedelta
    return any(isinstance(value, dates) for value in values)


def warn_of_merged_integers(X: Any) -> None:  # noqa: ANN401
    """Warn of columns of whole numbers beyond 2^53, such as nanoseconds, that float64 cannot tell apart."""
    columns = [X.iloc[:, i].to_numpy() for i in range(X.shape[1])] if hasattr(X, "iloc") else [X]
    for number, column in enumerate(columns):
        if getattr(getattr(column, "dtype", None), "kind", "") not in ("i", "u") or column.dtype.itemsize < 8:
            continue
        if not column.size or max(int(column.max()), -int(column.min())) < 2**53:
            continue
        signed = torch.from_numpy(column.reshape(len(column), -1).astype(np.int64))
        for merged in merged_columns(signed, signed.double()):
            warnings.warn(
                f"X has whole numbers in column {number + merged} (the first is 0) that float64 cannot tell "
                "apart: subtract an offset from the column first, such as its smallest value.",
                stacklevel=7,
            )


def as_numpy(tensor: Tensor) -> NDArray[Any]:
    """Numbers of a tensor of any device and type; an error if numpy cannot hold them."""
    if tensor.layout != torch.strided:
        raise InvalidInputError("Sparse tensors are not taken: pass tensor.to_dense().")
    try:
        tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()  # numpy has no bfloat16
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise InvalidInputError(
            f"A tensor of {tensor.dtype} cannot be read ({error}): pass floats."
        ) from error


def refuse_merged_labels(y: Any) -> None:  # noqa: ANN401
    """Refuse labels (n,) that are missing, or that numpy would make the same: of a list, 1 and "1"."""
    if isinstance(y, Tensor) or (hasattr(y, "dtype") and getattr(y.dtype, "kind", "O") != "O"):
        return
    names = list(y) if hasattr(y, "__len__") and hasattr(y, "__iter__") else []
    if any(isinstance(name, list | tuple | np.ndarray) for name in names):
        return  # scikit-learn says what it thinks of that
    if missing := [row for row, name in enumerate(names) if is_missing(name)]:
        raise InvalidInputError(f"y is missing for {len(missing)} examples, the first in row {missing[0]}.")
    if len(types := {type(name) for name in names if not isinstance(name, np.generic)}) > 1:
        try:
            sorted(set(names))
        except TypeError as error:
            kinds = " and ".join(sorted(kind.__name__ for kind in types))
            raise InvalidInputError(
                f"y has labels of several types ({kinds}): make them of one type, such as str."
            ) from error
    try:
        n_given, n_kept = len(set(names)), len(set(np.asarray(names).tolist()))
    except (TypeError, ValueError):
        return
    if n_kept < n_given:
        raise InvalidInputError(
            f"y has {n_given} labels of several types, of which numpy would make {n_kept}: make them of one "
            "type."
        )


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
    n, n_groups = len(labels), len(labels) if groups is None else len(np.unique(groups))
    if groups is None or n_groups == n:
        order = np.lexsort((rng.permutation(n), labels))  # by class, at random within
        folds = np.empty(n, dtype=np.int64)
        folds[order] = np.arange(n) % min(n_folds, n)
        return folds
    # Here, because it loads much that nothing else needs.
    from sklearn.model_selection import StratifiedGroupKFold

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
