"""From values to HTML: the pages of the server, with the templates and figures of explanations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi.responses import HTMLResponse

from pnca import __version__
from pnca.calibration.decisions import UNFAMILIAR
from pnca.explanations.case import Explanation, WhatIf
from pnca.explanations.pages import parts_of, rendered
from pnca.explanations.text import decimal, name_of, short
from pnca.reports import pages as reports
from pnca.reports import tables, words
from pnca.reports.pages import TEMPLATES as REPORTS
from pnca.reports.values import Evaluation
from pnca.workflows.batches import Answered, Batch

TEMPLATES = Path(__file__).parent / "templates"
STATIC = Path(__file__).parent / "static"
#: Rows of a batch on a page.
PER_PAGE = 50
#: Headings of the columns by which a batch is sorted, by the name of the order.
HEADINGS = {
    "name": "Input",
    "label": "Answer",
    "reason": "Reason",
    "confidence": "Confidence",
    "familiarity": "Familiarity",
}


def page(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401
    """A page of the server."""
    text = rendered(template, TEMPLATES, REPORTS, version=__version__, **values)
    # A number and its unit stay on one line.
    return HTMLResponse(text.replace(" %", "\u00a0%"), status_code=status)


def query(**values: Any) -> str:  # noqa: ANN401
    """The end of an address, of what is not empty; lists are repeated."""
    found = urlencode(
        {name: value for name, value in values.items() if value not in ("", None, [], False)}, doseq=True
    )
    return f"?{found}" if found else ""


def parts_of_batch(
    batch: Batch, found: Answered, rows: list[int], number: int, asked: dict[str, Any]
) -> dict[str, Any]:
    """What ``batch.html`` shows: a page of the table, and the links that arrange it."""
    n_pages = max(1, -(-len(rows) // PER_PAGE))
    number = min(max(1, number), n_pages)
    shown = rows[(number - 1) * PER_PAGE : number * PER_PAGE]
    labels = found.decisions.label
    return {
        "n": len(batch),
        "n_shown": len(rows),
        "first": (number - 1) * PER_PAGE + 1 if rows else 0,
        "last": min(number * PER_PAGE, len(rows)),
        "page": number,
        "n_pages": n_pages,
        "summary": found.decisions.summary(),
        "notes": found.notes,
        "counts": found.counts,
        "headings": [_heading(name, title, asked) for name, title in HEADINGS.items()],
        "set_title": f"{100 * found.coverage:.3g} % set",
        "rows": [
            {
                "number": row + 1,
                "name": short(batch.names[row], most=60),
                "label": "" if labels[row] is None else short(labels[row], most=40),
                "reason": str(found.decisions.reason[row]),
                "confidence": decimal(float(found.decisions.confidence[row])),
                "familiarity": decimal(float(found.decisions.familiarity[row])),
                "set": _set_of(found, row),
            }
            for row in shown
        ],
    }


def parts_of_input(case: Explanation, what_if: WhatIf | None, without: list[int]) -> dict[str, Any]:
    """What ``input.html`` shows of a case, beside the verdict and the input itself."""
    largest = max((example.share for example in case.examples), default=0.0) or 1.0
    return {
        "case": parts_of(case),
        "given": []
        if case.is_picture
        else list(zip(map(short, case.names), map(short, case.given or ()), strict=False)),
        "strip": [
            {
                "row": example.row + 1,
                "name": name_of(example),
                "label": short(example.label),
                "share": decimal(example.share),
                "distance": "" if example.distance is None else f"{example.distance:.2f} sd",
                "width": round(100 * example.share / largest, 1),
                "is_removed": example.row in without,
                "others": [row + 1 for row in _toggled(without, example.row)],
            }
            for example in case.examples
        ],
        "what_if": None if what_if is None else _parts_of_what_if(what_if),
    }


def parts_of_model(about: Mapping[str, Any], evaluation: Evaluation) -> dict[str, Any]:
    """What ``model.html`` shows: what the model was trained on, and what is known of it out of fold."""
    return {
        "summary": reports.model_summary(about),
        "point": words.point_sentences(evaluation),
        "reasons": tables.reasons_table(evaluation),
        "risk": reports.risk(evaluation),
        "metrics": tables.metrics_table(evaluation),
        "classes": tables.classes_table(evaluation),
        "confusion_matrix": reports.confusion(evaluation),
        "reliability": reports.reliability(evaluation),
    }


def _set_of(found: Answered, row: int) -> str:
    """The conformal set of an input; a dash where it is unfamiliar, because no coverage holds there."""
    if found.decisions.reason[row] == UNFAMILIAR:
        return "—"
    names = [short(label) for label in found.classes[found.sets[row]].tolist()]
    return short(", ".join(names) or "empty", most=40)


def _heading(name: str, title: str, asked: dict[str, Any]) -> dict[str, Any]:
    """A heading of the table, and the link that sorts by it; a second click turns the order round."""
    is_own = asked["sort"] == name
    descending = not asked["descending"] if is_own else name in ("confidence",)
    order = ("descending" if asked["descending"] else "ascending") if is_own else "none"
    link = query(**{**asked, "sort": name, "descending": "true" if descending else "", "page": ""})
    return {"title": title, "order": order, "link": link, "is_number": name in ("confidence", "familiarity")}


def _toggled(rows: list[int], row: int) -> list[int]:
    return [other for other in rows if other != row] if row in rows else [*rows, row]


def _parts_of_what_if(found: WhatIf) -> dict[str, Any]:
    before, after = found.before[0], found.after[0]
    labels = [short(label) for label in found.classes.tolist()]
    order = sorted(range(len(labels)), key=lambda c: -max(before[c], after[c]))[:10]
    a, b = int(before.argmax()), int(after.argmax())
    changed = "stays" if a == b else "becomes"
    return {
        "text": f"{found.change[0].upper()}{found.change[1:]}: the most probable class {changed} "
        f"{labels[b]}, {decimal(before[a])} before and {decimal(after[b])} now.",
        "table": (
            ["class", "with all", "without"],
            [[labels[c], decimal(before[c]), decimal(after[c])] for c in order],
        ),
    }
