"""A report as one page of HTML; each part of it can stand in another page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pnca import __version__
from pnca.explanations.drawing import MOST_PIXELS, as_png, as_shown, as_svg
from pnca.explanations.pages import data_uri, parts_of, rendered
from pnca.explanations.text import decimal, short
from pnca.reports import figures, tables, words
from pnca.reports.comparison import comparison_table, how, verdict
from pnca.reports.report import MOST_LISTED, MOST_SHOWN

if TYPE_CHECKING:
    from pnca.calibration import Audit, LearningCurve
    from pnca.reports.comparison import Comparison
    from pnca.reports.report import Photo, Report, ShownCase
    from pnca.reports.values import Evaluation, IntArray

#: A number and its unit stay on one line.
_PER_CENT = re.compile(r"(\d) %")
TEMPLATES = Path(__file__).parent / "templates"
#: Inches of a figure.
_WIDTH = 4.4
#: Classes in a confusion matrix.
MOST_CLASSES = 15
#: Findings of a kind that are shown.
_MOST_FINDINGS = 5

Part = dict[str, Any]


def report_html(report: Report) -> str:
    """The page of a report.

    Parameters
    ----------
    report : Report
        All that it shows.
    """
    e = report.evaluation
    model = Path(report.about["file"]).name
    page = rendered(
        "report.html",
        TEMPLATES,
        title=f"Report on {model}",
        report=report,
        evaluation=e,
        verdict=words.verdict(report),
        key_figures=key_figures(e),
        summary=model_summary(report.about),
        findings_found=findings(report.audit),
        metrics=tables.metrics_table(e),
        classes=tables.classes_table(e),
        confusion_matrix=confusion(e),
        reliability=reliability(e),
        confidence=by_confidence(e),
        point=words.point_sentences(e),
        reasons=tables.reasons_table(e),
        risk=risk(e),
        familiarity=familiarity(e, report.data, report.ood),
        unknown=None if e.unknown is None else words.unknown_sentence(e),
        drift=None if report.drift is None else report.drift.summary(),
        ood_aurocs=_aurocs(e),
        mistakes=_mistakes(report),
        unfamiliar=_unfamiliar(report),
        curve=None if report.curve is None else learning(report.curve),
        limits=words.limits(report),
        settings=_settings(report),
        version=__version__,
    )
    return _PER_CENT.sub("\\1\u00a0%", page)


def comparison_html(comparison: Comparison, data: str) -> str:
    """The page of a comparison of models.

    Parameters
    ----------
    comparison : Comparison
        The models.
    data : str
        The name of the table.
    """
    n = len(comparison.models)
    differences = figure(
        figures.draw_differences,
        comparison,
        (_WIDTH, 0.7 + 0.33 * n),
        mark="differences",
        title="Differences in NLL",
        description="Negative log-likelihood of each model minus that of the default, with 95 % intervals.",
        table=None,
    )
    page = rendered(
        "comparison.html",
        TEMPLATES,
        title=f"Models compared on {data}",
        verdict=verdict(comparison),
        how=how(comparison),
        failed=comparison.failed,
        table_of_models=comparison_table(comparison),
        differences=differences,
        version=__version__,
    )
    return _PER_CENT.sub("\\1\u00a0%", page)


def key_figures(evaluation: Evaluation) -> list[tuple[str, str, str]]:
    """Three numbers that are read first: what, how much, and how sure."""
    e, point = evaluation, evaluation.point
    found = [("answered", words.percent(point.coverage), f"{point.n_answered} of {point.n} cases")]
    if point.error is not None:
        low, high = words.percent(point.error.low), words.percent(point.error.high)
        found.append(("wrong among the answers", words.percent(point.error.value), f"{low} to {high}"))
    low, high = words.percent(e.accuracy.low), words.percent(e.accuracy.high)
    return [*found, ("right if it always answered", words.percent(e.accuracy.value), f"{low} to {high}")]


def model_summary(about: Mapping[str, Any]) -> Part:
    """What the template ``model.html`` shows of a model: a table, what it promises, and its columns.

    Parameters
    ----------
    about : mapping
        From :func:`pnca.workflows.about_model`.
    """
    classes = ", ".join(f"{short(name)} ({n})" if n else short(name) for name, n in about["classes"].items())
    rows = [
        ["Inputs", words.inputs_in_words(about)],
        ["Classes", classes],
        ["Examples", str(about["n_examples"])],
        ["Groups", "none were named" if about["n_groups"] is None else str(about["n_groups"])],
    ]
    promises = about["promises"]
    return {
        "table": (["property", "value"], rows),
        "promises": [] if promises is None else promises["lines"],
        "columns": about["columns"],
    }


def findings(audit: Audit | None) -> Part:
    """Findings of an audit, a few of each kind, and what was looked for; without names of groups."""
    if audit is None:
        return {"summary": "", "findings": []}
    shown: list[Any] = []
    for finding in audit:
        if sum(other.kind == finding.kind for other in shown) < _MOST_FINDINGS:
            shown.append(finding)
    summary = audit.summary()
    return {"summary": summary[:1].upper() + summary[1:] + ".", "findings": shown}


def confusion(evaluation: Evaluation) -> Part:
    """A confusion matrix for the macro ``confusion``; of too many classes the most frequent confusions."""
    e = evaluation
    if len(e.classes) > MOST_CLASSES:
        return {"table": tables.confusions_table(e), "names": [], "rows": []}
    totals = e.confusion.sum(axis=1).clip(min=1)
    names = [short(name) for name in e.classes]
    rows = [
        (name, [(int(n), float(n / total)) for n in counts], int(counts.sum()))
        for name, counts, total in zip(names, e.confusion, totals, strict=True)
    ]
    return {"table": None, "names": names, "rows": rows}


def reliability(evaluation: Evaluation, mark: str = "reliability") -> Part:
    """The reliability diagram with its numbers; ``mark`` begins every id in it."""
    return figure(
        figures.draw_reliability,
        evaluation,
        (_WIDTH, 3.4),
        mark=mark,
        title="Reliability diagram",
        description=f"Share that is right against confidence. Calibration error {evaluation.ece:.3f}.",
        table=tables.reliability_table(evaluation),
    )


def by_confidence(evaluation: Evaluation, mark: str = "confidence") -> list[Part]:
    """Accuracy, and number, of the cases with at least some confidence."""
    e, numbers = evaluation, tables.confidence_table(evaluation)
    pairs = [
        (figures.draw_accuracy_by_confidence, e.accuracy_by_confidence, "Accuracy against confidence"),
        (figures.draw_count_by_confidence, e.count_by_confidence, "Number of cases against confidence"),
    ]
    return [
        figure(
            draw,
            curve,
            (_WIDTH, 2.3),
            mark=f"{mark}-{place}",
            title=title,
            description=f"Of the cases with at least so much confidence, from {curve.at[0]:.2f} to 1.",
            table=numbers if place else None,
        )
        for place, (draw, curve, title) in enumerate(pairs)
    ]


def risk(evaluation: Evaluation, mark: str = "risk") -> Part:
    """The risk-coverage curve with the operating point."""
    point = evaluation.point
    here = "Nothing is answered."
    if point.error is not None:
        here = (
            f"At the operating point {words.percent(point.coverage)} of the cases are answered, and "
            f"{words.percent(point.error.value)} of the answers are wrong."
        )
    return figure(
        figures.draw_risk,
        evaluation,
        (_WIDTH, 3.4),
        mark=mark,
        title="Risk against coverage",
        description=f"Share of wrong answers against the share of the cases that is kept. {here}",
        table=tables.risk_table(evaluation.risk),
    )


def familiarity(evaluation: Evaluation, data: str, ood: str, mark: str = "familiarity") -> Part:
    """Histograms of familiarity of the training examples and all others.

    Parameters
    ----------
    evaluation : Evaluation
        What was computed.
    data, ood : str
        What the labelled and the out-of-distribution inputs are called.
    mark : str
        Begins every id.
    """
    parts = tables.familiarities(evaluation, data, ood)
    return figure(
        figures.draw_familiarity,
        figures.Familiarities(parts, evaluation.min_familiarity),
        (_WIDTH, 0.9 + 0.85 * len(parts)),
        mark=mark,
        title="Familiarity",
        description=f"Histograms of familiarity: {', '.join(name for name, _ in parts)}.",
        table=tables.familiarity_table(evaluation, data, ood),
    )


def learning(curve: LearningCurve, mark: str = "learning") -> Part:
    """The learning curve with what more examples would bring."""
    found = figure(
        figures.draw_learning,
        curve,
        (_WIDTH, 2.6),
        mark=mark,
        title="Learning curve",
        description="Negative log-likelihood of left-out examples against the number of training examples.",
        table=tables.learning_table(curve),
    )
    return found | {"summary": f"{curve.summary()}."}


def figure(
    draw: Callable[..., None],
    value: Any,  # noqa: ANN401
    size: tuple[float, float],
    *,
    mark: str,
    title: str,
    description: str,
    table: tables.Table | None,
) -> Part:
    """A figure for the macro ``figure``: SVG, and its numbers in a table."""
    from markupsafe import Markup

    svg = as_svg(draw, value, size, mark=mark, title=title, description=description)
    return {"svg": Markup(svg), "mark": mark, "title": title, "table": table}


def _aurocs(evaluation: Evaluation) -> tuple[str, str]:
    """How well evidence and confidence tell out-of-distribution inputs from others."""
    if evaluation.ood is None:
        return "", ""
    return words.number(evaluation.ood.auroc), words.number(evaluation.ood.auroc_of_confidence)


def _mistakes(report: Report) -> Part:
    e = report.evaluation
    caption = f"{int(e.is_wrong.sum())} of {e.n} cases have another most probable class than their label"
    rows = e.confident_mistakes(MOST_LISTED)
    return _listed(report, rows, set()) | {"anchor": "mistakes", "caption": f"{caption}; the most confident"}


def _unfamiliar(report: Report) -> Part:
    e = report.evaluation
    elsewhere = set(e.confident_mistakes(MOST_SHOWN).tolist())
    found = _listed(report, e.least_familiar(MOST_LISTED), elsewhere)
    return found | {"anchor": "unfamiliar", "caption": "Those with the least evidence"}


def _listed(report: Report, rows: IntArray, elsewhere: set[int]) -> Part:
    """A list of inputs, and the evidence of the first ones that is not shown elsewhere."""
    first = [row for row in rows.tolist()[:MOST_SHOWN] if row in report.cases]
    cases = [_case(report, row, report.cases[row]) for row in first if row not in elsewhere]
    return {
        "table": tables.cases_table(report, rows) if len(rows) else None,
        "cases": cases,
        "missing": "Their evidence is not shown: the model keeps no record of its training examples.",
        "elsewhere": [short(report.names[row], 60) for row in first if row in elsewhere],
    }


def _case(report: Report, row: int, shown: ShownCase) -> Part:
    """A case for the template ``case.html``, which here knows its label."""
    e = report.evaluation
    found = parts_of(shown.case)
    label, named = short(e.classes[e.labels[row]]), short(e.classes[e.named[row]])
    name = short(report.names[row], 60)
    found["heading"] = f"{name}: labelled {label}, most probable {named}"
    confidence = decimal(float(e.said.proba[row].max()))
    said = [
        f"Labelled {label}; most probable is {named}, with probability {confidence}. Decision: "
        f"{e.said.reason[row]}."
    ]
    if e.is_out_of_fold:
        said = [f"Labelled {label}; out of fold {named} was most probable, with probability {confidence}."]
    if (without := shown.without_itself) is not None:
        own, other = (
            f"{short(e.classes[int(p.argmax())])} {decimal(float(p.max()))}"
            for p in (shown.case.proba, without)
        )
        said.append(
            "What follows is of the whole model, which has learnt from this example too: it gives "
            f"{own}, and {other} without this example among those it compares with, all else held fixed."
        )
    found["sentences"] = [*said, *found["sentences"]]
    if shown.photos:
        found["pictures"], found["has_photos"] = [_picture(photo) for photo in shown.photos], True
    return found


def _picture(photo: Photo) -> dict[str, str]:
    step = max(1, max(photo.pixels.shape[:2]) // MOST_PIXELS)
    picture = as_shown(photo.pixels[::step, ::step], (0.0, 255.0))
    return {"source": data_uri(as_png(picture)), "caption": photo.caption}


def _settings(report: Report) -> dict[str, tables.Table]:
    """Settings, versions and checksums as tables."""
    about, e = report.about, report.evaluation
    settings = [[name, repr(value)] for name, value in about["settings"].items()]
    asked = [
        ["share of wrong answers that is allowed", f"{e.promise.max_error:g}"],
        ["probability with which that shall hold", f"{e.promise_confidence:g}"],
        ["familiarity below which nothing is answered", f"{e.min_familiarity:.3g}"],
    ]
    return {
        "Settings of the fit that are not the default ones": (["parameter", "value"], settings),
        "Settings of this evaluation": (["setting", "value"], asked),
        "Versions": (["software", "version"], [list(pair) for pair in report.versions.items()]),
        "Checksums": (["file", "SHA-256"], [list(pair) for pair in report.checksums.items()]),
    }
