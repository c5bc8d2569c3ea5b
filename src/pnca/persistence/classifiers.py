"""The five classifiers as JSON and tensors: their parameters, ``fitted_``, and what else a fit leaves."""

from __future__ import annotations

from typing import Any

from torch import nn

from pnca.estimators import (
    BNNClassifier,
    DNNClassifier,
    EnsembleClassifier,
    NCAClassifier,
    PNCAClassifier,
)
from pnca.estimators.base import ParticleClassifier
from pnca.exceptions import InvalidInputError
from pnca.models.fitted import NeighbourReader, attributes_of
from pnca.persistence.encoding import MalformedError, decode, encode
from pnca.persistence.layouts import Store
from pnca.persistence.records import read_record, write_record
from pnca.persistence.requests import NAME, requests_of, set_requests
from pnca.persistence.states import ATTRIBUTES, FITTED, check

#: The classes of which models are written; a subclass may do what no file says.
CLASSIFIERS: dict[str, type[ParticleClassifier]] = {
    kind.__name__: kind
    for kind in (BNNClassifier, DNNClassifier, EnsembleClassifier, NCAClassifier, PNCAClassifier)
}


def write_classifier(model: ParticleClassifier, store: Store) -> dict[str, Any]:
    """JSON of a fitted classifier; its tensors go to the store."""
    name = type(model).__name__
    if CLASSIFIERS.get(name) is not type(model):
        raise InvalidInputError(
            f"{name} cannot be saved: a model file is of {', '.join(CLASSIFIERS)}, or of a Pipeline that "
            "ends with one."
        )
    if not hasattr(model, "fitted_"):
        raise InvalidInputError(f"This {name} is not fitted: fit it before it is saved.")
    parameters = model.get_params(deep=False)
    views = attributes_of(model.fitted_).keys()
    apart = {*parameters, *views, "fitted_", "record_"}
    others = {key: value for key, value in vars(model).items() if key not in apart}
    if NAME in others:
        others[NAME] = requests_of(model)
    if unknown := sorted(others.keys() - ATTRIBUTES.keys()):
        raise InvalidInputError(
            f"The attribute {unknown[0]!r} of this {name} is not of a fit, and no model file can hold it: "
            "delete it before the model is saved."
        )
    record = vars(model).get("record_") if store.has_record else None
    return {
        "class": name,
        "parameters": {key: _parameter(key, value) for key, value in parameters.items()},
        "fitted": FITTED.write(model.fitted_, "fitted", store),
        "attributes": {key: ATTRIBUTES[key].write(value, key, store) for key, value in others.items()},
        **({} if record is None else {"record": write_record(record, store)}),
    }


def read_classifier(found: Any, store: Store, device: str) -> ParticleClassifier:  # noqa: ANN401
    """The classifier of this JSON; a MalformedError if it is of none."""
    names = {"class", "parameters", "fitted", "attributes"}
    if not isinstance(found, dict) or found.keys() - {"record"} != names:
        raise MalformedError("a model of other fields")
    if not isinstance(found["class"], str) or found["class"] not in CLASSIFIERS:
        raise MalformedError("a model of a class that is none")
    kind, parameters, others = CLASSIFIERS[found["class"]], found["parameters"], found["attributes"]
    known = set(kind._get_param_names())
    if not isinstance(parameters, dict) or not isinstance(others, dict) or not parameters.keys() <= known:
        raise MalformedError("parameters that the model does not have")
    read = {key: decode(value) for key, value in parameters.items()}
    model = kind(**{**read, "module": store.module, "device": device})
    fitted = FITTED.read(found["fitted"], "fitted", store)
    if not others.keys() <= ATTRIBUTES.keys():
        raise MalformedError("attributes that the model does not have")
    attributes = {key: ATTRIBUTES[key].read(value, key, store) for key, value in others.items()}
    check(fitted, attributes, store)
    if "record" in found:
        if not isinstance(fitted.reader, NeighbourReader):
            raise MalformedError("a record that the model does not have")
        attributes["record_"] = read_record(found["record"], fitted, store)
    set_requests(model, attributes.pop(NAME, {}))
    model.__dict__.update({**attributes_of(fitted), **attributes, "fitted_": fitted})
    return model


def _parameter(name: str, value: Any) -> Any:  # noqa: ANN401
    """A parameter as JSON; of a module the name alone, for people."""
    if name == "module" and value is not None:
        told = (
            type(value).__name__ if isinstance(value, nn.Module) else getattr(value, "__name__", "callable")
        )
        return str(told)
    try:
        return encode(value, f"The parameter {name!r}")
    except InvalidInputError as error:
        raise InvalidInputError(f"{error} set_params({name}=...) changes nothing of the fit.") from None
