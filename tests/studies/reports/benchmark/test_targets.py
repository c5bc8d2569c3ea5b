"""Targets: each is decided by its own number, and by nothing else."""

import re

import numpy as np
import pytest

from benchmark_runs import FEW, SMALL, WHOLE, at, document, results, section
from pnca_studies.experiments.contenders import CONTENDERS
from pnca_studies.reports.benchmark import MET, NOT_MET, NOT_RUN, targets
from pnca_studies.reports.benchmark.targets import findings

OOD_BY_CONFIDENCE, ABOVE = "ood_auroc_confidence", "above_0.9"


def verdicts(given):
    """Every verdict, by data set, target and n."""
    return {
        (data, text, n): finding.verdict
        for data, found in findings(given).items()
        for text, n, finding in found
    }


def test_targets__all_are_met_where_pnca_is_better_by_enough():
    found = verdicts(results())
    assert len(found) == 62
    assert set(found.values()) == {MET}


@pytest.mark.parametrize(
    ("change", "flipped"),
    [
        (at("MNIST", 100, "RBF-SVM", "test", accuracy=0.95), {("MNIST", "Accuracy at least", "100")}),
        (
            at("MNIST images", 400, "SNGP", "test", accuracy=0.95),
            {("MNIST images", "Accuracy at least", "400")},
        ),
        (
            at("MNIST", 100, "PNCA (paper)", "test", accuracy=0.86),
            {(data, "Accuracy .05 above", "100") for data in ("MNIST", "MNIST images")},
        ),
        (
            at("MNIST", 200, "BNN", "test", nll=0.35),
            {(data, "NLL at most .85", "200") for data in ("MNIST", "MNIST images")},
        ),
        (at("MNIST", 100, "PNCA", "test", ece=0.026), {("MNIST", "ECE at most", "100")}),
        (at("MNIST", 100, "PNCA", "ood", **{ABOVE: 0.0021}), {("MNIST", "Letters above", "100")}),
        (
            at("MNIST", 100, "PNCA", "ood", ood_auroc_evidence=0.9949),
            {("MNIST", "OoD AUROC by evidence", "100")},
        ),
        (
            at("MNIST", 100, "PNCA", "ood", **{OOD_BY_CONFIDENCE: 0.9899}),
            {("MNIST", "OoD AUROC by confidence", "100")},
        ),
        (at("MNIST", 400, "PCA residual", "ood", ood_auroc_evidence=0.993), {("MNIST", "Both", "400")}),
        (at("MNIST", 400, "PCA residual", "ood", ood_auroc_evidence=0.992), {("MNIST", "Both", "400")}),
        (at("MNIST images", 100, "Laplace", "rotated", augrc=0.03), {("MNIST images", "Rotated", "100")}),
        (at("COVID", 80, "k-NN", "test", auroc=0.96), {("COVID", "AUROC at least", "80")}),
        (at("COVID", 80, "k-NN", "test", nll=0.29), {("COVID", "NLL at least", "80")}),
        (at("COVID", 80, "PNCA", "ood", **{ABOVE: 0.0101}), {("COVID", "Bones", "80")}),
        (
            at("COVID", 80, "PNCA", "ood", ood_auroc_evidence=0.9899),
            {("COVID", "OoD AUROC by evidence", "80")},
        ),
        (
            at(None, None, "k-NN", "test", nll=0.29),
            {
                ("Over data sets", "Best mean rank in NLL", "-"),
                ("Over data sets", "Best mean rank in NLL, at the size shown first", "-"),
                ("COVID", "NLL at least", "80"),
            },
        ),
        (
            at(None, None, "k-NN", "ood", ood_auroc_evidence=0.999),
            {
                ("Over data sets", "Best mean rank in OoD AUROC by own score", "-"),
                ("Over data sets", "Best mean rank in OoD AUROC by own score, at the size shown first", "-"),
            },
        ),
        # Not what the targets look at.
        (at(None, None, None, "test, scaled", nll=0.01, ece=0.5), set()),
        (at("MNIST", 100, "DNN", "ood", **{OOD_BY_CONFIDENCE: 0.999}), set()),
        (at("digits", 100, "PNCA", "test", ece=0.5), set()),
        (at("MNIST", 50, "PNCA", "test", ece=0.5), set()),
    ],
)
def test_targets__each_flips_with_its_own_number(change, flipped):
    found = verdicts(results(change))
    not_met = {key for key, verdict in found.items() if verdict == NOT_MET}
    assert len(not_met) == len(flipped)
    for data, start, n in flipped:
        assert any(key[0] == data and key[1].startswith(start) and key[2] == n for key in not_met), not_met
    assert set(found.values()) <= {MET, NOT_MET}


