"""What a user does about the examples: an audit of those there are, and what to label next."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pnca.calibration.arguments import check_min_familiarity
from pnca.calibration.conformal import conformal_p_values
from pnca.calibration.labelling import MOST_COMPARED, Suggestions, cloud_similarity, suggest
from pnca.exceptions import InvalidInputError

if TYPE_CHECKING:
    from pnca.calibration.decisions import HeldOut
    from pnca.estimators.checks import Inputs
    from pnca.models.fitted import Fitted


class Audits:
    """Audits of the training examples, and what more labels would bring; for neighbour models with folds."""

    if TYPE_CHECKING:
        bandwidth_: float
        device: str
        fitted_: Fitted

        def _check_inputs(self, X: ArrayLike) -> Inputs: ...
        def _held_out(self) -> HeldOut: ...

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
