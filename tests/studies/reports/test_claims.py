"""Each claim is tried in a world where it holds and in one where it does not."""

from collections import Counter
from dataclasses import replace

import pytest

from pnca_studies.reports.claims import CLAIMS, CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE, judge
from runs import Skill, covid_run, mnist_run

PNCA, PUBLISHED = "PNCA (paper)", "BNN as published"
ACCURACY = {"DNN": 0.75, "BNN": 0.74, PUBLISHED: 0.74, "Ensemble": 0.76, "NCA": 0.69, PNCA: 0.67}
ROTATED = {"DNN": 0.17, "BNN": 0.20, PUBLISHED: 0.20, "Ensemble": 0.17, "NCA": 0.18, PNCA: 0.18}
VALIDATION = {"DNN": 0.80, "BNN": 0.79, PUBLISHED: 0.79, "Ensemble": 0.79, "NCA": 0.77, PNCA: 0.82}
ABLATION = (
    *(PNCA, "100 d features", "30 d features", "exact", "exact + background .1"),
    *("independent", "exact independent", "exact + background .1 independent"),
)


def _mnist_world(columns, test_set):
    """All that the paper says of MNIST, three draws .01 apart, except that PNCA loses no accuracy."""
    model, shift = columns["model"], 0.01 * (columns["draw"] - 1)
    few = columns["n_train"] == 100
    if test_set == "test":
        # Nine in ten are sure; with few images a quarter of those are wrong.
        accuracy = (ACCURACY[model] if few else 0.90) + shift
        return Skill(accuracy=accuracy, sure=0.9, sure_accuracy=accuracy)
    if test_set == "rotated":
        if model == PNCA:
            return Skill(accuracy=ROTATED[model] + shift, sure=0.12, sure_accuracy=1.0)
        return Skill(accuracy=(ROTATED[model] if few else 0.40) + shift, sure=0.4, sure_accuracy=0.1)
    return Skill(sure=0.1 if model == PNCA else (0.5 if few else 0.3))


def _ablation_world(columns, test_set):
    """The exact kernel is as cautious, and only the functional gradient of the paper's PNCA helps."""
    better = columns["model"] == PNCA and test_set == "test"
    return Skill(accuracy=0.70 if better else 0.65, sure=0.1)


def _covid_world(columns, test_set):
    model = columns["model"]
    if test_set == "validation":
        return Skill(accuracy=VALIDATION[model])
    return Skill(sure=0.25 if model in (("BNN", PUBLISHED) if test_set == "actualmed" else (PNCA,)) else 0.5)


def _changed(world, model, test_set, n_train=None, **changes):
    """The world with one thing about one model on one test set changed."""

    def skills(columns, name):
        skill = world(columns, name)
        hit = columns["model"] == model and name == test_set and columns.get("n_train", n_train) == n_train
        return replace(skill, **changes) if hit else skill

    return skills


def _mnist(model, test_set, n_train=100, **changes):
    sizes = (100,) if n_train == 100 else (100, 200, 400)
    return {"skills": _changed(_mnist_world, model, test_set, n_train, **changes), "sizes": sizes}


def _ablation(model, test_set, **changes):
    return {"skills": _changed(_ablation_world, model, test_set, 100, **changes)}


def _covid(model, test_set, **changes):
    return {"skills": _changed(_covid_world, model, test_set, **changes)}


def _noisy_letters(columns, test_set):
    """PNCA is sure of fewer letters in the mean, 38 % against 50 %, but not reliably: 10, 45 and 60 %."""
    skill = _mnist_world(columns, test_set)
    if columns["model"] == PNCA and test_set == "notmnist":
        return replace(skill, sure=(0.1, 0.45, 0.6)[columns["draw"]])
    return skill


def _accuracies(less):
    """PNCA less accurate than the best other model, by so much in each of the three draws."""

    def skills(columns, test_set):
        skill = _mnist_world(columns, test_set)
        if columns["model"] == PNCA and test_set == "test":
            accuracy = ACCURACY["Ensemble"] + 0.01 * (columns["draw"] - 1) - less[columns["draw"]]
            return replace(skill, accuracy=accuracy, sure_accuracy=accuracy)
        return skill

    return {"skills": skills, "sizes": (100,)}


