"""Evaluate a fitted model on labelled cases, or out of fold, and gather what a report shows."""

from __future__ import annotations

import copy
import datetime
import platform
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca.calibration import Audit
from pnca.calibration.drift import batch_drift
from pnca.calibration.duplicates import equal_rows
from pnca.estimators.checks import check_inputs
from pnca.exceptions import InvalidInputError
from pnca.explanations import Explanation
from pnca.pipelines import explain
from pnca.record import is_table
from pnca.reports.report import Report, ShownCase, shown_rows
from pnca.reports.scores import evaluate
from pnca.reports.values import Evaluation, Said
from pnca.sources import ImageSource
from pnca.training.sampling import numbered_groups
from pnca.workflows.about import about_model
from pnca.workflows.answers import Answers, Asked, Settings, decisions_out_of_fold, with_names
from pnca.workflows.cases import Cases
from pnca.workflows.pictures import Pictures

#: Cases that are predicted at once.
_AT_ONCE = 512
#: Findings about columns, which say nothing where columns are features of a network.
_OF_COLUMNS = ("identifier", "decider", "copy", "constant", "unused")
_SOFTWARE = ("torch", "numpy", "scipy", "scikit-learn")


def silent(stage: str) -> None:
    """Say nothing of what is being done."""


class Evaluating:
    """One model, asked about labelled cases or about its own training examples."""

    def __init__(
        self,
        model: Any,  # noqa: ANN401
        *,
        max_error: float = 0.05,
        confidence: float = 0.9,
        stage: Callable[[str], None] = silent,
    ) -> None:
        """Take a fitted model.

        Parameters
        ----------
        model : PNCAClassifier, or Pipeline that ends in one
            Fitted with folds.
        max_error, confidence : float
            See :meth:`pnca.PNCAClassifier.decide`.
        stage : callable
            Called with what is being done.
        """
        self.model, self.stage = model, stage
        self.answers = Answers(model, Settings(max_error=max_error, confidence=confidence, n_examples=0))
        self.last, self.held_out = with_names(self.answers.last), self.answers.held_out
        self.decided = decisions_out_of_fold(model, self.answers.settings)
        self.notes: list[str] = []
        self.drift: Any = None

    def evaluation(self, cases: Cases | None = None, ood: Cases | None = None) -> Evaluation:
        """Compute all numbers of a report.

        Parameters
        ----------
        cases : Cases, optional
            Labelled ones; without them the training examples, out of fold.
        ood : Cases, optional
            Some that belong to no class.

        Returns
        -------
        Evaluation
        """
        for found in (cases, ood):
            self.notes += [] if found is None else found.notes
        said = None if ood is None else self._said(ood)[1]
        return self._out_of_fold(said) if cases is None else self._of_cases(cases, said)

    def _of_cases(self, cases: Cases, ood: Said | None) -> Evaluation:
        assert cases.labels is not None
        inputs, said = self._said(cases)
        is_known = cases.labels >= 0
        groups = None if cases.groups is None else numbered_groups(cases.groups, len(cases.names))
        self.notes += self._leaks(cases, inputs)
        if cases.groups is None and self.held_out.groups is not None:
            self.notes.append(
                "the model was fitted with groups, and these cases have none: intervals count every case"
            )
        self.drift = self._drift(inputs[is_known], said.of(is_known), groups, is_known)
        return self._evaluated(
            said.of(is_known),
            cases.labels[is_known],
            groups=None if groups is None else groups[is_known],
            unknown=None if is_known.all() else (said.of(~is_known), cases.unknown or {}),
            ood=ood,
        )

    def _out_of_fold(self, ood: Said | None) -> Evaluation:
        held_out = self.held_out
        said = Said.by(self.decided, held_out.proba, held_out.evidence)
        options: Any = {"groups": held_out.groups, "ood": ood, "is_out_of_fold": True}
        return self._evaluated(said, held_out.labels, **options)

    def _evaluated(self, said: Said, labels: NDArray[np.int64], **options: Any) -> Evaluation:  # noqa: ANN401
        held_out, classes = self.held_out, self.last.classes_
        return evaluate(
            said,
            labels,
            classes,
            self.decided,
            shares=np.bincount(held_out.labels, minlength=len(classes)) / len(held_out.labels),
            **options,
        )

    def _said(self, cases: Cases) -> tuple[NDArray[Any], Said]:
        """What the model says of cases, and the inputs of its last step."""
        n = len(cases.names)
        if not n:
            raise InvalidInputError(f"{cases.name} has no cases.")
        parts: list[Asked] = []
        for start in range(0, n, _AT_ONCE):
            self.stage(f"predicting {cases.name}: {start} of {n} cases")
            parts.append(self.answers.ask(_rows(cases.X, slice(start, start + _AT_ONCE))))
        inputs, proba, evidence = (np.concatenate([part[k] for part in parts]) for k in range(3))
        familiarity = np.concatenate([part.decisions.familiarity for part in parts])
        reason = np.concatenate([part.decisions.reason for part in parts])
        return inputs, Said(proba, evidence, familiarity, reason)

    def _leaks(self, cases: Cases, inputs: NDArray[Any]) -> Iterator[str]:
        """Cases that the model was trained on, and groups that it knows."""
        record = self.last.record_
        if record.inputs is None:
            yield (
                "whether some of these cases are training examples could not be looked for: the model keeps "
                "no record of them"
            )
            return
        own = check_inputs(self.last, self.last.fitted_, record.inputs)
        equal = equal_rows(inputs, own)
        if n := int((equal >= 0).sum()):
            first = int((equal >= 0).argmax())
            yield (
                f"{n} of {len(inputs)} cases in {cases.name} equal a training example, such as "
                f"{cases.names[first]}: the model has seen them, and these figures are too optimistic"
            )
        if cases.groups is not None and record.groups is not None:
            known = set(map(str, record.groups.tolist()))
            shared = set(map(str, cases.groups.tolist())) & known
            if shared:
                yield (
                    f"{len(shared)} of {len(set(cases.groups.tolist()))} groups in {cases.name} are also in "
                    "the training data: the model knows them, and these figures are too optimistic"
                )

    def _drift(
        self,
        inputs: NDArray[Any],
        said: Said,
        groups: NDArray[np.int64] | None,
        is_known: NDArray[np.bool_],
    ) -> Any:  # noqa: ANN401
        is_comparable = self.held_out.groups is None or groups is not None
        if len(inputs) < 2 or not is_comparable:
            return None
        compared = self.last.fitted_.comparable_columns(inputs)
        own = None if groups is None else numbered_groups(groups[is_known], len(inputs))
        return batch_drift(self.held_out.evidence, said.evidence, compared, self.held_out.groups, own)

    def report(
        self,
        path: Path,
        evaluation: Evaluation,
        cases: Cases | None,
        ood: Cases | None,
        *,
        checksums: dict[str, str],
        pictures: Pictures | None = None,
        learning_curve: bool = False,
    ) -> Report:
        """Gather what a report shows beside the numbers.

        Parameters
        ----------
        path : Path
            The model file.
        evaluation : Evaluation
            From :meth:`evaluation`.
        cases, ood : Cases, optional
            Those that were evaluated.
        checksums : dict
            Of the files with them.
        pictures : Pictures, optional
            Of a model of features, pictures of its inputs.
        learning_curve : bool
            Whether the model is fitted again on parts of its examples.

        Returns
        -------
        Report
        """
        about, names = about_model(path), self._names(cases)
        self.stage("explaining cases")
        shown = self._shown(evaluation, cases, pictures)
        self.stage("auditing the training examples")
        audit = self._audit()
        curve = None
        if learning_curve:
            self.stage("fitting on parts of the examples, 25 times")
            curve = self.last.learning_curve(max_error=self.answers.settings.max_error, verbose=False)
        self.stage("drawing")
        return Report(
            evaluation=evaluation,
            about=about,
            data="" if cases is None else cases.name,
            ood="" if ood is None else ood.name,
            names=names,
            cases=shown,
            audit=audit,
            drift=self.drift,
            curve=curve,
            notes=tuple(self.notes),
            checksums={path.name: about["sha256"], **checksums},
            versions={
                "pnca": version("pnca"),
                "pnca that fitted the model": str(about["pnca"]),
                "Python": platform.python_version(),
                **{name: version(name) for name in _SOFTWARE},
            },
            made=datetime.date.today().isoformat(),
        )

    def _names(self, cases: Cases | None) -> NDArray[np.object_]:
        """What the labelled inputs are called."""
        if cases is not None:
            assert cases.labels is not None
            return cases.names[cases.labels >= 0]
        ids = self.last.record_.ids.tolist()  # numbers are rows, as pnca fit calls examples without an --id
        return np.array([f"row {name}" if isinstance(name, int) else str(name) for name in ids], dtype=object)

    def _shown(
        self, evaluation: Evaluation, cases: Cases | None, pictures: Pictures | None
    ) -> dict[int, ShownCase]:
        """Evidence of the rows that a report shows, by row."""
        rows, record = shown_rows(evaluation), self.last.record_
        if cases is None:
            if record.inputs is None:
                return {}
            model, X, places = self.last, record.inputs, rows
        else:
            assert cases.labels is not None
            model, X, places = self.model, cases.X, np.flatnonzero(cases.labels >= 0)[rows]
        found = explain(model, _rows(X, places))
        return {
            row: self._shown_case(case, row, cases, place, pictures)
            for row, place, case in zip(rows.tolist(), places.tolist(), found, strict=True)
        }

    def _shown_case(
        self, case: Explanation, row: int, cases: Cases | None, place: int, pictures: Pictures | None
    ) -> ShownCase:
        """The evidence of one row, which has this place among the cases or in the training data."""
        without, record = None, self.last.record_
        if cases is None:
            without = case.without([record.ids[place]]).after[0]
        source = getattr(self.model, "source_", None)
        if isinstance(source, ImageSource) and source.has_features:
            case = _without_columns(case)
        photos = () if pictures is None else pictures.of(case, cases, place)
        return ShownCase(case=replace(case, row=row), photos=photos, without_itself=without)

    def _audit(self) -> Audit | None:
        """Findings about the training examples; names of groups, which may be patients', are not shown."""
        source, shown = getattr(self.model, "source_", None), copy.copy(self.last)
        shown.record_ = replace(shown.record_, groups=None)
        found: Audit = shown.audit()
        if isinstance(source, ImageSource) and source.has_features:
            kept = tuple(finding for finding in found if finding.kind not in _OF_COLUMNS)
            looked_for = tuple(kind for kind in found.looked_for if kind not in _OF_COLUMNS)
            found = replace(found, findings=kept, looked_for=looked_for)
        return found


def _without_columns(case: Explanation) -> Explanation:
    """The case without its features, of which a single one means nothing to a reader."""
    examples = tuple(example._replace(given=None) for example in case.examples)
    return replace(case, columns=(), examples=examples, names=())


def _rows(X: Any, rows: Any) -> Any:  # noqa: ANN401
    return X.iloc[rows] if is_table(X) else X[rows]


def evaluated_out_of_fold(model: Any, max_error: float = 0.05, confidence: float = 0.9) -> Evaluation:  # noqa: ANN401
    """Evaluate a model on its training examples, out of fold; see :meth:`Evaluating.evaluation`.

    Parameters
    ----------
    model : PNCAClassifier, or Pipeline that ends in one
        Fitted with folds.
    max_error, confidence : float
        See :meth:`pnca.PNCAClassifier.decide`.

    Returns
    -------
    Evaluation
    """
    return Evaluating(model, max_error=max_error, confidence=confidence).evaluation()
