"""The models of the benchmark, each with the settings recommended for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca import estimators
from pnca.estimators import PNCAClassifier, paper_settings
from pnca.training.augmentation import ImageShape, augment
from pnca_studies.experiments.benchmark.problems import Problem
from pnca_studies.experiments.modules import constructor_arguments
from pnca_studies.rivals import (
    FOUNDATION,
    RIVALS,
    SCORES,
    CatBoost,
    ClassShares,
    EncodedClassifier,
    FoundationClassifier,
    FrozenNetwork,
    GatedClassifier,
    LinearAndForest,
    ScoreAlone,
    build_rival,
    fit_with_groups,
    hist_gradient_boosting,
    light_gbm,
    tuned_ensemble,
    why_no_backbone,
    why_not_runnable,
)

#: What the documents are about: the default.
PNCA = "PNCA"
CONSTANT = "class shares"
LOGISTIC = "logistic regression"
#: Logistic regression behind a gate, by the score of the gate.
GATED = {
    "logistic regression, gate by PCA residual": "PCA residual",
    "logistic regression, gate by nearest distance": "nearest distance",
}
BOOSTED = ("CatBoost", "LightGBM", "HistGradientBoosting")
#: The paper's models, by the names of their classes.
PAPER = ("DNN", "BNN", "Ensemble", "NCA", "PNCA (paper)")
ENSEMBLE = "Ensemble, tuned dropout"
POOLED = "logistic and forest, pooled"
#: Classifiers of which every cell is wanted, PNCA first.
CLASSIFIERS = (PNCA, CONSTANT, *GATED, POOLED, *BOOSTED, ENSEMBLE, *RIVALS, *PAPER)
#: All that is planned. The scores are no classifiers: they tell foreign inputs without one.
PLANNED = (*CLASSIFIERS, *SCORES)
#: Those that run where their packages and weights are; a benchmark without them is complete.
FROZEN = "frozen network + logistic regression"
OPTIONAL = (FROZEN, *FOUNDATION)
MODELS = (*PLANNED, *OPTIONAL)
#: Those that are ranked where they are complete.
RANKED = (*CLASSIFIERS, *OPTIONAL)
#: Those that learn from augmented images, and what needs no learning. The paper's models had no augmentation.
ON_IMAGES = (PNCA, CONSTANT, ENSEMBLE, "MC dropout", "SNGP", "Laplace", *SCORES)
#: Minibatches of 20 for at most this many epochs, or as many as make this many steps.
_EPOCHS, _STEPS, _BATCH = 300, 3000, 20
#: Two hidden layers; behind a frozen network none, as in the paper.
_LAYERS = {"features": ()}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a model may know of a draw before it sees an example."""

    kind: str
    n_train: int
    categories: tuple[int, ...]
    image_shape: tuple[int, ...]

    @classmethod
    def of(cls, problem: Problem) -> "Setting":
        """The setting of a draw."""
        return cls(
            kind=problem.kind,
            n_train=len(problem.labels),
            categories=problem.categories,
            image_shape=problem.inputs.shape[1:],
        )

    @property
    def max_epochs(self) -> int:
        """Epochs of a network that is trained on minibatches."""
        return max(1, min(_EPOCHS, _STEPS * _BATCH // self.n_train))

    @property
    def paper(self) -> str:
        """For which experiment of the paper its models are set."""
        return "covid" if self.kind == "features" else "mnist"


def takes_part(model: str, kind: str) -> bool:
    """Tell whether a model is run on inputs of a kind."""
    if model in OPTIONAL:
        return kind == ("images" if model == FROZEN else "table")
    return kind != "images" or model in ON_IMAGES


def why_not(model: str) -> str:
    """Say what an optional model lacks on this machine; nothing if it can run."""
    return why_no_backbone() if model == FROZEN else why_not_runnable(model)


def build(
    model: str,
    setting: Setting,
    random_state: int,
    device: str = "cpu",
    changes: Mapping[str, Any] | None = None,
) -> Any:  # noqa: ANN401
    """Build an unfitted model for a draw; ``changes`` are arguments of PNCA that differ from the default."""
    if model == PNCA:
        if setting.categories:
            changes = {"categorical_features": list(setting.categories), **(changes or {})}
        arguments = constructor_arguments(changes or {})
        return PNCAClassifier(**{"random_state": random_state, "device": device, **arguments})
    if model == CONSTANT:
        return ClassShares()
    if model == FROZEN:
        return FrozenNetwork(random_state=random_state)
    if model in OPTIONAL:
        return FoundationClassifier(
            model, categories=setting.categories, device=device, random_state=random_state
        )
    if model in BOOSTED:
        return _BOOSTED[model](random_state=random_state, categories=setting.categories)
    built = _on_numbers(model, setting, random_state, device)
    return EncodedClassifier(built, setting.categories) if setting.kind == "table" else built


_BOOSTED: dict[str, Callable[..., Any]] = {
    "CatBoost": CatBoost,
    "LightGBM": light_gbm,
    "HistGradientBoosting": hist_gradient_boosting,
}


def _on_numbers(model: str, setting: Setting, random_state: int, device: str) -> Any:  # noqa: ANN401
    """Build a model that takes rows of numbers, or images."""
    if model in SCORES:
        return ScoreAlone(model)
    if model in GATED:
        line = build_rival(LOGISTIC, random_state=random_state)
        return GatedClassifier(line, GATED[model], random_state=random_state)
    if model == POOLED:
        return LinearAndForest(random_state=random_state)
    if model in PAPER:
        return _of_paper(model, setting, random_state, device)
    is_image = setting.kind == "images"
    if model == ENSEMBLE:
        return tuned_ensemble(
            random_state,
            hidden_layer_sizes=_LAYERS.get(setting.kind, (200, 200)),
            max_epochs=setting.max_epochs,
            augmentation=float(is_image),
            device=device,
        )
    change = partial(augment, image=ImageShape.of(setting.image_shape), strength=1.0) if is_image else None
    built = build_rival(model, random_state=random_state, augment=change)
    if "max_epochs" in built.get_params():
        built.set_params(max_epochs=setting.max_epochs)
    return OnFlatImages(built) if is_image else built


def _of_paper(model: str, setting: Setting, random_state: int, device: str) -> Any:  # noqa: ANN401
    """Build one of the paper's models with the paper's settings.

    But the precision of the BNN's prior is that of the paper's hundred images for any number of examples: in
    the paper's code it grows with its square, which only the reproduction repeats.
    """
    name = model.removesuffix(" (paper)")
    settings = paper_settings(name, setting.paper, setting.n_train)
    if name == "BNN":
        settings["prior_precision"] = paper_settings(name, "mnist", 100)["prior_precision"]
    return getattr(estimators, f"{name}Classifier")(**settings, random_state=random_state, device=device)


class OnFlatImages:
    """A baseline that takes rows of numbers; it gets images (n, h, w) flattened."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401
        self.model = model

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> "OnFlatImages":
        """Fit the baseline."""
        self.model_ = self.model.fit(_rows(X), y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return its probabilities (n, c)."""
        probabilities: NDArray[np.float64] = self.model_.predict_proba(_rows(X))
        return probabilities

    def evidence(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return its out-of-distribution score (n,)."""
        scores: NDArray[np.float64] = self.model_.evidence(_rows(X))
        return scores


def _rows(X: NDArray[Any]) -> NDArray[Any]:
    return X.reshape(len(X), -1)


def fit(model: Any, problem: Problem, rows: NDArray[np.bool_] | None = None) -> Any:  # noqa: ANN401
    """Fit a model from :func:`build` to a draw, or to some of its examples, with the groups there are."""
    chosen = np.ones(len(problem.labels), dtype=bool) if rows is None else rows
    groups = None if problem.groups is None else problem.groups[chosen]
    return fit_with_groups(model, problem.inputs[chosen], problem.labels[chosen], groups)
