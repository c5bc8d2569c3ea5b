"""Why an answer is what it is: the examples that carry it, what is unusual, and what if."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pnca.calibration.conformal import conformal_p_values
from pnca.columns import Column
from pnca.exceptions import InvalidInputError
from pnca.explanations.case import Explanations, Source, Usual
from pnca.explanations.gathering import gathered
from pnca.explanations.inputs import Looks, PictureShape
from pnca.models.fitted import FloatArray
from pnca.models.ledger import answers_with, ledger_of
from pnca.record import Record, is_table
from pnca.training.augmentation import ImageShape
from pnca.training.sampling import as_numpy

if TYPE_CHECKING:
    from pnca.estimators.checks import Inputs
    from pnca.models.fitted import Fitted

NO_RECORD = (
    "The model has no record of its fit (store='predictive'), so training examples are shown by row, share "
    "and label only."
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

    def explain(self, X: ArrayLike, k: int = 5) -> Explanations:
        """Say what each answer consists of, who carries it, and what is unusual about the input.

        The parts of each class add up to its probability: the k training examples that carry most, all other
        examples, the linear expert, and what no example carries, which goes to the class shares.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.
        k : int
            Number of training examples that are named, at most all of them.

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
        inputs, record = self._check_inputs(X), _record(self)
        training = fitted.reader.support.inputs
        if training is None and record.inputs is not None:
            training = _scaled(fitted, self._check_inputs(record.inputs))
        ledger = ledger_of(fitted, inputs, self.device, min(int(k), n), training)
        looks = _looks(self)
        given = as_numpy(X) if isinstance(X, torch.Tensor) else X if is_table(X) else np.asarray(X)
        answer_with = partial(_answer_with, fitted, inputs, self.device, self.class_weight_)
        notes = tuple(_notes(record, training, looks))
        source = Source(classes=self.classes_, record=record, answer_with=answer_with, notes=notes)
        return gathered(ledger, source, looks, given, _usual(self, inputs))


def _record(model: Explains) -> Record:
    """The record of a fit; without one its labels alone."""
    labels = model.classes_[model.fitted_.reader.support.labels.numpy()]
    empty = Record(inputs=None, labels=labels, missing=NO_RECORD)
    found: Record = vars(model).get("record_", empty)
    return found


def _scaled(fitted: Fitted, inputs: Inputs) -> torch.Tensor:
    """Inputs (n, ...) as the model compares them."""
    if inputs.ndim == 2:  # the last column may count what was never seen
        inputs = np.ascontiguousarray(inputs[:, : int(np.prod(fitted.input_shape))])
    rows = torch.from_numpy(inputs)
    return rows.float() if fitted.scaler is None else fitted.scaler.apply(rows)


def _usual(model: Explains, inputs: Inputs) -> list[Usual] | None:
    """Familiarity beside the training examples out of fold; None of a model without folds."""
    if (of_training := vars(model).get("oof_evidence_")) is None:
        return None
    groups = vars(model).get("groups_")
    evidence = model.fitted_.log_evidence(inputs, model.device)
    p_values = conformal_p_values(of_training, evidence, groups)
    n_units, units = len(of_training), "training examples"
    if groups is not None:
        n_units, units = len(np.unique(groups)), "groups of training examples"
    pairs = zip(p_values.tolist(), evidence.tolist(), strict=True)
    return [Usual(p_value, own, of_training, n_units, units) for p_value, own in pairs]


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
        text = record.missing
        found.append(text if text.endswith(".") else f"Training examples are not shown: {text}.")
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
