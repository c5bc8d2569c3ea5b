"""What an estimator asks of metadata routing as plain values, such as ``{"fit": {"groups": True}}``."""

from __future__ import annotations

from typing import Any

from sklearn import config_context
from sklearn.base import BaseEstimator

from pnca.persistence.encoding import MalformedError

#: The attribute under which scikit-learn keeps it, once anything was asked for.
NAME = "_metadata_request"
#: Methods that are asked for.
_METHODS = ("fit", "partial_fit", "predict", "predict_proba", "predict_log_proba", "score", "transform")

Requests = dict[str, dict[str, bool | str | None]]


def requests_of(estimator: BaseEstimator) -> Requests:
    """What an estimator asks for, by method and argument."""
    asked = estimator.get_metadata_routing()
    found = {method: dict(getattr(asked, method).requests) for method in _METHODS}
    return {method: requests for method, requests in found.items() if requests}


def set_requests(estimator: BaseEstimator, found: Any) -> None:  # noqa: ANN401
    """Let an estimator ask for what :func:`requests_of` found; a MalformedError if it never could."""
    try:
        with config_context(enable_metadata_routing=True):
            for method, requests in found.items():
                if method not in _METHODS:
                    raise ValueError(method)
                getattr(estimator, f"set_{method}_request")(**requests)
    except (AttributeError, TypeError, ValueError) as error:
        raise MalformedError("requests of metadata that it cannot have") from error
