import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from pnca_studies.data import load_covid_features, rotate
from pnca_studies.experiments.benchmark_data import load_sources
from pnca_studies.experiments.covid import partition


@pytest.fixture(scope="module")
def tables():
    """The data sets that come with scikit-learn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PNCA_CACHE_DIR", "/nowhere")
        sources, missing = load_sources(None)
    assert len(missing) == 2
    assert "MNIST is not on this machine" in missing[0]
    assert "--data-dir" in missing[1]
    return sources


def test_sources__without_data_are_those_of_scikit_learn(tables):
    assert {name: source.sizes for name, source in tables.items()} == {
        "digits": (50, 100, 200, 400, 1000),
        "breast cancer": (50, 100, 200, 400),
        "wine": (50,),
        "iris": (50,),
    }
    assert not any(source.has_images for source in tables.values())


@pytest.mark.parametrize("draw", range(4))
def test_table__one_of_three_classes_is_out_of_distribution_in_turn(tables, draw):
    problem = tables["wine"].draw(50, draw)
    inputs, labels = load_wine(return_X_y=True)
    assert problem.n_classes == 2
    assert problem.inputs.shape == (50, 13)
    assert set(problem.labels) == set(problem.tests["test"][1]) == {0, 1}
    assert len(problem.labels) + len(problem.tests["test"][1]) == (labels != draw % 3).sum()
    x, y = problem.tests["ood"]
    assert y is None
    # Undo the standardisation by the first two rows: the class that is held out remains, in its order.
    held_out = inputs[labels == draw % 3]
    scale = (x[1] - x[0]) / np.where(held_out[1] != held_out[0], held_out[1] - held_out[0], np.nan)
    known = np.isfinite(scale)
    np.testing.assert_allclose(
        (x - x[0])[:, known], ((held_out - held_out[0]) * scale)[:, known], rtol=1e-3, atol=1e-3
    )


def test_table__two_classes_are_both_kept_and_columns_standardised_by_the_training_examples(tables):
    problem = tables["breast cancer"].draw(200, 0)
    assert list(problem.tests) == ["test"]
    assert problem.n_classes == 2
    np.testing.assert_allclose(problem.inputs.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(problem.inputs.std(axis=0), 1, atol=1e-5)
    assert abs(problem.tests["test"][0].mean(axis=0)).max() > 1e-3  # they had no part in it
    labels = np.concatenate([problem.labels, problem.tests["test"][1]])
    np.testing.assert_array_equal(np.bincount(labels), np.bincount(load_breast_cancer().target))


def test_table__digits_are_divided_by_sixteen(tables):
    problem = tables["digits"].draw(100, 3)
    assert problem.n_classes == 9
    assert problem.inputs.dtype == np.float32
    x, _ = problem.tests["ood"]
    digits = load_digits()
    np.testing.assert_array_equal(x, (digits.data / 16).astype(np.float32)[digits.target == 3])


def test_draws__depend_on_the_seed_and_smaller_ones_are_the_beginning_of_larger_ones(tables):
    source = tables["digits"]
    one, again, larger, other = (source.draw(n, s) for n, s in ((50, 1), (50, 1), (100, 1), (50, 11)))
    np.testing.assert_array_equal(one.inputs, again.inputs)
    np.testing.assert_array_equal(one.inputs, larger.inputs[:50])
    np.testing.assert_array_equal(one.labels, larger.labels[:50])
    assert not np.array_equal(one.inputs, other.inputs)  # the same class is held out


def test_sources__real_data(data_dir):
    sources, missing = load_sources(data_dir, quick=True)
    assert missing == []
    flat, images = sources["MNIST"].draw(50, 2), sources["MNIST images"].draw(50, 2)
    assert (flat.inputs.shape, images.inputs.shape) == ((50, 784), (50, 28, 28))
    np.testing.assert_array_equal(flat.inputs, images.inputs.reshape(50, -1))
    assert sources["MNIST images"].has_images
    for name, (x, _) in images.tests.items():
        np.testing.assert_array_equal(flat.tests[name][0], x.reshape(len(x), -1))
        assert len(x) == 1000
    np.testing.assert_allclose(images.tests["rotated"][0], rotate(images.tests["test"][0], 60))
    covid = sources["COVID"]
    problem = covid.draw(covid.sizes[0], 7)
    assert abs(len(problem.labels) - covid.sizes[0]) < 20
    given = load_covid_features(data_dir)
    train, held_out = partition(given.patients, "grouped", trial=1)[2]
    np.testing.assert_array_equal(problem.inputs, given.features[train])
    np.testing.assert_array_equal(problem.tests["test"][0], given.features[held_out])
    assert not set(given.patients[train]) & set(given.patients[held_out])
    assert len(set(zip(problem.groups, given.patients[train], strict=True))) == len(set(problem.groups))
