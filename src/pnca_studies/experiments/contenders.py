"""The models of the benchmark, each with the settings recommended for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca import estimators
from pnca.estimators import EnsembleClassifier, PNCAClassifier, paper_settings
from pnca.exceptions import InvalidInputError
from pnca.training.augmentation import ImageShape, augment
from pnca_studies.experiments.benchmark_data import Problem, Source
from pnca_studies.experiments.modules import constructor_arguments
from pnca_studies.experiments.settings import Model
from pnca_studies.rivals import RIVALS, build_rival, nearest_distance, pca_residual

#: The paper's models, by the names of their classes.
PAPER = ("DNN", "BNN", "Ensemble", "NCA", "PNCA (paper)")
#: Out-of-distribution scores that need no classifier.
TRIVIAL = ("nearest distance", "PCA residual")
#: All of them, PNCA first.
CONTENDERS = ("PNCA", *PAPER, "Ensemble + dropout", *RIVALS, *TRIVIAL)
#: Those that learn from augmented images. The paper's models are as in the paper, without.
ON_IMAGES = ("PNCA", "Ensemble + dropout", "MC dropout", "SNGP", "Laplace", *TRIVIAL)
#: Networks trained on minibatches of 20 get this many epochs, or as many as make this many steps.
_EPOCHS, _STEPS, _BATCH = 300, 6000, 20


@dataclass(frozen=True, kw_only=True)
class Contender(Model):
    """A model of the benchmark; only of PNCA can arguments be changed."""

    estimator: str = ""  # one of CONTENDERS; the name, unless something is changed
    settings: str = field(default="benchmark", init=False)
    device: str = "cpu"  # where this package's networks are trained

    def __post_init__(self) -> None:
        object.__setattr__(self, "estimator", self.estimator or self.name)
        if self.estimator not in CONTENDERS:
            raise InvalidInputError(f"Unknown models {[self.estimator]}; known are {', '.join(CONTENDERS)}.")

    def build(self, source: Source, n_train: int, random_state: int) -> Any:  # noqa: ANN401
        """Build the unfitted model for a data set and so many training examples."""
        common: dict[str, Any] = {"random_state": random_state, "device": self.device}
        max_epochs = min(_EPOCHS, _STEPS * _BATCH // n_train)
        if self.estimator == "PNCA":
            return PNCAClassifier(**{**common, **constructor_arguments(self.changes)})
        if self.estimator == "Ensemble + dropout":
            layers = paper_settings("Ensemble", source.settings)["hidden_layer_sizes"]
            # Augmented images are varied enough; more dropout costs accuracy.
            dropout, augmentation = (0.2, 1.0) if source.has_images else (0.5, 0.0)
            return EnsembleClassifier(
                dropout=dropout,
                augmentation=augmentation,
                max_epochs=max_epochs,
                batch_size=_BATCH,
                hidden_layer_sizes=layers,
                **common,
            )
        if self.estimator in PAPER:
            model = self.estimator.removesuffix(" (paper)")
            settings = paper_settings(model, source.settings, n_train)
            return getattr(estimators, f"{model}Classifier")(**settings, **common)
        if self.estimator in TRIVIAL:
            return TrivialScore(self.estimator)
        build = partial(build_rival, self.estimator, random_state=random_state)
        return _OnRows(build, max_epochs, augmented=source.has_images)

    def takes_part(self, source: Source) -> bool:
        """Tell whether it is run on a data set: images are for those that learn from augmented ones."""
        return not source.has_images or self.estimator in ON_IMAGES

    def fit(self, model: Any, problem: Problem) -> Any:  # noqa: ANN401
        """Fit a model from :meth:`build`; PNCA alone can use the groups."""
        if self.estimator == "PNCA" and problem.groups is not None:
            return model.fit(problem.inputs, problem.labels, groups=problem.groups)
        return model.fit(problem.inputs, problem.labels)


class TrivialScore:
    """One of :data:`TRIVIAL` as evidence; as a classifier it predicts the class frequencies."""

    def __init__(self, name: str) -> None:
        self.name = name

    def fit(self, inputs: NDArray[np.float32], labels: NDArray[np.int64]) -> "TrivialScore":
        """Keep the inputs (n, ...) and the frequencies of the labels (n,)."""
        self.inputs_ = _rows(inputs)
        self.classes_, counts = np.unique(labels, return_counts=True)
        self.shares_ = counts / counts.sum()
        return self

    def predict_proba(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the class frequencies (n, c), whatever the inputs (n, ...)."""
        return np.tile(self.shares_, (len(inputs), 1))

    def evidence(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return minus the distance or the residual (n,) of inputs (n, ...)."""
        score = nearest_distance if self.name == "nearest distance" else pca_residual
        return -score(self.inputs_, _rows(inputs))


class _OnRows:
    """A baseline that takes rows of numbers; images are augmented for it and flattened."""

    def __init__(self, build: Callable[..., Any], max_epochs: int, *, augmented: bool) -> None:
        self.build, self.max_epochs, self.augmented = build, max_epochs, augmented

    def fit(self, inputs: NDArray[np.float32], labels: NDArray[np.int64]) -> "_OnRows":
        change = None
        if self.augmented:
            change = partial(augment, image=ImageShape.of(inputs.shape[1:]), strength=1.0)
        model = self.build(augment=change)
        if "max_epochs" in model.get_params():
            model.set_params(max_epochs=self.max_epochs)
        self.model_ = model.fit(_rows(inputs), labels)
        self.classes_ = self.model_.classes_
        if hasattr(self.model_, "evidence"):
            self.evidence = lambda x: self.model_.evidence(_rows(x))
        return self

    def predict_proba(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        probabilities: NDArray[np.float64] = self.model_.predict_proba(_rows(inputs))
        return probabilities


def _rows(inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    return inputs.reshape(len(inputs), -1)
