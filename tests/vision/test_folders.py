"""Image files in folders, and the classes that the folders are."""

import pytest

from pnca.exceptions import InvalidInputError, MissingDataError
from pnca.vision.folders import classes_of, image_files, listed_files


@pytest.fixture
def folder(tmp_path):
    for name in (
        "cats/b.PNG",
        "cats/deep/a.jpg",
        "dogs/c.tif",
        "dogs/scan",
        ".hidden/d.png",
        "dogs/.DS_Store",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    (tmp_path / "dogs" / "d").write_bytes(bytes(128) + b"DICM")
    return tmp_path


def test_image_files__are_in_order_and_others_counted(folder):
    found = image_files(folder)
    assert found.names == ["cats/b.PNG", "cats/deep/a.jpg", "dogs/c.tif", "dogs/d"]
    assert classes_of(found) == ["cats", "cats", "dogs", "dogs"]
    assert "1 files" in found.notes[0]
    assert "'dogs/scan'" in found.notes[0]
    assert image_files(folder / "cats" / "b.PNG").names == ["b.PNG"]


def test_classes_of__needs_a_folder_for_each_class(folder):
    with pytest.raises(InvalidInputError, match="in one folder only"):
        classes_of(listed_files(folder, ["cats/b.PNG", "cats/deep/a.jpg"]))
    with pytest.raises(InvalidInputError, match=r"beside its folders, such as 'b\.PNG'"):
        classes_of(image_files(folder / "cats"))


def test_image_files__absent_or_none(tmp_path):
    with pytest.raises(MissingDataError, match="no image or folder"):
        image_files(tmp_path / "absent")
    with pytest.raises(InvalidInputError, match=r"holds no images: they end with \.png"):
        image_files(tmp_path)


def test_listed_files__what_is_missing_is_named(folder):
    with pytest.raises(MissingDataError, match=r"no image .*x\.png \(1 of 2 are missing\).*--folder"):
        listed_files(folder, ["cats/b.PNG", "x.png"])
