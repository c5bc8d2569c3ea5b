import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import pnca_studies.experiments.mnist as mnist_module
from pnca.estimators import paper
from pnca.exceptions import InvalidInputError
from pnca_studies.data import Mnist, NotMnist, rotate
from pnca_studies.experiments.grid import Engine
from pnca_studies.experiments.mnist import mnist_study, run_mnist_cell
from pnca_studies.experiments.settings import load_exhibits
from pnca_studies.experiments.store import RunFolder
from pnca_studies.experiments.study import Options, run_study

SEVEN = ("DNN", "BNN", "BNN as published", "Ensemble", "NCA", "PNCA (paper)", "PNCA")
N = 60  # enough that no digit is drawn only once
SMALL = Options(models=("NCA", "DNN"), train_sizes=(N,), trials=2)


def make_mnist(n_train=400, n_test=60):
    """Random images with a bright row that tells the digit."""
    rng = np.random.RandomState(0)
    labels = np.concatenate([rng.permutation(n) for n in (n_train, n_test)]) % 10
    images = rng.randint(60, size=(n_train + n_test, 28, 28)).astype(np.uint8)
    images[np.arange(len(labels)), 4 + 2 * labels] = 250
    return Mnist(
        train_images=images[:n_train],
        train_labels=labels[:n_train],
        test_images=images[n_train:],
        test_labels=labels[n_train:],
    )


