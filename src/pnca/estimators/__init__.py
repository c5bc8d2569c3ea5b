"""The scikit-learn face of the models: fit, predict_proba, evidence. No formulas here."""

from pnca.estimators.nca import NCAClassifier
from pnca.estimators.paper import paper_settings
from pnca.estimators.pnca import PNCAClassifier
from pnca.estimators.softmax import BNNClassifier, DNNClassifier, EnsembleClassifier

__all__ = [
    "BNNClassifier",
    "DNNClassifier",
    "EnsembleClassifier",
    "NCAClassifier",
    "PNCAClassifier",
    "paper_settings",
]
