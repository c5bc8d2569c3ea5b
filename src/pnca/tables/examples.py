"""Labelled examples from a table: which columns are inputs, what is wrong with it, and what looks odd."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import InvalidInputError
from pnca.sources import TableSource
from pnca.tables.files import TableFile, sorts_of, typed, whole
from pnca.tables.names import column_of
from pnca.tables.values import NUMBER, TEXT, TRUTH, as_text, converted, sort_of, tidied

if TYPE_CHECKING:
    import pandas as pd

#: Classes that a target may have: so many, or one for so many examples, whichever is more.
_MOST_CLASSES, _EXAMPLES_OF_A_CLASS = 20, 3
#: A column of which fewer values than this share are there is almost empty.
_FEW = 0.1
#: Share of words among numbers up to which they are taken for mistakes.
_HARDLY_ANY = 0.05
#: Values that are shown of a list.
_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which column of a table is what; all others are inputs."""

    target: str
    id: str | None = None
    group: str | None = None
    ignore: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()  # numbers that are names of categories
    path: str | None = None  # names the file of an image; then there are no other inputs


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledTable:
    """Labelled examples of a table."""

    X: pd.DataFrame  # (n, p)
    y: NDArray[Any]  # (n,): text, whole numbers or truth values
    groups: NDArray[np.object_] | None  # (n,), text
    ids: NDArray[np.object_] | None  # (n,), text
    rows: NDArray[np.int64]  # (n,), from 1 below the header
    source: TableSource
    notes: tuple[str, ...]  # what a user should look at


