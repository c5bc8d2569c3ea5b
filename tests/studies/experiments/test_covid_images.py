"""Features of the COVID experiment, computed from the published images."""

import csv

import numpy as np
import pytest

from pnca.exceptions import MissingDataError
from pnca.vision import Preprocessing
from pnca_studies.data import covid as covid_data
from pnca_studies.experiments.covid import compute_covid_features, covid_study
from pnca_studies.experiments.study import Options


class Brightness:
    """A backbone whose features are the mean and the spread of the pixels."""

    name = "brightness"
    key = "brightness 1"
    n_features = 2

    def __init__(self, size=224):
        self.size = size
        self.preprocessing = Preprocessing(size=size)

    def __call__(self, images):
        assert images.shape[1:] == (self.size, self.size, 3)
        return np.column_stack([images.mean(axis=(1, 2, 3)), images.std(axis=(1, 2, 3))]).astype(np.float32)


# Columns of the tables, and a grey level, which is each image's feature.
CHEST = [
    ("2", "COVID-19", "X-ray", 10),
    ("2", "COVID-19, ARDS", "X-ray", 11),
    ("3", "SARS", "CT", 12),
    ("4", "COVID-19", "X-ray", 13),
    ("5", "No Finding", "X-ray", 10),  # the first image once more
]
# Inconclusive images are between the others in the table, and after them in the features.
ACTUALMED = [
    *(("a", "COVID-19", 20), ("a", "", 30), ("b", "No finding", 21)),
    *(("c", "", 31), ("c", "COVID-19", 22)),
]
BONES = {"XR_HAND": (40, 41), "XR_SHOULDER": (42,), "XR_HUMERUS": (43, 44)}


def save(path, level):
    path.parent.mkdir(parents=True, exist_ok=True)
    pytest.importorskip("PIL.Image").new("L", (40, 30), level).save(path)


def write_clone(folder, columns, rows):
    """Write ``metadata.csv``, whose last column names the images, and the images."""
    for row in rows:
        save(folder / "images" / f"{row[-1]}.png", row[-1])
    with (folder / "metadata.csv").open("w", newline="") as file:
        csv.writer(file).writerows([columns, *((*row[:-1], f"{row[-1]}.png") for row in rows)])


@pytest.fixture
def clones(tmp_path, monkeypatch):
    """The three published folders."""
    monkeypatch.setenv("PNCA_CACHE_DIR", str(tmp_path / "cache"))
    counts = {
        "_SNAPSHOT_ROWS": 5,
        "_SNAPSHOT_POSITIVE": 2,
        "_ACTUALMED_POSITIVE": 2,
        "_ACTUALMED_NEGATIVE": 1,
    }
    for name, count in counts.items():
        monkeypatch.setattr(covid_data, name, count)
    data_dir = tmp_path / "data"
    columns = ("patientid", "finding", "modality", "folder", "filename")
    rows = [(*row[:-1], "images", row[-1]) for row in CHEST]
    write_clone(data_dir / "covid-chestxray-dataset", columns, rows)
    columns = ("patientid", "finding", "imagename")
    write_clone(data_dir / "Actualmed-COVID-chestxray-dataset", columns, ACTUALMED)
    for group, levels in BONES.items():
        for level in levels:
            folder = data_dir / "MURA-v1.1" / "valid" / group / f"patient{level}" / "study1_negative"
            save(folder / "image1.png", level)
    return data_dir


@pytest.mark.parametrize("equalise", [False, True])
def test_compute_covid_features__are_in_the_right_rows(clones, equalise):
    calls = []
    given = compute_covid_features(
        clones, Brightness(), equalise=equalise, progress=lambda *numbers: calls.append(numbers)
    )
    # One grey level stays as it is when a histogram is equalised.
    assert given.features[:, 0].tolist() == [10, 11, 12, 13, 10]
    assert given.labels_paper.tolist() == [1, 0, 0, 1, 0]
    assert given.labels_any_covid.tolist() == [1, 1, 0, 1, 0]
    assert given.is_xray.tolist() == [True, True, False, True, True]
    assert given.patients.tolist() == ["2", "2", "3", "4", "5"]
    assert given.ids.tolist() == ["10.png", "11.png", "12.png", "13.png", "10.png"]
    assert given.test_features[:, 0].tolist() == [20, 21, 22]
    assert given.test_labels.tolist() == [1, 0, 1]
    assert given.test_patients.tolist() == ["a", "b", "c"]
    assert given.inconclusive_features[:, 0].tolist() == [30, 31]
    assert given.ood_features[:, 0].tolist() == [40, 41, 42, 43, 44]
    assert given.ood_groups.tolist() == ["XR_HAND"] * 2 + ["XR_SHOULDER"] + ["XR_HUMERUS"] * 2
    assert given.features.dtype == np.float32
    assert calls == [(done, 15) for done in range(1, 16)]


def test_compute_covid_features__equalised_ones_differ(clones):
    image = pytest.importorskip("PIL.Image")
    faint = np.full((256, 256), 100, np.uint8)
    faint[128:] = 110
    image.fromarray(faint).save(clones / "covid-chestxray-dataset" / "images" / "12.png")
    plain, equalised = (
        compute_covid_features(clones, Brightness(), equalise=equalise) for equalise in (False, True)
    )
    assert plain.features[2, 1] == pytest.approx(5)  # half 100, half 110
    assert equalised.features[2, 1] > 50  # contrast is stretched
    np.testing.assert_array_equal(plain.features[[0, 1, 3]], equalised.features[[0, 1, 3]])


def test_compute_covid_features__images_are_of_the_networks_size(clones):
    for equalise in (False, True):
        given = compute_covid_features(clones, Brightness(size=32), equalise=equalise)
        assert given.ood_features[:, 0].tolist() == [40, 41, 42, 43, 44]


def test_covid_study__from_images(clones):
    study = covid_study(clones, Options(models=("NCA",), quick=True), backbone=Brightness())
    assert list(study.data) == ["plain"]
    assert study.data["plain"].features.shape == (5, 2)
    assert study.protocol["data"]["plain"]["train_positive"] == 2
    both = covid_study(clones, Options(models=("NCA",), trials=1), backbone=Brightness())
    assert sorted(both.data) == ["equalised", "plain"]


def test_compute_covid_features__absent_folder_is_named(clones):
    for name in ("covid-chestxray-dataset", "Actualmed-COVID-chestxray-dataset", "MURA-v1.1"):
        (clones / name).rename(clones / "elsewhere")
        with pytest.raises(MissingDataError, match=name):
            compute_covid_features(clones, Brightness(), equalise=False)
        (clones / "elsewhere").rename(clones / name)
