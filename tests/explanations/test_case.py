"""Cases as values: sequences of them, tables, and what-if in the words of the fit."""

import pickle

import numpy as np
import pytest

from models import make, noisy
from pnca.exceptions import InvalidInputError
from pnca.explanations import Explanation, Explanations

pytestmark = pytest.mark.filterwarnings("ignore:X holds values that no training example had")


def test_cases__are_a_sequence(cases):
    assert len(cases) == 2
    assert isinstance(cases[0], Explanation)
    assert isinstance(cases[:1], Explanations)
    assert [case.row for case in cases] == [0, 1]
    np.testing.assert_allclose(sum(cases[1].parts.values()), cases[1].proba, atol=1e-9)


def test_frame__has_a_row_for_each_example(of_table):
    frame = of_table.to_frame()
    assert len(frame) == 8
    assert frame["id"].tolist() == [example.id for case in of_table for example in case.examples]
    assert {"case", "predicted", "row", "label", "share", "distance", "size", "c"} <= set(frame.columns)
    assert len(of_table[1].to_frame()) == 4
    row = of_table[1].examples[0].row
    assert frame["row"][4] == row


def test_what_if__is_of_ids_and_says_what_is_fixed(of_table):
    found = of_table.without(["p3", "p4"])
    assert found.after.shape == (2, 2)
    assert found.change == "without 2 training examples"
    assert "Held fixed: networks, trees, line" in str(found)
    other = of_table[0].classes.tolist()[0]
    relabelled = of_table[1].relabelled({"p3": other})
    assert relabelled.change == f"id 'p3' labelled {other!r}"
    assert relabelled.label.tolist() == [of_table[1].classes[relabelled.after[0].argmax()]]
    assert relabelled.is_other.tolist() == [relabelled.label[0] != of_table[1].label]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda case: case.without(["p99"]), "No training example has id 'p99'"),
        (lambda case: case.relabelled({"p1": "c"}), "'c' is no class of the model: its classes are"),
        (lambda case: case.without([f"p{row}" for row in range(40)]), "leave at least one"),
        (lambda case: case.relabelled({7: "b"}), "No training example has id 7"),
    ],
)
def test_what_if__of_what_is_not_there_is_refused(of_table, ask, message):
    with pytest.raises(InvalidInputError, match=message):
        ask(of_table[0])


def test_plot__of_several_cases_asks_for_one(of_table):
    with pytest.raises(InvalidInputError, match="plot draws one case, and there are 2"):
        of_table.plot()


def test_cases__can_be_pickled(of_table):
    again = pickle.loads(pickle.dumps(of_table[0]))
    np.testing.assert_array_equal(again.without(["p1"]).after, of_table[0].without(["p1"]).after)


def test_frame__keeps_what_it_says_beside_columns_of_the_same_names():
    pd = pytest.importorskip("pandas")
    X, y = noisy()
    table = pd.DataFrame(X, columns=["id", "label", "x_label"])
    model = make("NCA", max_epochs=1).fit(table, y, ids=[f"p{row}" for row in range(40)])
    (case,) = model.explain(table[:1], k=40)
    frame = case.to_frame()
    assert frame["id"].tolist() == [example.id for example in case.examples]
    assert frame["label"].tolist() == [example.label for example in case.examples]
    rows = frame["row"].to_numpy()
    np.testing.assert_array_equal(frame[["x_id", "x_label", "x_x_label"]], X[rows])


def test_explain__names_at_most_all_examples():
    X, _ = noisy()
    model = make("NCA", max_epochs=1).fit(X[:4], [0, 1, 0, 1])
    assert len(model.explain(X[:1])[0].examples) == 4


def test_pictures__of_a_table_of_pixels_are_shown():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(12, 16)), columns=[f"px{i}" for i in range(16)])
    model = make("PNCA", max_epochs=1, n_folds=2, image_shape=(4, 4)).fit(table, np.arange(12) % 2)
    (case,) = model.explain(table[:1])
    assert case.is_picture
