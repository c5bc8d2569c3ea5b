"""What a user decides by: familiarity, answers with a promise, sets of classes, and drift."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pnca.calibration.arguments import check_max_error, check_min_familiarity, check_priors, check_share
from pnca.calibration.conformal import class_p_values, conformal_p_values
from pnca.calibration.decisions import Decisions, HeldOut, decide, held_out_sets
from pnca.calibration.drift import Drift, batch_drift
from pnca.estimators.notices import warn
from pnca.exceptions import DriftWarning, InvalidInputError
from pnca.models.fitted import FloatArray
from pnca.record import index_of
from pnca.training.sampling import numbered_groups

if TYPE_CHECKING:
    from pnca.estimators.checks import Inputs
    from pnca.models.fitted import Fitted

#: Inputs from which on a batch is tested.
_FEWEST_TESTED = 10


class Decides:
    """Decisions by what a fit says of its training examples out of fold; for neighbour models with folds."""

    if TYPE_CHECKING:
        classes_: NDArray[Any]
        class_prior_: FloatArray
        oof_proba_: FloatArray
        oof_evidence_: FloatArray
        support_labels_: NDArray[np.int64]
        device: str
        fitted_: Fitted

        def _check_inputs(self, X: ArrayLike) -> Inputs: ...

    def familiarity(self, X: ArrayLike, *, by_class: bool = False) -> FloatArray:
        """Conformal p-value of each input's evidence: small means unlike the training examples.

        The share of the training examples, the input among them, that had no more evidence out of fold.
        Of inputs that are drawn as the training examples were, at most a share of about a has a
        familiarity of at most a. With ``groups`` in the fit each group counts once.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.
        by_class : bool
            Whether to compare with the training examples of each class alone.

        Returns
        -------
        ndarray of shape (n,), or (n, c) by class
            Above zero, at most one; the least possible is 1 / (1 + number of training examples), or groups.
        """
        held_out = self._held_out()
        evidence = self.fitted_.log_evidence(self._check_inputs(X), self.device)
        if not by_class:
            return conformal_p_values(held_out.evidence, evidence, held_out.groups)
        of_classes = np.repeat(evidence[:, None], len(self.classes_), axis=1)
        return class_p_values(held_out.evidence, held_out.labels, of_classes, held_out.groups)

    def decide(
        self,
        X: ArrayLike,
        *,
        max_error: float | Mapping[Any, float] = 0.05,
        confidence: float = 0.9,
        min_familiarity: float | None = None,
        priors: ArrayLike | Mapping[Any, float] | None = None,
        groups: ArrayLike | None = None,
    ) -> Decisions:
        """Answer where few answers are wrong, and abstain elsewhere, with the reason.

        An input is not answered where it is *unfamiliar* (its familiarity is below ``min_familiarity``),
        *ambiguous* (its confidence is below a threshold that is learnt from the out-of-fold predictions), or
        where the training examples cannot show that any threshold keeps the promise (*cannot promise*).

        The promise: with probability ``confidence`` over the draw of the training examples, at most a share
        ``max_error`` of the answers given is wrong, for inputs that are drawn as the training examples
        were. ``docs/decisions.md`` says what it rests on and how it was measured. Of a batch of ten inputs
        and more it is tested whether it is clearly unlike the training data, and a
        :class:`~pnca.exceptions.DriftWarning` says so.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.
        max_error : float, or mapping from every class to float
            Share of the answers that may be wrong; of those given as a class, by a threshold of its own.
            Promises by class share what ``confidence`` leaves.
        confidence : float
            Probability with which the promise, or all promises together, shall hold.
        min_familiarity : float or None
            Inputs below it are not answered; zero answers all that is certain enough. None is .05, or with
            fewer than thirty examples the least that can decline anything: inputs with less evidence than
            every training example. A larger one answers fewer inputs of classes that were never seen.
        priors : array-like of shape (c,), mapping from every class to float, or None
            How frequent the classes are in use, where that differs from the training data. Probabilities
            and the promise are then for these frequencies, and the batch is not tested.
        groups : array-like of shape (n,), optional
            Inputs of the batch that belong together, such as those of one patient, for the test of the batch
            alone. If the fit had groups the batch is not tested without them.

        Returns
        -------
        Decisions
            Arrays ``label``, ``reason``, ``confidence``, ``familiarity``, ``is_answered``; ``summary()``,
            ``to_frame()``, ``promises``, ``drift``.
        """
        check_is_fitted(self)
        held_out = self._held_out()
        terms = terms_of(self, held_out, max_error, confidence, min_familiarity)
        shares = None if priors is None else check_priors(priors, self.classes_)
        inputs = self._check_inputs(X)
        new_groups = None if groups is None else numbered_groups(groups, len(inputs))
        evidence = self.fitted_.log_evidence(inputs, self.device)
        is_comparable = shares is None and (held_out.groups is None or new_groups is not None)
        drift = None
        if is_comparable and len(inputs) >= _FEWEST_TESTED:
            compared = self.fitted_.comparable_columns(inputs)
            drift = batch_drift(held_out.evidence, evidence, compared, held_out.groups, new_groups)
            if drift.is_clear:
                warn(f"{drift.warning()}: see the decisions' drift.", DriftWarning)
        return decide(
            np.exp(self.fitted_.log_probabilities(inputs, self.device)),
            evidence,
            held_out,
            self.classes_,
            **terms,
            priors=shares,
            model_priors=self.class_prior_,
            drift=drift,
            index=index_of(X),
        )

    def predict_set(
        self, X: ArrayLike, *, coverage: float = 0.9, by_class: bool = False
    ) -> NDArray[np.bool_]:
        """Predict the set of classes that cannot be ruled out; the most probable one is always in it.

        A class is in the set if at least a share of about 1 - ``coverage`` of the training examples had no
        larger probability of their true class out of fold. About ``coverage`` of the sets hold the
        true class, for inputs that are drawn as the training examples were.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.
        coverage : float
            Share of the sets that shall hold the true class. With fewer than about
            1 / (1 - ``coverage``) examples (groups) every set holds all classes.
        by_class : bool
            Whether each class shall be in that share of the sets of its own inputs.

        Returns
        -------
        ndarray of bool, shape (n, c)
            In the order of ``classes_``.
        """
        share, held_out = check_share("coverage", coverage), self._held_out()
        proba = np.exp(self.fitted_.log_probabilities(self._check_inputs(X), self.device))
        return held_out_sets(proba, held_out, share, by_class=by_class)

    def drift(self, X: ArrayLike, *, groups: ArrayLike | None = None) -> Drift:
        """Test whether a batch as a whole is less familiar than the training examples.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            The batch; at least two inputs.
        groups : array-like of shape (n,), optional
            Inputs of the batch that belong together, such as those of one patient.

        Returns
        -------
        Drift
            ``p_value`` of the test, the ``columns`` that moved most, and ``summary()``.
        """
        held_out, inputs = self._held_out(), self._check_inputs(X)
        if len(inputs) < 2:
            raise InvalidInputError("drift is of a batch: X has one input, pass at least two.")
        new_groups = None if groups is None else numbered_groups(groups, len(inputs))
        evidence = self.fitted_.log_evidence(inputs, self.device)
        compared = self.fitted_.comparable_columns(inputs)
        return batch_drift(held_out.evidence, evidence, compared, held_out.groups, new_groups)

    def _held_out(self) -> HeldOut:
        return held_out_of(self)


def terms_of(
    model: Any,  # noqa: ANN401
    held_out: HeldOut,
    max_error: float | Mapping[Any, float],
    confidence: float,
    min_familiarity: float | None,
) -> dict[str, Any]:
    """The terms on which inputs are answered, checked, by their names in :func:`pnca.calibration.decide`."""
    return {
        "max_error": check_max_error(max_error, model.classes_),
        "confidence": check_share("confidence", confidence),
        "min_familiarity": check_min_familiarity(min_familiarity, held_out.n_units),
    }


def held_out_of(model: Any) -> HeldOut:  # noqa: ANN401
    """What a fit says of its training examples out of fold; an error if it says nothing."""
    check_is_fitted(model)
    if not hasattr(model, "oof_proba_"):
        raise InvalidInputError(
            f"This {type(model).__name__} knows nothing of its training examples out of fold, by which "
            "decisions are made: it was fitted with n_folds=None, or Ctrl-C ended the fit. Fit it again "
            "with n_folds=5."
        )
    groups = getattr(model, "groups_", None)
    return HeldOut(model.oof_proba_, model.oof_evidence_, model.support_labels_, groups)
