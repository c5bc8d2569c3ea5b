"""What a user does about the examples: an audit of those there are, and what to label next."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pnca.calibration.arguments import check_min_familiarity, check_share
from pnca.calibration.audit import Audit
from pnca.calibration.conformal import conformal_p_values
from pnca.calibration.findings import Audited, audit
from pnca.calibration.labelling import MOST_COMPARED, Suggestions, cloud_similarity, suggest
from pnca.calibration.learning import LearningCurve
from pnca.estimators.refits import measure_curve
from pnca.exceptions import InvalidInputError
from pnca.record import Record

if TYPE_CHECKING:
    from pnca.calibration.decisions import HeldOut
    from pnca.estimators.checks import Inputs
    from pnca.models.fitted import Fitted

NO_RECORD = (
    "the model keeps no record of its examples (its file was saved with store='predictive', or by an earlier "
    "version of pnca)"
)


class Audits:
    """Audits of the training examples, and what more labels would bring; for neighbour models with folds."""

    if TYPE_CHECKING:
        bandwidth_: float
        classes_: NDArray[Any]
        folds_: NDArray[np.int64]
        support_labels_: NDArray[np.int64]
        device: str
        verbose: bool | int
        fitted_: Fitted

        def _check_inputs(self, X: ArrayLike) -> Inputs: ...
        def _held_out(self) -> HeldOut: ...

    def audit(self) -> Audit:
        """Look for what is suspicious in the training examples.

        Labels that the model doubts out of fold; equal or almost equal examples; columns that look like
        identifiers or leaks, are constant or copies; classes that are few or of one group; examples far from
        all others. ``docs/audit.md`` says what each finding means and how often it is wrong.

        Returns
        -------
        Audit
            ``findings``, the most harmful first, ``summary()``, ``to_frame()``. Empty where nothing is found.
        """
        held_out, (record, missing) = self._held_out(), _record_of(self)
        if missing:
            whole = Audited(held_out, self.folds_, self.classes_, getattr(record, "ids", None))
            return audit(whole, (f"Columns and pairs of examples were not looked at: {missing}",))
        assert record is not None
        inputs, fitted = self._check_inputs(record.inputs), self.fitted_
        scaled, columns = fitted.scaled_rows(inputs), fitted.column_values(inputs)
        notes = () if columns is not None else ("Inputs are images, or a module takes them: no columns",)
        whole = Audited(held_out, self.folds_, self.classes_, record.ids, record.groups, columns, scaled)
        return audit(whole, notes)

    def learning_curve(
        self,
        sizes: Sequence[int] | None = None,
        *,
        repeats: int = 1,
        max_error: float = 0.05,
        verbose: bool | None = None,
    ) -> LearningCurve:
        """Measure how well fits on fewer of the examples do, and what more labels would bring.

        The examples are dealt into five folds. For each, the same parameters are fitted on nested subsets of
        the other four, which never split a group and hold every class, and score the fold. That is 25 fits a
        repeat; the model itself is not changed.

        Parameters
        ----------
        sizes : sequence of int, optional
            Examples to learn from, at most four fifths; five sizes, evenly spaced in their logarithm,
            without it.
        repeats : int
            How often the folds are dealt anew; more make intervals narrower.
        max_error : float
            Share of answers that may be wrong, for the share that :meth:`decide` would answer.
        verbose : bool, optional
            Whether a progress bar shows the fits and the time that is left; as in the model without it.

        Returns
        -------
        LearningCurve
            ``nll``, ``accuracy`` and ``answered`` at ``sizes`` with 90 % intervals, ``gain(more=100)``,
            ``summary()``, ``to_frame()``.
        """
        check_is_fitted(self)
        record, missing = _record_of(self)
        if record is None or missing:
            raise InvalidInputError(f"There is nothing to fit again: {missing}. Fit the model anew.")
        return measure_curve(
            self,
            record,
            self.support_labels_,
            sizes,
            repeats=repeats,
            max_error=check_share("max_error", max_error),
            verbose=bool(self.verbose if verbose is None else verbose),
        )

    def suggest(self, X_pool: ArrayLike, k: int = 10) -> Suggestions:
        """Suggest which inputs of a pool to label next.

        Chosen are inputs that stand for as many expected mistakes of the pool as possible: the model is
        unsure of them or of many inputs that are embedded near them, and no two of them stand for the same.
        ``docs/audit.md`` says how many labels that saved.

        Parameters
        ----------
        X_pool : array-like of shape (n, n_features), or (n, ...)
            Inputs without labels. Of more than 4,000, so many are drawn and compared.
        k : int
            Suggestions; fit again with their labels before asking for more.

        Returns
        -------
        Suggestions
            Arrays ``rows``, ``score``, ``reason``, ``confidence``, ``familiarity``, the most useful first.
        """
        held_out, inputs = self._held_out(), self._check_inputs(X_pool)
        n, most = len(inputs), min(len(inputs), MOST_COMPARED)
        if not (isinstance(k, Integral) and not isinstance(k, bool) and 1 <= k <= most):
            raise InvalidInputError(
                f"k is {k!r}: pass a whole number from 1 to {most}, the inputs that are compared."
            )
        rows: Any = np.arange(n)
        if n > most:
            rows = np.sort(np.random.RandomState(0).permutation(n)[:most])
            inputs = inputs[rows]
        fitted, evidence = self.fitted_, self.fitted_.log_evidence(inputs, self.device)
        return suggest(
            np.exp(fitted.log_probabilities(inputs, self.device)),
            conformal_p_values(held_out.evidence, evidence, held_out.groups),
            cloud_similarity(fitted.embed(inputs, self.device), self.bandwidth_),
            int(k),
            rows=rows,
            n=n,
            min_familiarity=check_min_familiarity(None, held_out.n_units),
        )


def _record_of(model: Any) -> tuple[Record | None, str]:  # noqa: ANN401
    """The record of a fit, and why it or its inputs are missing."""
    record: Record | None = getattr(model, "record_", None)
    return record, NO_RECORD if record is None else record.missing
