"""Verdicts on runs that are complete, and on runs that lack something."""

from dataclasses import replace

import pytest

from claim_worlds import PNCA, PUBLISHED, find, make_run, mnist_world
from pnca_studies.reports.claims import CLAIMS, CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE, judge
from runs import mnist_run


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.text[:40])
def test_claim__without_its_run_is_not_testable_and_says_which_run(worlds, claim):
    others = {study: run for study, run in worlds.items() if study != claim.study}
    verdict = judge(claim, others)
    assert verdict.status == NOT_TESTABLE
    assert f"`pnca reproduce {claim.study}`" in verdict.finding


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.text[:40])
def test_claim__finding_is_a_sentence_without_blanks_in_a_row(worlds, claim):
    finding = judge(claim, worlds).finding
    assert finding.endswith(".")
    assert "  " not in finding
    assert "nan" not in finding


# Runs that cannot decide: something is missing, so neither confirmed nor refuted.

INCOMPLETE = {
    "one model": {"finished": lambda columns: columns["model"] in ("DNN", "exact")},
    "all but PNCA": {"finished": lambda columns: columns["model"] != PNCA},
    "none": {"finished": lambda columns: False},
}


@pytest.mark.parametrize("missing", INCOMPLETE)
@pytest.mark.parametrize("study", ["mnist", "ablation", "covid"])
def test_claims__not_testable_on_a_run_without_the_models(tmp_path, study, missing):
    runs = {study: make_run(tmp_path / "run", study, **INCOMPLETE[missing])}
    wrong = {}
    for claim in (claim for claim in CLAIMS if claim.study == study):
        if missing == "all but PNCA" and claim.text.startswith(("The other", "The unc", "Learning")):
            continue  # these are about the others too
        wrong |= _wrong(claim, runs, NOT_TESTABLE)
    assert wrong == {}


@pytest.mark.parametrize("bnn", ["BNN", PUBLISHED])
@pytest.mark.parametrize("study", ["mnist", "covid"])
def test_claims__both_bnns_are_needed(tmp_path, study, bnn):
    run = make_run(tmp_path / "run", study, finished=lambda columns: columns["model"] != bnn)
    wrong = {}
    for claim in (claim for claim in CLAIMS if claim.study == study):
        of_pnca_alone = claim.text.startswith(("PNCA is largely", "With the median"))
        wrong |= _wrong(claim, {study: run}, CONFIRMED if of_pnca_alone else NOT_TESTABLE)
    assert wrong == {}


@pytest.mark.parametrize(
    ("quick", "undecided"),
    [
        ({"sizes": (100,)}, ("The other models", "PNCA is largely", "The uncertainty")),
        ({"finished": lambda columns: columns["n_train"] != 400}, ("The other", "PNCA is l", "The unc")),
    ],
)
def test_claims__a_run_without_the_larger_sizes_decides_the_rest(tmp_path, quick, undecided):
    runs = {"mnist": make_run(tmp_path / "run", "mnist", **quick)}
    wrong = {}
    for claim in (claim for claim in CLAIMS if claim.study == "mnist"):
        expected = (NOT_TESTABLE,) if claim.text.startswith(undecided) else (CONFIRMED, NOT_CONFIRMED)
        wrong |= _wrong(claim, runs, *expected)
    assert wrong == {}


def test_claims__two_draws_are_too_few_for_an_interval_and_that_is_said(tmp_path):
    runs = {"mnist": make_run(tmp_path / "run", "mnist", draws=2)}
    verdicts = [
        judge(claim, runs) for claim in CLAIMS if "interval" in claim.criterion and claim.study == "mnist"
    ]
    assert len(verdicts) == 6
    for verdict in verdicts:
        assert verdict.status == NOT_TESTABLE
        assert verdict.finding == (
            "Too few draws: the intervals of the criterion take at least 3, and there are 2."
        )


@pytest.mark.parametrize("study", ["mnist", "ablation"])
def test_claims__one_draw_has_no_interval_but_can_be_reported(tmp_path, study):
    runs = {study: make_run(tmp_path / "run", study, draws=1)}
    wrong = {}
    for claim in (claim for claim in CLAIMS if claim.study == study):
        wrong |= _wrong(claim, runs, CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE)
    assert wrong == {}


def _wrong(claim, runs, *expected):
    """What is wrong with the verdict, by claim; nothing if it is as expected."""
    try:
        verdict = judge(claim, runs)
    except Exception as error:
        return {claim.text[:50]: repr(error)}
    return {} if verdict.status in expected else {claim.text[:50]: verdict.status}


@pytest.mark.parametrize("missing_of_pnca", [0, 3])
def test_claims__never_pair_unlike_draws(tmp_path, missing_of_pnca):
    """PNCA has fewer sure answers in every draw that both have, though not in the mean over its own."""

    def skills(columns, test_set):
        skill = mnist_world(columns, test_set)
        if test_set != "notmnist":
            return skill
        base = (0.1, 0.3, 0.5, 0.7)[columns["draw"]]
        return replace(skill, sure=base if columns["model"] == PNCA else base + 0.05)

    def finished(columns):
        return columns["draw"] != missing_of_pnca if columns["model"] == PNCA else columns["draw"] != 3

    run = mnist_run(tmp_path / "run", skills, draws=4, finished=finished)
    verdict = judge(find("On notMNIST, PNCA has significantly"), {"mnist": run})
    assert verdict.status in (CONFIRMED, NOT_TESTABLE)


def test_claims__a_baseline_one_draw_short_does_not_stop_the_report(tmp_path):
    def finished(columns):
        return (columns["model"], columns["draw"]) != ("Ensemble", 2)

    runs = {"mnist": make_run(tmp_path / "run", "mnist", finished=finished)}
    wrong = {}
    for claim in (claim for claim in CLAIMS if claim.study == "mnist"):
        wrong |= _wrong(claim, runs, CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE)
    assert wrong == {}
