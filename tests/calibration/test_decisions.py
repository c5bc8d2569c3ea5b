"""Answer or abstain, from arrays alone: against a loop, and what the words say."""

import builtins
import re

import numpy as np
import pytest

from pnca.calibration.decisions import Decisions, HeldOut, decide
from pnca.exceptions import MissingExtraError

CLASSES = np.array(["ash", "birch", "cedar"])


def world(n, rng, sharpness=3.0, n_groups=None):
    """Calibrated probabilities of three classes, their labels, and evidence that is of no matter to them."""
    logits = sharpness * rng.normal(size=(n, 3))
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (proba.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1).clip(max=2)
    groups = None if n_groups is None else np.arange(n) % n_groups
    return HeldOut(proba, rng.normal(size=n), labels, groups)


def answer(held_out, new, **changes):
    settings = {"max_error": 0.1, "confidence": 0.9, "min_familiarity": 0.02} | changes
    return decide(new.proba, new.evidence, held_out, CLASSES, **settings)


def test_decide__is_what_its_equation_says():
    rng = np.random.RandomState(0)
    held_out, new = world(300, rng), world(200, rng)
    found = answer(held_out, new, min_familiarity=0.1)
    threshold = found.promises[None].value
    assert threshold > 0.4
    for i in range(200):
        p = (1 + (held_out.evidence <= new.evidence[i]).sum()) / 301
        best = new.proba[i].argmax()
        reason = "unfamiliar" if p < 0.1 else "answered" if new.proba[i, best] >= threshold else "ambiguous"
        assert found.reason[i] == reason
        assert found.label[i] == (CLASSES[best] if reason == "answered" else None)
        assert found.confidence[i] == new.proba[i].max()
        assert found.familiarity[i] == pytest.approx(p)
    assert set(found.reason) == {"answered", "unfamiliar", "ambiguous"}


def test_decide__unfamiliar_held_out_examples_do_not_count():
    rng = np.random.RandomState(0)
    held_out = world(300, rng)
    # All that have little evidence are wrong, which is of no matter if they would not be answered.
    is_odd = held_out.evidence < np.sort(held_out.evidence)[30]
    best = held_out.proba.argmax(axis=1)
    held_out = held_out._replace(labels=np.where(is_odd, (best + 1) % 3, best))
    new = world(50, rng)
    assert answer(held_out, new, min_familiarity=0.0).promises[None].n_wrong > 0
    strict = answer(held_out, new, min_familiarity=31 / 301)
    assert (strict.promises[None].n_answered, strict.promises[None].n_wrong) == (270, 0)


@pytest.mark.parametrize("has_classes", [False, True])
def test_decide__promises_are_broken_as_seldom_as_they_say(has_classes):
    allowed = {name: 0.15 for name in CLASSES} if has_classes else 0.1
    rng = np.random.RandomState(1)
    many, n_broken, n_answered = world(20_000, rng), 0, 0
    for _ in range(80):
        found = answer(world(250, rng), many, max_error=allowed)
        n_answered += (found.reason == "answered").sum()
        is_wrong = found.label != CLASSES[many.labels]
        parts = [found.label == name for name in CLASSES] if has_classes else [found.reason == "answered"]
        limit = 0.15 if has_classes else 0.1
        n_broken += any(part.any() and is_wrong[part].mean() > limit for part in parts)
    assert n_broken / 80 <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 80)
    assert n_answered / 80 > 0.2 * 20_000


def test_decide__priors_change_probabilities_and_the_promise():
    rng = np.random.RandomState(0)
    shares, priors = np.full(3, 1 / 3), np.array([0.1, 0.1, 0.8])
    many, n_broken, n_answered = world(20_000, rng), 0, []
    in_use = (priors / shares)[many.labels]
    for _ in range(60):
        found = answer(world(400, rng), many, priors=priors, model_priors=shares)
        is_answered = found.reason == "answered"
        n_answered.append(is_answered.mean())
        wrong = (found.label != CLASSES[many.labels])[is_answered]
        n_broken += is_answered.any() and np.average(wrong, weights=in_use[is_answered]) > 0.1
    assert n_broken / 60 <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 60)
    assert np.mean(n_answered) > 0.05
    expected = many.proba * priors
    np.testing.assert_allclose(found.confidence, (expected / expected.sum(1, keepdims=True)).max(1))


