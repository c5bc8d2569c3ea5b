"""What an audit says of examples in which it is known what is wrong."""

import numpy as np
import pytest

from pnca.calibration.audit import KINDS, Audit, Finding
from pnca.calibration.decisions import HeldOut
from pnca.calibration.findings import Audited, audit
from pnca.calibration.suspicious import ColumnValues

N = 120


def clean(rng, groups=None):
    """Two classes apart in three columns, predicted well; nothing is wrong."""
    labels = np.arange(N) % 2
    X = rng.normal(size=(N, 3)) + 1.5 * labels[:, None]
    p = np.where(labels == 1, 0.95, 0.05)
    proba = np.stack([1 - p, p], axis=1)
    columns = [ColumnValues(name, "number", X[:, [j]]) for j, name in enumerate("abc")]
    held_out = HeldOut(proba, rng.uniform(1, 3, size=N), labels, groups)
    return Audited(
        held_out, np.arange(N) % 7 % 5, np.array(["benign", "malignant"]), None, groups, columns, X
    )


def with_columns(examples, columns):
    return examples._replace(columns=columns, scaled=np.hstack([column.places for column in columns]))


@pytest.fixture
def rng():
    return np.random.RandomState(0)


def of_kind(found, kind):
    return [finding for finding in found if finding.kind == kind]


