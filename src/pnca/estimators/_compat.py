"""The one place that touches scikit-learn's private helpers."""

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

__all__ = ["Interval", "StrOptions", "fit_context"]

fit_context = _fit_context
