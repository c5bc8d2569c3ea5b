"""The record of a fit in a model file: what was given to it, beside what predictions need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pnca.exceptions import MissingExtraError
from pnca.models.fitted import Fitted
from pnca.persistence.encoding import MalformedError
from pnca.persistence.layouts import Kind, Maybe, Plain, Sized, Store, Value
from pnca.persistence.tables import Given, WithoutPandas
from pnca.record import Record

_NAMES = Maybe(Sized(Plain((np.ndarray,)), {"n": np.shape}))
#: What is written; labels are those of the support.
_FIELDS: Mapping[str, Kind] = {"inputs": Given(), "ids": _NAMES, "groups": _NAMES, "missing": Value(str)}
_NO_PANDAS = "the training inputs are a table, which takes pandas: pip install 'pnca[studies]'"


def write_record(record: Record, store: Store) -> dict[str, Any]:
    """JSON of a record; its tensors go to the store."""
    if record.missing == _NO_PANDAS:  # it is not there to be written, and must not be lost
        raise MissingExtraError("pandas", "studies")
    return {
        name: kind.write(getattr(record, name), f"record.{name}", store) for name, kind in _FIELDS.items()
    }


def read_record(found: Any, fitted: Fitted, store: Store) -> Record:  # noqa: ANN401
    """The record of this JSON, of the examples of a neighbour model, whose labels it has."""
    if not isinstance(found, dict) or found.keys() != _FIELDS.keys():
        raise MalformedError("a record of other fields")
    read = {name: kind.read(found[name], f"record.{name}", store) for name, kind in _FIELDS.items()}
    if (read["inputs"] is None) != bool(read["missing"]):
        raise MalformedError("a record that does not fit the rest")
    sides = fitted.input_shape if fitted.columns is None else (len(fitted.columns.parts),)
    if read["inputs"] is not None and read["inputs"].shape[1:] != sides:
        raise MalformedError("a record that does not fit the rest")
    if isinstance(read["inputs"], WithoutPandas):
        read |= {"inputs": None, "missing": _NO_PANDAS}
    labels = fitted.classes[fitted.reader.support.labels.numpy()]
    return Record(labels=labels, **read)