def _barely_more_accurate(columns, test_set):
    """PNCA gains .04, .05 and .06: beyond one 95 % interval, t = 8.7, but not the widened one."""
    skill = _ablation_world(columns, test_set)
    if columns["model"] == PNCA and test_set == "test":
        return replace(skill, accuracy=0.69 + 0.01 * columns["draw"], sure_accuracy=0.6)
    return skill


def _complete_actualmed(inaccurate_but=None, accuracy=0.4):
    """Actualmed with all its negatives, on which every model but perhaps one has .4."""

    def skills(columns, test_set):
        if test_set != "actualmed":
            return _covid_world(columns, test_set)
        return Skill(accuracy=accuracy if columns["model"] == inaccurate_but else 0.4)

    return {"skills": skills, "negative": 127}


#: By the beginning of a claim: where it holds, and where it does not. {} is the world above.
WORLDS = {
    "Accuracy on MNIST test": (
        [{}],
        [
            _mnist("NCA", "test", accuracy=0.77, sure_accuracy=0.77),
            _mnist(PUBLISHED, "test", accuracy=0.8, sure_accuracy=0.8),
        ],
    ),
    "Accuracy on MNIST rotated": (
        [{}],
        [_mnist("DNN", "rotated", accuracy=0.25), _mnist(PUBLISHED, "rotated", accuracy=0.3)],
    ),
    "On rotated MNIST, PNCA is the most accurate": (
        [{}],
        [
            _mnist(PNCA, "rotated", sure_accuracy=0.0),
            _mnist(PNCA, "rotated", sure=0.0),
            _mnist("BNN", "rotated", sure=0.1, sure_accuracy=1.0),
            _mnist(PUBLISHED, "rotated", sure=0.1, sure_accuracy=1.0),
        ],
    ),
    "On rotated MNIST, PNCA has the fewest": (
        [{}],
        [_mnist("NCA", "rotated", sure=0.1), _mnist(PUBLISHED, "rotated", sure=0.1)],
    ),
    "On notMNIST, PNCA has significantly fewer": (
        [{}],
        [
            _mnist("NCA", "notmnist", sure=0.1),
            _mnist(PUBLISHED, "notmnist", sure=0.1),
            {"skills": _noisy_letters, "sizes": (100,)},
        ],
    ),
    "The other models worsen": (
        [{}],
        [
            _mnist(PUBLISHED, "notmnist", n_train=400, sure=0.5),
            _mnist("NCA", "notmnist", n_train=400, sure=0.5),
            _mnist("DNN", "rotated", n_train=400, accuracy=0.1, sure_accuracy=0.0),
        ],
    ),
    "PNCA is largely unaffected": (
        [{}],
        [
            _mnist(PNCA, "notmnist", n_train=200, sure=0.125),
            _mnist(PNCA, "rotated", n_train=400, accuracy=0.21),
        ],
    ),
    "The uncertainty estimates of BNNs": (
        [{}],
        [
            # With 400 images better by NLL but worse by ECE, and the other way round.
            _mnist("BNN", "test", n_train=400, accuracy=1.0, sure=0.0),
            _mnist(PUBLISHED, "test", n_train=400, accuracy=1.0, sure=0.0),
            _mnist("Ensemble", "test", n_train=400, accuracy=0.3, sure=0.0),
        ],
    ),
    "PNCA quantifies uncertainty better without": (
        # A little less in each draw is within the margin.
        [_mnist(PNCA, "test", accuracy=0.8, sure_accuracy=0.8), _accuracies((0.01, 0.01, 0.01))],
        # Far less; reliably more than the margin; no less in the mean, but perhaps .025.
        [{}, _accuracies((0.03, 0.03, 0.03)), _accuracies((-0.01, 0.0, 0.01))],
    ),
    "With the median bandwidth": (
        [{}],
        [{"kernel_sum": 1.9, "sizes": (100,)}, {"kernel_sum": 0.5, "sizes": (100,)}],
    ),
    "Comparing inputs as distributions": ([{}], [_ablation("exact", "notmnist", sure=0.2)]),
    "Learning the distribution over parameters": (
        [{}],
        [
            _ablation(PNCA, "test", accuracy=0.65),
            _ablation(PNCA, "test", accuracy=0.6),
            # Better in accuracy, but worse on letters: with another kernel, and with the same.
            _ablation("exact", "notmnist", sure=0.2),
            _ablation("independent", "notmnist", sure=0.0),
            {"skills": _barely_more_accurate},
        ],
    ),
    "All models are about equally accurate": (
        [{}],
        [
            _covid("NCA", "validation", accuracy=0.75),
            _covid("DNN", "validation", accuracy=0.85),
            _covid(PUBLISHED, "validation", accuracy=0.85),
        ],
    ),
    "PNCA is the most accurate on COVID": (
        [{}],
        [_covid("DNN", "validation", accuracy=0.83), _covid(PUBLISHED, "validation", accuracy=0.83)],
    ),
    "On Actualmed all models are inaccurate": (
        [_complete_actualmed()],
        [
            _complete_actualmed("NCA", 0.6),
            _complete_actualmed(PUBLISHED, 0.6),
            _complete_actualmed(PNCA, 0.6),
        ],
    ),
    # One BNN may have fewer than the other.
    "On Actualmed the BNN": (
        [{}, _covid("BNN", "actualmed", sure=0.0), _covid(PUBLISHED, "actualmed", sure=0.0)],
        [
            _covid("DNN", "actualmed", sure=0.0),
            _covid("DNN", "actualmed", sure=0.25),
            _covid("BNN", "actualmed", sure=0.5),
            _covid(PUBLISHED, "actualmed", sure=0.5),
        ],
    ),
    "On X-rays of bones": (
        [{}],
        [
            _covid("BNN", "bones", sure=0.2),
            _covid("BNN", "bones", sure=0.25),
            _covid(PUBLISHED, "bones", sure=0.2),
        ],
    ),
}
UNTESTABLE = ("On three example X-rays",)


