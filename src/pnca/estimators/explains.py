"""Why an answer is what it is: the examples that carry it, what is unusual, and what if."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pnca.calibration.decisions import HeldOut, decide
from pnca.columns import Column
from pnca.estimators.decisions import held_out_of, terms_of
from pnca.exceptions import InvalidInputError
from pnca.explanations.case import Explanations, Source, Usual
from pnca.explanations.gathering import gathered
from pnca.explanations.inputs import Looks, PictureShape
from pnca.models.fitted import FloatArray
from pnca.models.ledger import answers_with, ledger_of
from pnca.record import Record, is_table, labels_of_rows, names_of, unique_ids
from pnca.training.augmentation import ImageShape
from pnca.training.sampling import as_numpy

if TYPE_CHECKING:
    from pnca.estimators.checks import Inputs
    from pnca.models.fitted import Fitted

NO_RECORD = (
    "the model keeps no record of its examples (its file was saved with store='predictive', or by an earlier "
    "version of pnca)"
)


class Explains:
    """Explanations of single answers; for neighbour models."""

    if TYPE_CHECKING:
        classes_: NDArray[Any]
        class_weight_: FloatArray
        n_samples_fit_: int
        device: str
        fitted_: Fitted

        def _check_inputs(self, X: ArrayLike) -> Inputs: ...

    def explain(
        self,
        X: ArrayLike,
        k: int = 5,
        *,
        ids: ArrayLike | None = None,
        example_ids: ArrayLike | None = None,
        max_error: float | Mapping[Any, float] = 0.05,
        confidence: float = 0.9,
        min_familiarity: float | None = None,
    ) -> Explanations:
        """Say what each answer consists of, who carries it, and what is unusual about the input.

        The parts of each class add up to its probability: the k training examples that carry most, all other
        examples, the linear expert, and what no example carries, which goes to the class shares.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.
        k : int
            Number of training examples that are named, at most all of them.
        ids : array-like of shape (n,), optional
            Names of the inputs. Without them a pandas table's index names them, and rows of an array have
            their number, from zero.
        example_ids : array-like of shape (n_train,), optional
            Names of the training examples, each its own, in place of the ``ids`` of the fit. Without either
            they have their row, from zero.
        max_error, confidence, min_familiarity
            On which terms the model answers, as for :meth:`decide`, of which each case says the outcome. A
            model that knows nothing of its training examples out of fold decides nothing.

        Returns
        -------
        Explanations
            A sequence of :class:`pnca.explanations.Explanation`, one for each input. They print; ``plot()``,
            ``to_html()`` and ``to_frame()`` show them; ``without(...)`` and ``relabelled(...)`` say what the
            answer would be if training examples were others.

        Examples
        --------
        >>> import pnca
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> case = pnca.NCAClassifier(random_state=0).fit(X, y).explain(X[:1], k=2)[0]
        >>> case.label, round(float(sum(part[0] for part in case.parts.values())), 6)
        (0, 1.0)
        """
        check_is_fitted(self)
        n, fitted = self.n_samples_fit_, self.fitted_
        if not (isinstance(k, Integral) and k >= 1):
            raise InvalidInputError(f"k must be a whole number of at least 1; got {k!r}.")
        inputs, record = self._check_inputs(X), record_of(self)
        names = labels_of_rows(X) if ids is None else names_of("ids", ids, len(inputs)).tolist()
        if example_ids is not None:
            record = replace(record, ids=unique_ids(example_ids, n))
        training = fitted.reader.support.inputs
        if training is None and record.inputs is not None:
            rows = fitted.scaled_rows(self._check_inputs(record.inputs))
            training = torch.from_numpy(rows).float().reshape(n, *fitted.input_shape)
        ledger = ledger_of(fitted, inputs, self.device, min(int(k), n), training)
        looks = _looks(self)
        given = as_numpy(X) if isinstance(X, torch.Tensor) else X if is_table(X) else np.asarray(X)
        answer_with = partial(_answer_with, fitted, inputs, self.device, self.class_weight_)
        notes = tuple(_notes(record, training, looks))
        source = Source(classes=self.classes_, record=record, answer_with=answer_with, notes=notes)
        decisions, usual = None, None
        if hasattr(self, "oof_proba_"):
            held_out, evidence = held_out_of(self), fitted.log_evidence(inputs, self.device)
            terms = terms_of(self, held_out, max_error, confidence, min_familiarity)
            decisions = decide(ledger.proba, evidence, held_out, self.classes_, **terms)
            usual = _usual(held_out, evidence, decisions.familiarity)
        return gathered(ledger, source, looks, given, usual, decisions, names)


def record_of(model: Any) -> Record:  # noqa: ANN401
    """The record of a fit; without one its labels alone."""
    labels = model.classes_[model.fitted_.reader.support.labels.numpy()]
    found: Record = vars(model).get("record_", Record.of_labels(labels, NO_RECORD))
    return found


def _usual(held_out: HeldOut, evidence: FloatArray, familiarity: FloatArray) -> list[Usual]:
    """Familiarity beside the training examples out of fold."""
    units = "training examples" if held_out.groups is None else "groups of training examples"
    pairs = zip(familiarity.tolist(), evidence.tolist(), strict=True)
    return [Usual(p_value, own, held_out.evidence, held_out.n_units, units) for p_value, own in pairs]


def _looks(model: Explains) -> Looks:
    """How inputs are shown."""
    fitted = model.fitted_
    if fitted.columns is not None:
        return Looks(fitted.columns.parts)
    shape = vars(model).get("image_shape") or fitted.input_shape
    if len(shape) > 1:
        try:
            image = ImageShape.of(tuple(shape))
        except InvalidInputError:
            return Looks(())
        return Looks((), PictureShape(image.height, image.width, image.channels, image.channels_last))
    names = vars(model).get("feature_names_in_", range(fitted.input_shape[0]))
    return Looks(tuple(Column(name=name, kind="number") for name in names))


def _notes(record: Record, training: torch.Tensor | None, looks: Looks) -> list[str]:
    found = []
    if record.missing:
        found.append(f"The columns of training examples are not shown: {record.missing}.")
    if training is None:
        found.append("Distances are not shown: neither the model nor its record has the training inputs.")
    if not looks.parts and looks.shape is None:
        found.append("What makes an input unusual is not shown: it has neither columns nor pixels.")
    return found


def _answer_with(
    fitted: Fitted,
    inputs: Inputs,
    device: str,
    class_weight: FloatArray,
    rows: NDArray[np.int64],
    removed: NDArray[np.int64],
    relabelled: Mapping[int, int],
) -> FloatArray:
    """Probabilities of some rows of the inputs with examples removed, or of other classes.

    An example that is relabelled takes the class weight of its new class.
    """
    support = fitted.reader.support
    labels, weights = support.labels.numpy().copy(), support.weights.numpy().copy()
    for row, label in relabelled.items():
        weights[row] *= class_weight[label] / class_weight[labels[row]]
        labels[row] = label
    weights[removed] = 0
    return answers_with(fitted, inputs[rows], device, labels, weights)
