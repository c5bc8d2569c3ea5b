"""What experts answer and how much say is left, as in ``models.experts``, ``maths.say``, ``maths.pool``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pnca.maths.say import _CURVE, _NEAR, _NOISE, _SLOPE, ClassShape, Say
from pnca.models.experts import Expert, ForestExpert, LinearExpert, Trees
from pnca.models.pool import Pool
from pnca.persistence.onnx.graph import Term, as_array
from pnca.persistence.onnx.kernels import sq_distances

FloatArray = NDArray[np.float64]


def pooled(pool: Pool, of_neighbours: Term, inputs: Term, prior: FloatArray) -> Term:
    """Class probabilities (n, c) of neighbours and experts together, for scaled inputs (n, D)."""
    weights = pool.weights.tolist()
    answer = of_neighbours * weights[0]
    for weight, expert in zip(weights[1:], pool.experts.values(), strict=True):
        answer = answer + probabilities(expert, inputs) * weight
    return answer if pool.say is None else heard(answer, log_say(pool.say, inputs), prior)


def heard(answer: Term, log_say: Term, prior: FloatArray) -> Term:
    """Probabilities (n, c) of which a say (n,) is left, in logs; the class shares (c,) have the rest."""
    say = log_say.unsqueeze(-1).exp()
    return answer * say + (-say + 1) * prior


def probabilities(expert: Expert, inputs: Term) -> Term:
    """Class probabilities (n, c) by an expert."""
    if isinstance(expert, LinearExpert):
        coefficients = as_array(expert.coefficients)
        logits: Term = inputs @ coefficients[:-1] + coefficients[-1]
        return logits.op("Softmax", axis=-1)
    assert isinstance(expert, ForestExpert)
    graph, n_trees = inputs.graph, len(expert.trees.roots)
    reached = leaves(expert.trees, inputs)  # (n, t)
    of_leaves = graph.op("Gather", expert.leaf_probabilities, reached, axis=0)  # (n, t, c)
    sums = (of_leaves.sum(1) + as_array(expert.class_shares)) / (n_trees + 1)
    return (sums.log() / expert.temperature).op("Softmax", axis=-1)


def leaves(trees: Trees, inputs: Term) -> Term:
    """Leaf (n, t) that inputs (n, D) reach in each tree: one step down in all of them at a time."""
    from onnx import TensorProto

    graph = inputs.graph
    thresholds, features = graph.constant(trees.thresholds), graph.constant(trees.features)
    children = graph.constant(trees.children.flatten())  # left and right of each node in turn
    n_rows = inputs.op("Shape", start=0, end=1)
    nodes = graph.op("Expand", trees.roots[None], graph.op("Concat", n_rows, np.array([1]), axis=0))
    for _ in range(trees.depth):
        compared = inputs.op("GatherElements", features.op("Gather", nodes, axis=0), axis=1)
        goes_right = compared.op("Greater", thresholds.op("Gather", nodes, axis=0))
        sides = nodes.op("Mul", np.array(2)).op("Add", goes_right.cast(TensorProto.INT64))
        nodes = children.op("Gather", sides, axis=0)
    return nodes


def log_say(say: Say, inputs: Term) -> Term:
    """Log of the say (n,) that is left to answers for scaled inputs (n, D)."""
    deviations = (log_class_distances(inputs, say.shape) - say.typical) / say.spread
    beyond = (deviations - _NEAR).at_least(0)
    return -beyond * (beyond * _CURVE + _SLOPE * say.apartness**2)


def log_class_distances(inputs: Term, shape: ClassShape) -> Term:
    """Log distance (n,) of scaled inputs (n, D) to the nearest class, in its deviations."""
    directions = inputs.graph.constant(shape.directions)  # (k, D)
    spreads, beside = as_array(shape.spreads), float(shape.beside)
    along = inputs @ directions.op("Transpose", perm=[1, 0])
    outside = (inputs - along @ directions) / beside
    a = (along / spreads).op("Concat", outside, axis=1)
    centres, of_shape = as_array(shape.centres), as_array(shape.directions)
    centres_along = centres @ of_shape.T
    b = np.hstack([centres_along / spreads, (centres - centres_along @ of_shape) / beside])
    return (sq_distances(a, b).amin(-1) + _NOISE).log() / 2