@pytest.mark.parametrize(
    ("key", "limit"),
    [("ece", 0.025), (ABOVE, 0.002), ("ood_auroc_evidence", 0.995), (OOD_BY_CONFIDENCE, 0.99)],
)
def test_targets__a_mean_at_its_limit_meets_it(key, limit):
    test_set = "test" if key == "ece" else "ood"

    # Three numbers whose mean is the limit up to the last digit.
    def change(columns, given):
        here = columns["model"] == "PNCA" and given == test_set
        return {key: limit + (columns["draw"] - 1) * limit / 300} if here else {}

    found = verdicts(results(change, places=[("MNIST", 100)], draws=range(3)))
    assert NOT_MET not in {
        verdict for (data, _, n), verdict in found.items() if (data, n) == ("MNIST", "100")
    }


@pytest.mark.parametrize(
    ("value", "limit", "more", "strictly", "expected"),
    [
        (0.3, 0.1 + 0.2, True, False, True),  # the sum is .30000000000000004
        (0.1 + 0.2, 0.3, False, False, True),
        (0.1 + 0.2, 0.3, True, True, False),
        (0.3001, 0.3, True, True, True),
        (0.2999, 0.3, True, False, False),
        (0.3001, 0.3, False, False, False),
        (np.nan, 0.3, True, False, None),
        (0.3, np.nan, False, False, None),
    ],
)
def test_targets__rounding_decides_nothing(value, limit, more, strictly, expected):
    assert targets._reaches(value, limit, more=more, strictly=strictly) is expected


def test_targets__a_baseline_may_be_ahead_within_the_interval():
    def change(columns, test_set):
        ahead = columns["model"] == "RBF-SVM" and test_set == "test"
        return {"accuracy": (0.97, 0.87)[columns["draw"]]} if ahead else {}  # PNCA has .9 and .89

    given = results(change, places=[("MNIST", 100)])
    (finding,) = [f for text, n, f in findings(given)["MNIST"] if "at least as good" in text and n == "100"]
    assert finding.verdict == MET
    assert (finding.value, finding.other) == (".8950", ".9200 (RBF-SVM)")
    assert finding.difference == "-.025 (-.070 to +.020)"


def test_targets__one_draw_has_no_interval():
    found = verdicts(results(places=[("MNIST", 100)], draws=[0]))
    here = {text: verdict for (data, text, n), verdict in found.items() if (data, n) == ("MNIST", "100")}
    assert [text for text, verdict in here.items() if verdict == NOT_RUN] == [
        "Accuracy at least as good as the best other's"
    ]
    assert set(here.values()) == {MET, NOT_RUN}


def test_targets__what_is_missing_is_not_run(tmp_path):
    text = document(tmp_path, places=SMALL, models=FEW)
    assert "not run" not in section(text, "## Targets")
    assert "None of the targets can be tested with these fits" in section(text, "## Targets")
    missing = re.findall(r"\*\*Not in these runs:\*\* (.*)\.", text)[0]
    assert "MNIST: everything; MNIST images: everything; COVID: everything" in missing
    absent = ", ".join(model for model in CONTENDERS if model not in FEW)
    assert missing.endswith(f"breast cancer: everything; wine: {absent}; iris: {absent}")


@pytest.mark.parametrize(
    ("absent", "open_"),
    [
        ("BNN", ["NLL at most"]),  # the paper's best may be the one that is missing
        ("PNCA (paper)", ["Accuracy .05", "NLL at most"]),
        ("nearest distance", ["Both"]),
    ],
)
def test_targets__a_model_that_a_target_names_is_needed(absent, open_):
    models = [model for model in CONTENDERS if model != absent]
    found = verdicts(results(places=[("MNIST", 100)], models=models))
    not_run = [text for (data, text, n), v in found.items() if (data, n) == ("MNIST", "100") and v == NOT_RUN]
    assert len(not_run) == len(open_)
    assert all(text.startswith(start) for text, start in zip(not_run, open_, strict=True))


def test_targets__ranks_need_every_data_set():
    places = [place for place in WHOLE if place[0] != "iris"]
    found = verdicts(results(places=places))
    assert {key[0] for key, verdict in found.items() if verdict == NOT_RUN} == {"Over data sets"}
