"""The table of all that a model may consist of is whole, and what does not fit together is refused."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
import torch

import pnca
from models import make, noisy
from pnca.exceptions import CorruptDataError
from pnca.persistence.classifiers import CLASSIFIERS
from pnca.persistence.layouts import Maybe, Named, Part, Several, Sized
from pnca.persistence.modules import Module
from pnca.persistence.states import ALWAYS, ATTRIBUTES, FITTED
from robustness.fits import fitted
from robustness.model_files import forge, model, opened, written


def parts(kind):
    """Every class of the table, with its fields."""
    if isinstance(kind, Part):
        for of, table in kind.classes.values():
            yield of, table
            for item in table.values():
                yield from parts(item)
    elif isinstance(kind, Maybe | Named | Several | Sized):
        yield from parts(kind.item)
    elif isinstance(kind, Module):
        yield from parts(kind.layers)


TABLE = dict(parts(FITTED))


def test_table__has_every_field_of_its_classes():
    for kind, table in TABLE.items():
        if is_dataclass(kind):
            assert {field.name for field in fields(kind)} == set(table), kind
        elif hasattr(kind, "_fields"):
            assert set(kind._fields) == set(table), kind
    assert {"Fitted", "MLP", "ForestExpert", "ClassShape"} <= {kind.__name__ for kind in TABLE}


def test_table__has_every_part_that_fits_make():
    """A kernel, an expert or a reader that is new must be added."""
    from pnca.models import experts, fitted, kernels

    made = [
        kind
        for module in (experts, fitted, kernels)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and kind.__module__ == module.__name__ and is_dataclass(kind)
    ]
    assert {kind for kind in made if kind is not kernels.Batch} <= set(TABLE)


def test_classifiers__are_all_of_the_package():
    assert set(CLASSIFIERS) == {name for name in pnca.__all__ if name.endswith("Classifier")}


def test_attributes__are_all_that_fits_leave():
    left = set()
    for name in ("PNCA pooled", "BNN"):
        found = fitted(make(name, max_epochs=2), *noisy())
        left |= (
            vars(found).keys()
            - found.get_params().keys()
            - pnca.models.fitted.attributes_of(found.fitted_).keys()
        )
    assert ALWAYS < left - {"fitted_", "record_"} <= ATTRIBUTES.keys()


@pytest.mark.parametrize("name", ["PNCA pooled", "PNCA positive", "module", "pipeline"])
def test_forgery__without_a_change_is_taken(name, tmp_path):
    forge(path := tmp_path / "model.pnca", name, lambda found, tensors: None)
    assert path.read_bytes() == written(name)
    made, X = model(name)
    np.testing.assert_array_equal(opened(path, name).predict_proba(X), made.predict_proba(X))


def forest(tensors, part):
    return tensors[f"fitted.reader.pool.experts.forest.{part}"]


def set_in(name, place, value):
    def change(found, tensors):
        tensors[name][place] = value

    return change


def looped(found, tensors):
    children = forest(tensors, "trees.children")
    inner = int((children[:, 0] != torch.arange(len(children))).nonzero()[0])
    children[inner, 0] = 0


def shared_child(found, tensors):
    children = forest(tensors, "trees.children")
    inner = (children[:, 0] != torch.arange(len(children))).nonzero().flatten()
    children[inner[0]] = children[inner[-1]]


def deep(depth):
    def change(found, tensors):
        pool = found["fitted"]["Fitted"]["reader"]["NeighbourReader"]["pool"]["Pool"]
        pool["experts"]["forest"]["ForestExpert"]["trees"]["Trees"]["depth"] = depth

    return change


def inner_leaf(found, tensors):
    children = forest(tensors, "trees.children")
    inner = int((children[:, 0] != torch.arange(len(children))).nonzero()[0])
    forest(tensors, "of_examples")[0, 0] = inner


def in_fitted(*path, value):
    def change(found, tensors):
        *above, last = ("fitted", "Fitted", *path)
        for key in above:
            found = found[key]
        found[last] = value

    return change


READER = "fitted.reader."
CHANGES = {
    "a loop in a tree": looped,
    "two parents": shared_child,
    "too deep": deep(10**9),
    "too shallow": deep(0),
    "an example in no leaf": inner_leaf,
    "an empty leaf": lambda found, tensors: forest(tensors, "leaf_weights").zero_(),
    "a column too many": lambda found, tensors: forest(tensors, "trees.features").fill_(3),
    "a class too many": set_in(READER + "support.labels", 0, 2),
    "a class less than none": set_in(READER + "support.labels", 0, -1),
    "a weight that is none": set_in(READER + "support.weights", 0, float("nan")),
    "an infinite embedding": set_in(READER + "support.embeddings", 0, float("inf")),
    "class shares of more than one": set_in(READER + "prior", 0, 0.9),
    "weights of another pool": set_in(READER + "pool.weights", 0, 1.0),
    "no spread": set_in("fitted.scaler.spread", 0, 0.0),
    "a parameter that is none": set_in("fitted.particles", 0, float("nan")),
    "layers of other sizes": in_fitted("network", "MLP", "layer_sizes", value=[3, 5, 10]),
    "layers without end": in_fitted("network", "MLP", "layer_sizes", value=[3, 2**31, 10]),
    "another input": in_fitted("input_shape", value=[4]),
    "another class": in_fitted("classes", value={"array": ["<i8", [3], [0, 1, 2]]}),
    "equal classes": in_fitted("classes", value={"array": ["<i8", [2], [1, 1]]}),
    "no columns": in_fitted("columns", "Columns", "parts", value=[]),
    "another reader": in_fitted("reader", value={"SoftmaxReader": {}}),
    "no bandwidth": in_fitted("reader", "NeighbourReader", "kernel", "ExactKernel", "bandwidth", value=0.0),
    "another kernel": in_fitted(
        "reader",
        "NeighbourReader",
        "kernel",
        value={"OrthogonalKernel": {"bandwidth": 1.0, "frequencies": [0, 1]}},
    ),
    "an attribute that hides a method": lambda found, tensors: found["attributes"].update(predict=1),
    "a parameter of none": lambda found, tensors: found["parameters"].update(fit=1),
    "another classifier": lambda found, tensors: found.update({"class": "ParticleClassifier"}),
    "a fold for each class": set_in("folds_", 0, -3),
    "a tensor more": lambda found, tensors: tensors.update(more=torch.zeros(1)),
}


@pytest.mark.parametrize("case", CHANGES)
def test_forgery__of_what_does_not_fit_is_refused(case, tmp_path):
    forge(path := tmp_path / "model.pnca", "PNCA pooled", CHANGES[case])
    with pytest.raises(CorruptDataError, match=r"model\.pnca is damaged \(it has .*\): take another copy"):
        pnca.load(path)


def test_memory_order__of_tensors_comes_back(tmp_path):
    made, _ = model("PNCA pooled")
    coefficients = made.fitted_.reader.pool.experts["linear"].coefficients
    pool = made.fitted_.reader.pool
    turned = replace(pool.experts["linear"], coefficients=coefficients.T.contiguous().T)
    reader = replace(made.fitted_.reader, pool=replace(pool, experts={**pool.experts, "linear": turned}))
    other = fitted(make("PNCA pooled", max_epochs=2), *noisy())
    other.fitted_ = replace(made.fitted_, reader=reader)
    found = (
        pnca.load(pnca.save(other, tmp_path / "model.pnca"))
        .fitted_.reader.pool.experts["linear"]
        .coefficients
    )
    assert found.stride() == turned.coefficients.stride() != coefficients.stride()
    assert torch.equal(found, coefficients)
