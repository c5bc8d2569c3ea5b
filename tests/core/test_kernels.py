"""Three kernels behind one interface: pairs and masses against the loops, pairs against tiles."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

import reference
import scenarios
from models import digits, draw, gradients, make, noisy, objective
from pnca import accelerated
from pnca.maths.features import orthogonal_frequencies
from pnca.maths.inputs import InputFactor
from pnca.maths.neighbours import class_log_masses
from pnca.maths.pnca import log_expected_kernel
from pnca.models import kernels
from pnca.models.kernels import ExactKernel, OrthogonalKernel, PositiveKernel, Support, members
from pnca.training import augmentation

CPU, GPU = torch.device("cpu"), torch.device("cuda")
MODELS = [slice(0, 2), slice(2, 3)]
H = 1.3


def frequencies(n_blocks=20, d=2):
    return orthogonal_frequencies(d, n_blocks, H, torch.Generator().manual_seed(0)).double()


KERNELS = {
    "exact shared": ExactKernel(H, True),
    "exact cross": ExactKernel(H, False),
    "orthogonal": OrthogonalKernel(H, frequencies()),
    "positive shared": PositiveKernel(H, True, frequencies(4)),
    "positive cross": PositiveKernel(H, False, frequencies(4)),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
exact_kernels = pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "cross"])


def support(kernel, with_inputs=False):
    """Eight examples of three classes, embedded by three particles."""
    found = Support(
        embeddings=scenarios.cloud(3, 8, 2),
        labels=torch.arange(8) % 3,
        weights=torch.linspace(0.5, 2, 8).double(),
        n_classes=3,
        background=0.1,
        input_factor=InputFactor(2.0, 0.7) if with_inputs else None,
        inputs=scenarios.cloud(1, 8, 4, seed=2)[0] if with_inputs else None,
    )
    return kernel.summarised(found) if kernel.is_linear else found


# Pairs


def test_log_pairs__of_the_exact_kernel_equal_the_loop():
    a, b = scenarios.cloud(3, 4, 2), scenarios.cloud(3, 5, 2, seed=1)
    shared = torch.stack([reference.expected_kernel(x[None], y[None], H) for x, y in zip(a, b, strict=True)])
    torch.testing.assert_close(ExactKernel(H, True).log_pairs(a, b, MODELS).exp(), shared)
    cross = torch.stack([reference.expected_kernel(a[rows], b[rows], H) for rows in MODELS])
    torch.testing.assert_close(ExactKernel(H, False).log_pairs(a, b, MODELS).exp(), cross)


def test_log_pairs__of_orthogonal_features_equal_the_loop():
    a, b = scenarios.cloud(3, 4, 2), scenarios.cloud(3, 5, 2, seed=1)
    kernel = KERNELS["orthogonal"]
    expected = [reference.approximate_kernel(a[rows], b[rows], kernel.frequencies) for rows in MODELS]
    found = kernel.log_pairs(a, b, MODELS).exp()
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-7, atol=1e-7)


@every_kernel
def test_log_pairs__of_a_set_and_itself_are_those_of_two_equal_sets(kernel):
    of = support(kernel)
    z, models = of.embeddings, [slice(None)]
    torch.testing.assert_close(kernel.log_pairs(z, z, models, of), kernel.log_pairs(z, z.clone(), models, of))


def test_orthogonal_kernel__more_feature_blocks_come_nearer_to_the_exact_one():
    z = scenarios.cloud(3, 30, 10, scale=0.4)
    exact = log_expected_kernel(z, z, H).exp()
    errors = [
        (exact - OrthogonalKernel(H, frequencies(n_blocks, 10)).log_pairs(z, z, [slice(None)])[0].exp())
        .abs()
        .mean()
        .item()
        for n_blocks in (2, 200)
    ]
    assert errors[1] < errors[0] / 5  # the error falls like one over the root of the features: ten times


# Masses


@exact_kernels
@pytest.mark.parametrize("with_inputs", [False, True])
@pytest.mark.parametrize("in_tiles", [False, True])
def test_log_masses__of_the_exact_kernel_equal_the_loop(is_shared, with_inputs, in_tiles, monkeypatch):
    kernel = ExactKernel(H, is_shared)
    of, queries = support(kernel, with_inputs=with_inputs), scenarios.cloud(3, 5, 2, seed=1)
    inputs = scenarios.cloud(1, 5, 4, seed=3)[0]
    monkeypatch.setattr(kernels, "TILED", 0 if in_tiles else 2**40)
    of_members = [slice(k, k + 1) for k in range(3)] if is_shared else [slice(0, 3)]
    expected = reference.class_masses(
        queries,
        of.embeddings,
        of.labels,
        3,
        H,
        of_members,
        of.weights.expand(len(of_members), -1),
        torch.zeros(5, 8, dtype=torch.bool),
        of.input_factor.log(inputs, of.inputs) if with_inputs else torch.zeros(5, 8).double(),
    )
    found = kernel.log_masses(queries, inputs, of)
    torch.testing.assert_close(found, expected.log(), rtol=1e-9, atol=1e-9)


def test_log_masses__of_orthogonal_features_equal_the_loop():
    kernel = KERNELS["orthogonal"]
    of, queries = support(kernel), scenarios.cloud(3, 5, 2, seed=1)
    K = reference.approximate_kernel(queries, of.embeddings, kernel.frequencies) * of.weights
    expected = torch.stack([K[:, of.labels == c].sum(dim=1) for c in range(3)], dim=1)
    found = kernel.log_masses(queries, queries[0], of).exp()
    torch.testing.assert_close(found, expected[None], rtol=1e-6, atol=1e-6)


@every_kernel
def test_log_masses__are_sums_of_the_pairs(kernel):
    of, queries = support(kernel), scenarios.cloud(3, 5, 2, seed=1)
    log_pairs = kernel.log_pairs(queries, of.embeddings, [slice(None)], of)
    expected = class_log_masses(log_pairs, of.labels, 3, of.weights.log())
    torch.testing.assert_close(kernel.log_masses(queries, queries[0], of), expected)


@exact_kernels
def test_log_masses__far_away_are_the_same_in_tiles(is_shared, monkeypatch):
    kernel = ExactKernel(H, is_shared)
    of, far = support(kernel), scenarios.cloud(3, 5, 2, seed=1) + 40.0
    found = []
    for most in (2**40, 0):
        monkeypatch.setattr(kernels, "TILED", most)
        found.append(kernel.log_masses(far, far[0], of))
    assert found[0].max() < -1000
    torch.testing.assert_close(found[1], found[0])


# The loss


@exact_kernels
@pytest.mark.parametrize("with_groups", [False, True])
@pytest.mark.parametrize("input_weight", [0.0, 0.7])
def test_loss__in_tiles_has_the_gradient_of_the_pairs(is_shared, with_groups, input_weight, monkeypatch):
    X, y = noisy()
    model = make(
        "PNCA",
        expectation="shared" if is_shared else "cross",
        n_folds=3,
        dropout=0.0,
        input_weight=input_weight,
        class_weight={0: 1.0, 1: 2.0},
    )
    of_pairs = objective(model, X, y, groups=np.arange(40) // 2 if with_groups else None)
    particles = draw(of_pairs)
    expected, used = gradients(of_pairs, particles), []
    original = accelerated.class_log_masses
    monkeypatch.setattr(kernels, "TILED", 0)
    monkeypatch.setattr(accelerated, "class_log_masses", lambda *a, **o: used.append(1) or original(*a, **o))
    torch.testing.assert_close(gradients(of_pairs, particles), expected, rtol=1e-9, atol=1e-9)
    assert used


@pytest.mark.parametrize("n_particles", [3, 4])  # four: two kinds, which see images changed differently
def test_loss__in_tiles_has_the_gradient_of_the_pairs_for_images(n_particles, monkeypatch):
    monkeypatch.setattr(augmentation, "augment", lambda inputs, image, strength, generator: inputs * strength)
    X, y = digits()
    of_pairs = objective(make("PNCA", n_particles=n_particles, n_folds=2, dropout=0.0), X, y)
    assert of_pairs.models.n_kinds == (2 if n_particles == 4 else 1)
    particles = draw(of_pairs)
    expected = gradients(of_pairs, particles)
    monkeypatch.setattr(kernels, "TILED", 0)
    torch.testing.assert_close(gradients(of_pairs, particles), expected, rtol=1e-9, atol=1e-9)


class Rank:
    """One of two ranks of a process group whose embeddings of the whole batch are known."""

    def __init__(self, rank, whole):
        self.rank, self.whole = rank, whole

    def rows(self, n):
        return slice(0, 15) if self.rank == 0 else slice(15, n)

    def gather(self, part, n):
        assert torch.equal(part, self.whole[:, self.rows(n)])
        return self.whole


@pytest.mark.parametrize(
    ("kernel", "expectation"),
    [*product(["exact", "tiled", "positive"], ["shared", "cross"]), ("orthogonal", "cross")],
)
def test_loss__of_the_rows_of_two_ranks_adds_up(kernel, expectation, monkeypatch):
    monkeypatch.setattr(kernels, "TILED", 0 if kernel == "tiled" else 2**40)
    given = {"kernel": "exact" if kernel == "tiled" else kernel, "expectation": expectation}
    alone = objective(make("PNCA", dropout=0.0, n_folds=3, **given), *noisy())
    particles, every = draw(alone), torch.arange(40)

    def evaluated(of):
        return of.evaluate(particles, of.prepare(every), None, None)

    whole = evaluated(alone)
    parts = [evaluated(replace(alone, shards=Rank(rank, alone.embed(particles)))) for rank in (0, 1)]
    for total, *of_ranks in zip(whole, *parts, strict=True):
        torch.testing.assert_close(sum(of_ranks), total, rtol=1e-9, atol=1e-9)
    assert 0 < parts[0].total_loss < whole.total_loss


# The rest of the interface


def test_members__are_particles_or_models():
    assert members(KERNELS["exact shared"], 3, MODELS) == [slice(0, 1), slice(1, 2), slice(2, 3)]
    assert members(KERNELS["exact cross"], 3, MODELS) == MODELS
    assert members(KERNELS["orthogonal"], 3, MODELS) == MODELS


def test_holds_pairs__up_to_a_size_for_the_exact_kernel_alone():
    exact = KERNELS["exact shared"]
    assert exact.holds_pairs(4, 2**9, CPU)
    assert not exact.holds_pairs(5, 2**9, CPU)
    assert exact.holds_pairs(4, 2**12, GPU)
    assert not exact.holds_pairs(5, 2**12, GPU)
    assert KERNELS["orthogonal"].holds_pairs(10**3, 10**5, CPU)
    assert not KERNELS["positive shared"].holds_pairs(1, 3, CPU)


@every_kernel
def test_at__changes_the_bandwidth_alone(kernel):
    other = kernel.at(2 * H)
    assert (other.bandwidth, kernel.bandwidth) == (2 * H, H)
    z = scenarios.cloud(3, 5, 2)
    pairs, of_other = (k.log_pairs(z, z, [slice(None)], support(k)) for k in (kernel, other))
    # Frequencies are drawn for one bandwidth: there is nothing to tune.
    assert torch.equal(pairs, of_other) != kernel.is_tunable


@every_kernel
def test_on__takes_the_precision_of_a_tensor(kernel):
    single = kernel.on(torch.zeros(1))
    assert type(single) is type(kernel)
    assert (single.bandwidth, single.is_shared) == (kernel.bandwidth, kernel.is_shared)
    constants = [value for value in vars(single).values() if isinstance(value, torch.Tensor)]
    assert len(constants) == (not isinstance(kernel, ExactKernel))
    assert all(value.dtype == torch.float32 for value in constants)


def test_summarised__a_class_is_one_vector():
    of_features = support(KERNELS["positive cross"]).features
    assert of_features.log_sums.shape == (1, 3, 8)
    assert of_features.places.points.shape == (1, 8, 2)
    assert support(KERNELS["positive shared"]).features.log_sums.shape == (3, 3, 8)
