"""What the numbers of a report mean, in sentences that need no statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pnca.calibration.decisions import ANSWERED, CANNOT_PROMISE
from pnca.explanations.text import short
from pnca.reports.report import Report
from pnca.reports.values import Evaluation, Interval, OperatingPoint

#: Shown where there is nothing to compute a number from.
UNKNOWN = "not known"
#: Classes that are named in a sentence.
_MOST_NAMED = 4


def percent(share: float) -> str:
    """A share in per cent.

    >>> percent(0.1234), percent(1.0)
    ('12.3 %', '100.0 %')
    """
    return f"{100 * share:.1f} %"


def within(interval: Interval) -> str:
    """A share with its interval: ``96.4 % (92.5 % to 98.4 %)``."""
    return f"{percent(interval.value)} ({percent(interval.low)} to {percent(interval.high)})"


def number(value: float) -> str:
    """A number with three digits, or that it is not known."""
    return UNKNOWN if value != value else f"{value:.3f}"


def summary_lines(evaluation: Evaluation) -> list[str]:
    """The evaluation in a few lines.

    Parameters
    ----------
    evaluation : Evaluation
        What was computed.
    """
    e, of_groups = evaluation, "" if evaluation.n_groups is None else f" in {evaluation.n_groups} groups"
    where = f"labelled inputs{of_groups}"
    if e.is_out_of_fold:
        where = f"training examples{of_groups}, out of fold"
    lines = [
        f"Accuracy: {within(e.accuracy)} of {e.n} {where}; {percent(e.accuracy_of_shares)} by "
        "always naming the most frequent class.",
        f"Balanced accuracy: {percent(e.balanced_accuracy)}. AUROC: {number(e.auroc)}.",
        f"Probabilities: NLL {e.nll:.3f} nats, against {e.nll_of_shares:.3f} of the class shares alone; "
        f"calibration error (ECE) {e.ece:.3f}.",
        f"Answers, {answers(e)}.",
    ]
    if e.unknown is not None:
        lines.append(f"Unknown classes: {unknown_sentence(e)}")
    if e.ood is not None:
        lines.append(
            f"Out-of-distribution: AUROC {number(e.ood.auroc)} by evidence "
            f"({number(e.ood.auroc_of_confidence)} by confidence); of {e.ood.n} inputs "
            f"{e.ood.n_answered} were answered."
        )
    return lines


def answers(evaluation: Evaluation) -> str:
    """How many inputs are answered, how many answers are wrong, and why the others are not answered."""
    point, promise = evaluation.point, evaluation.promise
    allowed, sure = f"{100 * promise.max_error:.3g} %", f"{evaluation.promise_confidence:.3g}"
    wanted = f"at most {allowed} wrong with confidence {sure}: "
    found = f"{point.n_answered} of {point.n} ({percent(point.coverage)})"
    if point.error is not None:
        low, high = percent(point.error.low), percent(point.error.high)
        found += f", of which {point.n_wrong} are wrong ({percent(point.error.value)}; {low} to {high})"
    others = [f"{n} {reason}" for reason, n in evaluation.reasons.items() if n and reason != ANSWERED]
    return wanted + "; ".join([found, *([", ".join(others)] if others else [])])


def unknown_sentence(evaluation: Evaluation) -> str:
    """What happened to inputs of classes that the model does not know."""
    assert evaluation.unknown is not None
    counts = ", ".join(f"{short(name)} ({n})" for name, n in list(evaluation.unknown_classes.items())[:6])
    more = len(evaluation.unknown_classes) - 6
    return (
        f"{evaluation.unknown.n} inputs have a label that is no class of the model: {counts}"
        + (f" and {more} more" if more > 0 else "")
        + f". They are counted in nothing else; {evaluation.unknown.n_answered} were answered, wrongly."
    )


def verdict(report: Report) -> list[str]:
    """Three sentences: what the model is for, how often it answers and is wrong then, when not to trust it.

    Parameters
    ----------
    report : Report
        All that is known.
    """
    return [_purpose(report), _performance(report), _caution(report)]


def _purpose(report: Report) -> str:
    about, classes = report.about, report.evaluation.classes
    groups = "" if about["n_groups"] is None else f" in {about['n_groups']} groups"
    target = (about["source"] or {}).get("target")
    of_target = f" in {short(target)!r}" if target and all(len(name) < 3 for name in classes) else ""
    return (
        f"This model is for telling {enumerated(classes)}{of_target} apart by {inputs_in_words(about)}, for "
        f"cases like the {about['n_examples']} examples{groups} that it was trained on."
    )


def inputs_in_words(about: Any) -> str:  # noqa: ANN401
    """What an input is: columns of a table, or images."""
    source = about["source"] or {}
    if source.get("backbone"):
        return f"images, of which {source['backbone']} computes {about['input_shape'][0]} features"
    if about["columns"]:
        n = len(about["columns"])
        return f"{n} column{'s' * (n > 1)} of a table"
    shape = about["input_shape"]
    if len(shape) > 1:
        return f"images of {shape[0]} by {shape[1]} pixels"
    return f"{shape[0]} numbers"


def _performance(report: Report) -> str:
    e = report.evaluation
    point, allowed = e.point, f"{100 * e.promise.max_error:.3g} %"
    what = f"the {point.n} cases in {report.data}"
    if e.is_out_of_fold:
        what = f"its own {point.n} training cases, each judged by a model that had not seen it"
    if point.error is None:
        return (
            f"If at most {allowed} of the answers may be wrong, it answers none of {what}, because "
            f"{_why_none(e)}; if it answered always, {percent(1 - e.accuracy.value)} of the answers would be "
            f"wrong, and {percent(1 - e.accuracy_of_shares)} if the most frequent class were always named."
        )
    return (
        f"If at most {allowed} of the answers may be wrong, it answers {point.n_answered} of {what} "
        f"({percent(point.coverage)}), and {wrong_in_words(point)}."
    )


def _why_none(evaluation: Evaluation) -> str:
    """Why nothing is answered."""
    if evaluation.reasons[CANNOT_PROMISE]:
        return "its training examples are too few, or too often mistaken, to show that so few would be wrong"
    return "none is familiar and certain enough"


def wrong_in_words(point: OperatingPoint) -> str:
    """How many of the answers are wrong."""
    assert point.error is not None
    verb = "is" if point.n_wrong == 1 else "are"
    count = "none" if not point.n_wrong else str(point.n_wrong)
    ends = f"95 % interval {percent(point.error.low)} to {percent(point.error.high)}"
    return f"{count} of these answers {verb} wrong ({percent(point.error.value)}; {ends})"


def _caution(report: Report) -> str:
    e = report.evaluation
    if e.nll >= e.nll_of_shares and e.accuracy.value <= e.accuracy_of_shares:
        return (
            "Do not use it: neither its classes nor its probabilities are better here than those of a model "
            "that ignores the inputs and always gives the class shares."
        )
    parts = ["where it gives no answer", "for cases from another device, laboratory or population"]
    if e.point.error is not None and e.point.error.low > e.promise.max_error:
        parts.insert(0, "in cases like these, of whose answers more are wrong than it promises")
    elif report.drift is not None and report.drift.is_clear:
        parts.insert(0, "in cases like these, which as a whole are unlike its training examples")
    weak = [s for s in e.by_class if s.recall is not None and s.recall.value < 0.5]
    if weak:
        parts.append(
            f"to recognise {enumerated([s.name for s in weak])}, which it misses more often than not"
        )
    sentence = f"Do not trust it {', or '.join([', '.join(parts[:-1]), parts[-1]])}"
    if e.ood is not None:
        sentence += (
            f": of the {e.ood.n} out-of-distribution cases in {report.ood} it answered "
            f"{e.ood.n_answered or 'none'}"
        )
    return f"{sentence}."


def enumerated(names: Sequence[str], most: int = _MOST_NAMED) -> str:
    """Names in a sentence.

    >>> enumerated(["a"]), enumerated(["a", "b", "c"]), enumerated(list("abcdefg"))
    ('a', 'a, b and c', '7 classes (a, b, c and 4 more)')
    """
    shown = [short(name) for name in names]
    if len(shown) > most:
        return f"{len(shown)} classes ({', '.join(shown[: most - 1])} and {len(shown) - most + 1} more)"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def point_sentences(evaluation: Evaluation) -> list[str]:
    """The chosen operating point in words.

    Parameters
    ----------
    evaluation : Evaluation
        What was computed.
    """
    e, promise = evaluation, evaluation.promise
    found = [
        f"Chosen: at most {percent(promise.max_error)} of the answers may be wrong, with probability "
        f"{e.promise_confidence:.3g} over the draw of the training examples."
    ]
    if promise.value is None:
        found.append(f"{e.why_not}.")
    else:
        found.append(
            f"For that an answer needs a confidence of at least {promise.value:.3f} and a familiarity of "
            f"at least {e.min_familiarity:.2g}; out of fold {promise.n_answered} training examples had both, "
            f"and {promise.n_wrong} of these were wrong."
        )
    if e.point.error is not None:
        what = "training examples" if e.is_out_of_fold else "cases here"
        found.append(
            f"Of the {e.n} {what} {e.point.n_answered} are answered ({percent(e.point.coverage)}), and "
            f"{wrong_in_words(e.point)}."
        )
        if e.point.error.low <= promise.max_error < e.point.error.high:
            found.append(
                f"That this interval reaches beyond {percent(promise.max_error)} is no contradiction: the "
                f"promise is one-sided, with confidence {e.promise_confidence:.3g}; the interval is "
                "two-sided, of 95 %."
            )
    return found


def limits(report: Report) -> list[str]:
    """What the report does not show, in plain words.

    Parameters
    ----------
    report : Report
        All that is known.
    """
    e, found = report.evaluation, []
    if e.is_out_of_fold:
        found.append(
            "These are the training examples themselves, each predicted by a model that had not seen it. The "
            "confidence that an answer needs was chosen by the same examples, so the error among the answers "
            "looks a little better than it will be. A separate test set says more."
        )
    if report.about["n_groups"] is None:
        found.append(
            "No groups were named in the fit. If several rows are of one patient or sample, every number "
            "here is too optimistic: name them with --group and fit again."
        )
    elif e.n_groups is None:
        found.append(
            "The model was fitted with groups, and the evaluated cases have none: if several are of one "
            "patient or sample, the intervals are too narrow."
        )
    return [
        *found,
        "All of this holds for cases that come as the training examples came. Another device, laboratory, "
        "population or year may change it, and only labelled cases from there can show it.",
        "Familiarity finds cases far from all training examples. A disease or class that was never seen and "
        "looks like a known one gets the label of that one.",
        "Intervals show what the number of cases leaves open (95 %; in the learning curve 90 %), not errors "
        "in the labels.",
        "An explanation says what the model computed, not why a patient is ill.",
        "This is no medical device. A person decides.",
    ]
