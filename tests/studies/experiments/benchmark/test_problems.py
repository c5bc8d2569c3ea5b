"""Draws of tables and of the data sets that come with scikit-learn or with PNCA_DATA_DIR."""

import numpy as np
import pytest

from pnca_studies.experiments.benchmark.catalogue import DATA_SETS, FOREIGN, GROUPS, SITES, UNSEEN
from pnca_studies.experiments.benchmark.problems import draw_table, unit_error
from pnca_studies.experiments.benchmark.sources import _in_blocks, load_sources


@pytest.fixture
def table():
    """Rows that can be told from each other, of three classes; the last column is a category."""
    rng = np.random.default_rng(0)
    X = np.stack([np.arange(60.0) + 1, rng.normal(size=60), np.arange(60) % 2], axis=1)
    return X, np.arange(60) % 3


def test_draw__trains_on_so_many_rows_and_tests_on_others(table):
    problem = draw_table(*table, 20, 1, kind="table", categories=(2,))
    again = draw_table(*table, 20, 1, kind="table", categories=(2,))
    tested, truth = problem.tests["test"]
    np.testing.assert_array_equal(problem.inputs, again.inputs)
    assert (len(problem.inputs), len(tested), problem.n_classes) == (20, 40, 3)
    assert not set(problem.inputs[:, 0]) & set(tested[:, 0])
    # The first column counts the rows, and so the classes.
    assert problem.labels.tolist() == ((problem.inputs[:, 0] - 1) % 3).tolist()
    assert truth.tolist() == ((tested[:, 0] - 1) % 3).tolist()
    other = draw_table(*table, 20, 2, kind="table")
    assert set(other.inputs[:, 0]) != set(problem.inputs[:, 0])


def test_draw__a_class_that_is_left_out_is_a_test_set_without_labels(table):
    problem = draw_table(*table, 20, 0, left_out=1, kind="table")
    unseen, labels = problem.tests["unseen class"]
    assert labels is None
    assert sorted(unseen[:, 0]) == [row + 1 for row in range(60) if row % 3 == 1]
    assert problem.n_classes == 2
    # Classes 0 and 2 are columns 0 and 1.
    assert problem.labels.tolist() == (((problem.inputs[:, 0] - 1) % 3) // 2).tolist()


def test_draw__rows_of_a_class_that_was_not_drawn_are_not_tested(table):
    X, _ = table
    y = np.where(np.arange(60) == 7, 2, np.arange(60) % 2)
    draws = [draw_table(X, y, 10, seed, kind="table") for seed in range(5)]
    for problem in draws:
        knows_it = 8.0 in problem.inputs[:, 0]
        assert problem.n_classes == 2 + knows_it
        assert 8.0 not in problem.tests["test"][0][:, 0]


def test_unit_error__is_one_column_of_numbers_times_ten(table):
    X, _ = table
    columns = set()
    for seed in range(20):
        (wrong,) = unit_error(X[:30], X[30:], seed, categories=(2,))
        changed = np.flatnonzero((wrong != X[30:]).any(axis=0))
        assert len(changed) == 1
        np.testing.assert_allclose(wrong[:, changed], 10 * X[30:, changed])
        columns.add(int(changed[0]))
    assert columns == {0, 1}
    assert unit_error(X[:, 2:], X[:, 2:], 0, categories=(0,)) is None
    assert unit_error(np.zeros((5, 1)), np.zeros((5, 1)), 0) is None


def test_catalogue__is_whole():
    names = [data_set.group for data_set in DATA_SETS.values()]
    assert {group: names.count(group) for group in GROUPS} == {
        "tuning tables": 15,
        "final tables": 15,
        "small data sets": 4,
        "images": 2,
        "features": 2,
        "unseen classes": 13,
    }
    assert all(DATA_SETS[site].group.endswith("tables") for site in SITES)


@pytest.mark.parametrize("name", ["iris", "wine", "breast cancer", "digits"])
def test_small_sources__hold_out_a_class_wherever_there_are_three(name):
    sources, missing = load_sources([name], None)
    assert not missing
    problem = sources[name].draw(DATA_SETS[name].sizes[0], 1)
    assert len(problem.labels) == int(DATA_SETS[name].sizes[0])
    assert ("unseen class" in problem.tests) == (name != "breast cancer")
    assert ("unit error" in problem.tests) == (name != "digits")
    assert set(problem.tests) - {"test"} <= set(FOREIGN)


def test_sources__without_their_files_are_left_out_with_a_reason(tmp_path):
    sources, missing = load_sources(["car", "MNIST", "COVID", "iris"], tmp_path)
    assert list(sources) == ["iris"]
    assert [reason.split(" is not ")[0].split(":")[0] for reason in missing][:2] == ["The table car", "MNIST"]


def test_blocks__count_ink_as_the_digits_of_scikit_learn_do():
    image = np.zeros((1, 28, 28), np.uint8)
    image[:, 14:] = 255
    shares = _in_blocks(image).reshape(8, 8)
    assert (shares[:4] == 0).all()
    assert (shares[4:] == 1).all()


def test_real_sources__have_the_test_sets_that_are_promised(data_dir):
    names = ["kc2", "pc3", "car", f"car{UNSEEN}", "COVID, equalised"]
    sources, missing = load_sources(names, data_dir)
    assert not missing
    drawn = {name: source.draw(DATA_SETS[name].sizes[-1], 0) for name, source in sources.items()}
    assert {name: list(problem.tests) for name, problem in drawn.items()} == {
        "kc2": ["test", "unit error", "other site"],
        "pc3": ["test", "unit error", "other site"],
        "car": ["test"],
        f"car{UNSEEN}": ["test", "unseen class"],
        "COVID, equalised": ["test", "bones", "other site"],
    }
    assert len(drawn["kc2"].labels) == 261
    covid = drawn["COVID, equalised"]
    assert len(covid.groups) == len(covid.labels)
    # pc1 has the columns of kc2 in another order; in both, comments are rarer than lines of code.
    other = drawn["kc2"].tests["other site"][0]
    assert np.median(other[:, 15]) <= np.median(other[:, 14]) <= np.median(other[:, 12])
