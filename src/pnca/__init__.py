"""Classifiers that know when they do not know, from a hundred labels.

>>> from pnca import PNCAClassifier
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pnca.estimators import (
        BNNClassifier,
        DNNClassifier,
        EnsembleClassifier,
        NCAClassifier,
        PNCAClassifier,
        paper_settings,
    )
    from pnca.persistence.model_file import load, save
    from pnca.persistence.onnx.model import export_onnx
    from pnca.pipelines import (
        audit,
        decide,
        drift,
        evidence,
        explain,
        familiarity,
        learning_curve,
        neighbors,
        predict_set,
        suggest,
        uncertainty,
    )
    from pnca.training.checkpoints import checkpoints
    from pnca.training.distributed import distributed

__version__ = "0.2.0"

__all__ = [
    "BNNClassifier",
    "DNNClassifier",
    "EnsembleClassifier",
    "NCAClassifier",
    "PNCAClassifier",
    "audit",
    "checkpoints",
    "decide",
    "distributed",
    "drift",
    "evidence",
    "explain",
    "export_onnx",
    "familiarity",
    "learning_curve",
    "load",
    "neighbors",
    "paper_settings",
    "predict_set",
    "save",
    "suggest",
    "uncertainty",
]

#: Where a name comes from, if not from the estimators.
_MODULES = {"checkpoints": "pnca.training.checkpoints", "distributed": "pnca.training.distributed"}
_MODULES |= dict.fromkeys(("load", "save"), "pnca.persistence.model_file")
_MODULES["export_onnx"] = "pnca.persistence.onnx.model"
_PIPELINES = (
    "audit",
    "decide",
    "drift",
    "evidence",
    "explain",
    "familiarity",
    "learning_curve",
    "neighbors",
    "predict_set",
    "suggest",
    "uncertainty",
)
_MODULES |= dict.fromkeys(_PIPELINES, "pnca.pipelines")


def __getattr__(name: str) -> Any:  # noqa: ANN401
    # Estimators load torch and scikit-learn, which `pnca --help` should not wait for.
    if name in __all__:
        return getattr(import_module(_MODULES.get(name, "pnca.estimators")), name)
    raise AttributeError(f"module 'pnca' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