def test_audit__of_clean_examples_says_what_was_looked_for(rng):
    found = audit(clean(rng))
    assert len(found) == 0
    text = found.summary()
    assert text.startswith(f"of {N} training examples, nothing found. Looked for ")
    assert "labels that the model doubts" in text
    assert KINDS["shared"] not in text  # there are no groups
    assert KINDS["shared"] in audit(clean(rng, np.arange(N) // 2)).summary()
    assert repr(found) == f"<Audit: {text}>"


def test_audit__says_what_it_could_not_look_for(rng):
    bare = clean(rng)._replace(columns=None, scaled=None)
    found = audit(bare, ("Columns were not looked at",))
    assert {"identifier", "repeated", "contradiction", "shared"}.isdisjoint(found.looked_for)
    assert found.summary().endswith(". Columns were not looked at")


def test_audit__a_doubted_label_is_named_by_its_id(rng):
    examples = clean(rng)
    proba = examples.held_out.proba.copy()
    proba[8] = [0.04, 0.96]
    names = np.array([f"P{i:03d}" for i in range(N)], dtype=object)
    (finding,) = audit(examples._replace(held_out=examples.held_out._replace(proba=proba), names=names))
    assert (finding.kind, finding.what) == ("doubted label", ("P008",))
    assert finding.strength == pytest.approx(0.96)
    assert finding.sentence.startswith("Example 'P008' has the label 'benign', which")
    assert "0.04, and 'malignant' one of 0.96" in finding.sentence


def test_audit__pairs_with_other_labels_groups_and_folds(rng):
    examples = clean(rng)
    scaled = examples.scaled.copy()
    scaled[3], scaled[11] = scaled[2], scaled[5]  # 2 and 3 differ in label; 5 and 11 do not
    found = audit(examples._replace(scaled=scaled))
    (contradiction,) = of_kind(found, "contradiction")
    assert (contradiction.what, contradiction.strength) == ((2, 3), 1.0)
    (repeated,) = of_kind(found, "repeated")
    assert repeated.what == (2, 3, 5, 11)
    assert repeated.strength == pytest.approx(4 / N)
    assert "Are groups missing?" in repeated.advice
    names = np.array([f"patient {i // 2}" for i in range(N)], dtype=object)
    grouped = clean(np.random.RandomState(0), np.arange(N) // 2)._replace(scaled=scaled, group_names=names)
    found = audit(grouped)
    (shared,) = of_kind(found, "shared")
    assert shared.what == (5, 11)  # 2 and 3 are of one group
    assert "('patient 2', 'patient 5')" in shared.sentence
    assert of_kind(found, "repeated") == []


def test_audit__columns(rng):
    examples = clean(rng)
    columns = [
        *examples.columns,
        ColumnValues("patient", "number", 4000.0 + np.arange(N)[:, None]),
        ColumnValues("a in cm", "number", examples.columns[0].places / 10),
        ColumnValues("site", "category", np.ones((N, 1))),
        ColumnValues("free text", "left out", np.empty((N, 0))),
        ColumnValues("report", "number", examples.held_out.labels[:, None] + 0.01 * rng.normal(size=(N, 1))),
    ]
    found = audit(with_columns(examples, columns))
    assert [(f.kind, f.what) for f in found] == [
        ("identifier", ("patient",)),
        ("decider", ("report",)),
        ("copy", ("a in cm",)),
        ("constant", ("site",)),
        ("unused", ("free text",)),
    ]
    assert "makes every one of them unfamiliar" in of_kind(found, "identifier")[0].sentence
    assert "suspicious, not wrong" in of_kind(found, "decider")[0].sentence
    assert "'a'" in of_kind(found, "copy")[0].sentence


def test_audit__an_identifier_does_not_tell_equal_examples_apart(rng):
    examples = clean(rng)
    places = [column.places.copy() for column in examples.columns]
    for part in places:
        part[11] = part[5]
    same = [ColumnValues(name, "number", part) for name, part in zip("abc", places, strict=True)]
    number = ColumnValues("row", "number", np.arange(N)[:, None] + 0.0)
    found = audit(with_columns(examples, [number, *same]))
    assert [f.what for f in of_kind(found, "repeated")] == [(5, 11)]
    assert {f.kind for f in audit(with_columns(examples, [number]))} == {"identifier"}


def test_audit__a_group_id_left_in_is_an_identifier(rng):
    groups = np.arange(N) // 4
    column = ColumnValues("patient", "number", (70 + groups[:, None]).astype(float))
    examples = clean(rng, groups)
    (finding,) = of_kind(audit(with_columns(examples, [*examples.columns, column])), "identifier")
    assert "one value for each group" in finding.sentence


def test_audit__classes(rng):
    labels = np.r_[np.zeros(110, dtype=int), np.ones(7, dtype=int), np.full(3, 2)]
    groups = np.r_[np.arange(110) // 2, np.full(7, 90), 91, 92, 93]
    proba = np.eye(3)[labels] * 0.9 + 0.1 / 3
    held_out = HeldOut(proba, rng.uniform(1, 2, size=N), labels)
    examples = Audited(held_out, np.arange(N) % 5, np.array([10, 20, 30]))
    assert [(f.kind, f.what) for f in audit(examples)] == [
        ("few examples", (30,)),
        ("few examples", (20,)),
        ("imbalance", (30, 10)),
    ]
    grouped = audit(examples._replace(held_out=held_out._replace(groups=groups)))
    assert [(f.kind, f.what) for f in grouped] == [
        ("one group", (20,)),
        ("few examples", (30,)),
        ("imbalance", (30, 10)),
    ]
    assert "3 groups" in grouped.findings[1].sentence


def test_audit__far_out_examples_are_those_far_below_the_quartile(rng):
    examples = clean(rng)
    evidence = np.linspace(0, 4, N)
    evidence[[17, 50]] = -12.1, -8.0  # five interquartile ranges below are about -9
    found = audit(examples._replace(held_out=examples.held_out._replace(evidence=evidence)))
    (finding,) = found
    assert (finding.kind, finding.what) == ("far out", (17,))
    assert finding.strength == pytest.approx(1 - 1 / (N + 1), abs=0.02)


def test_audit__prints_five_of_a_kind_and_counts_the_rest():
    findings = tuple(
        Finding("far out", (row,), 0.9, "share", f"Row {row} is far.", "Look.") for row in range(8)
    )
    found = Audit(findings, 100)
    lines = repr(found).splitlines()
    assert lines[0] == "<Audit: of 100 training examples, examples far from all others: 8>"
    assert lines[1] == "- Row 0 is far. Look."
    assert lines[-1] == "- ... and 3 more: examples far from all others."
    assert len(lines) == 7
    frame = found.to_frame()
    assert frame["what"].tolist() == [(row,) for row in range(8)]
    assert Audit((), 5).to_frame().empty
