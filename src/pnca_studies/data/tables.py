"""Thirty real tables: those of OpenML's suite CC-18 with at most 2,000 rows, 100 columns and ten classes.

It is the suite on which TabPFN was published. They are read from ``tables30.npz`` in the data folder, with
arrays ``NAME/X``, ``NAME/y`` and ``NAME/cat``, or fetched from OpenML by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import CorruptDataError, MissingDataError, MissingExtraError
from pnca.files import write_atomically
from pnca_studies.arrays import Expected, read_headers, read_npz
from pnca_studies.data._sources import Say, folders_to_search, make_cache_folder, missing_data, say_on_stderr

_NPZ_NAME = "tables30.npz"
_MAX_BYTES = 1 << 24  # ten times the largest table


class Published(NamedTuple):
    """A table as OpenML has it."""

    data_id: int
    n_rows: int
    n_columns: int
    n_classes: int
    is_tuning: bool = False  # the constants of the default were set on it


#: By name. The numbers were written down from memory of the suite; what is fetched must have the rows, the
#: columns and the classes listed here.
TABLES: dict[str, Published] = {
    "MiceProtein": Published(40966, 1080, 77, 8),
    "analcatdata_authorship": Published(458, 841, 70, 4),
    "analcatdata_dmft": Published(469, 797, 4, 6),
    "balance-scale": Published(11, 625, 4, 3, is_tuning=True),
    "banknote-authentication": Published(1462, 1372, 4, 2),
    "blood-transfusion-service-center": Published(1464, 748, 4, 2, is_tuning=True),
    "breast-w": Published(15, 699, 9, 2, is_tuning=True),
    "car": Published(40975, 1728, 6, 4),
    "climate-model-simulation-crashes": Published(40994, 540, 18, 2),
    "cmc": Published(23, 1473, 9, 3, is_tuning=True),
    "credit-approval": Published(29, 690, 15, 2, is_tuning=True),
    "credit-g": Published(31, 1000, 20, 2),
    "cylinder-bands": Published(6332, 540, 37, 2),
    "diabetes": Published(37, 768, 8, 2, is_tuning=True),
    "dresses-sales": Published(23381, 500, 12, 2, is_tuning=True),
    "eucalyptus": Published(188, 736, 19, 5, is_tuning=True),
    "ilpd": Published(1480, 583, 10, 2),
    "kc2": Published(1063, 522, 21, 2, is_tuning=True),
    "mfeat-fourier": Published(14, 2000, 76, 10, is_tuning=True),
    "mfeat-karhunen": Published(16, 2000, 64, 10),
    "mfeat-morphological": Published(18, 2000, 6, 10, is_tuning=True),
    "mfeat-zernike": Published(22, 2000, 47, 10),
    "pc1": Published(1068, 1109, 21, 2),
    "pc3": Published(1050, 1563, 37, 2),
    "pc4": Published(1049, 1458, 37, 2, is_tuning=True),
    "qsar-biodeg": Published(1494, 1055, 41, 2, is_tuning=True),
    "steel-plates-fault": Published(40982, 1941, 27, 7, is_tuning=True),
    "tic-tac-toe": Published(50, 958, 9, 2, is_tuning=True),
    "vehicle": Published(54, 846, 18, 4),
    "wdbc": Published(1510, 569, 30, 2),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """A table of numbers: categories are codes from 0, holes are NaN."""

    inputs: NDArray[np.float64]  # (n, p)
    labels: NDArray[np.int64]  # (n,), from 0 to c - 1
    categories: tuple[int, ...]  # columns


def load_table(
    name: str, data_dir: str | Path | None = None, *, download: bool = False, say: Say = say_on_stderr
) -> Table:
    """Load a table from ``tables30.npz`` or from the cache, or fetch it from OpenML if that is asked for."""
    folders = folders_to_search(data_dir, "tables")
    for path, prefix in ((folders[0] / _NPZ_NAME, f"{name}/"), (folders[-1] / f"{name}.npz", "")):
        if path.is_file() and f"{prefix}X" in read_headers(path):
            return _checked(name, _read(path, prefix), path)
    if download:
        table = _checked(name, _fetch(name, say), "OpenML")
        _keep(folders[-1] / f"{name}.npz", table)
        return table
    raise missing_data(
        f"The table {name}",
        looked_for=f"{_NPZ_NAME}, or {name}.npz",
        folders=folders,
        advice="Fetch it from OpenML: --download.",
    )


def _read(path: Path, prefix: str) -> Table:
    keys = {key: f"{prefix}{key}" for key in ("X", "y", "cat")}
    found = read_npz(path, dict.fromkeys(keys.values(), Expected(max_bytes=_MAX_BYTES)))
    categories = found[keys["cat"]]
    columns = np.flatnonzero(categories) if categories.dtype == bool else categories.astype(int)
    return Table(
        inputs=found[keys["X"]].astype(np.float64),
        labels=np.unique(found[keys["y"]], return_inverse=True)[1].astype(np.int64),
        categories=tuple(columns.tolist()),
    )


def _checked(name: str, table: Table, source: Path | str) -> Table:
    """Refuse a table that has another shape than the published one."""
    published, n_classes = TABLES[name], len(np.unique(table.labels))
    found = (*table.inputs.shape, n_classes)
    if found != (published.n_rows, published.n_columns, published.n_classes):
        raise CorruptDataError(
            f"{source}: {name} has {found[0]} rows, {found[1]} columns and {found[2]} classes, expected "
            f"{published.n_rows}, {published.n_columns} and {published.n_classes}."
        )
    return table


def _fetch(name: str, say: Say) -> Table:
    """Fetch a table from OpenML; codes of categories and classes are in the order of their names."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("pandas", "studies") from error
    from sklearn.datasets import fetch_openml

    data_id, folder = TABLES[name].data_id, make_cache_folder("tables")
    say(f"Downloading {name} (data set {data_id}) from https://www.openml.org to {folder}")
    try:
        bunch = fetch_openml(data_id=data_id, as_frame=True, data_home=folder, parser="auto")
    except (OSError, HTTPException, ValueError) as error:
        raise MissingDataError(
            f"{name} could not be downloaded from https://www.openml.org: {error} Put {_NPZ_NAME} into your "
            "data folder."
        ) from error
    columns: list[NDArray[np.float64]] = []
    categories = []
    for number, (_, values) in enumerate(bunch.data.items()):
        if pd.api.types.is_numeric_dtype(values) and not isinstance(values.dtype, pd.CategoricalDtype):
            columns.append(values.to_numpy(dtype=np.float64, na_value=np.nan))
            continue
        categories.append(number)
        codes = pd.Categorical(values.astype(str).where(values.notna())).codes
        columns.append(np.where(codes < 0, np.nan, codes).astype(np.float64))
    labels = pd.Categorical(bunch.target.astype(str)).codes.astype(np.int64)
    return Table(inputs=np.stack(columns, axis=1), labels=labels, categories=tuple(categories))


def _keep(path: Path, table: Table) -> None:
    arrays: dict[str, Any] = {
        "X": table.inputs,
        "y": table.labels,
        "cat": np.array(table.categories, dtype=int),
    }

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)

    write_atomically(path, write)
