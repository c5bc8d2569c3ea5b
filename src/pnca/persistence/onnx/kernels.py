"""Kernel masses of the classes, as in ``maths.kernels``, ``maths.positive`` and ``maths.features``."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pnca.maths.features import FLOOR, mean_random_features
from pnca.maths.inputs import NOVEL, USUAL, Novelty
from pnca.models.features import ClassFeatures
from pnca.models.fitted import NeighbourReader
from pnca.models.kernels import ExactKernel, OrthogonalKernel
from pnca.persistence.onnx.graph import Term, as_array, concat

FloatArray = NDArray[np.float64]


def sq_distances(a: Term, b: FloatArray) -> Term:
    """Squared distances (..., n_a, n_b) from points (..., n_a, d) to constant ones (..., n_b, d)."""
    centre: FloatArray = b.mean(axis=-2, keepdims=True)
    b, a = b - centre, a - centre
    sq_norms_b: FloatArray = np.square(b).sum(axis=-1)[..., None, :]
    products: Term = a @ np.swapaxes(b, -1, -2)
    return ((a * a).sum(-1, keep=True) + sq_norms_b - products * 2).at_least(0)


def log_mean(logs: Term, n_members: int) -> Term:
    """Log of the mean over the first axis."""
    return logs.logsumexp(0) - math.log(n_members)


def log_plus(log_mass: Term, background: float, log_share: FloatArray | float = 0.0) -> Term:
    """Log of a mass plus its share of the background."""
    if background == 0:
        return log_mass
    other = log_mass.graph.constant(np.asarray(math.log(background) + log_share, dtype=np.float64))
    apart = (log_mass - other).op("Abs")
    return log_mass.op("Max", other) + ((-apart).exp() + 1).log()


def log_class_probabilities(log_masses: Term, background: float, log_prior: FloatArray) -> Term:
    """Log-probability of each class (..., n, c), from log masses of that shape."""
    if background == 0:
        return log_masses.op("LogSoftmax", axis=-1)
    total = log_plus(log_masses.logsumexp(-1, keep=True), background)
    return log_plus(log_masses, background, log_prior) - total


def log_masses(reader: NeighbourReader, outputs: Term, inputs: Term) -> Term:
    """Log mass (members, n, c) that each class gives embeddings (m, n, d) of scaled inputs (n, D)."""
    support = reader.support
    if support.features is not None:
        n_particles = None if reader.kernel.is_shared else len(support.embeddings)
        found = _of_features(support.features, outputs, n_particles)
    else:
        found = _of_examples(reader, outputs, inputs)
    return found if reader.novelty is None else found + log_novelty(reader.novelty, inputs).unsqueeze(-1)


def _of_examples(reader: NeighbourReader, outputs: Term, inputs: Term) -> Term:
    """Masses from a kernel to every example; examples are sorted by class, so that a class is one slice."""
    support, labels = reader.support, reader.support.labels.numpy()
    order = labels.argsort(kind="stable")
    log_kernel = _log_kernel(reader, outputs, support.embeddings[:, order.copy()])  # (members, n, n_train)
    if (factor := support.input_factor) is not None and support.inputs is not None:
        sq_dist = sq_distances(inputs, as_array(support.inputs).reshape(len(labels), -1)[order])
        log_kernel = log_kernel + (-sq_dist / factor.scale + 1) * factor.weight
    log_kernel = log_kernel + as_array(support.log_weights(support.embeddings))[order]
    ends = np.cumsum(np.bincount(labels, minlength=support.n_classes)).tolist()
    starts = [0, *ends[:-1]]
    slices = [
        log_kernel.part(start, end).logsumexp(-1, keep=True) for start, end in zip(starts, ends, strict=True)
    ]
    return concat(slices, axis=-1)


def _log_kernel(reader: NeighbourReader, outputs: Term, embeddings: Tensor) -> Term:
    """Log kernel (members, n, n_train) from embeddings (m, n, d) to those of the examples (m, n_train, d)."""
    kernel, (m, n_train, d) = reader.kernel, embeddings.shape
    if isinstance(kernel, OrthogonalKernel):
        of_examples = as_array(mean_random_features(embeddings, kernel.frequencies.to(embeddings)))
        products: Term = _mean_random_features(outputs, as_array(kernel.frequencies), m) @ of_examples.T
        return (products.op("Relu") + FLOOR).log().unsqueeze(0)
    assert isinstance(kernel, ExactKernel)
    if kernel.is_shared:
        return -sq_distances(outputs, as_array(embeddings)) / kernel.bandwidth
    # All particles of the one are compared with all of the other.
    sq_dist = sq_distances(outputs, as_array(embeddings).reshape(1, m * n_train, d))
    of_pairs = (-sq_dist / kernel.bandwidth).reshape(m, -1, m, n_train)
    return (of_pairs.logsumexp(0, 2) - math.log(m * m)).unsqueeze(0)


def _mean_random_features(outputs: Term, frequencies: FloatArray, m: int) -> Term:
    """Mean features (n, 2 f) over particles of embeddings (m, n, d)."""
    phases = outputs @ frequencies  # (m, n, f)
    # onnxruntime 1.19 has sines in float64, but no cosines.
    cosines = (phases + math.pi / 2).op("Sin")
    sums = concat([cosines.sum(0), phases.op("Sin").sum(0)], axis=-1)
    return sums / (m * math.sqrt(frequencies.shape[1]))


def _of_features(features: ClassFeatures, outputs: Term, n_particles: int | None) -> Term:
    """Masses from one vector for each class; the features of so many particles are averaged, if given."""
    places, log_sums = features.places, as_array(features.log_sums)  # (members, c, f)
    rate, log_scales = 2 / places.bandwidth, as_array(places.log_scales)[:, None]
    log_features = -sq_distances(outputs, as_array(places.points)) * rate + log_scales  # (m, n, f)
    if n_particles is not None:
        log_features = log_mean(log_features, n_particles).unsqueeze(0)
    parts = [
        (log_features + log_sums[:, c : c + 1]).logsumexp(-1, keep=True) for c in range(log_sums.shape[1])
    ]
    return concat(parts, axis=-1)


def log_novelty(novelty: Novelty, inputs: Term) -> Term:
    """Log of the factor (n,) by which an unusual residual shrinks the mass of scaled inputs (n, D)."""
    plane = novelty.plane
    residuals = inputs - plane.centre.double()
    if len(plane.directions):  # with one column there is none
        directions = inputs.graph.constant(plane.directions)  # (k, D)
        residuals = residuals - residuals @ directions.op("Transpose", perm=[1, 0]) @ directions
    smallest = max(plane.noise, np.finfo(np.float64).tiny)
    log_residuals: Term = ((residuals * residuals).sum(-1) + smallest).log()
    deviations = (log_residuals - novelty.typical) / novelty.spread
    beyond: Term = ((deviations - USUAL) / (NOVEL - USUAL)).at_least(0)
    return beyond * beyond * -novelty.depth
