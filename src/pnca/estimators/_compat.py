"""The one place that touches scikit-learn's private helpers."""

from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in, _num_samples

__all__ = ["Interval", "StrOptions", "check_feature_names_in", "fit_context", "n_samples", "rows_of"]

check_feature_names_in = _check_feature_names_in
fit_context = _fit_context
n_samples = _num_samples
rows_of = _safe_indexing
