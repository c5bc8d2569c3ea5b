"""A table with every sort of column, a model of it, and new rows."""

import numpy as np
import pandas as pd
import pytest

N_TRAIN, N_NEW = 60, 20


@pytest.fixture(scope="session")
def patients():
    """Rows of training and new patients: two numbers that tell the classes apart, and more."""
    rng = np.random.default_rng(0)
    n = N_TRAIN + N_NEW
    is_ill = rng.random(n) < 0.5
    marker = np.where(is_ill, 3.0, 0.0) + rng.normal(size=n)
    table = pd.DataFrame(
        {
            "sample": [f"S{i:03d}" for i in range(n)],
            "patient": [f"P{i // 2:02d}" for i in range(n)],
            "marker": np.where(rng.random(n) < 0.1, np.nan, marker).round(3),
            "age": rng.integers(20, 80, n).astype(float),
            "site": rng.choice(["Bonn", "Ulm"], n),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 100, n), "D"),
            "smoker": rng.random(n) < 0.3,
            "diagnosis": np.where(is_ill, "ill", "well"),
        }
    )
    return table.iloc[:N_TRAIN].reset_index(drop=True), table.iloc[N_TRAIN:].reset_index(drop=True)


@pytest.fixture(scope="session")
def folder(tmp_path_factory, patients):
    """A folder with train.csv and new.csv."""
    place = tmp_path_factory.mktemp("patients")
    for name, table in zip(("train", "new"), patients, strict=True):
        table.to_csv(place / f"{name}.csv", index=False, na_rep="NA")
    return place


@pytest.fixture(scope="session")
def labelled(folder):
    """The training rows as ``pnca fit`` reads them."""
    from pnca.tables import Roles, open_table, read_examples

    roles = Roles(target="diagnosis", id="sample", group="patient")
    return read_examples(open_table(folder / "train.csv"), roles)


@pytest.fixture(scope="session")
def model(labelled):
    """A model of them, of few particles and epochs for speed."""
    from pnca import PNCAClassifier

    found = PNCAClassifier(n_particles=2, max_epochs=5, experts=["linear"], random_state=0)
    found.fit(labelled.X, labelled.y, groups=labelled.groups, ids=labelled.ids)
    found.source_ = labelled.source
    return found