def _claim(beginning):
    (claim,) = (claim for claim in CLAIMS if claim.text.startswith(beginning))
    return claim


def _make_run(path, study, **changes):
    if study == "covid":
        return covid_run(path, **{"skills": _covid_world, **changes})
    if study == "ablation":
        return mnist_run(
            path,
            **{"skills": _ablation_world, "models": ABLATION, "draws": 3, "study": "ablation", **changes},
        )
    return mnist_run(path, **{"skills": _mnist_world, "sizes": (100, 200, 400), "draws": 3, **changes})


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """A run of each study in the world above."""
    folder = tmp_path_factory.mktemp("worlds")
    return {study: _make_run(folder / study, study) for study in ("mnist", "ablation", "covid")}


def _verdict(path, worlds, beginning, changes):
    claim = _claim(beginning)
    runs = {claim.study: _make_run(path, claim.study, **changes)} if changes else worlds
    return judge(claim, runs)


def test_claims__every_one_is_tried_here():
    counts = Counter(
        beginning
        for claim in CLAIMS
        for beginning in (*WORLDS, *UNTESTABLE)
        if claim.text.startswith(beginning)
    )
    assert len(CLAIMS) == len(WORLDS) + len(UNTESTABLE)
    assert set(counts.values()) == {1}


@pytest.mark.parametrize(
    ("beginning", "i"),
    [(beginning, i) for beginning, (holds, _) in WORLDS.items() for i in range(len(holds))],
)
def test_claim__confirmed_where_it_holds(tmp_path, worlds, beginning, i):
    verdict = _verdict(tmp_path / "run", worlds, beginning, WORLDS[beginning][0][i])
    assert verdict.status == CONFIRMED, verdict.finding


