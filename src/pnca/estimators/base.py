"""What all five classifiers share: scikit-learn's contract around planning, training and predicting."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pnca import __version__
from pnca.estimators._compat import Interval, StrOptions, fit_context
from pnca.estimators.checks import Inputs, check_examples, check_inputs
from pnca.exceptions import InconsistentVersionWarning, InvalidInputError
from pnca.models.fitted import Fitted, FloatArray, attributes_of
from pnca.models.options import Options
from pnca.models.plan import Plan
from pnca.models.selection import Choice
from pnca.training.loop import Run, Trained, surroundings
from pnca.training.sampling import (
    Examples,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from pnca.training.shards import ProcessShards

_INTERRUPTED = "The fit after {n} of {of.max_epochs} epochs is kept, with nothing chosen out of fold."


class Uncertainty(NamedTuple):
    """Uncertainty of predictions in nats; see :meth:`ParticleClassifier.uncertainty`."""

    total: FloatArray  # (n,)
    aleatoric: FloatArray  # (n,)
    epistemic: FloatArray  # (n,)


class ParticleClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """Base of the classifiers: m networks ("particles") trained as one stacked program.

    A subclass has the parameters and says how a fit is planned (``_plan``).
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012  (scikit-learn's protocol)
        "hidden_layer_sizes": ["array-like"],
        "module": [callable, None],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "augmentation": [Interval(Real, 0, None, closed="left")],
        "image_shape": ["array-like", None],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    hidden_layer_sizes: Any
    module: Any
    max_epochs: int | str
    learning_rate: float | str
    dropout: float | str
    augmentation: float | str
    image_shape: tuple[int, ...] | None
    batch_size: int | str | None
    class_weight: dict[Any, float] | str | None
    device: str
    random_state: Any
    verbose: bool | int
    fitted_: Fitted

    @abstractmethod
    def _plan(
        self,
        options: Options,
        examples: Examples,
        rng: np.random.RandomState,
        shards: ProcessShards | None,
    ) -> Plan:
        """Plan the fit: what is minimised, from where, and what it becomes."""

    @fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on labelled examples.

        Ctrl-C keeps what was learnt, as soon as an epoch is done: the estimator is then fitted, with
        ``was_interrupted_``, and KeyboardInterrupt is raised, so that a search stops too. A second Ctrl-C
        ends the fit at once and leaves the estimator unfitted.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...) if ``module`` is given
            Inputs: numbers, NaN where one is missing, or a pandas table as it comes.
        y : array-like of shape (n,)
            Labels of any type scikit-learn accepts; at least two classes.

        Returns
        -------
        self
        """
        return self._fit(X, y)

    def _fit(
        self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, ids: ArrayLike | None = None
    ) -> Self:
        """Check, plan, train, choose, finish; a process group and a checkpoint may surround it."""
        self._forget()
        # An interrupt within torch's own contexts could leave gradients off in all that follows.
        with torch.inference_mode(False), torch.enable_grad():
            around = surroundings()
            rng = around.random_state(self.random_state)
            with around.agreement() as identify:
                options = Options.of(self)
                examples = check_examples(self, options, X, y, groups, ids)
                options = options.settled(examples.input_shape)
                plan = self._plan(options, examples, rng, around.shards)
                identify(lambda: _identity(type(self).__name__, options, plan))
            seed = around.seed(int(rng.randint(2**31)))
            run = Run(plan.objective, plan.particles, plan.schedule, rng, seed=seed, shards=around.shards)
            caption = type(self).__name__ if self.verbose else None
            try:
                trained = run.train([*plan.wrappers, *around.wrappers(caption)])
                trained.history.warn_unless_learnt()
                self._end(plan, trained, options)
                around.complete()
                return self
            except KeyboardInterrupt as error:
                if not run.has_learnt():
                    raise
                interrupt = error  # it may be of a kind that the caller made: SIGTERM's, for example
            try:
                self._end(plan, run.trained(was_interrupted=True), options)
            except Exception as error:  # a search, which goes on after errors, must end
                raise interrupt from error
            interrupt.args = interrupt.args or (_INTERRUPTED.format(n=run.n_epochs, of=plan.schedule),)
            raise interrupt

    def _end(self, plan: Plan, trained: Trained, options: Options) -> None:
        """Choose and finish; quickly if the training was interrupted."""
        choice = plan.choose(trained)
        fitted = replace(plan.finish(trained, choice), columns=plan.examples.columns)
        self._publish(fitted, plan, trained, choice, options)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.

        Returns
        -------
        ndarray of shape (n,)
        """
        log_probabilities = self.predict_log_proba(X)
        labels: NDArray[Any] = self.classes_[log_probabilities.argmax(axis=1)]
        return labels

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Predict the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.

        Returns
        -------
        ndarray of shape (n, c)
            Rows sum to one.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Predict the logarithm of the probability of each class.

        Exact where :meth:`predict_proba` underflows to zero.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.

        Returns
        -------
        ndarray of shape (n, c)
        """
        inputs = self._check_inputs(X)
        return self.fitted_.log_probabilities(inputs, self.device)

    def uncertainty(self, X: ArrayLike) -> Uncertainty:
        """Split the uncertainty of each prediction into parts that mean different things.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.

        Returns
        -------
        Uncertainty
            Three arrays of shape (n,), in nats; the first is the sum of the others.

            ``total`` is the entropy of the predicted probabilities: zero if one class is certain, log c
            if all are equally probable. ``aleatoric`` is the mean entropy of the particles' own
            predictions: what each of them finds ambiguous, such as a digit between 4 and 9.
            ``epistemic`` is what they disagree about (the mutual information of class and particle);
            more training data would settle it. It needs several members, so it is zero with one
            particle and with ``expectation="cross"``. None of the three says that an input is unlike
            the training data: particles may agree there. ``evidence`` does, where a model has it.
        """
        inputs = self._check_inputs(X)
        return Uncertainty(*self.fitted_.entropy(inputs, self.device))

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def __getstate__(self) -> dict[str, Any]:
        # Attributes that are views of the fitted state would be written a second time.
        state: dict[str, Any] = super().__getstate__()
        views = attributes_of(self.fitted_) if "fitted_" in state else {}
        kept = {name: value for name, value in state.items() if name not in views}
        return kept | {"_pnca_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "n_iter_" in state and "fitted_" not in state:
            raise InvalidInputError(
                f"This {type(self).__name__} was fitted and pickled by pnca 0.1, whose models cannot be "
                "read: fit it again."
            )
        state = dict(state)
        if (version := state.pop("_pnca_version", __version__)) != __version__:
            warnings.warn(
                f"This {type(self).__name__} was pickled by pnca {version}, and this is {__version__}: its "
                "answers may be others. Files of pnca.save last.",
                InconsistentVersionWarning,
                stacklevel=2,
            )
        super().__setstate__(state)
        if "fitted_" in state:
            self.__dict__.update(attributes_of(self.fitted_))

    def _validate_params(self) -> None:
        self._forget()  # wrong parameters are a failing fit, too
        super()._validate_params()

    def _forget(self) -> None:
        """Drop an earlier fit, so that a failing one does not leave half of each."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _publish(
        self, fitted: Fitted, plan: Plan, trained: Trained, choice: Choice | None, options: Options
    ) -> None:
        """Set every fitted attribute; ``fitted_`` alone decides what is predicted."""
        examples = plan.examples
        found = attributes_of(fitted) | {"fitted_": fitted, "history_": trained.history.as_dict()}
        found |= {"class_weight_": examples.class_weight, "n_samples_fit_": len(examples.labels)}
        found |= {"was_interrupted_": trained.was_interrupted, "n_iter_": len(trained.history.loss)}
        if examples.groups is not None:
            found["groups_"] = examples.groups[examples.place]
        if examples.record is not None:
            found["record_"] = examples.record
        if choice is not None:
            found |= choice.attributes()
            strengths = options.strengths(fitted.input_shape)
            found["augmentation_"] = tuple(strengths[kind] for kind in choice.kinds)
        self.__dict__.update(found)

    def _check_inputs(self, X: ArrayLike) -> Inputs:
        """Validate X for prediction."""
        check_is_fitted(self)
        return check_inputs(self, self.fitted_, X)


def keep_parameters(estimator: BaseEstimator, arguments: Mapping[str, Any]) -> None:
    """Keep a constructor's arguments, its ``locals()``, as they are: scikit-learn asks for no more."""
    vars(estimator).update({name: value for name, value in arguments.items() if name != "self"})


def _identity(model: str, options: Options, plan: Plan) -> Mapping[str, str]:
    """What makes a fit this one, by name: data, parameters and where the particles begin."""
    from pnca.training.fingerprints import fit_fingerprints

    examples, scaler = plan.examples, plan.examples.scaler
    return fit_fingerprints(
        model,
        vars(options),
        X=examples.inputs,
        scale=[] if scaler is None else [scaler.centre, scaler.spread],
        y=[examples.labels, examples.classes],
        groups=examples.groups,
        module=getattr(plan.network, "template", None),
        random_state=plan.particles,  # which it decides; errors name the parameter
    )
