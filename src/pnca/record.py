"""What a fit was given, kept apart from what a prediction needs: for explanations and audits."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pnca.exceptions import InvalidInputError

#: Bytes of inputs that are kept; of more the caller has them anyway.
MOST_BYTES = 2**30
_TOO_LARGE = f"the training inputs take more than {MOST_BYTES / 2**30:g} GiB and were not kept"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Record:
    """The examples of a fit as they were given, in the order in which they were given.

    Attributes
    ----------
    inputs : DataFrame or ndarray of shape (n, ...), or None
        A copy of X. Of a table the index is not kept: ``ids`` name the rows. Images, and inputs of a
        ``module``, are kept in the smallest of uint8, float32 and what they came in that holds their values
        to single precision. Inputs that take more than 1 GiB are not kept.
    labels : ndarray of shape (n,)
        The labels.
    ids, groups : ndarray of shape (n,), or None
        Names and groups of the examples, if they were given.
    missing : str
        Why there are no inputs, if there are none.
    """

    inputs: Any
    labels: NDArray[Any]
    ids: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None
    missing: str = ""

    @classmethod
    def of(
        cls,
        X: Any,  # noqa: ANN401
        labels: NDArray[Any],
        ids: NDArray[Any] | None = None,
        groups: ArrayLike | None = None,
    ) -> Record:
        """Copy what a fit was given: a table or array, labels (n,) and ids (n,) that have been checked."""
        kept = None if groups is None else names_of("groups", groups, len(labels))
        is_small = _n_bytes(X) <= MOST_BYTES
        return cls(
            inputs=_copied(X) if is_small else None,
            labels=labels,
            ids=ids,
            groups=kept,
            missing="" if is_small else _TOO_LARGE,
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        """What a user reads: ``<Record of 569 examples, with ids>``."""
        parts = {"inputs": self.inputs, "ids": self.ids, "groups": self.groups}
        there = [name for name, part in parts.items() if part is not None]
        return f"<Record of {len(self)} examples, with {' and '.join(there) or 'labels alone'}>"

    def rows_of(self, names: Iterable[Any]) -> NDArray[np.int64]:
        """Rows of the examples that these ids name; without ids the names are the rows themselves.

        >>> Record(inputs=None, labels=np.zeros(2), ids=np.array(["a", "b"])).rows_of(["b"]).tolist()
        [1]
        """
        n = len(self)
        known = {name: row for row, name in enumerate(range(n) if self.ids is None else self.ids.tolist())}
        found = []
        for name in names:
            plain = _plain_name(name)
            if not isinstance(plain, Hashable) or plain not in known:
                what = f"row {plain!r}: rows are 0 to {n - 1}" if self.ids is None else f"id {plain!r}"
                raise InvalidInputError(f"No training example has {what}.")
            found.append(known[plain])
        return np.array(found, dtype=np.int64)


def names_of(what: str, names: ArrayLike, n: int) -> NDArray[Any]:
    """Names (n,) of examples or groups, whatever they are; an error where one is missing.

    Text is an array of objects, so that one long name does not widen all, and so are dates.
    """
    if isinstance(names, np.ma.MaskedArray):
        raise InvalidInputError(f"{what} is a masked array: leave the masked examples out, or fill them.")
    # Of a list, numpy would make 1 and "1" the same.
    found = np.asarray(names, dtype=None if hasattr(names, "dtype") else object)
    found = _own(found) if found.ndim == 1 else found
    if found.ndim != 1:
        raise InvalidInputError(f"{what} must have one entry an example; its shape is {found.shape}.")
    if len(found) != n:
        raise InvalidInputError(f"{what} has {len(found)} entries, but there are {n} examples.")
    missing = [row for row, name in enumerate(found.tolist()) if is_missing(name)]
    if missing:
        remedy = "name each example, or pass no ids"
        if what == "groups":
            remedy = "name the group of each example; one that belongs to no other is a group of its own"
        raise InvalidInputError(
            f"{what} is missing for {len(missing)} examples, the first in row {missing[0]}: {remedy}."
        )
    return found


def _own(names: Any) -> NDArray[Any]:  # noqa: ANN401
    """Names (n,) with texts and dates as Python's own, which files can hold; of dates to the microsecond."""
    found = np.asarray(names)
    if found.dtype.kind in "mM":  # numpy makes whole numbers of nanoseconds
        found = found if np.datetime_data(found.dtype)[0] == "D" else found.astype(f"{found.dtype.kind}8[us]")
    if found.dtype.kind in "USmM":
        return found.astype(object)
    if found.dtype == object:
        own = np.empty(len(found), dtype=object)  # not from a list: names that are tuples would be rows
        own[:] = [_plain_name(name) for name in found.tolist()] if found.ndim == 1 else found
        return own
    copied: NDArray[Any] = found.copy()
    return copied


def _plain_name(name: Any) -> Any:  # noqa: ANN401
    """A name of numpy's or pandas' as one of Python's; of a period, such as a month, its text."""
    if is_missing(name):
        return name
    if isinstance(name, (np.datetime64, np.timedelta64)):
        return _own(np.asarray([name])).tolist()[0]
    if isinstance(name, np.generic):
        return name.item()
    if type(name).__name__ == "Period" and type(name).__module__.startswith("pandas"):
        return str(name)
    return name.to_pydatetime() if hasattr(name, "to_pydatetime") else name


def unique_ids(ids: ArrayLike, n: int) -> NDArray[Any]:
    """Names (n,) of examples, each of which has its own; an error that says which two have not."""
    found, rows = names_of("ids", ids, n), dict[Any, int]()
    for row, name in enumerate(found.tolist()):
        if not isinstance(name, Hashable):
            raise InvalidInputError(f"ids holds {name!r}: an id must be a text, a whole number or a date.")
        if name in rows:
            raise InvalidInputError(
                f"ids has {name!r} twice, in rows {rows[name]} and {row}: an id names one example. Examples "
                "that belong together are groups: pass groups=."
            )
        rows[name] = row
    return found


def is_missing(name: Any) -> bool:  # noqa: ANN401
    """Whether a name is None, NaN, or missing in pandas' ways."""
    try:
        return name is None or bool(name != name)  # NaN and NaT do not equal themselves
    except (TypeError, ValueError):  # pandas' NA will not say; nor will an array
        return True


def is_table(X: Any) -> bool:  # noqa: ANN401
    """Whether this is a pandas table."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def index_of(X: Any) -> Any:  # noqa: ANN401
    """Index of a pandas table; None of anything else."""
    return X.index if is_table(X) else None


def _n_bytes(X: Any) -> int:  # noqa: ANN401
    if is_table(X):
        return int(X.memory_usage(index=False).sum())
    return int(getattr(X, "nbytes", 0))


def _copied(X: Any) -> Any:  # noqa: ANN401
    if is_table(X):
        return X.reset_index(drop=True).copy(deep=True)
    inputs = np.array(X)
    if inputs.dtype.kind == "f" and inputs.itemsize > 8:  # more digits than a fit looks at
        inputs = inputs.astype(np.float64)
    return _in_small_type(inputs) if inputs.ndim > 2 and inputs.dtype.kind in "iuf" else inputs


def _in_small_type(images: NDArray[Any]) -> NDArray[Any]:
    """Grey values as bytes, other numbers in single precision."""
    if images.size and images.min() >= 0 and images.max() <= 255:
        small = images.astype(np.uint8)
        if (small == images).all():
            return small
    return images.astype(np.float32) if images.itemsize > 4 else images