@pytest.mark.parametrize(
    ("beginning", "i"),
    [(beginning, i) for beginning, (_, fails) in WORLDS.items() for i in range(len(fails))],
)
def test_claim__not_confirmed_where_it_does_not_hold(tmp_path, worlds, beginning, i):
    verdict = _verdict(tmp_path / "run", worlds, beginning, WORLDS[beginning][1][i])
    assert verdict.status == NOT_CONFIRMED, verdict.finding


@pytest.mark.parametrize("beginning", UNTESTABLE)
def test_claim__that_our_data_cannot_decide(worlds, beginning):
    assert judge(_claim(beginning), worlds).status == NOT_TESTABLE


@pytest.mark.parametrize(("negative", "missing"), [(18, "109 of the 127"), (126, "1 of the 127")])
def test_claim__on_actualmed_cannot_be_decided_while_negatives_are_missing(tmp_path, negative, missing):
    run = covid_run(tmp_path / "run", **{**_complete_actualmed(), "negative": negative})
    verdict = judge(_claim("On Actualmed all models are inaccurate"), {"covid": run})
    assert verdict.status == NOT_TESTABLE
    assert verdict.finding.startswith(f"{missing} negative images were not to be had")


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


def test_claim__findings_hold_the_numbers(worlds):
    verdict = judge(_claim("Accuracy on MNIST test"), worlds)
    assert "DNN .750 (.000), BNN .740 (.000), BNN as published .740 (.000)" in verdict.finding
    verdict = judge(_claim("On notMNIST, PNCA has significantly"), worlds)
    assert "DNN 50.00 %" in verdict.finding
    assert "PNCA (paper) 10.00 %" in verdict.finding
    verdict = judge(_claim("The other models worsen"), worlds)
    assert "DNN: rotated accuracy .400 to .170, notMNIST above .9 30.0 % to 50.0 %" in verdict.finding
    verdict = judge(_claim("PNCA quantifies uncertainty better without"), worlds)
    assert "PNCA .670, best other (Ensemble) .760: difference -.090" in verdict.finding
    verdict = judge(_claim("Learning the distribution over parameters"), worlds)
    assert "99.4 % intervals: PNCA (paper), test accuracy +.050 (+.050 to +.050)" in verdict.finding
    verdict = judge(_claim("On Actualmed the BNN"), worlds)
    assert "DNN 50.00 %, BNN 25.00 %, BNN as published 25.00 %, Ensemble 50.00 %" in verdict.finding
    verdict = judge(_claim("All models are about equally"), worlds)
    expected = "DNN .800, BNN .790, BNN as published .790, Ensemble .790, NCA .770, PNCA (paper) .820"
    assert expected in verdict.finding


def test_claim__covid_is_judged_in_the_papers_condition(tmp_path):
    def skills(columns, test_set):
        return _covid_world(columns, test_set) if columns["labels"] == "paper" else Skill(accuracy=0.5)

    conditions = [("plain", "paper", "random"), ("plain", "any_covid", "random")]
    run = covid_run(tmp_path / "run", skills, conditions=conditions, trials=1)
    assert judge(_claim("All models are about equally accurate"), {"covid": run}).status == CONFIRMED


def test_claim__most_right_when_sure_ignores_rivals_that_are_never_sure(tmp_path):
    run = _make_run(tmp_path / "run", "mnist", **_mnist("NCA", "rotated", sure=0.0))
    verdict = judge(_claim("On rotated MNIST, PNCA is the most accurate"), {"mnist": run})
    assert verdict.status == CONFIRMED
    assert "NCA -" in verdict.finding


@pytest.mark.parametrize(("model", "status"), [("NCA", CONFIRMED), (PNCA, NOT_CONFIRMED)])
def test_claim__who_is_sure_in_one_draw_alone_is_never_sure(tmp_path, model, status):
    def skills(columns, test_set):
        skill = _mnist_world(columns, test_set)
        unsure = (columns["model"], test_set) == (model, "rotated") and columns["draw"] >= 1
        return replace(skill, sure=0.0) if unsure else skill

    run = _make_run(tmp_path / "run", "mnist", skills=skills, sizes=(100,))
    assert judge(_claim("On rotated MNIST, PNCA is the most accurate"), {"mnist": run}).status == status


