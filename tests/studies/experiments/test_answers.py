import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.metrics import roc_auc_score

from models import make
from pnca import evaluation
from pnca_studies.experiments.answers import Answers, ask, compress, expand, measure

# A log-odds of size a is rounded by at most a / 2048, and with ten classes or fewer the sum over the others
# of p_best p_k a_k stays below .64, whatever the probabilities: the confidence moves by less than this.
CONFIDENCE_TOLERANCE = 3.2e-4


def log_softmax(logits):
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def random_answers(n=50, c=3, *, seed=0, labels=True, evidence=True, sharpness=2.0):
    rng = np.random.RandomState(seed)
    logs = log_softmax(sharpness * rng.normal(size=(n, c)))
    return Answers(
        compact=compress(logs),
        labels=rng.randint(c, size=n).astype(np.uint8) if labels else None,
        evidence=rng.normal(size=n).astype(np.float32) if evidence else None,
    )


# --- compress and expand --------------------------------------------------------------------------------


@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.integers(1, 10)),
        # Steps of a thousandth: nearer than float16 tells apart, the order of two classes can be lost.
        elements=st.integers(-30_000, 30_000).map(lambda thousandths: thousandths / 1000),
    )
)
@settings(deadline=None)
def test_compress__keeps_class_and_confidence(logits):
    logs = log_softmax(logits)
    expanded = expand(compress(logs))
    np.testing.assert_array_equal(expanded.argmax(axis=1), logs.argmax(axis=1))
    np.testing.assert_allclose(expanded.max(axis=1), np.exp(logs.max(axis=1)), atol=CONFIDENCE_TOLERANCE)
    np.testing.assert_allclose(expanded.sum(axis=1), 1, rtol=1e-12)


@given(st.floats(0, 60))
def test_compress__two_classes_are_kept_to_a_ten_thousandth(log_odds):
    confidence = 1 / (1 + np.exp(-log_odds))
    expanded = expand(compress(log_softmax(np.array([[0.0, log_odds]]))))
    # p (1 - p) a / 2048 is at most .224 / 2048 for two classes.
    assert abs(expanded[0, 1] - confidence) < 1.1e-4


def test_compress__is_two_bytes_a_class_and_zero_for_the_best():
    compact = compress(np.log([[0.2, 0.7, 0.1], [0.6, 0.1, 0.3]]))
    assert compact.dtype == np.float16
    assert compact[0, 1] == compact[1, 0] == 0
    # Log-odds against the best class: log(2/7) and log(1/7), rounded by one part in 2048.
    np.testing.assert_allclose(compact[0, [0, 2]], np.log([2 / 7, 1 / 7]), rtol=1 / 2048)


def test_compress__small_probabilities_keep_their_size():
    doubt = np.array([1e-3, 1e-6, 1e-12])
    expanded = expand(compress(np.log(np.column_stack([1 - doubt, doubt]))))
    # An error of |a| / 2048 in the exponent: for 1e-12, of 27.6 / 2048.
    np.testing.assert_allclose(expanded[:, 1], doubt, rtol=0.014)


def test_compress__huge_and_infinite_log_odds_are_certainty():
    logs = np.array([[0.0, -1e300], [-np.inf, 0.0], [-7e4, 0.0]])
    compact = compress(logs)
    assert np.isfinite(compact).all()
    np.testing.assert_array_equal(expand(compact), [[1, 0], [0, 1], [0, 1]])


def test_compress__ties_stay_ties():
    np.testing.assert_array_equal(expand(compress(np.full((2, 4), np.log(0.25)))), np.full((2, 4), 0.25))


def test_compress__one_class_is_certain():
    np.testing.assert_array_equal(expand(compress(np.zeros((3, 1)))), np.ones((3, 1)))


@pytest.mark.parametrize("gap", [1e-15, 1e-9, 2e-8])
def test_compress__keeps_the_class_of_a_near_tie(gap):
    logs = np.log(0.5) + np.array([[-gap, 0.0]])
    assert expand(compress(logs)).argmax(axis=1) == logs.argmax(axis=1) == 1


def test_answers__confidence_is_the_largest_probability():
    answers = random_answers()
    np.testing.assert_array_equal(answers.probabilities, expand(answers.compact))
    np.testing.assert_array_equal(answers.confidence, answers.probabilities.max(axis=1))


# --- ask ------------------------------------------------------------------------------------------------


class Stub:
    """A fitted model with given answers."""

    def __init__(self, classes, log_probabilities):
        self.classes_ = np.asarray(classes)
        self.log_probabilities = np.asarray(log_probabilities)

    def predict_log_proba(self, inputs):
        return self.log_probabilities[: len(inputs)]


class StubWithEvidence(Stub):
    def evidence(self, inputs):
        return -inputs.sum(axis=1).astype(np.float64)


def test_ask__class_missing_from_training_has_probability_zero():
    model = Stub([0, 2, 3], np.log([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]))
    answers = ask(model, np.zeros((2, 4), np.float32), np.array([1, 3]), n_classes=5)
    expected = [[0.7, 0, 0.2, 0.1, 0], [0.1, 0, 0.1, 0.8, 0]]
    np.testing.assert_allclose(answers.probabilities, expected, atol=CONFIDENCE_TOLERANCE)
    assert (answers.probabilities[:, [1, 4]] == 0).all()
    measures = measure({"test": answers}, "test")["test"]
    assert measures["accuracy"] == 0.5
    assert np.isfinite(measures["nll"])  # of a class that was held impossible


