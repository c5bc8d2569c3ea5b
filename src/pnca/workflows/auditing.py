"""What is suspicious in the examples that a model was fitted on."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pnca.calibration.audit import Audit, Finding
from pnca.calibration.findings import OF_COLUMNS
from pnca.estimators.audits import NO_RECORD
from pnca.pipelines import audit
from pnca.sources import ImageSource
from pnca.tables.extras import require
from pnca.tables.values import text_of
from pnca.tables.writing import write_table
from pnca.workflows.answers import with_names


def audit_model(model: Any) -> Audit:  # noqa: ANN401
    """Look for what is suspicious in the training examples, which are named as predictions name them.

    Parameters
    ----------
    model : PNCAClassifier, or Pipeline that ends in one
        Fitted by ``pnca fit``, or from :func:`pnca.load`.

    Returns
    -------
    Audit
        Examples without an identifier are called by their row from 1. Of images nothing is said of features.
    """
    found, source = audit(with_names(model, NO_RECORD)), getattr(model, "source_", None)
    if not (isinstance(source, ImageSource) and source.has_features):
        return found
    return replace(
        found,
        findings=tuple(finding for finding in found if finding.kind not in OF_COLUMNS),
        looked_for=tuple(kind for kind in found.looked_for if kind not in OF_COLUMNS),
        notes=(*found.notes, f"Inputs are features by {source.backbone}: their columns were not looked at"),
    )


def audit_as_dict(found: Audit) -> dict[str, Any]:
    """An audit as JSON has it.

    Parameters
    ----------
    found : Audit
        From :func:`audit_model`.

    Returns
    -------
    dict
    """
    return {
        "n_examples": found.n,
        "summary": found.summary(),
        "findings": [asdict(finding) | {"what": _names(finding)} for finding in found],
        "looked_for": list(found.looked_for),
        "notes": list(found.notes),
    }


def write_findings(found: Audit, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a table with a row for each finding, whole or not at all.

    Parameters
    ----------
    found : Audit
        From :func:`audit_model`.
    path : str or Path
        The file: ``.csv``, ``.tsv`` or ``.parquet``.
    overwrite : bool
        Whether ``path`` may be replaced.
    """
    columns = ("kind", "what", "strength", "meaning", "sentence", "advice")
    rows = [asdict(finding) | {"what": "; ".join(_names(finding))} for finding in found]
    with write_table(path, overwrite=overwrite) as table:
        table.write(require("pandas").DataFrame(rows, columns=list(columns)))


def _names(finding: Finding) -> list[str]:
    return [text_of(name) for name in finding.what]
