import csv

import numpy as np
import pytest

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca_studies.data import covid, load_covid_features, read_actualmed, read_covid_chestxray, read_mura
from pnca_studies.data._sources import file_digest

# Columns of the published tables, those that no reader looks at among them.
CHESTXRAY_COLUMNS = [
    *("patientid", "offset", "sex", "age", "finding", "survival", "view", "modality", "date", "location"),
    *("folder", "filename", "doi", "url", "license"),
]
ACTUALMED_COLUMNS = [
    *("patientid", "offset", "sex", "age", "finding", "survival", "temperature", "pO2 saturation", "view"),
    *("modality", "imagename", "artifacts/distortion", "notes"),
]


def make_clone(folder, columns, rows, image_column, absent=()):
    """Write metadata.csv and an empty file for each image not in ``absent``."""
    (folder / "images").mkdir(parents=True)
    with (folder / "metadata.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        if (name := row[image_column]) and name not in absent:
            (folder / "images" / name).touch()
    return folder


def chestxray_row(patient, finding, name, modality="X-ray", folder="images"):
    keys = ("patientid", "finding", "filename", "modality", "folder")
    return dict(zip(keys, (patient, finding, name, modality, folder), strict=True))


CHESTXRAY_ROWS = [
    chestxray_row("2", "COVID-19", "a.jpeg"),
    chestxray_row("2", "COVID-19, ARDS", "b.png"),
    chestxray_row("3", "SARS", "c.jpg"),
    chestxray_row("4", "COVID-19", "d.jpg", modality="CT"),
    chestxray_row("4", "COVID-19", "volume.nii.gz", modality="CT", folder="volumes"),
    chestxray_row("5", "No Finding", "e.jpg"),
    chestxray_row("2", "COVID-19", "a.jpeg"),  # the real table, too, names some images twice
]


@pytest.fixture
def chestxray(tmp_path, monkeypatch):
    monkeypatch.setattr(covid, "_SNAPSHOT_ROWS", 6)
    monkeypatch.setattr(covid, "_SNAPSHOT_POSITIVE", 3)
    return make_clone(tmp_path / "clone", CHESTXRAY_COLUMNS, CHESTXRAY_ROWS, "filename")


def test_read_covid_chestxray__labels_follow_the_rule(chestxray):
    images = read_covid_chestxray(chestxray)
    assert [path.name for path in images.paths] == ["a.jpeg", "b.png", "c.jpg", "d.jpg", "e.jpg", "a.jpeg"]
    assert all(path.is_file() for path in images.paths)
    assert images.labels_paper.tolist() == [1, 0, 0, 1, 0, 1]
    assert images.labels_any_covid.tolist() == [1, 1, 0, 1, 0, 1]
    assert images.is_xray.tolist() == [True, True, True, False, True, True]
    assert images.patients.tolist() == ["2", "2", "3", "4", "5", "2"]
    assert images.ids.tolist() == [path.name for path in images.paths]
    assert images.labels_paper.dtype == images.labels_any_covid.dtype == np.int64
    assert (images.is_xray.dtype, images.patients.dtype.kind) == (np.bool_, "U")


def test_read_covid_chestxray__another_snapshot_is_refused(chestxray, monkeypatch):
    monkeypatch.undo()  # the paper's own counts again
    with pytest.raises(
        CorruptDataError, match=r"metadata.csv lists 6 .* 3 .* 351 and 275.*git checkout 7c18e7df"
    ):
        read_covid_chestxray(chestxray)
    assert len(read_covid_chestxray(chestxray, check_snapshot=False).paths) == 6


def test_read_covid_chestxray__later_wording_of_the_findings_is_refused(tmp_path):
    rows = [chestxray_row("2", "Pneumonia/Viral/COVID-19", f"{i}.png") for i in range(351)]
    clone = make_clone(tmp_path / "clone", CHESTXRAY_COLUMNS, rows, "filename")
    with pytest.raises(CorruptDataError, match="351 images, 0 of them COVID-19"):
        read_covid_chestxray(clone)


def test_read_covid_chestxray__earlier_columns_are_refused(tmp_path):
    columns = ["Patientid", "finding", "view", "filename"]
    rows = [{"Patientid": "1", "finding": "COVID-19", "view": "PA", "filename": "a.png"}]
    clone = make_clone(tmp_path / "clone", columns, rows, "filename")
    with pytest.raises(CorruptDataError, match=r"lacks the columns \['patientid', 'modality', 'folder'\]"):
        read_covid_chestxray(clone)


def test_read_covid_chestxray__missing_images_are_counted_and_named(chestxray):
    for name in ("a.jpeg", "e.jpg"):
        (chestxray / "images" / name).unlink()
    with pytest.raises(MissingDataError, match=r"2 image files are missing in .*images: a\.jpeg, e\.jpg"):
        read_covid_chestxray(chestxray)
    lines = []
    images = read_covid_chestxray(chestxray, missing="skip", say=lines.append)
    assert [path.name for path in images.paths] == ["b.png", "c.jpg", "d.jpg"]
    assert images.labels_paper.tolist() == [0, 0, 1]
    assert images.patients.tolist() == ["2", "3", "4"]
    assert len(lines) == 1
    assert "3 of 6 rows" in lines[0]
    assert "a.jpeg, e.jpg" in lines[0]


def test_read_covid_chestxray__a_long_list_of_missing_images_is_cut(tmp_path):
    rows = [chestxray_row("1", "SARS", f"{i}.png") for i in range(8)]
    clone = make_clone(
        tmp_path / "clone", CHESTXRAY_COLUMNS, rows, "filename", absent=[f"{i}.png" for i in range(8)]
    )
    with pytest.raises(MissingDataError, match=r"8 image files .* 4\.png and 3 more\."):
        read_covid_chestxray(clone, check_snapshot=False)
    images = read_covid_chestxray(clone, check_snapshot=False, missing="skip", say=print)
    assert images.paths == ()
    assert (images.labels_paper.dtype, images.is_xray.dtype) == (np.int64, np.bool_)
    assert images.patients.dtype.kind == "U"


def test_read_covid_chestxray__a_name_cannot_lead_elsewhere(tmp_path):
    for i, name in enumerate(["../metadata.csv", "/etc/passwd", "sub/a.png", "", ".."]):
        clone = make_clone(tmp_path / f"clone{i}", CHESTXRAY_COLUMNS, [], "filename")
        with (clone / "metadata.csv").open("a", newline="") as file:
            csv.DictWriter(file, CHESTXRAY_COLUMNS).writerow(chestxray_row("1", "SARS", name))
        with pytest.raises(CorruptDataError, match="where the name of an image file is expected"):
            read_covid_chestxray(clone, check_snapshot=False)


def test_read_covid_chestxray__a_table_that_is_none_is_named(tmp_path):
    for content in (b"\xff\xfe\x00\x01", b"", b"a" * 200_000, b"\x00\n\x00"):
        (tmp_path / "metadata.csv").write_bytes(content)
        with pytest.raises(CorruptDataError, match=r"metadata\.csv"):
            read_covid_chestxray(tmp_path)


def test_read_covid_chestxray__a_row_cut_short_and_a_byte_order_mark_do_no_harm(chestxray):
    table = chestxray / "metadata.csv"
    table.write_bytes(b"\xef\xbb\xbf" + table.read_bytes() + b"77,0,M\n")
    images = read_covid_chestxray(chestxray)
    assert (len(images.paths), images.patients[0]) == (6, "2")


def test_readers__refuse_an_unknown_treatment_of_missing_images(tmp_path):
    for reader in (read_covid_chestxray, read_actualmed):
        with pytest.raises(InvalidInputError, match=r"\['error', 'skip'\], but it is 'ignore'"):
            reader(tmp_path, missing="ignore")


@pytest.mark.parametrize(
    ("reader", "address", "name"),
    [
        (read_covid_chestxray, "https://github.com/ieee8023/", "covid-chestxray-dataset"),
        (read_actualmed, "https://github.com/agchung/", "Actualmed-COVID-chestxray-dataset"),
        (read_mura, "https://stanfordmlgroup.github.io/competitions/mura/", "MURA-v1.1"),
    ],
)
def test_readers__say_where_to_get_the_data_and_where_to_put_them(reader, address, name, tmp_path):
    with pytest.raises(MissingDataError) as caught:
        reader(tmp_path / "nowhere")
    message = str(caught.value)
    assert str(tmp_path / "nowhere") in message
    assert (address if reader is read_mura else address + name) in message
    assert f"into your data folder as {name}/" in message


def actualmed_row(patient, finding, name):
    notes = "Inconclusive, date taken" if not finding else ", date taken"
    return {"patientid": patient, "finding": finding, "imagename": name, "notes": notes}


@pytest.fixture
def actualmed_rows():
    return [
        actualmed_row("ANON1", "", "i.png"),
        actualmed_row("ANON2", "COVID-19", "p.png"),
        actualmed_row("ANON2", "No finding", "n.png"),
        actualmed_row("ANON3", "Inconclusive", "j.png"),
        actualmed_row("ANON4", "No finding", "m.png"),
    ]


def test_read_actualmed__inconclusive_images_stand_apart(tmp_path, actualmed_rows, monkeypatch):
    monkeypatch.setattr(covid, "_ACTUALMED_POSITIVE", 1)
    monkeypatch.setattr(covid, "_ACTUALMED_NEGATIVE", 2)
    clone = make_clone(tmp_path / "clone", ACTUALMED_COLUMNS, actualmed_rows, "imagename")
    images = read_actualmed(clone)
    assert [path.name for path in images.paths] == ["p.png", "n.png", "m.png"]
    assert images.labels.tolist() == [1, 0, 0]
    assert images.labels.dtype == np.int64
    assert images.patients.tolist() == ["ANON2", "ANON2", "ANON4"]
    assert [path.name for path in images.inconclusive_paths] == ["i.png", "j.png"]
    assert images.inconclusive_patients.tolist() == ["ANON1", "ANON3"]


def test_read_actualmed__other_counts_are_refused(tmp_path, actualmed_rows):
    clone = make_clone(tmp_path / "clone", ACTUALMED_COLUMNS, actualmed_rows, "imagename")
    with pytest.raises(CorruptDataError, match="1 positive and 2 negative images, expected 58 and 127"):
        read_actualmed(clone)


def test_read_actualmed__an_unknown_finding_is_not_taken_for_negative(tmp_path, actualmed_rows):
    actualmed_rows.append(actualmed_row("ANON5", "covid", "q.png"))
    clone = make_clone(tmp_path / "clone", ACTUALMED_COLUMNS, actualmed_rows, "imagename")
    with pytest.raises(CorruptDataError, match="has the finding 'covid'"):
        read_actualmed(clone, check_snapshot=False)


def test_read_actualmed__missing_images(tmp_path, actualmed_rows):
    clone = make_clone(
        tmp_path / "clone", ACTUALMED_COLUMNS, actualmed_rows, "imagename", absent=["p.png", "i.png"]
    )
    with pytest.raises(MissingDataError, match=r"2 image files are missing in .*: i\.png, p\.png"):
        read_actualmed(clone, check_snapshot=False)
    lines = []
    images = read_actualmed(clone, check_snapshot=False, missing="skip", say=lines.append)
    assert images.labels.tolist() == [0, 0]
    assert images.inconclusive_patients.tolist() == ["ANON3"]
    assert "2 of 5 rows" in lines[0]


@pytest.fixture
def mura(tmp_path):
    for place in (
        "valid/XR_HAND/patient2/study1_positive/image1.png",
        "valid/XR_HAND/patient1/study1_negative/image2.png",
        "valid/XR_HAND/patient1/study1_negative/image1.png",
        "valid/XR_HAND/patient1/study1_negative/._image1.png",
        "valid/XR_HAND/notes.txt",
        "valid/XR_SHOULDER/patient9/study2_negative/image1.png",
        "valid/XR_HUMERUS/patient1/study1_negative/image1.png",
        "valid/XR_WRIST/patient1/study1_negative/image1.png",
        "train/XR_HAND/patient5/study1_negative/image1.png",
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    return tmp_path


def test_read_mura__lists_the_body_parts_in_order(mura):
    images = read_mura(mura)
    assert images.groups.tolist() == ["XR_HAND"] * 3 + ["XR_SHOULDER", "XR_HUMERUS"]
    assert images.patients.tolist() == ["patient1", "patient1", "patient2", "patient9", "patient1"]
    names = [path.relative_to(mura / "valid" / "XR_HAND").as_posix() for path in images.paths[:3]]
    assert names == [
        "patient1/study1_negative/image1.png",
        "patient1/study1_negative/image2.png",
        "patient2/study1_positive/image1.png",
    ]


def test_read_mura__other_body_parts_and_split(mura):
    assert read_mura(mura, groups=["XR_WRIST"]).groups.tolist() == ["XR_WRIST"]
    assert read_mura(mura, groups=["XR_HAND"], split="train").patients.tolist() == ["patient5"]
    with pytest.raises(MissingDataError, match="XR_ELBOW holds no images"):
        read_mura(mura, groups=["XR_HAND", "XR_ELBOW"])


@pytest.mark.parametrize("groups", ["XR_HAND", []])
def test_read_mura__refuses_groups_that_are_no_list(mura, groups):
    with pytest.raises(InvalidInputError, match="groups must be a list"):
        read_mura(mura, groups=groups)


@pytest.fixture
def feature_arrays():
    rng = np.random.default_rng(0)

    def features(n):
        return rng.normal(size=(n, 6)).astype(np.float16)

    return {
        "X_train": features(5),
        "y_train": np.array([1, 0, 1, 0, 1]),
        "y_train_any_covid": np.array([1, 1, 1, 0, 1]),
        "is_xray_train": np.array([1, 1, 0, 1, 1]),
        "patient_train": np.array(list("22345")),
        "id_train": np.array([f"{i}.png" for i in range(5)]),
        "X_test": features(3),
        "y_test": np.array([1, 0, 0]),
        "patient_test": np.array(["ANON1", "ANON2", "ANON3"]),
        "X_test_inconclusive": features(2),
        "X_ood": features(4),
        "group_ood": np.array(["MURA_XR_HAND"] * 4),
    }


def expect_file(monkeypatch, path, variant="plain"):
    name, _ = covid._FEATURE_FILES[variant]
    assert path.name == name
    monkeypatch.setitem(covid._FEATURE_FILES, variant, (name, file_digest(path)))


def test_load_covid_features__types_and_names(tmp_path, feature_arrays, monkeypatch):
    np.savez(path := tmp_path / "covid_features_resnet50.npz", **feature_arrays)
    expect_file(monkeypatch, path)
    loaded = load_covid_features(tmp_path)
    for name, key, dtype in (
        ("features", "X_train", np.float32),
        ("test_features", "X_test", np.float32),
        ("inconclusive_features", "X_test_inconclusive", np.float32),
        ("ood_features", "X_ood", np.float32),
        ("labels_paper", "y_train", np.int64),
        ("labels_any_covid", "y_train_any_covid", np.int64),
    ):
        assert getattr(loaded, name).dtype == dtype
        np.testing.assert_array_equal(getattr(loaded, name), feature_arrays[key])
    assert loaded.is_xray.tolist() == [True, True, False, True, True]
    assert loaded.test_labels.tolist() == [1, 0, 0]
    assert loaded.patients.tolist() == list("22345")
    assert loaded.ids[0] == "0.png"
    assert loaded.test_patients[2] == "ANON3"
    assert loaded.ood_groups[0] == "MURA_XR_HAND"


def test_load_covid_features__variants_are_different_files(tmp_path, feature_arrays, monkeypatch):
    np.savez(path := tmp_path / "covid_features_resnet50_eq256.npz", **feature_arrays)
    expect_file(monkeypatch, path, "equalised")
    load_covid_features(str(tmp_path), "equalised")
    with pytest.raises(MissingDataError, match=r"covid_features_resnet50\.npz is not there"):
        load_covid_features(tmp_path)
    with pytest.raises(InvalidInputError, match=r"\['equalised', 'plain'\], but it is 'eq256'"):
        load_covid_features(tmp_path, "eq256")


def test_load_covid_features__missing_says_where_the_images_are(tmp_path):
    with pytest.raises(MissingDataError) as caught:
        load_covid_features(tmp_path)
    for part in ("ieee8023/covid-chestxray-dataset", "agchung/Actualmed", "competitions/mura", "7c18e7df"):
        assert part in str(caught.value)


def test_load_covid_features__one_flipped_byte_is_refused(tmp_path, feature_arrays, monkeypatch):
    np.savez(path := tmp_path / "covid_features_resnet50.npz", **feature_arrays)
    expect_file(monkeypatch, path)
    content = path.read_bytes()
    for altered in (content[:300] + bytes([content[300] ^ 1]) + content[301:], content[:-1]):
        path.write_bytes(altered)
        with pytest.raises(CorruptDataError, match=r"covid_features_resnet50\.npz was altered"):
            load_covid_features(tmp_path)


def test_load_covid_features__missing_array_is_named(tmp_path, feature_arrays, monkeypatch):
    del feature_arrays["group_ood"]
    np.savez(path := tmp_path / "covid_features_resnet50.npz", **feature_arrays)
    expect_file(monkeypatch, path)
    with pytest.raises(
        CorruptDataError, match=r"covid_features_resnet50\.npz lacks the arrays \['group_ood'\]"
    ):
        load_covid_features(tmp_path)


@pytest.mark.parametrize("variant", ["plain", "equalised"])
def test_load_covid_features__real_data_have_the_documented_gaps(data_dir, variant):
    loaded = load_covid_features(data_dir, variant)
    assert (loaded.features.shape, loaded.features.dtype) == ((347, 2048), np.float32)
    assert (loaded.labels_paper.sum(), loaded.labels_any_covid.sum()) == (275, 287)
    assert (~loaded.is_xray).sum() == 23
    assert np.bincount(loaded.test_labels).tolist() == [18, 58]
    assert loaded.inconclusive_features.shape == (10, 2048)
    names, counts = np.unique(loaded.ood_groups, return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {
        "MURA_XR_HAND": 600,
        "MURA_XR_HUMERUS": 466,
        "MURA_XR_SHOULDER": 3,
        "UCI_SHOULDER_IMPLANT(not MURA)": 597,
    }
    for name in ("features", "test_features", "inconclusive_features", "ood_features"):
        assert np.isfinite(getattr(loaded, name)).all()
    for n, arrays in (
        (347, (loaded.labels_paper, loaded.labels_any_covid, loaded.is_xray, loaded.patients, loaded.ids)),
        (76, (loaded.test_features, loaded.test_labels, loaded.test_patients)),
    ):
        assert {len(array) for array in arrays} == {n}


def test_read_covid_chestxray__rule_reproduces_the_real_labels(data_dir, tmp_path):
    with (data_dir / "covid_train" / "labels.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    rows = [
        chestxray_row(row["patientid"], row["finding"], row["filename"], row["modality"]) for row in table
    ]
    with_file = [row for row in table if row["file"]]
    absent = {row["filename"] for row in table if not row["file"]}
    clone = make_clone(tmp_path / "clone", CHESTXRAY_COLUMNS, rows, "filename", absent=absent)
    with pytest.raises(MissingDataError, match="4 image files are missing"):
        read_covid_chestxray(clone)
    lines = []
    images = read_covid_chestxray(clone, missing="skip", say=lines.append)  # the counts are checked
    assert len(images.paths) == len(with_file) == 347
    assert "4 of 351 rows" in lines[0]
    assert images.labels_paper.tolist() == [int(row["y_paper"]) for row in with_file]
    assert images.labels_any_covid.tolist() == [int(row["y_any_covid"]) for row in with_file]
    assert images.is_xray.tolist() == [row["is_xray"] == "1" for row in with_file]
    features = load_covid_features(data_dir)
    for name in ("ids", "patients", "labels_paper", "labels_any_covid", "is_xray"):
        np.testing.assert_array_equal(getattr(images, name), getattr(features, name))
