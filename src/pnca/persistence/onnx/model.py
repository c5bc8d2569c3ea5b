"""A fitted classifier, or a pipeline that ends with one, as one ONNX file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from pnca.calibration.conformal import unit_weights
from pnca.estimators.base import ParticleClassifier
from pnca.exceptions import InvalidInputError
from pnca.files import check_target, write_bytes
from pnca.models.fitted import Fitted, NeighbourReader
from pnca.networks import MLP
from pnca.persistence.classifiers import CLASSIFIERS
from pnca.persistence.onnx import trial
from pnca.persistence.onnx.graph import OPSETS, Graph, Term, as_array
from pnca.persistence.onnx.inputs import OUTPUTS, Entry, embeddings, entries, scaled_inputs
from pnca.persistence.onnx.kernels import log_class_probabilities, log_masses, log_mean
from pnca.persistence.onnx.pool import heard, pooled
from pnca.persistence.onnx.preprocessing import with_steps
from pnca.persistence.onnx.running import require

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Types of labels by numpy's kinds.
_LABELS = {"i": np.int64, "u": np.int64, "U": object, "O": object, "b": np.bool_, "f": np.float64}


def export_onnx(
    model: BaseEstimator,
    path: str | Path,
    *,
    X: Any = None,  # noqa: ANN401
    overwrite: bool = False,
) -> Path:
    """Write a fitted model as an ONNX graph, which onnxruntime runs without pnca, torch and Python.

    The outputs are ``probabilities`` (n, c), ``label`` (n,), and of PNCA and NCA ``evidence`` (n,), of
    PNCA with folds also ``familiarity`` (n,): those of the model to 1e-5. The graph is compared with the
    model before the file is put in place, which is written whole or not at all.

    Parameters
    ----------
    model : estimator
        One of the five classifiers, fitted, without ``module``; or a scikit-learn Pipeline that ends with one
        and whose other steps skl2onnx knows.
    path : str or Path
        The file, by custom ``NAME.onnx``; its folder must exist.
    X : array-like, optional
        Rows as the model takes them, by which the graph is compared with it; some hundred are used. A
        pipeline needs them, because they say what types its columns have.
    overwrite : bool
        Whether a file that is there may be replaced.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile, pnca
    >>> from sklearn.datasets import load_iris
    >>> model = pnca.DNNClassifier(max_epochs=5, random_state=0).fit(*load_iris(return_X_y=True))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pnca.export_onnx(model, folder + "/iris.onnx").name
    'iris.onnx'
    """
    target = check_target(path, overwrite=overwrite)
    for name in ("onnx", "onnxruntime"):
        require(name)
    last = model.steps[-1][1] if type(model) is Pipeline else model
    model = last if type(model) is Pipeline and len(model) == 1 else model
    _check(last)
    rows = None if X is None else trial.some_rows(X, model)
    found = graph_of(last)
    if last is not model:
        found = with_steps(model, found, rows)
    content = _serialised(found)
    trial.compare(content, model, last, rows)
    try:
        return write_bytes(target, content)
    except OSError as error:
        raise InvalidInputError(
            f"{target} cannot be written ({error.strerror or error}): make room, or name another folder."
        ) from error


def graph_of(classifier: ParticleClassifier) -> Any:  # noqa: ANN401
    """The ONNX model of a classifier."""
    from onnx import TensorProto, helper

    from pnca import __version__

    graph, fitted, wanted = Graph(), classifier.fitted_, entries(classifier.fitted_)
    _answer(graph, classifier)
    types = {"double": TensorProto.DOUBLE, "string": TensorProto.STRING, "bool": TensorProto.BOOL}
    of_label = helper.np_dtype_to_tensor_dtype(np.dtype(_LABELS[fitted.classes.dtype.kind]))
    shapes: dict[str, list[str | int | None]] = {"probabilities": ["n", len(fitted.classes)]}
    names = [name for name in OUTPUTS if any(name in node.output for node in graph.nodes)]
    made = helper.make_graph(
        graph.nodes,
        type(classifier).__name__,
        [helper.make_tensor_value_info(e.name, types[e.kind], ["n", *e.shape]) for e in wanted],
        [
            helper.make_tensor_value_info(
                name, of_label if name == "label" else TensorProto.DOUBLE, shapes.get(name, ["n"])
            )
            for name in names
        ],
        graph.constants,
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
    model = helper.make_model_gen_version(
        made, opset_imports=opsets, producer_name="pnca", producer_version=__version__
    )
    helper.set_model_props(model, _about(classifier, wanted))
    return model


def _answer(graph: Graph, classifier: ParticleClassifier) -> None:
    """All outputs of the graph."""
    fitted = classifier.fitted_
    inputs, unseen = scaled_inputs(graph, fitted)
    outputs = embeddings(fitted, inputs)
    if isinstance(fitted.reader, NeighbourReader):
        proba, evidence = _of_neighbours(fitted.reader, outputs, inputs, unseen)
        graph.output(evidence, "evidence")
        if hasattr(classifier, "oof_evidence_"):
            groups = getattr(classifier, "groups_", None)
            graph.output(familiarity(evidence, classifier.oof_evidence_, groups), "familiarity")
    else:
        proba = outputs.op("Softmax", axis=-1).sum(0) / len(fitted.particles)
    graph.output(proba / proba.sum(-1, keep=True), "probabilities")
    labels: NDArray[Any] = fitted.classes.astype(_LABELS[fitted.classes.dtype.kind])
    graph.output(graph.op("Gather", labels, proba.op("ArgMax", axis=1, keepdims=0)), "label")


def _of_neighbours(
    reader: NeighbourReader, outputs: Term, inputs: Term, unseen: Term | None
) -> tuple[Term, Term]:
    """Class probabilities (n, c) and evidence (n,), as ``NeighbourReader`` has them."""
    background, prior = reader.support.background, as_array(reader.prior)
    n_members = len(reader.support.embeddings) if reader.kernel.is_shared else 1
    masses = log_masses(reader, outputs, inputs)
    evidence = log_mean(masses.logsumexp(-1), n_members)
    proba = log_class_probabilities(masses, background, np.log(prior)).exp().sum(0) / n_members
    if reader.pool is not None:
        proba = pooled(reader.pool, proba, inputs, prior)
    if unseen is None or reader.novelty is None:
        return proba, evidence
    log_say = unseen * -np.log(2)  # each value that was never seen takes half of the say, and of the evidence
    return heard(proba, log_say, prior), evidence + log_say


def familiarity(evidence: Term, calibration: NDArray[np.float64], groups: NDArray[np.int64] | None) -> Term:
    """Conformal p-value (n,) of each evidence; see ``calibration.conformal.conformal_p_values``."""
    from onnx import TensorProto

    weights = unit_weights(len(calibration), groups)
    is_below = evidence.unsqueeze(-1).op("GreaterOrEqual", calibration[None]).cast(TensorProto.DOUBLE)
    p_values = ((is_below @ weights[:, None]).sum(-1) + 1) / (1 + round(weights.sum()))
    capped: Term = p_values.op("Min", 1.0)
    return capped


def _check(classifier: ParticleClassifier) -> None:
    """Refuse what has no graph, by name."""
    name = type(classifier).__name__
    if CLASSIFIERS.get(name) is not type(classifier):  # a subclass may do what no graph says
        raise InvalidInputError(
            f"{name} cannot be exported: a graph is of {', '.join(CLASSIFIERS)}, or of a Pipeline that ends "
            "with one."
        )
    if not hasattr(classifier, "fitted_"):
        raise InvalidInputError(f"This {name} is not fitted: fit it before it is exported.")
    fitted: Fitted = classifier.fitted_
    if not isinstance(fitted.network, MLP):
        raise InvalidInputError(
            f"This {name} was fitted with module=, and no graph is made of code. Export the trained module "
            "with torch.onnx.export, or fit a classifier without module= on the features of a frozen one."
        )
    labels = fitted.classes
    is_object = labels.dtype.kind == "O" and not all(isinstance(label, str) for label in labels.tolist())
    if labels.dtype.kind not in _LABELS or is_object:
        raise InvalidInputError(
            f"The classes are of type {labels.dtype}; an ONNX graph answers with numbers, truth values or "
            "texts: fit on such labels."
        )


def _about(classifier: ParticleClassifier, wanted: list[Entry]) -> dict[str, str]:
    """What a reader of the file may want to know, as texts of JSON."""
    from pnca import __version__

    columns = classifier.fitted_.columns
    told = None if columns is None else [[str(column.name), column.kind] for column in columns.parts]
    return {
        "pnca": __version__,
        "model": type(classifier).__name__,
        "classes": json.dumps(classifier.classes_.tolist(), ensure_ascii=False),
        "columns": json.dumps(told, ensure_ascii=False),
        "inputs": json.dumps({entry.name: entry.kind for entry in wanted}, ensure_ascii=False),
    }


def _serialised(model: Any) -> bytes:  # noqa: ANN401
    """The bytes of a file that onnx itself finds right."""
    from onnx import checker

    try:
        content: bytes = model.SerializeToString()
    except Exception as error:  # protobuf has kinds of its own for this
        raise InvalidInputError(
            "The graph takes more than 2 GB, which no ONNX file can hold: fit with kernel='positive', fewer "
            "particles or fewer examples."
        ) from error
    checker.check_model(content, full_check=True)
    return content