def test_decide__equal_priors_are_none():
    rng = np.random.RandomState(0)
    held_out, new = world(300, rng), world(50, rng)
    held_out = held_out._replace(labels=np.arange(300) % 3, proba=0.01 + 0.97 * np.eye(3)[np.arange(300) % 3])
    shares = np.full(3, 1 / 3)
    a, b = answer(held_out, new), answer(held_out, new, priors=shares, model_priors=shares)
    assert np.array_equal(a.reason, b.reason)
    assert a.promises[None].n_answered == b.promises[None].n_answered


def test_decide__few_examples_cannot_promise_and_say_what_would_help():
    rng = np.random.RandomState(0)
    held_out, new = world(20, rng), world(10, rng)
    found = answer(held_out, new, max_error=0.05, min_familiarity=0.0)
    assert set(found.reason) == {"cannot promise"}
    assert not [label for label in found.label if label is not None]
    text = found.summary()
    assert text.startswith("answers 0 of 10; 0 unfamiliar, 0 ambiguous, 10 cannot promise")
    assert "at most 5 % of the answers are wrong takes 45 examples answered without a mistake" in text
    assert "20 familiar examples were answered out of fold" in text
    assert text.endswith("More examples help, a larger tolerated share, or less confidence")


def test_decide__too_many_mistakes_cannot_promise_and_say_so():
    rng = np.random.RandomState(0)
    held_out = world(200, rng)
    held_out = held_out._replace(labels=rng.randint(3, size=200))
    text = answer(held_out, world(10, rng)).summary()
    assert re.search(
        r"1\d\d of 19\d answers were wrong out of fold, and confidence does not tell these", text
    )
    assert "no better than always answering the class shares" in text
    of_groups = answer(held_out._replace(groups=np.arange(200) // 10), world(10, rng), min_familiarity=0.1)
    assert "groups answered without a mistake" in of_groups.summary()


def test_decide__of_data_without_signal_says_that_the_model_knows_nothing():
    rng = np.random.RandomState(0)
    proba = np.full((99, 2), 0.5) + 0.1 * rng.uniform(size=(99, 1)) * [1, -1]
    held_out = HeldOut(proba, rng.normal(size=99), rng.randint(2, size=99))
    found = decide(
        proba[:10],
        held_out.evidence[:10],
        held_out,
        CLASSES[:2],
        max_error=0.05,
        confidence=0.9,
        min_familiarity=0.05,
    )
    text = found.summary()
    assert not found.beats_shares
    assert re.search(r"\d\d of 95 answers were wrong out of fold", text)
    assert "the inputs say nothing about the classes" in text
    assert "high confidence" not in text


def test_decide__what_is_better_than_the_class_shares_is_told_what_helps():
    rng = np.random.RandomState(0)
    found = answer(world(200, rng, sharpness=1.0), world(10, rng), max_error=0.01)
    assert found.beats_shares
    assert found.summary().endswith("More examples help, a larger tolerated share, or less confidence")


def test_decide__names_a_class_with_a_single_example():
    rng = np.random.RandomState(0)
    held_out = world(41, rng)
    labels = np.where(np.arange(41) == 3, 2, np.arange(41) % 2)
    found = answer(held_out._replace(labels=labels), world(10, rng), max_error=0.05)
    assert found.lone_classes == ("cedar",)
    assert "Class 'cedar' has a single example, so out of fold nothing is known of it" in found.summary()


def test_decide__of_groups_needs_more_than_as_many_examples():
    rng = np.random.RandomState(0)
    held_out, new = world(400, rng, sharpness=8), world(500, rng, sharpness=8)
    shares = [
        (answer(part, new, min_familiarity=0.05).reason == "answered").mean()
        for part in (held_out, held_out._replace(groups=np.arange(400) // 4))
    ]
    assert shares[0] > shares[1] > 0.3


def test_decide__by_class_some_may_be_promised_and_others_not():
    rng = np.random.RandomState(0)
    held_out, new = world(300, rng, sharpness=8), world(100, rng, sharpness=8)
    rare = held_out.proba.argmax(axis=1) == 2
    rows = np.flatnonzero(~rare).tolist() + np.flatnonzero(rare)[:10].tolist()
    held_out = HeldOut(*(part[rows] for part in held_out[:3]))
    found = answer(held_out, new, max_error={"ash": 0.2, "birch": 0.2, "cedar": 0.2})
    is_cedar = new.proba.argmax(axis=1) == 2
    assert set(found.reason[is_cedar]) <= {"cannot promise", "unfamiliar"}
    assert "answered" in found.reason[~is_cedar]
    text = found.summary()
    assert "at most 20 % of the answers 'ash' are wrong (out of fold" in text
    assert "Nothing is answered as 'cedar'" in text


def test_decide__by_class_a_confidence_beside_one_is_not_rounded_to_one():
    rng = np.random.RandomState(0)
    found = answer(
        world(300, rng), world(5, rng), max_error=dict.fromkeys(CLASSES, 0.2), confidence=1 - 2**-53
    )
    assert set(found.reason) <= {"unfamiliar", "ambiguous", "cannot promise", "answered"}
    assert {promise.n_needed for promise in found.promises.values()} == {165}  # log 2^-53 / log .8


def test_decisions__are_frozen_and_print_well():
    rng = np.random.RandomState(0)
    found = answer(world(300, rng), world(40, rng))
    counts = {name: (found.reason == name).sum() for name in ("answered", "unfamiliar", "ambiguous")}
    assert repr(found) == f"<Decisions: {found.summary()}>"
    # A promise is of inputs like the training examples, not of this batch.
    assert f"answers {counts['answered']} of 40; for inputs like the training examples" in repr(found)
    assert "at most 10 % of all answers are wrong (out of fold" in repr(found)
    assert f"with confidence .9; {counts['unfamiliar']} unfamiliar, {counts['ambiguous']} amb" in repr(found)
    assert len(found) == 40
    assert np.array_equal(found.is_answered, [label is not None for label in found.label])
    with pytest.raises(AttributeError):
        found.label = None


def test_to_frame__has_a_row_for_each_input_or_names_the_extra(monkeypatch):
    rng = np.random.RandomState(0)
    found: Decisions = answer(world(300, rng), world(40, rng))
    frame = pytest.importorskip("pandas").DataFrame
    table = found.to_frame()
    assert isinstance(table, frame)
    assert table.columns.tolist() == ["label", "reason", "confidence", "familiarity"]
    assert table.reason.tolist() == found.reason.tolist()
    assert table.label.dtype == object
    assert [label is None for label in table.label] == (~found.is_answered).tolist()
    real = builtins.__import__

    def without_pandas(name, *arguments, **more):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(MissingExtraError, match=r"pnca\[studies\]"):
        found.to_frame()


def test_decide_held_out__answers_the_examples_that_the_threshold_counts():
    from pnca.calibration.decisions import decide_held_out

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    sure = rng.uniform(0.7, 1, 200)
    is_right = (sure > 0.8) | (rng.random(200) < 0.6)
    best = np.where(is_right, labels, 1 - labels)
    proba = np.where(np.arange(2) == best[:, None], sure[:, None], 1 - sure[:, None])
    held_out = HeldOut(proba, rng.normal(size=200), labels, np.arange(200) // 2)
    found = decide_held_out(
        held_out, np.array(["a", "b"]), max_error=0.3, confidence=0.9, min_familiarity=0.05
    )
    promise = found.promises[None]
    assert found.is_answered.sum() == promise.n_answered > 0
    assert (best != labels)[found.is_answered].sum() == promise.n_wrong
    assert 0 < (found.reason == "unfamiliar").mean() < 0.1
