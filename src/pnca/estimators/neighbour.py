"""What NCA and PNCA share: groups, embeddings, evidence, and the examples behind a prediction."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pnca.estimators._compat import Interval, fit_context
from pnca.estimators.base import ParticleClassifier
from pnca.estimators.explains import Explains
from pnca.exceptions import InvalidInputError
from pnca.models.fitted import FloatArray
from pnca.models.neighbours import plan_neighbours

if TYPE_CHECKING:
    from typing_extensions import Self


#: Where a bandwidth is smaller, float32 knows no two embeddings that are near.
_LEAST_BANDWIDTH = 1e-6


class NeighbourClassifier(Explains, ParticleClassifier):
    """Particles that embed; classes compete for kernel mass in the latent space."""

    _parameter_constraints = {  # noqa: RUF012
        **ParticleClassifier._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "bandwidth": [Interval(Real, _LEAST_BANDWIDTH, None, closed="left")],
    }

    _plan = staticmethod(plan_neighbours)
    _keeps_record = True

    @fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(
        self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, ids: ArrayLike | None = None
    ) -> Self:
        """Train on labelled examples.

        Ctrl-C keeps what was learnt, as soon as an epoch is done: the estimator is then fitted, with
        ``was_interrupted_``, and KeyboardInterrupt is raised, so that a search stops too. A second Ctrl-C
        ends the fit at once and leaves the estimator unfitted.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs: numbers, NaN where one is missing, or a pandas table as it comes. Images are (n, h, w),
            (n, h, w, channels) or (n, channels, h, w); other shapes need ``module``.
        y : array-like of shape (n,)
            Labels of any type scikit-learn accepts; at least two classes.
        groups : array-like of shape (n,), optional
            Examples that belong together, such as images of one patient. They are never each other's
            neighbours in training and never split between folds, so that the model does not learn to
            recognise the patient.
        ids : array-like of shape (n,), optional
            A name for each example, all of them different: texts, whole numbers or dates. They have no
            influence on the fit; explanations name examples by them, and without them by the row.

        Returns
        -------
        self
        """
        return self._fit(X, y, groups, ids)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        reason = ""
        if name.startswith("oof_") and "fitted_" in vars(self):
            reason = ": nothing was chosen out of fold, with n_folds=None or after Ctrl-C"
        if name == "record_" and "fitted_" in vars(self):
            reason = ": its file was saved with store='predictive', or by an earlier version of pnca"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{reason}")

    def embed(self, X: ArrayLike) -> FloatArray:
        """Embed inputs with every particle.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.

        Returns
        -------
        ndarray of shape (m, n, d)
            For input i, the m points ``[:, i]`` are its distribution in the latent space.
        """
        inputs = self._check_inputs(X)
        return self.fitted_.embed(inputs, self.device)

    def evidence(self, X: ArrayLike) -> FloatArray:
        """Log of the total kernel mass an input receives: low means unlike the training examples.

        A density-like score: with the exact kernel and with positive features it falls as the embedding of
        an input moves away from those of all training examples, which the class probabilities alone do not
        show. With the paper's random features it settles at the level of their error instead. With
        ``novelty`` it also falls as an input moves away from the principal subspace of the training inputs.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.

        Returns
        -------
        ndarray of shape (n,)
        """
        inputs = self._check_inputs(X)
        return self.fitted_.log_evidence(inputs, self.device)

    def neighbors(self, X: ArrayLike, k: int | None = None) -> tuple[NDArray[np.int64], FloatArray]:
        """Find the training examples behind each prediction, largest share first.

        The shares of the examples of a class sum to its predicted probability, less what no single example
        carries: the part of the background mass, of a linear expert, and what the class shares get where an
        input is unfamiliar. With no background and no experts, and ``k=None``, they sum to one.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.
        k : int or None
            Number of neighbours; None returns all training examples.

        Returns
        -------
        indices : ndarray of shape (n, k)
            Rows of the training data.
        shares : ndarray of shape (n, k)
            The shares of those examples, each at most one.
        """
        inputs, n = self._check_inputs(X), self.n_samples_fit_
        if k is not None and not (isinstance(k, Integral) and 1 <= k <= n):
            raise InvalidInputError(
                f"k must be a whole number from 1 to {n}, the training examples; got {k!r}."
            )
        return self.fitted_.neighbours(inputs, self.device, n if k is None else int(k))