def test_ask__fitted_model_without_a_class(blobs):
    X, names = blobs
    labels = np.searchsorted(["ash", "birch", "cedar"], names)
    model = make("NCA").fit(X[labels != 1], labels[labels != 1])
    answers = ask(model, X, labels, n_classes=3, with_evidence=True)
    np.testing.assert_allclose(
        answers.probabilities[:, [0, 2]], model.predict_proba(X), atol=CONFIDENCE_TOLERANCE
    )
    assert (answers.probabilities[:, 1] == 0).all()
    np.testing.assert_array_equal(answers.evidence, model.evidence(X).astype(np.float32))
    np.testing.assert_array_equal(answers.labels, labels)


def test_ask__evidence_is_kept_if_wanted_and_there():
    inputs, logs = np.ones((2, 3), np.float32), np.log([[0.5, 0.5]] * 2)
    with_evidence, without = StubWithEvidence([0, 1], logs), Stub([0, 1], logs)
    kept = ask(with_evidence, inputs, None, n_classes=2, with_evidence=True)
    np.testing.assert_array_equal(kept.evidence, [-3, -3])
    assert kept.evidence.dtype == np.float32
    assert kept.labels is None
    assert ask(with_evidence, inputs, None, n_classes=2).evidence is None
    assert ask(without, inputs, None, n_classes=2, with_evidence=True).evidence is None


# --- measure --------------------------------------------------------------------------------------------


def test_measure__labelled_set_equals_the_evaluation_functions():
    answers = random_answers()
    p, labels = answers.probabilities, answers.labels
    assert measure({"test": answers}, "test")["test"] == {
        "n": 50,
        "above_0.9": evaluation.share_above(p, 0.9),
        **evaluation.summarise(labels, p),
    }


def test_measure__foreign_set_equals_the_evaluation_functions():
    known, foreign = random_answers(seed=0), random_answers(30, seed=1, labels=False)
    scores = -known.confidence, -foreign.confidence
    evidence = -known.evidence, -foreign.evidence
    assert measure({"test": known, "letters": foreign}, "test")["letters"] == {
        "n": 30,
        "mean_confidence": pytest.approx(foreign.confidence.mean()),
        "above_0.9": evaluation.share_above(foreign.probabilities, 0.9),
        "ood_auroc_confidence": evaluation.ood_auroc(*scores),
        "ood_fpr95_confidence": evaluation.ood_fpr95(*scores),
        "ood_auroc_evidence": evaluation.ood_auroc(*evidence),
        "ood_fpr95_evidence": evaluation.ood_fpr95(*evidence),
    }


def test_measure__is_of_the_kept_form_and_not_of_the_exact_one():
    logs = log_softmax(np.random.RandomState(0).normal(size=(40, 3)))
    answers = Answers(compact=compress(logs), labels=np.zeros(40, np.uint8))
    assert measure({"test": answers}, "test")["test"]["nll"] == evaluation.negative_log_likelihood(
        answers.labels, expand(answers.compact)
    )


def test_measure__auroc_of_two_classes_is_scikit_learns():
    answers = random_answers(80, 2)
    auroc = measure({"test": answers}, "test")["test"]["auroc"]
    assert auroc == pytest.approx(roc_auc_score(answers.labels, answers.probabilities[:, 1]))


def test_measure__auroc_is_one_if_the_second_class_is_told_apart():
    logs = np.log([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]])
    right = Answers(compact=compress(logs), labels=np.array([0, 0, 1, 1], np.uint8))
    wrong = Answers(compact=compress(logs), labels=np.array([1, 1, 0, 0], np.uint8))
    assert measure({"test": right}, "test")["test"]["auroc"] == 1
    assert measure({"test": wrong}, "test")["test"]["auroc"] == 0


@pytest.mark.parametrize("label", [0, 1])
def test_measure__auroc_of_one_class_alone_has_no_value(label):
    answers = Answers(compact=compress(np.log([[0.9, 0.1], [0.2, 0.8]])), labels=np.full(2, label, np.uint8))
    measures = measure({"test": answers}, "test")["test"]
    assert measures["auroc"] is None
    assert measures["accuracy"] == 0.5


def test_measure__auroc_is_of_two_classes_only():
    assert "auroc" not in measure({"test": random_answers(c=3)}, "test")["test"]


@pytest.mark.parametrize(("of_known", "of_foreign"), [(True, False), (False, True), (False, False)])
def test_measure__evidence_has_no_value_where_either_set_lacks_it(of_known, of_foreign):
    known = random_answers(evidence=of_known)
    foreign = random_answers(labels=False, evidence=of_foreign)
    measures = measure({"test": known, "letters": foreign}, "test")["letters"]
    assert measures["ood_auroc_evidence"] is None
    assert measures["ood_fpr95_evidence"] is None
    assert measures["ood_auroc_confidence"] == 0.5  # the same answers


def test_measure__less_evidence_and_confidence_on_foreign_data_is_told_apart():
    known = random_answers(200, sharpness=8.0)
    foreign = random_answers(200, seed=1, labels=False, sharpness=0.1)
    foreign.evidence[:] -= 100
    measures = measure({"test": known, "letters": foreign}, "test")["letters"]
    assert measures["ood_auroc_evidence"] == 1
    assert measures["ood_fpr95_evidence"] == 0
    assert measures["ood_auroc_confidence"] > 0.9
    foreign.evidence[:] += 200  # now they look more familiar than the familiar
    assert measure({"test": known, "letters": foreign}, "test")["letters"]["ood_auroc_evidence"] == 0


def test_measure__no_evidence_at_all_is_minus_infinity_and_fine():
    known, foreign = random_answers(), random_answers(labels=False)
    foreign.evidence[:] = -np.inf
    assert measure({"test": known, "letters": foreign}, "test")["letters"]["ood_auroc_evidence"] == 1