def read_examples(
    table: TableFile, roles: Roles, *, skip_missing: bool = False, holes: Collection[str] = ()
) -> LabelledTable:
    r"""Read the labelled examples of a table.

    Parameters
    ----------
    table : TableFile
        From :func:`open_table`.
    roles : Roles
        Which column is the target, and which ones are no inputs.
    skip_missing : bool
        Whether rows without a target are left out; they are an error otherwise.
    holes : collection of str
        Further texts that stand for a missing value.

    Returns
    -------
    LabelledTable

    Examples
    --------
    >>> path = getfixture("tmp_path") / "trees.csv"
    >>> _ = path.write_text("height,kind\n3.5,ash\n4,birch\n2,ash\n")
    >>> from pnca.tables import open_table
    >>> found = read_examples(open_table(path), Roles(target="kind"))
    >>> found.X.shape, found.y.tolist()
    ((3, 1), ['ash', 'birch', 'ash'])
    """
    inputs = _inputs(table, roles)
    labels = read_labels(table, roles, skip_missing=skip_missing, holes=holes)
    raw = labels.raw[list(inputs)]
    sorts = {name: s for name, s in sorts_of(labels.raw, table, holes=holes).items() if name in inputs}
    X = typed(raw, table, sorts, holes=holes)
    _check_codes(sorts, roles, table)
    return LabelledTable(
        X=X,
        y=labels.y,
        groups=labels.groups,
        ids=labels.ids,
        rows=labels.rows,
        source=TableSource(
            target=roles.target, id=roles.id, group=roles.group, sorts=sorts, holes=tuple(holes)
        ),
        notes=(*labels.notes, *_odd(X, raw, sorts, roles, labels.rows)),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Labels:
    """Classes, groups and names of the rows of a table."""

    raw: pd.DataFrame  # the rows as the file has them
    y: NDArray[Any]
    groups: NDArray[np.object_] | None
    ids: NDArray[np.object_] | None
    rows: NDArray[np.int64]
    notes: tuple[str, ...]


def read_labels(
    table: TableFile, roles: Roles, *, skip_missing: bool = False, holes: Collection[str] = ()
) -> Labels:
    """Read what is known of the rows of a table beside the inputs; see :func:`read_examples`."""
    _taken(table, roles)
    raw = whole(table)
    target = tidied(raw[roles.target], holes)
    is_kept, notes = np.ones(len(raw), dtype=bool), [*table.notes]
    for name in (roles.target, roles.path):
        if name is None:
            continue
        is_there = tidied(raw[name], holes).notna().to_numpy(dtype=bool)
        if not is_there.all() and not (skip_missing and is_there.any()):
            raise _missing(table, name, is_there)
        if not is_there.all():
            notes.append(f"{int((~is_there).sum())} rows without {name!r} are left out")
        is_kept &= is_there
    rows = np.flatnonzero(is_kept) + 1
    raw, target = raw.iloc[rows - 1].reset_index(drop=True), target.iloc[rows - 1].reset_index(drop=True)
    return Labels(
        raw=raw,
        y=_labels(target, table, roles.target),
        groups=None if roles.group is None else _names_in(raw, roles.group, rows, table, "--group"),
        ids=_ids_in(raw, roles, rows, table),
        rows=rows,
        notes=tuple(notes),
    )


def _inputs(table: TableFile, roles: Roles) -> tuple[str, ...]:
    """The columns without a role, of which there must be one."""
    taken = _taken(table, roles)
    inputs = tuple(name for name in table.names if name not in taken)
    if not inputs:
        raise InvalidInputError(
            f"{table.path} has no column but {', '.join(sorted(taken))}: nothing to learn from."
        )
    return inputs


def _taken(table: TableFile, roles: Roles) -> set[str]:
    """The columns with a role but that of codes; an error if one is not there."""
    column_of(roles.target, table.names, table.path, "--target")
    taken = {roles.target}
    for role, names in (
        ("--id", [roles.id]),
        ("--path-column", [roles.path]),
        ("--group", [roles.group]),
        ("--ignore", roles.ignore),
        ("--codes", roles.codes),
    ):
        for name in names:
            if name is None:
                continue
            column_of(name, table.names, table.path, role)
            if name == roles.target:
                raise InvalidInputError(f"{name!r} is the target and cannot be {role} too.")
            if role != "--codes":
                taken.add(name)
    return taken


def _missing(table: TableFile, target: str, is_there: NDArray[np.bool_]) -> InvalidInputError:
    missing = (np.flatnonzero(~is_there) + 1).tolist()
    if len(missing) == len(is_there):
        return InvalidInputError(f"{table.path}: column {target!r} is empty in all {len(missing)} rows.")
    shown = ", ".join(map(str, missing[:_SHOWN]))
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return InvalidInputError(
        f"{table.path}: no {target!r} in row{'s' * (len(missing) > 1)} {shown}{more}. Fill it in, or "
        "leave such rows out with --skip-missing (skip_missing=True)."
    )


def _labels(target: pd.Series[Any], table: TableFile, name: str) -> NDArray[Any]:
    """Labels (n,) as text, whole numbers or truth values."""
    sort = sort_of(target, has_commas=table.has_commas)
    n, n_classes = len(target), target.nunique()
    where = f"{table.path}: column {name!r}"
    if n_classes == 1:
        raise InvalidInputError(
            f"{where} is {str(target.iloc[0])!r} in all {n} rows: a fit needs two classes."
        )
    labels, _ = converted(target, sort if sort in (NUMBER, TRUTH) else TEXT, has_commas=table.has_commas)
    if sort == NUMBER:
        if not (labels % 1 == 0).all():
            fraction = labels[labels % 1 != 0].iloc[0]
            raise InvalidInputError(
                f"{where} looks continuous: it holds numbers such as {fraction:g}. Classes are few names or "
                "whole numbers: divide it into classes first."
            )
        labels = labels.astype(np.int64)
    if n_classes > max(_MOST_CLASSES, n // _EXAMPLES_OF_A_CLASS):
        what = "continuous" if sort == NUMBER else "like an identifier or free text"
        raise InvalidInputError(
            f"{where} looks {what}: it has {n_classes} different values in {n} rows, such as "
            f"{str(target.iloc[0])!r} and {str(target.iloc[1])!r}. A class needs several examples."
        )
    return np.array(labels.tolist())


def _names_in(
    raw: pd.DataFrame, name: str, rows: NDArray[np.int64], table: TableFile, role: str
) -> NDArray[np.object_]:
    """Names (n,) of examples or groups as text, of which none may be missing."""
    values = tidied(as_text(raw[name]))
    if (lacks := values.isna()).any():
        row = rows[int(lacks.to_numpy().argmax())]
        raise InvalidInputError(
            f"{table.path}: row {row} has no {name!r}, which {role} names ({int(lacks.sum())} such rows): "
            "fill it in."
        )
    names: NDArray[np.object_] = values.to_numpy(dtype=object)
    return names


def _ids_in(
    raw: pd.DataFrame, roles: Roles, rows: NDArray[np.int64], table: TableFile
) -> NDArray[np.object_] | None:
    """Names (n,) of examples, of which no two may be equal; None if no column has some."""
    if (name := roles.path or roles.id) is None:
        return None
    role = "--id" if roles.path is None else "--path-column"
    ids, first = _names_in(raw, name, rows, table, role), dict[str, int]()
    for row, value in zip(rows.tolist(), ids.tolist(), strict=True):
        if first.setdefault(value, row) != row:
            raise InvalidInputError(
                f"{table.path}: rows {first[value]} and {row} have the same {name!r}, {value!r}: {role} "
                "names single examples. Rows that belong together, such as those of one patient, are named "
                "by --group."
            )
    return ids


def _check_codes(sorts: dict[str, str], roles: Roles, table: TableFile) -> None:
    for name in roles.codes:
        if sorts.get(name) not in (NUMBER, TEXT, TRUTH):
            raise InvalidInputError(
                f"{table.path}: --codes names {name!r}, which holds no numbers "
                f"({sorts.get(name, 'no input')})."
            )


def _odd(
    X: pd.DataFrame, raw: pd.DataFrame, sorts: dict[str, str], roles: Roles, rows: NDArray[np.int64]
) -> list[str]:
    """What a user should look at before trusting a model of these columns."""
    notes, n = [], len(X)
    for name, sort in sorts.items():
        values = X[name]
        n_there = int(values.notna().sum())
        if 0 < n_there < _FEW * n:
            notes.append(f"{name!r} is almost empty: {n_there} of {n} rows have a value")
        elif n_there == n and values.nunique() == 1:
            notes.append(f"{name!r} is the same in all rows")
        if sort == TEXT and name not in roles.codes:
            notes += _almost_numbers(name, tidied(raw[name]), rows)
    return notes


def _almost_numbers(name: str, texts: pd.Series[Any], rows: NDArray[np.int64]) -> list[str]:
    """What kept a column of numbers from being one; an error where that is hardly meant."""
    there = texts.dropna()
    _, is_wrong = converted(there, NUMBER)
    if not len(there) or is_wrong.mean() > 0.5 or not is_wrong.any():
        return []
    wrong, row = there.iloc[int(is_wrong.argmax())], rows[there.index[int(is_wrong.argmax())]]
    found = f"{int(is_wrong.sum())} of {len(there)} values are no numbers, such as {wrong!r} in row {row}"
    if is_wrong.mean() <= _HARDLY_ANY:
        raise InvalidInputError(
            f"{name!r}: {found}. Correct them, pass --hole {wrong!r} if they mean that nothing is known, or "
            f"--codes {name!r} if the numbers are names."
        )
    return [f"{name!r} is taken for text: {found}; if they mean that nothing is known, pass --hole {wrong!r}"]
