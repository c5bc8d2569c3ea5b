"""Explanations of the estimators: whose words they use, and what they say where something is not known."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import pnca
from models import digits, make, noisy
from pnca import record
from pnca.exceptions import InvalidInputError
from pnca.record import Record

X, Y = noisy()
IDS = [f"p{row}" for row in range(40)]


@pytest.fixture(scope="module")
def pooled():
    return make("PNCA pooled", max_epochs=3).fit(X, Y, ids=IDS)


def test_explain__names_examples_by_their_ids(pooled):
    (case,) = pooled.explain(X[3:4])
    rows, shares = pooled.neighbors(X[3:4], k=5)
    assert [example.id for example in case.examples] == [IDS[row] for row in rows[0]]
    np.testing.assert_array_equal([example.share for example in case.examples], shares[0])
    for example in case.examples:
        assert example.label == Y[example.row]
        assert example.given == tuple(X[example.row].tolist())
    assert case.label == pooled.predict(X[3:4])[0]


def test_explain__of_a_training_example_has_it_at_no_distance(pooled):
    (case,) = pooled.explain(X[3:4], k=40)
    (own,) = (example for example in case.examples if example.row == 3)
    assert own.distance == 0
    centred = X - X.mean(axis=0)
    for example in case.examples[:4]:
        in_columns = (X[3] - X[example.row]) / centred.std(axis=0)
        in_common = (X[3] - X[example.row]) / np.sqrt(np.square(centred).mean())
        expected = [np.sqrt(np.square(part).mean()) for part in (in_columns, in_common)]
        assert min(abs(example.distance - value) for value in expected) < 1e-5  # inputs are float32


def test_explain__has_the_familiarity_and_the_evidence_of_the_model(pooled):
    cases = pooled.explain(X[:4] + 1)
    np.testing.assert_array_equal([case.usual.familiarity for case in cases], pooled.familiarity(X[:4] + 1))
    np.testing.assert_array_equal([case.usual.evidence for case in cases], pooled.evidence(X[:4] + 1))


def test_explain__finds_the_column_that_is_wrong(pooled):
    wrong = X[:4].copy()
    wrong[:, 1] += 30
    for case in pooled.explain(wrong):
        assert case.columns[0].name == 1
        assert case.columns[0].distance_share > 0.9
        assert case.columns[0].class_share > 0.9
        assert sum(column.class_share for column in case.columns) == pytest.approx(1)
        assert case.deviations > 3.5
        assert (case.columns[0].low, case.columns[0].high) == (X[:, 1].min(), X[:, 1].max())


def test_explain__agreement_is_that_of_the_particles():
    model = make("PNCA", max_epochs=3).fit(X, Y)
    cases = model.explain(X[:6])
    for case in cases:
        assert case.agreement.n_members == 3
        assert case.agreement.votes.sum() == 3
        assert (case.agreement.low <= case.proba + 1e-9).all()
        assert (case.agreement.high >= case.proba - 1e-9).all()


def test_explain__takes_lists_and_tensors(pooled):
    import torch

    texts = {str(pooled.explain(given)) for given in (X[:2], X[:2].tolist(), torch.from_numpy(X[:2]))}
    assert len(texts) == 1


def test_explain__of_images_shows_them_and_where_they_are_unusual():
    images, y = digits()
    model = make("PNCA", max_epochs=3, n_particles=4).fit(images, y)
    query = images[:1].copy()
    query[0, 0, 0] = 60
    (case,) = model.explain(query, k=2)
    np.testing.assert_array_equal(case.given, query[0])
    np.testing.assert_array_equal(case.examples[0].given, images[case.examples[0].row])
    for found in case.maps.values():
        assert found.shape == (8, 8)
        assert np.unravel_index(found.argmax(), found.shape) == (0, 0)
    rows = make("NCA", max_epochs=2, image_shape=(8, 8)).fit(images.reshape(60, 64), y)
    np.testing.assert_array_equal(rows.explain(query.reshape(1, 64))[0].given, query[0])


def test_explain__of_inputs_without_columns_or_pixels_says_so():
    from torch import nn

    sequences = np.stack([X, X[::-1]], axis=1)[..., None, None]
    model = make("NCA", max_epochs=2, module=lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 3)))
    (case,) = model.fit(sequences, Y).explain(sequences[:1])
    assert case.columns == ()
    assert any("neither columns nor pixels" in note for note in case.notes)
    assert "training example" in str(case)


def test_explain__without_a_record_says_what_is_missing(pooled, tmp_path):
    loaded = pnca.load(pnca.save(pooled, tmp_path / "a.pnca", store="predictive"))
    (case,) = loaded.explain(X[3:4])
    (full,) = pooled.explain(X[3:4])
    assert [example.row for example in case.examples] == [example.row for example in full.examples]
    assert {example.given for example in case.examples} == {None}
    assert case.examples[0].distance == full.examples[0].distance  # predictions keep the inputs
    assert "store='predictive'" in str(case)
    np.testing.assert_array_equal(case.without([3]).after, full.without(["p3"]).after)
    linear = make("PNCA positive", max_epochs=2).fit(X, Y)
    assert linear.explain(X[:1])[0].examples[0].distance is not None
    del linear.record_
    (blind,) = linear.explain(X[:1])
    assert blind.examples[0].distance is None
    assert any("Distances are not shown" in note for note in blind.notes)


def test_explain__of_a_record_without_inputs_says_why(monkeypatch):
    monkeypatch.setattr(record, "MOST_BYTES", 10)
    model = make("PNCA", max_epochs=2).fit(X, Y, ids=IDS)
    assert isinstance(model.record_, Record)
    (case,) = model.explain(X[:1])
    assert case.examples[0].id is not None
    assert any("were not kept" in note for note in case.notes)


def test_explain__without_folds_has_no_familiarity():
    (case,) = make("NCA", max_epochs=2).fit(X, Y).explain(X[:1])
    assert case.usual is None
    assert case.deviations is None
    assert "Familiarity" not in str(case)


def test_explain__counts_groups_where_there_are_some():
    model = make("PNCA", max_epochs=2).fit(X, Y, groups=np.arange(40) // 4)
    (case,) = model.explain(X[:1])
    assert case.usual.n_units == 10
    assert "of 10 groups of training examples" in str(case)


@pytest.mark.parametrize("k", [0, -1, 2.5, "all"])
def test_explain__of_no_number_of_examples_is_refused(pooled, k):
    with pytest.raises(InvalidInputError, match="k must be a whole number of at least 1"):
        pooled.explain(X, k=k)


def test_explain__of_a_model_that_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError):
        make("NCA").explain(X)


def test_explain__after_loading_is_the_same(pooled, tmp_path):
    loaded = pnca.load(pnca.save(pooled, tmp_path / "a.pnca"))
    assert str(loaded.explain(X[:2])) == str(pooled.explain(X[:2]))


DECIDED = {
    "answered": {"max_error": 0.3, "min_familiarity": 0},
    "ambiguous": {"max_error": 0.11, "min_familiarity": 0},
    "unfamiliar": {"max_error": 0.3, "min_familiarity": 0.9},
    "cannot promise": {"max_error": 0.01, "min_familiarity": 0},
}


@pytest.fixture(scope="module")
def overlapping():
    rng = np.random.RandomState(0)
    labels = np.arange(150) % 2
    inputs = rng.normal(size=(150, 3)) + 1.5 * labels[:, None]
    return make("PNCA pooled", max_epochs=3).fit(inputs, labels), inputs


@pytest.mark.parametrize("reason", DECIDED)
def test_explain__says_what_decide_says(overlapping, reason):
    model, inputs = overlapping
    terms = DECIDED[reason]
    decisions, cases = model.decide(inputs, **terms), model.explain(inputs, **terms)
    assert reason in decisions.reason
    assert [case.decision.reason for case in cases] == decisions.reason.tolist()
    assert [case.decision.label for case in cases] == decisions.label.tolist()
    assert cases.to_frame()["decision"].tolist()[::5] == decisions.reason.tolist()
    case = cases[decisions.reason.tolist().index(reason)]
    sentence = next(line for line in str(case).splitlines() if "Decision:" in line)
    assert ("Decision: answered" in sentence) == (reason == "answered")
    assert sentence.split("Decision: ")[1] in " ".join(case.to_html().split())
    if reason not in ("answered", "cannot promise"):
        assert f"({reason})" in " ".join(str(case).split())
    if reason == "cannot promise":
        assert "To show" in str(case) or "to show that" in " ".join(str(case).split())


def test_explain__decides_by_class_where_errors_are(overlapping):
    model, inputs = overlapping
    errors = dict.fromkeys(model.classes_.tolist(), 0.3)
    decisions, cases = model.decide(inputs, max_error=errors), model.explain(inputs, max_error=errors)
    assert [case.decision.reason for case in cases] == decisions.reason.tolist()
    for case in cases:
        assert case.decision.threshold == decisions.promises[case.label].value
    assert "of the answers" in str(cases[0])
    with pytest.raises(InvalidInputError, match="max_error"):
        model.explain(inputs, max_error=2)


def test_explain__of_a_model_without_folds_decides_nothing():
    (case,) = make("NCA", max_epochs=2).fit(X, Y).explain(X[:1])
    assert case.decision is None
    assert "Decision" not in str(case)


def test_explain__names_cases_by_ids_or_the_index(pooled):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:2], index=["P-7", "P-9"])
    tables = make("PNCA pooled", max_epochs=2).fit(pandas.DataFrame(X), Y)
    cases = tables.explain(frame)
    assert [case.name for case in cases] == ["P-7", "P-9"]
    assert str(cases[1]).startswith("Case P-9: predicted")
    assert "Case P-9" in cases.to_html()
    assert cases.to_frame()["case_id"].unique().tolist() == ["P-7", "P-9"]
    assert [case.name for case in tables.explain(frame.reset_index(drop=True))] == [None, None]
    (named,) = pooled.explain(X[:1], ids=["A 1"])
    assert str(named).startswith("Case A 1: ")
    assert str(pooled.explain(X[:1])[0]).startswith("Case 0: ")
    np.testing.assert_array_equal(named.without(["p3"]).before[0], named.proba)
    with pytest.raises(InvalidInputError, match="ids has 1 entries, but there are 2 examples"):
        pooled.explain(X[:2], ids=["a"])


def test_explain__names_examples_as_it_is_told(pooled):
    numbers = np.arange(1, 41)
    (case,), (own,) = pooled.explain(X[:1], example_ids=numbers), pooled.explain(X[:1])
    assert [example.id for example in case.examples] == [example.row + 1 for example in own.examples]
    first = case.examples[0].id
    np.testing.assert_array_equal(case.without([first]).after, own.without([f"p{first - 1}"]).after)
    assert pooled.record_.ids.tolist() == IDS
    with pytest.raises(InvalidInputError, match="twice"):
        pooled.explain(X[:1], example_ids=np.zeros(40, dtype=int))
