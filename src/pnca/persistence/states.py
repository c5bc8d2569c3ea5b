"""Everything that a fitted model may consist of, as one table; what is not in it is in no file.

To add a kernel, an expert or a reader is to add its class and the kinds of its fields here. The texts are the
names in files: a class that is renamed keeps its text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pnca.columns import Column, Columns
from pnca.maths.inputs import InputFactor, Novelty, Plane, Scaler
from pnca.maths.positive import Places
from pnca.maths.say import ClassShape, Say
from pnca.models.experts import ForestExpert, LinearExpert, Trees
from pnca.models.features import ClassFeatures
from pnca.models.fitted import Fitted, NeighbourReader, SoftmaxReader
from pnca.models.kernels import ExactKernel, OrthogonalKernel, PositiveKernel, Support
from pnca.models.pool import Pool
from pnca.networks import MLP
from pnca.persistence.encoding import MalformedError
from pnca.persistence.layouts import (
    Array,
    Classes,
    Kind,
    Maybe,
    Named,
    Part,
    Plain,
    Several,
    Sized,
    Store,
    Value,
)
from pnca.persistence.modules import Module
from pnca.sources import ImageSource, TableSource
from pnca.tables.values import SORTS

_WHOLE, _SINGLE, _DOUBLE = torch.int64, torch.float32, torch.float64
_FLAG, _NUMBER, _POSITIVE = Value(bool), Value(float), Value(float, is_positive=True)
_NOT_NEGATIVE, _SHARE, _COUNT = Value(float, 0), Value(float, 0, 1), Value(int, 1, 2**31)
_ANY = Plain()

# Letters: n examples, m particles of q parameters, c classes, D columns or pixels, o outputs of the network
# (for neighbours the latent dimensions), N nodes of t trees, w answers of a pool, s members, g places.

_COLUMNS: Classes = {
    "Column": (
        Column,
        {
            "name": _ANY,
            "kind": Value(str, choices=("number", "date", "duration", "category", "left out")),
            "middle": _NUMBER,
            "values": Several(_ANY),
            "others": Several(_ANY),
            "shares": Several(_SHARE),
            "expects_new": _FLAG,
            "has_holes": _FLAG,
        },
    ),
}
_TREES: Classes = {
    "Trees": (
        Trees,
        {
            "roots": Array(_WHOLE, "t"),
            "children": Array(_WHOLE, "N 2", below="N"),
            "features": Array(_WHOLE, "N", below="D"),
            "thresholds": Array(_DOUBLE, "N"),
            "depth": Value(int, 0, 2**31),
        },
    ),
}
_EXPERTS: Classes = {
    "LinearExpert": (LinearExpert, {"coefficients": Array(_DOUBLE, "l c"), "ridge": _POSITIVE}),
    "ForestExpert": (
        ForestExpert,
        {
            "trees": Part(_TREES),
            "leaf_probabilities": Array(_DOUBLE, "N c", 0, 1.001),
            "leaf_weights": Array(_DOUBLE, "N", 0),
            "class_shares": Array(_DOUBLE, "c", 0, 1.001),
            "of_examples": Array(_WHOLE, "n t", below="N"),
            "labels": Array(_WHOLE, "n", below="c"),
            "weights": Array(_DOUBLE, "n", 0),
            "temperature": _POSITIVE,
        },
    ),
}
_SHAPES: Classes = {
    "ClassShape": (
        ClassShape,
        {
            "centres": Array(_SINGLE, "u D"),
            "directions": Array(_SINGLE, "v D"),
            "spreads": Array(_SINGLE, "v", is_positive=True),
            "beside": Array(_SINGLE, "", is_positive=True),
        },
    ),
}
_SAY: Classes = {
    "Say": (
        Say,
        {
            "shape": Part(_SHAPES),
            "typical": _NUMBER,
            "spread": _POSITIVE,
            "apartness": _SHARE,
        },
    ),
}
_POOLS: Classes = {
    "Pool": (
        Pool,
        {
            "experts": Named(Part(_EXPERTS)),
            "weights": Array(_DOUBLE, "w", 0, 1.001),
            "say": Maybe(Part(_SAY)),
        },
    ),
}
_PLACES: Classes = {
    "Places": (
        Places,
        {"points": Array(_DOUBLE, "s g o"), "log_scales": Array(_DOUBLE, "s g"), "bandwidth": _POSITIVE},
    ),
}
_FEATURES: Classes = {
    "ClassFeatures": (
        ClassFeatures,
        {
            "places": Part(_PLACES),
            "log_sums": Array(_DOUBLE, "s c g", most=1e300, may_be_infinite=True),
        },
    ),
}
_KERNELS: Classes = {
    "ExactKernel": (ExactKernel, {"bandwidth": _POSITIVE, "is_shared": _FLAG}),
    "OrthogonalKernel": (OrthogonalKernel, {"bandwidth": _POSITIVE, "frequencies": Array(_DOUBLE, "o f")}),
    "PositiveKernel": (
        PositiveKernel,
        {"bandwidth": _POSITIVE, "is_shared": _FLAG, "directions": Array(_DOUBLE, "o e")},
    ),
}
_FACTORS: Classes = {"InputFactor": (InputFactor, {"scale": _POSITIVE, "weight": _NOT_NEGATIVE})}
_SUPPORTS: Classes = {
    "Support": (
        Support,
        {
            "embeddings": Array(_DOUBLE, "m n o"),
            "labels": Array(_WHOLE, "n", below="c"),
            "weights": Array(_DOUBLE, "n", 0),
            "n_classes": Sized(_COUNT, {"c": int}),
            "background": _NOT_NEGATIVE,
            "input_factor": Maybe(Part(_FACTORS)),
            "inputs": Maybe(Array(_SINGLE, "n ...")),
            "features": Maybe(Part(_FEATURES)),
        },
    ),
}
_PLANES: Classes = {
    "Plane": (
        Plane,
        {"centre": Array(_SINGLE, "D"), "directions": Array(_SINGLE, "k D"), "noise": _NOT_NEGATIVE},
    ),
}
_NOVELTIES: Classes = {
    "Novelty": (
        Novelty,
        {"plane": Part(_PLANES), "typical": _NUMBER, "spread": _POSITIVE, "depth": _NOT_NEGATIVE},
    ),
}
_READERS: Classes = {
    "SoftmaxReader": (SoftmaxReader, {}),
    "NeighbourReader": (
        NeighbourReader,
        {
            "kernel": Part(_KERNELS),
            "support": Part(_SUPPORTS),
            "prior": Array(_DOUBLE, "c", 0, 1.001),
            "novelty": Maybe(Part(_NOVELTIES)),
            "pool": Maybe(Part(_POOLS)),
        },
    ),
}


def _n_parameters(sizes: tuple[int, ...]) -> int:
    return sum((before + 1) * after for before, after in pairwise(sizes))


_NETWORKS: Classes = {
    "MLP": (
        MLP,
        {
            "layer_sizes": Sized(
                Several(_COUNT),
                {
                    "D": lambda sizes: int(sizes[0]),
                    "...": lambda sizes: (int(sizes[0]),),
                    "o": lambda sizes: int(sizes[-1]),
                    "q": _n_parameters,
                },
            ),
            "dropout": _SHARE,
        },
    ),
}
_SCALERS: Classes = {
    "Scaler": (Scaler, {"centre": Array(_DOUBLE, "D"), "spread": Array(_DOUBLE, "D", is_positive=True)}),
}
_TABLES: Classes = {
    "Columns": (Columns, {"parts": Several(Part(_COLUMNS)), "is_plain": _FLAG}),
}
FITTED = Part(
    {
        "Fitted": (
            Fitted,
            {
                "classes": Sized(Plain((np.ndarray,)), {"c": len}),
                "input_shape": Sized(Several(_COUNT), {"D": math.prod, "shape": tuple}),
                "network": Module(Part(_NETWORKS)),
                "particles": Array(_SINGLE, "m q"),
                "scaler": Maybe(Part(_SCALERS)),
                "reader": Part(_READERS),
                "columns": Maybe(Part(_TABLES)),
            },
        ),
    }
)
_SOURCES: Classes = {
    "TableSource": (
        TableSource,
        {
            "target": Plain((str,)),
            "sorts": Named(Value(str, choices=SORTS)),
            "id": Maybe(Plain((str,))),
            "group": Maybe(Plain((str,))),
            "holes": Several(Plain((str,))),
        },
    ),
    "ImageSource": (
        ImageSource,
        {
            "shape": Several(_COUNT),
            "is_resized": _FLAG,
            "mode": Value(str, choices=("crop", "squash")),
            "size": Value(int, 0, 2**16),
            "resize": Value(int, 0, 2**16),
            "is_equalised": _FLAG,
            "interpolation": Value(str, choices=("nearest", "bilinear", "bicubic", "lanczos")),
            "scale": Value(str, choices=("", "0-255", "0-1", "imagenet")),
            **dict.fromkeys(("backbone", "key", "target", "path", "group"), Plain((str,))),
        },
    ),
}
#: What estimators have beside ``fitted_`` and what is read from it; none of it decides a prediction.
ATTRIBUTES: Mapping[str, Kind] = {
    "n_samples_fit_": Sized(_COUNT, {"n": int}),
    "n_features_in_": _COUNT,
    "feature_names_in_": Plain((np.ndarray,)),
    "class_weight_": Array(_DOUBLE, "c", 0, is_numpy=True),
    "history_": Named(Several(Plain((float, int)), list)),
    "was_interrupted_": _FLAG,
    "n_iter_": Value(int, 0, 2**62),
    "groups_": Array(_WHOLE, "n", 0, is_numpy=True),
    "best_epoch_": Value(int, 0, 2**62),
    "augmentation_": Several(_NOT_NEGATIVE),
    "oof_proba_": Array(_DOUBLE, "n c", 0, 1.001, is_numpy=True),
    "oof_evidence_": Array(_DOUBLE, "n", is_numpy=True, may_be_infinite=True),
    "oof_loss_": Plain((float,)),
    "folds_": Array(_WHOLE, "n", 0, is_numpy=True),
    "_sklearn_output_config": Named(Plain((str,))),
    "_metadata_request": Named(Named(Plain((bool, str, type(None))))),
    "source_": Part(_SOURCES),
}
#: Those that every fitted estimator has.
ALWAYS = {"n_samples_fit_", "n_features_in_", "class_weight_", "history_", "was_interrupted_", "n_iter_"}


def check(fitted: Fitted, attributes: Mapping[str, Any], store: Store) -> None:
    """What the sizes of single fields do not say: a MalformedError if a prediction would not come out."""
    c, m = len(fitted.classes), len(fitted.particles)
    distinct = {repr(label) for label in fitted.classes.tolist()}
    _demand(fitted.classes.ndim == 1 and c >= 2 and len(distinct) == c, "classes")
    _demand(m >= 1 and attributes.keys() >= ALWAYS, "attributes")
    outputs = store.lengths["o"][0]
    if isinstance(fitted.reader, NeighbourReader):
        _check_reader(fitted.reader, m, store)
    else:
        _demand(outputs == c, "outputs")
    _check_columns(fitted, attributes)


def _demand(is_right: bool, what: str) -> None:
    if not is_right:
        raise MalformedError(f"{what} that do not fit the rest")


def _check_reader(reader: NeighbourReader, m: int, store: Store) -> None:
    kernel, support = reader.kernel, reader.support
    is_linear = isinstance(kernel, PositiveKernel)
    _demand(is_linear == (support.features is not None), "features of classes")
    if support.features is not None:
        _demand(store.lengths["s"][0] == (m if kernel.is_shared else 1), "members")
    _demand((support.inputs is None) == (support.input_factor is None), "inputs")
    _demand(math.isclose(float(reader.prior.sum()), 1, rel_tol=1e-3), "class shares")
    if (pool := reader.pool) is None:
        return
    _demand(len(pool.weights) == 1 + len(pool.experts) > 1, "weights of the pool")
    _demand(math.isclose(float(pool.weights.sum()), 1, rel_tol=1e-3), "weights of the pool")
    for expert in pool.experts.values():
        if isinstance(expert, LinearExpert):
            _demand(len(expert.coefficients) == store.lengths["D"][0] + 1, "coefficients")
        if isinstance(expert, ForestExpert):
            _check_forest(expert)


def _check_forest(forest: ForestExpert) -> None:
    """Every way down ends at a leaf after as many steps as the depth says."""
    trees, own = forest.trees, torch.arange(len(forest.trees.children))
    is_leaf = (trees.children == own[:, None]).all(dim=1)
    inner = ~is_leaf
    # A child comes after its parent, and has no other.
    below = trees.children[inner]
    _demand(bool((below > own[inner][:, None]).all()), "trees")
    entered = torch.cat([trees.roots, below.flatten()])
    is_within = len(entered) > 0 and bool((entered >= 0).all()) and int(entered.max()) < len(own)
    _demand(is_within and len(set(entered.tolist())) == len(entered) == len(own), "trees")
    _demand(trees.depth < max(len(forest.labels), 1) and _depth(trees, is_leaf) == trees.depth, "depth")
    leaves = forest.of_examples
    _demand(bool(is_leaf[leaves].all()) and bool((forest.leaf_weights[leaves] > 0).all()), "leaves")


def _depth(trees: Trees, is_leaf: Tensor) -> int:
    """Steps from the roots to the lowest leaf, of trees that are known to be some."""
    nodes, depth = trees.roots, 0
    while len(nodes := nodes[~is_leaf[nodes]]):
        nodes, depth = trees.children[nodes].flatten(), depth + 1
    return depth


def _check_columns(fitted: Fitted, attributes: Mapping[str, Any]) -> None:
    """Columns become as many numbers as an input has, and are as many as scikit-learn noted."""
    n_given, names = attributes["n_features_in_"], attributes.get("feature_names_in_")
    is_named = names is not None and names.shape == (n_given,) and all(isinstance(n, str) for n in names)
    _demand(names is None or is_named, "names of features")
    if (columns := fitted.columns) is None:
        _demand(len(fitted.input_shape) > 0 and n_given == fitted.input_shape[0], "features")
        return
    _demand(len(columns.parts) == n_given and fitted.input_shape == (_width(columns),), "columns")
    own = [column.name for column in columns.parts]
    is_of_table = all(isinstance(name, str) for name in own)
    _demand(not is_of_table or (names is not None and names.tolist() == own), "names of columns")
    for column in columns.parts:
        n_values = len(column.values) + bool(column.others) + column.has_holes
        is_category = column.kind == "category"
        most = n_values if is_category else int(column.has_holes)  # none in files of earlier versions
        _demand(len(column.shares) == most or not (is_category or column.shares), "shares of a column")
        is_constant = column.is_constant and column.values == (column.middle,) and not column.has_holes
        _demand(is_category == (bool(column.values) and not is_constant), "values of a column")
        try:
            hash((column.name, column.values, column.others))
        except TypeError:
            raise MalformedError("values of a column that are none") from None


def _width(columns: Columns) -> int:
    return sum(column.n_places for column in columns.parts)