@pytest.fixture(autouse=True)
def data(monkeypatch):
    """MNIST and notMNIST of a few random images; two epochs are a training."""
    mnist = make_mnist()
    images = np.random.RandomState(1).randint(256, size=(50, 28, 28)).astype(np.uint8)
    letters = NotMnist(images=images, labels=np.arange(50) // 5)
    monkeypatch.setattr(mnist_module, "load_mnist", lambda folder, *, download: mnist)
    monkeypatch.setattr(mnist_module, "load_notmnist", lambda folder, *, download: letters)
    monkeypatch.setitem(paper._SHARED, "max_epochs", 2)
    return mnist, letters


@pytest.fixture
def many_data(monkeypatch):
    """More test images and letters than a quick run takes."""
    mnist = make_mnist(n_test=1200)
    images = np.random.RandomState(1).randint(256, size=(2500, 28, 28)).astype(np.uint8)
    letters = NotMnist(images=images, labels=np.arange(2500) // 250)
    monkeypatch.setattr(mnist_module, "load_mnist", lambda folder, *, download: mnist)
    monkeypatch.setattr(mnist_module, "load_notmnist", lambda folder, *, download: letters)
    return mnist, letters


# --- the grid -------------------------------------------------------------------------------------------


def test_mnist_study__is_the_papers_grid_and_no_cell_twice():
    study = mnist_study(None)
    cells = [(cell.n_train, cell.draw, cell.model.name) for cell in study.cells]
    assert len(cells) == 210
    assert set(cells) == set(product((100, 200, 400), range(10), SEVEN))
    assert study.name == "mnist"


def test_mnist_study__each_round_is_a_full_mix():
    cells = mnist_study(None).cells
    for draw in range(10):
        done = {(cell.n_train, cell.model.name) for cell in cells[21 * draw : 21 * (draw + 1)]}
        assert len(done) == 21
    assert [cell.draw for cell in cells] == sorted(cell.draw for cell in cells)


def test_mnist_study__ablation_has_its_own_models_and_no_angles():
    study = mnist_study(None, experiment="ablation")
    models = load_exhibits("ablation")["ablation"].models
    assert [(cell.draw, cell.model.name) for cell in study.cells] == list(product(range(10), models))
    assert {cell.n_train for cell in study.cells} == {100}
    assert {cell.experiment for cell in study.cells} == {"ablation"}
    assert list(study.data.tests) == ["test", "rotated", "notmnist"]
    assert study.name == "ablation"


def test_mnist_study__cells_of_both_experiments_have_different_files():
    mnist, ablation = (
        mnist_study(None, Options(models=("PNCA (paper)",), trials=1, train_sizes=(100,)), experiment=name)
        for name in ("mnist", "ablation")
    )
    assert mnist.stem(mnist.cells[0]) != ablation.stem(ablation.cells[0])


def test_mnist_study__options_narrow_the_grid():
    study = mnist_study(None, Options(models=("NCA", "DNN"), train_sizes=(50, 30, 50), trials=3))
    assert [(cell.draw, cell.n_train, cell.model.name) for cell in study.cells] == list(
        product(range(3), (50, 30), ("NCA", "DNN"))
    )


def test_mnist_study__unknown_model_is_an_error_with_the_models():
    with pytest.raises(InvalidInputError, match=r"\['SVM'\].*DNN, BNN,.*PNCA"):
        mnist_study(None, Options(models=("SVM",)))


def test_mnist_study__bad_sizes_are_named():
    for sizes in ((19,), (100, 60_001), (0,), (-5,)):
        wrong = rf"from 20 to 60000, but they include \[{sizes[-1]}\]"
        with pytest.raises(InvalidInputError, match=wrong):
            mnist_study(None, Options(train_sizes=sizes))


def test_mnist_study__no_trials_is_an_error():
    with pytest.raises(InvalidInputError, match="trials must be at least 1"):
        mnist_study(None, Options(trials=0))


def test_mnist_study__mistake_is_found_before_the_data_are_read(monkeypatch):
    monkeypatch.setattr(mnist_module, "load_mnist", lambda *args, **kwargs: pytest.fail("data were read"))
    for options in (Options(trials=0), Options(models=("SVM",)), Options(train_sizes=(1,))):
        with pytest.raises(InvalidInputError):
            mnist_study(None, options)


def test_mnist_study__headline_is_among_the_measures():
    study = mnist_study(None, SMALL)
    measures = study.work(study.cells[0], study.data).measures
    for test_set, name in study.headline:
        assert isinstance(measures[test_set][name], float)


def test_mnist_study__data_come_from_where_they_are_said_to_be(tmp_path, monkeypatch, data):
    asked = []
    for name, given in zip(("load_mnist", "load_notmnist"), data, strict=True):
        monkeypatch.setattr(
            mnist_module,
            name,
            lambda folder, download, given=given: asked.append((folder, download)) or given,
        )
    mnist_study(tmp_path, SMALL)
    mnist_study(None, SMALL, download=True)
    assert asked == [(tmp_path, False)] * 2 + [(None, True)] * 2


# --- test sets ------------------------------------------------------------------------------------------


def test_tests__are_the_images_as_numbers_from_0_to_1(data):
    mnist, letters = data
    tests = mnist_study(None, SMALL).data.tests
    inputs, labels = tests["test"]
    assert inputs.dtype == np.float32
    np.testing.assert_allclose(inputs, mnist.test_images.reshape(60, 784) / 255, rtol=1e-6)
    np.testing.assert_array_equal(labels, mnist.test_labels)
    inputs, labels = tests["notmnist"]
    np.testing.assert_allclose(inputs, letters.images.reshape(50, 784) / 255, rtol=1e-6)
    assert labels is None


def test_tests__rotated_by_60_degrees(data):
    mnist, _ = data
    tests = mnist_study(None, SMALL).data.tests
    turned = rotate(mnist.test_images / 255, 60)
    np.testing.assert_allclose(tests["rotated"][0], turned.reshape(60, 784), atol=1e-6)
    np.testing.assert_array_equal(tests["rotated"][0], tests["angle 60"][0])
    np.testing.assert_array_equal(tests["rotated"][1], mnist.test_labels)


def test_tests__one_for_each_angle(data):
    mnist, _ = data
    tests = mnist_study(None, SMALL).data.tests
    angles = [int(name.split()[1]) for name in tests if name.startswith("angle")]
    assert angles == list(range(0, 181, 15))
    np.testing.assert_array_equal(tests["angle 0"][0], tests["test"][0])
    upside_down = mnist.test_images[:, ::-1, ::-1].reshape(60, 784) / 255
    np.testing.assert_allclose(tests["angle 180"][0], upside_down, atol=1e-5)


def test_tests__quick_run_has_fewer_of_all(many_data):
    full, quick = mnist_study(None), mnist_study(None, Options(quick=True))
    assert {(cell.n_train, cell.draw) for cell in quick.cells} == {(100, 0), (100, 1)}
    assert len(quick.cells) == 14
    sizes = {name: len(inputs) for name, (inputs, _) in quick.data.tests.items()}
    assert {name: len(inputs) for name, (inputs, _) in full.data.tests.items()} == {
        **{"test": 1200, "rotated": 1200, "notmnist": 2500},
        **{f"angle {angle}": 1200 for angle in range(0, 181, 15)},
    }
    assert sizes.pop("notmnist") <= 1000
    assert sizes == {
        **{"test": 600, "rotated": 600},  # every second of 1,200: at most 1,000
        **{f"angle {angle}": 400 for angle in (0, 60, 120, 180)},
    }
    np.testing.assert_array_equal(quick.data.images, full.data.images)  # the draws are the same


def test_tests__quick_run_has_letters_of_all_kinds(many_data):
    _, letters = many_data
    inputs, _ = mnist_study(None, Options(quick=True)).data.tests["notmnist"]
    rows = {image.tobytes(): row for row, image in enumerate(letters.images)}
    taken = [rows[np.rint(255 * image).astype(np.uint8).tobytes()] for image in inputs]
    assert set(np.bincount(letters.labels[taken])) <= {83, 84}  # every third of 250 a letter


def test_protocol__changes_with_any_pixel_and_label(data):
    mnist, _ = data
    cell = mnist_study(None, SMALL).cells[0]
    stems = [mnist_study(None, SMALL).stem(cell)]
    for values in (mnist.train_images, mnist.train_labels, mnist.test_images, mnist.test_labels):
        first = (0,) * values.ndim
        values[first] = (values[first] + 1) % 10
        stems.append(mnist_study(None, SMALL).stem(cell))
    assert len(set(stems)) == 5


def test_protocol__tells_quick_from_full(many_data):
    full, quick = (mnist_study(None, replace(SMALL, quick=quick)) for quick in (False, True))
    assert full.stem(full.cells[0]) != quick.stem(quick.cells[0])


# --- cells ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [0, 7])
def test_run_mnist_cell__trains_on_numpys_draw(data, monkeypatch, draw):
    mnist, _ = data
    study = mnist_study(None, replace(SMALL, trials=8, models=("BNN",)))
    given = {}

    def note(cell, model, inputs, labels, tests, **kwargs):
        given.update(model=model, inputs=inputs, labels=labels, tests=tests, **kwargs)

    monkeypatch.setattr(mnist_module, "fit_and_ask", note)
    run_mnist_cell(study.cells[draw], study.data)
    rows = np.random.RandomState(draw).choice(400, N, replace=False)
    assert len(set(rows)) == N
    np.testing.assert_array_equal(
        given["inputs"], (mnist.train_images[rows].reshape(N, 784) / 255).astype("f4")
    )
    np.testing.assert_array_equal(given["labels"], mnist.train_labels[rows])
    assert given["inputs"].dtype == np.float32
    assert given["model"].random_state == draw
    assert given["model"].prior_precision == N**2 / 1e4
    assert (given["reference"], given["n_classes"]) == ("test", 10)
    assert given["tests"] is study.data.tests


def test_run_mnist_cell__is_the_model_fitted_by_hand(data):
    mnist, _ = data
    study = mnist_study(None, SMALL)
    cell = study.cells[0]
    result = run_mnist_cell(cell, study.data)
    rows = np.random.RandomState(0).choice(400, N, replace=False)
    model = cell.model.build("mnist", N, random_state=0)
    model.fit((mnist.train_images[rows].reshape(N, 784) / 255).astype(np.float32), mnist.train_labels[rows])
    inputs, labels = study.data.tests["test"]
    assert result.measures["test"]["accuracy"] == pytest.approx(model.score(inputs, labels))
    assert result.columns == {"experiment": "mnist", "n_train": N, "draw": 0, "model": "NCA"}
    assert result.answers["test"].evidence is not None
    assert result.measures["notmnist"]["ood_auroc_evidence"] is not None


def test_run_mnist_cell__is_the_same_each_time_and_other_for_another_draw(data):
    study = mnist_study(None, SMALL)
    one, again, other = (run_mnist_cell(cell, study.data) for cell in (*study.cells[:1] * 2, study.cells[2]))
    assert one.measures == again.measures
    assert one.measures != other.measures


def test_run_study__on_mnist(tmp_path):
    study = mnist_study(None, SMALL)
    folder = RunFolder.create(tmp_path / "run", resume=False)
    assert run_study(study, folder, Engine(jobs=1)) == []
    # The test sets of each result are those that the study expects of its cell.
    assert len(RunFolder.open(folder.path).finished()) == len(study.cells)
    path = folder.path / "results.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    expected = [
        (cell.draw, cell.model.name, test_set) for cell, test_set in product(study.cells, study.data.tests)
    ]
    assert [(row["draw"], row["model"], row["test_set"]) for row in rows] == expected
    before = path.read_bytes()
    done = []
    (folder.path / "cells" / f"{study.stem(study.cells[3])}.npz").unlink()
    again = mnist_study(None, SMALL)
    run_study(again, folder, Engine(jobs=1), watch=lambda outcome, *_: done.append(outcome.cell))
    assert done == [study.cells[3]]
    assert path.read_bytes() == before  # the fit was repeated to the last digit


# --- the real data --------------------------------------------------------------------------------------


def test_mnist_study__real_data(data_dir, monkeypatch):
    monkeypatch.undo()
    study = mnist_study(data_dir, Options(quick=True))
    assert study.data.images.shape == (60_000, 784)
    assert len(study.data.tests["notmnist"][0]) == 1000
    assert study.protocol["test_sets"]["test"]["n"] == 1000
