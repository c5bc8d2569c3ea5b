"""Tables of a report: head and rows of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pnca.calibration.decisions import AMBIGUOUS, ANSWERED, CANNOT_PROMISE, UNFAMILIAR
from pnca.explanations.text import decimal, short
from pnca.reports.values import Curve, Evaluation, IntArray
from pnca.reports.words import UNKNOWN, number, percent, within

if TYPE_CHECKING:
    from pnca.calibration import LearningCurve
    from pnca.reports.report import Report

Table = tuple[list[str], list[list[str]]]

#: What reasons mean.
MEANINGS = {
    ANSWERED: "familiar, and certain enough for what is promised",
    UNFAMILIAR: "unlike the training examples: a person should look",
    AMBIGUOUS: "familiar, but not certain enough",
    CANNOT_PROMISE: "the training examples cannot show that few answers would be wrong",
}
#: Confusions that are listed where there are too many classes for a matrix.
_MOST_CONFUSIONS = 12


def metrics_table(evaluation: Evaluation) -> Table:
    """All measures, with what each means."""
    e = evaluation
    rows = [
        ["Accuracy (95 % interval)", within(e.accuracy), "most probable class is right, answered or not"],
        ["Most frequent class alone", percent(e.accuracy_of_shares), "accuracy of always naming it"],
        ["Balanced accuracy", percent(e.balanced_accuracy), "mean of the recalls of the classes"],
        [
            "AUROC",
            number(e.auroc),
            "probability that a case of a class is ranked above another; .5 is chance",
        ],
        ["NLL, nats", number(e.nll), "negative log-likelihood of the labels; smaller is better"],
        [
            "NLL of the class shares",
            number(e.nll_of_shares),
            "of always giving the class shares of the training data",
        ],
        ["Brier score", number(e.brier), "squared error of the probabilities, 0 to 2; smaller is better"],
        ["ECE", number(e.ece), "expected calibration error: mean gap of confidence and accuracy; 0 is best"],
    ]
    return ["measure", "value", "meaning"], rows


def classes_table(evaluation: Evaluation) -> Table:
    """Each class: how many, how many found, how many named rightly, how many answered."""
    head = [
        "class",
        "cases",
        "recall (95 % interval)",
        "named",
        "precision (95 % interval)",
        "answered",
        "wrong",
    ]
    rows = [
        [
            short(scores.name),
            str(scores.n),
            UNKNOWN if scores.recall is None else within(scores.recall),
            str(scores.n_named),
            UNKNOWN if scores.precision is None else within(scores.precision),
            str(scores.n_answered),
            str(scores.n_wrong),
        ]
        for scores in evaluation.by_class
    ]
    return head, rows


def confusions_table(evaluation: Evaluation) -> Table:
    """The most frequent confusions."""
    counts = evaluation.confusion * (1 - np.eye(len(evaluation.classes), dtype=np.int64))
    order = np.argsort(-counts, axis=None, kind="stable")[:_MOST_CONFUSIONS]
    places = [np.unravel_index(place, counts.shape) for place in order.tolist()]
    names = [short(name) for name in evaluation.classes]
    rows = [[names[i], names[j], str(counts[i, j])] for i, j in places if counts[i, j]]
    return ["true class", "named", "cases"], rows


def reliability_table(evaluation: Evaluation) -> Table:
    """Confidence and accuracy in each bin."""
    rows = [
        [
            f"{found.low:.2f} to {found.high:.2f}",
            str(found.n),
            decimal(found.confidence),
            within(found.accuracy),
        ]
        for found in evaluation.bins
    ]
    return ["confidence", "cases", "mean confidence", "right (95 % interval)"], rows


def confidence_table(evaluation: Evaluation) -> Table:
    """Accuracy and count of the cases with at least some confidence."""
    counts, accuracies = evaluation.count_by_confidence, evaluation.accuracy_by_confidence
    rows = [
        [f"{at:.2f}", f"{count:.0f}", UNKNOWN if accuracy != accuracy else percent(accuracy)]
        for at, count, accuracy in zip(counts.at, counts.values, accuracies.values, strict=True)
    ]
    return ["confidence at least", "cases", "right"], rows


def risk_table(risk: Curve) -> Table:
    """Share of wrong answers by the share that is kept, in tenths."""
    places = np.unique(np.searchsorted(risk.at, np.arange(1, 11) / 10 - 1e-9).clip(max=len(risk.at) - 1))
    rows = [[percent(risk.at[k]), percent(risk.values[k])] for k in places.tolist()]
    return ["most confident cases kept", "of these wrong"], rows


def reasons_table(evaluation: Evaluation) -> Table:
    """How many are answered, or not for which reason."""
    rows = [
        [reason, str(n), percent(n / evaluation.n), MEANINGS[reason]]
        for reason, n in evaluation.reasons.items()
        if n or reason != CANNOT_PROMISE
    ]
    return ["answer", "cases", "share", "meaning"], rows


def familiarity_table(evaluation: Evaluation, data: str, ood: str) -> Table:
    """Familiarity of all inputs: how many are below the limit, and quartiles."""
    head = ["inputs", "number", f"familiarity below {evaluation.min_familiarity:.2g}", "quartiles"]
    rows = []
    for name, values in familiarities(evaluation, data, ood):
        quartiles = ", ".join(decimal(value) for value in np.quantile(values, [0.25, 0.5, 0.75]).tolist())
        below = float((values < evaluation.min_familiarity - 1e-9).mean())
        rows.append([name, str(len(values)), percent(below), quartiles])
    return head, rows


def familiarities(evaluation: Evaluation, data: str, ood: str) -> list[tuple[str, np.ndarray]]:
    """Familiarity of the training examples, and of all other inputs, with their names."""
    found = [("training examples, out of fold", evaluation.of_training)]
    if not evaluation.is_out_of_fold:
        found.append((data, evaluation.said.familiarity))
    if evaluation.unknown is not None:
        found.append(("unknown classes", evaluation.unknown.said.familiarity))
    if evaluation.ood is not None:
        found.append((ood, evaluation.ood.said.familiarity))
    return found


def cases_table(report: Report, rows: IntArray) -> Table:
    """Some inputs: what they are, and what is said of them."""
    e, names = report.evaluation, [short(name) for name in report.evaluation.classes]
    head = ["case", "labelled", "most probable", "confidence", "familiarity", "decision"]
    table = [
        [
            short(report.names[row], 60),
            names[e.labels[row]],
            names[e.named[row]],
            decimal(float(e.said.proba[row].max())),
            decimal(float(e.said.familiarity[row])),
            str(e.said.reason[row]),
        ]
        for row in rows.tolist()
    ]
    return head, table


def learning_table(curve: LearningCurve) -> Table:
    """Scores at each number of examples, with 90 % intervals."""
    head, rows = ["examples", "NLL (90 % interval)", "right (90 % interval)"], []
    if curve.answered is not None:
        head.append("answered (90 % interval)")
    for place, size in enumerate(curve.sizes.tolist()):
        nll = [part[place] for part in curve.nll]
        shares = [curve.accuracy, *([] if curve.answered is None else [curve.answered])]
        cells = [
            f"{percent(c.mean[place])} ({percent(c.low[place])} to {percent(c.high[place])})" for c in shares
        ]
        rows.append([str(size), f"{nll[0]:.3f} ({nll[1]:.3f} to {nll[2]:.3f})", *cells])
    return head, rows
