"""The one place that touches scikit-learn's private helpers."""

from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions

__all__ = ["HasMethods", "Interval", "Options", "StrOptions", "fit_context"]

fit_context = _fit_context