# Runs that cannot decide: something is missing, so neither confirmed nor refuted.

INCOMPLETE = {
    "one model": {"finished": lambda columns: columns["model"] in ("DNN", "exact")},
    "all but PNCA": {"finished": lambda columns: columns["model"] != PNCA},
    "none": {"finished": lambda columns: False},
}


@pytest.mark.parametrize("missing", INCOMPLETE)
@pytest.mark.parametrize("study", ["mnist", "ablation", "covid"])
def test_claims__not_testable_on_a_run_without_the_models(tmp_path, study, missing):
    runs = {study: _make_run(tmp_path / "run", study, **INCOMPLETE[missing])}
    wrong = {}
    for claim in (claim for claim in CLAIMS if claim.study == study):
        if missing == "all but PNCA" and claim.text.startswith(("The other", "The unc", "Learning")):
            continue  # these are about the others too
        wrong |= _wrong(claim, runs, NOT_TESTABLE)
    assert wrong == {}


@pytest.mark.parametrize("bnn", ["BNN", PUBLISHED])
@pytest.mark.parametrize("study", ["mnist", "covid"])
def test_claims__both_bnns_are_needed(tmp_path, study, bnn):
    run = _make_run(tmp_path / "run", study, finished=lambda columns: columns["model"] != bnn)
    wrong = {}
    for claim in (claim for claim in CLAIMS if claim.study == study):
        of_pnca_alone = claim.text.startswith(("PNCA is largely", "With the median"))
        wrong |= _wrong(claim, {study: run}, CONFIRMED if of_pnca_alone else NOT_TESTABLE)
    assert wrong == {}


@pytest.mark.parametrize(
    ("quick", "undecided"),
    [
        ({"sizes": (100,), "draws": 2}, ("The other models", "PNCA is largely", "The uncertainty")),
        ({"finished": lambda columns: columns["n_train"] != 400}, ("The other", "PNCA is l", "The unc")),
    ],
)
def test_claims__a_run_without_the_larger_sizes_decides_the_rest(tmp_path, quick, undecided):
    runs = {"mnist": _make_run(tmp_path / "run", "mnist", **quick)}
    wrong = {}
    for claim in (claim for claim in CLAIMS if claim.study == "mnist"):
        expected = (NOT_TESTABLE,) if claim.text.startswith(undecided) else (CONFIRMED, NOT_CONFIRMED)
        wrong |= _wrong(claim, runs, *expected)
    assert wrong == {}


@pytest.mark.parametrize("study", ["mnist", "ablation"])
def test_claims__one_draw_has_no_interval_but_can_be_reported(tmp_path, study):
    runs = {study: _make_run(tmp_path / "run", study, draws=1)}
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
        skill = _mnist_world(columns, test_set)
        if test_set != "notmnist":
            return skill
        base = (0.1, 0.3, 0.5, 0.7)[columns["draw"]]
        return replace(skill, sure=base if columns["model"] == PNCA else base + 0.05)

    def finished(columns):
        return columns["draw"] != missing_of_pnca if columns["model"] == PNCA else columns["draw"] != 3

    run = mnist_run(tmp_path / "run", skills, draws=4, finished=finished)
    verdict = judge(_claim("On notMNIST, PNCA has significantly"), {"mnist": run})
    assert verdict.status in (CONFIRMED, NOT_TESTABLE)


def test_claims__a_rival_one_draw_short_does_not_stop_the_report(tmp_path):
    def finished(columns):
        return (columns["model"], columns["draw"]) != ("Ensemble", 2)

    runs = {"mnist": _make_run(tmp_path / "run", "mnist", finished=finished)}
    wrong = {}
    for claim in (claim for claim in CLAIMS if claim.study == "mnist"):
        wrong |= _wrong(claim, runs, CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE)
    assert wrong == {}
