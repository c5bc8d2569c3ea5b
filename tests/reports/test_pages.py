"""A report needs nothing else, escapes what is the user's, and can be read aloud and by everybody."""

import re
from itertools import pairwise

import numpy as np
import pytest

from html_pages import Page
from pnca.calibration.audit import Audit, Finding
from pnca.reports import pages, words
from pnca.reports.report import Report
from reports.conftest import evaluated

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

ABOUT = {
    "file": "models/<b>m</b>.pnca",
    "n_groups": None,
    "n_examples": 200,
    "source": {"target": "tree"},
    "columns": ["height <i>: number"],
    "input_shape": [1],
    "classes": {"ash": 60, "birch": 80, "<b>cedar</b>": 60},
    "promises": {"lines": ["Accuracy: 80 %"]},
    "settings": {"random_state": 0},
}


def report_of(evaluation, **changes):
    finding = Finding("far out", ("<b>",), 1.0, "", "Example '<b>' is far out.", "Look.")
    values = {
        "evaluation": evaluation,
        "about": ABOUT,
        "data": "" if evaluation.is_out_of_fold else "test<b>.csv",
        "ood": "other.csv",
        "names": np.array([f"<u>{row}" for row in range(evaluation.n)], dtype=object),
        "cases": {},
        "audit": Audit((finding,), 200),
        "drift": None,
        "curve": None,
        "notes": ("3 cases equal a training example <b>",),
        "checksums": {"m.pnca": "ab" * 32},
        "versions": {"pnca": "0"},
        "made": "2026-01-02",
    }
    return Report(**values | changes)


@pytest.fixture(scope="module")
def text(evaluation):
    return pages.report_html(report_of(evaluation))


def test_report__loads_nothing_and_runs_nothing(text):
    page = Page(text)
    (policy,) = [tag["content"] for tag in page.all("meta") if "http-equiv" in tag]
    assert policy.startswith("default-src 'none'")
    assert not page.all("script", "link", "iframe", "object", "img")
    assert not re.findall(r"url\((?!#)", text)


def test_report__can_be_read_aloud(text):
    page = Page(text)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(tag["scope"] in ("col", "row") for tag in page.all("th"))
    anchors = [tag["id"] for _, tag in page.tags if "id" in tag]
    assert len(set(anchors)) == len(anchors)
    linked = [tag["href"][1:] for _, tag in page.tags if tag.get("href", "").startswith("#")]
    named = [
        tag[key] for _, tag in page.tags for key in ("aria-labelledby", "aria-describedby") if key in tag
    ]
    assert set(linked + named) <= set(anchors)
    assert all(tag["role"] == "img" for tag in page.all("svg"))
    assert text.count("<details>") == len(
        page.all("svg")
    )  # and the columns; one of two curves shares its table


def test_report__escapes_what_is_the_users(text):
    for raw in ("<b>", "<u>", "<i>"):
        assert raw not in text
    assert "&lt;b&gt;cedar&lt;/b&gt;" in text


def test_report__says_what_matters_first(evaluation, text):
    sentences = words.verdict(report_of(evaluation))
    assert len(sentences) == 3
    point = evaluation.point
    assert f"answers {point.n_answered} of the {point.n} cases" in sentences[1]
    assert f"{point.n_wrong} of these answers" in sentences[1]
    assert "Do not trust it" in sentences[2]
    assert text.index("In three sentences") < text.index("What it was trained on")
    none = evaluated(max_error=0.001)
    assert "it answers none of" in words.verdict(report_of(none))[1]


def test_report__of_bad_answers_warns_of_them():
    found = evaluated()
    wrong = found.said._replace(proba=found.said.proba[:, [1, 2, 0]])
    from dataclasses import replace

    from pnca.reports.scores import operating_point

    worse = replace(found, point=operating_point(wrong, found.labels))
    assert "more are wrong than it promises" in words.verdict(report_of(worse))[2]
    useless = replace(found, nll=2.0, accuracy=found.accuracy._replace(value=0.2))
    assert words.verdict(report_of(useless))[2].startswith("Do not use it")


def test_report__of_many_classes_lists_confusions(evaluation, monkeypatch):
    monkeypatch.setattr(pages, "MOST_CLASSES", 2)
    head, rows = pages.confusion(evaluation)["table"]
    counts = evaluation.confusion - np.diag(np.diag(evaluation.confusion))
    assert sum(int(row[2]) for row in rows) == counts.sum()
    assert int(rows[0][2]) == counts.max()
    assert len(head) == 3


def test_report__numbers_stay_with_their_unit(text):
    assert not re.findall(r"\d %", text)


def test_report__where_nothing_is_promised_gives_the_reason_of_the_decision():
    none = evaluated(max_error=0.001)
    assert none.why_not.startswith("Nothing is answered: ")
    assert f"{none.why_not}." in words.point_sentences(none)


def test_report__explains_an_interval_beyond_the_promise():
    from dataclasses import replace

    found = evaluated()
    for high, is_said in ((found.promise.max_error + 0.1, True), (found.promise.max_error, False)):
        error = found.point.error._replace(low=0.0, high=high)
        said = " ".join(words.point_sentences(replace(found, point=found.point._replace(error=error))))
        assert ("no contradiction" in said) == is_said
