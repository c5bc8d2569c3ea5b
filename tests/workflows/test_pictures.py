"""Reports on features of images show pictures, and those of training examples only if they are the same."""

import numpy as np
import pytest

import pnca
from pnca.reports.pages import report_html
from pnca.workflows.cases import cases_of_images, labelled_images
from pnca.workflows.evaluating import Evaluating
from pnca.workflows.images import fit_images, images_of_folder
from pnca.workflows.pictures import Pictures
from workflows.test_images import Means

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def draw(tmp_path, monkeypatch):
    """Draw a folder of images of two classes, always of the same names."""
    monkeypatch.setenv("PNCA_CACHE_DIR", str(tmp_path / "cache"))

    def call(name, seed, n=10):
        rng = np.random.default_rng(seed)
        for label, level in (("dark", 0), ("light", 100)):
            (tmp_path / name / label).mkdir(parents=True)
            for i in range(n):
                pixels = (level + rng.integers(0, 156, (8, 8))).astype(np.uint8)
                Image.fromarray(pixels).save(tmp_path / name / label / f"{i}.png")
        return tmp_path / name

    return call


def test_pictures__of_the_case_and_of_its_examples_where_these_are_the_same(draw, tmp_path):
    train, test = draw("train", 0), draw("test", 1, n=3)
    model = fit_images(images_of_folder(train), Means())
    path = pnca.save(model, tmp_path / "m.pnca")
    cases = cases_of_images(model, labelled_images(model, test, None), "test", Means())
    counts = {}
    # Files of the test folder have the names of training examples, and are others.
    for folder in (train, test):
        evaluating = Evaluating(model)
        found = evaluating.evaluation(cases)
        pictures = Pictures(source=model.source_, backbone=Means(), folder=folder)
        report = evaluating.report(path, found, cases, None, checksums={}, pictures=pictures)
        counts[folder.name] = {len(shown.photos) for shown in report.cases.values()}
        text = report_html(report)
        assert text.count("<img ") == sum(len(shown.photos) for shown in report.cases.values())
        assert "unlike any class" not in text  # of features, which have no names
    assert counts == {"train": {6}, "test": {1}}


def test_pictures__out_of_fold_are_those_of_the_training_images(draw, tmp_path):
    train = draw("train", 0)
    model = fit_images(images_of_folder(train), Means())
    path = pnca.save(model, tmp_path / "m.pnca")
    evaluating = Evaluating(model)
    found = evaluating.evaluation()
    pictures = Pictures(source=model.source_, backbone=Means(), folder=train)
    report = evaluating.report(path, found, None, None, checksums={}, pictures=pictures)
    for row, shown in report.cases.items():
        assert len(shown.photos) == 6
        own = np.asarray(Image.open(train / report.names[row]))
        np.testing.assert_array_equal(shown.photos[0].pixels, own)
