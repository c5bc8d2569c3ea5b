"""The kernels of the class masses, on a CUDA device, or in Triton's interpreter."""

import math
import subprocess
import sys

import pytest
import torch

import scenarios
from accelerated.interpreter import (
    DEVICE,
    IS_INTERPRETED,
    runs_kernels,
)
from pnca import accelerated
from pnca.accelerated.masses import SMALLEST, fused_class_log_masses
from pnca.accelerated.problem import InputFactor, MassProblem
from pnca.accelerated.tiles import chunked_class_log_masses
from pnca.maths.neighbours import LOG_ZERO
from pnca.models import kernels

CROSS = [slice(0, 3)]
SHARED = [slice(0, 1), slice(1, 2), slice(2, 3)]
MODELS = [slice(0, 2), slice(2, 3)]


def fused(*fields, **options):
    return fused_class_log_masses(MassProblem(*fields, **options))


def in_tiles(*fields, **options):
    return chunked_class_log_masses(MassProblem(*fields, **options))


def problem(n, d, n_classes, answers, *, same=True, n_a=None, p=5, seed=0):
    """Float32 points, weights of which some are zero, groups and inputs, on the device."""
    generator = torch.Generator().manual_seed(seed)
    a = scenarios.cloud(3, n_a or n, d, seed).float().to(DEVICE).requires_grad_()
    b = a if same else scenarios.cloud(3, n, d, seed + 1).float().to(DEVICE).requires_grad_()
    weights = torch.rand(len(answers), n, generator=generator)
    weights[:, ::5] = 0
    x = torch.randn(n, p, generator=generator).to(DEVICE)
    other = x if same else torch.randn(n_a or n, p, generator=generator).to(DEVICE)
    return {
        "points": (a, b),
        "labels": torch.randint(n_classes, (n,), generator=generator).to(DEVICE),
        "log_weights": weights.log().clamp_min(LOG_ZERO).to(DEVICE),
        "groups": torch.randint(n // 2, (n,), generator=generator).to(DEVICE),
        "input_factor": InputFactor(other, x, 2.0 * p, 0.7),
    }


def errors(q, n_classes, answers, *, bandwidth, options):
    """Errors of the log masses (largest) and of the gradients (relative), against float64 in tiles."""
    options = {name: q.get(name, value) for name, value in options.items()}
    masses = fused(*q["points"], q["labels"], n_classes, bandwidth, answers, **options)
    slope = torch.randn(masses.shape, generator=torch.Generator().manual_seed(9)).to(DEVICE)
    inputs = q["points"][:1] if q["points"][0] is q["points"][1] else q["points"]
    gradients = torch.autograd.grad(masses, inputs, slope)
    exact = [z.detach().double().requires_grad_() for z in inputs]
    if factor := options.get("input_factor"):
        a = factor.a.double()
        b = a if factor.b is factor.a else factor.b.double()
        options["input_factor"] = factor._replace(a=a, b=b)
    expected = in_tiles(exact[0], exact[-1], q["labels"], n_classes, bandwidth, answers, **options)
    floor = math.log(SMALLEST)
    expected_gradients = torch.autograd.grad(
        expected.clamp_min(floor), exact, slope.double(), retain_graph=True
    )
    of_masses = (masses - expected.clamp_min(floor)).abs().max().item()
    of_gradients = [
        ((got - value).norm() / value.norm()).item()
        for got, value in zip(gradients, expected_gradients, strict=True)
    ]
    return of_masses, max(of_gradients)


# Weights in half precision have 11 bits; inputs too, and their squared distance is a few units.
GRADIENT_ERROR, MASS_ERROR, MASS_ERROR_WITH_INPUTS = 5e-4, 2e-6, 3e-3


@runs_kernels
@pytest.mark.parametrize("answers", [CROSS, SHARED, MODELS], ids=["cross", "shared", "models"])
@pytest.mark.parametrize("exclude", [{}, {"leave_one_out": True}, {"leave_one_out": True, "groups": None}])
@pytest.mark.parametrize("same", [True, False])
def test_fused_class_log_masses__equal_those_in_tiles(answers, exclude, same):
    q = problem(n=100, d=3, n_classes=2, answers=answers, same=same)
    options = {"log_weights": None, **exclude}
    of_masses, of_gradients = errors(q, 2, answers, bandwidth=3.0, options=options)
    assert of_masses < MASS_ERROR
    assert of_gradients < GRADIENT_ERROR


@runs_kernels
@pytest.mark.parametrize("answers", [CROSS, SHARED], ids=["cross", "shared"])
@pytest.mark.parametrize("same", [True, False])
def test_fused_class_log_masses__with_an_input_factor(answers, same, monkeypatch):
    monkeypatch.setattr("pnca.accelerated.masses._MAX_FACTORS", 100 * 64)  # several strips
    q = problem(n=100, d=3, n_classes=2, answers=answers, same=same)
    options = {"leave_one_out": True, "groups": None, "input_factor": None}
    of_masses, of_gradients = errors(q, 2, answers, bandwidth=3.0, options=options)
    assert of_masses < MASS_ERROR_WITH_INPUTS
    assert of_gradients < 3 * GRADIENT_ERROR


@runs_kernels
@pytest.mark.parametrize("d", [1, 10, 11, 16, 17, 128])
def test_fused_class_log_masses__in_any_number_of_dimensions(d):
    q = problem(n=70, d=d, n_classes=2, answers=CROSS)
    of_masses, of_gradients = errors(q, 2, CROSS, bandwidth=float(d), options={"leave_one_out": True})
    assert of_masses < MASS_ERROR
    assert of_gradients < GRADIENT_ERROR


@runs_kernels
@pytest.mark.parametrize("n_classes", [1, 7])
@pytest.mark.parametrize("n", [2, 63, 64, 65])
def test_fused_class_log_masses__of_any_number_of_points_and_classes(n, n_classes):
    q = problem(n=n, d=2, n_classes=n_classes, answers=SHARED)
    of_masses, of_gradients = errors(q, n_classes, SHARED, bandwidth=2.0, options={"leave_one_out": True})
    assert of_masses < MASS_ERROR
    assert of_gradients < GRADIENT_ERROR


@runs_kernels
def test_fused_class_log_masses__of_other_queries_than_the_support():
    q = problem(n=90, n_a=37, d=3, n_classes=3, answers=CROSS, same=False)
    options = {"log_weights": None, "input_factor": None}
    of_masses, of_gradients = errors(q, 3, CROSS, bandwidth=2.0, options=options)
    assert of_masses < MASS_ERROR_WITH_INPUTS
    assert of_gradients < 3 * GRADIENT_ERROR


@runs_kernels
def test_fused_class_log_masses__have_gradients_of_small_masses_beside_large_ones():
    # Masses from 1e-20 to 10: the slope of a log mass is its inverse, and half precision spans 1e12.
    q = problem(n=100, d=2, n_classes=2, answers=SHARED)
    a, _ = q["points"]
    with torch.no_grad():
        a[:, 80:] += 5 * torch.arange(20, device=DEVICE)[:, None]
    options = {"leave_one_out": True}
    _, of_gradients = errors(q, 2, SHARED, bandwidth=1.0, options=options)
    assert of_gradients < GRADIENT_ERROR


@runs_kernels
def test_fused_class_log_masses__can_be_the_same_to_the_last_bit():
    q = problem(n=200, d=3, n_classes=2, answers=CROSS)
    torch.use_deterministic_algorithms(True)
    try:
        results = []
        for _ in range(3):
            masses = fused(*q["points"], q["labels"], 2, 2.0, CROSS, leave_one_out=True)
            results.append((masses, *torch.autograd.grad(masses.sum(), q["points"][0])))
        of_masses, of_gradients = errors(q, 2, CROSS, bandwidth=2.0, options={"leave_one_out": True})
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(*pair) for again in results[1:] for pair in zip(again, results[0], strict=True))
    assert of_masses < MASS_ERROR
    assert of_gradients < GRADIENT_ERROR


@runs_kernels
def test_fused_class_log_masses__have_a_floor_where_nothing_is_near():
    a = torch.zeros(1, 1, 2, device=DEVICE)
    b = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [1e4, 0.0], [1e30, 0.0]]], device=DEVICE)
    b.requires_grad_()
    labels = torch.tensor([0, 0, 0, 1, 1], device=DEVICE)
    masses = fused(a, b, labels, 3, 1.0, [slice(0, 1)])
    expected = torch.tensor([[[math.log(3) - 1, math.log(SMALLEST), math.log(SMALLEST)]]], device=DEVICE)
    torch.testing.assert_close(masses, expected)
    masses.sum().backward()
    assert b.grad.isfinite().all()


@runs_kernels
@pytest.mark.skipif(IS_INTERPRETED, reason="too many points for the interpreter")
@pytest.mark.parametrize("seed", range(12))
def test_fused_class_log_masses__of_random_shapes_on_the_device(seed):
    draw = torch.Generator().manual_seed(seed)
    n, d, n_classes = (int(torch.randint(low, high, (), generator=draw)) for low, high in
                       ((2, 3000), (1, 129), (1, 30)))  # fmt: skip
    answers = [CROSS, SHARED, MODELS][seed % 3]
    q = problem(n=n, d=d, n_classes=n_classes, answers=answers, same=seed % 2 == 0, p=100, seed=seed)
    options = {"leave_one_out": True, "log_weights": None}
    if seed % 4 > 1:
        options["groups"] = None
    if seed % 5 > 2:
        options["input_factor"] = None
    of_masses, of_gradients = errors(q, n_classes, answers, bandwidth=float(d), options=options)
    assert of_masses < (MASS_ERROR_WITH_INPUTS if "input_factor" in options else 10 * MASS_ERROR)
    assert of_gradients < 3 * GRADIENT_ERROR


@runs_kernels
@pytest.mark.skipif(IS_INTERPRETED, reason="the choice depends on the device")
def test_class_log_masses__of_an_outlier_are_right_far_below_the_floor():
    a = torch.tensor([[[0.0], [100.0]]], device=DEVICE)
    b = torch.randn(1, 200, 1, device=DEVICE)
    labels = torch.arange(200, device=DEVICE) % 2
    masses = accelerated.class_log_masses(a, b, labels, 2, 1.0, [slice(0, 1)], background=0.1)
    expected = in_tiles(a.double(), b.double(), labels, 2, 1.0, [slice(0, 1)])
    assert expected[0, 1].max() < -5000
    torch.testing.assert_close(masses.double(), expected, rtol=1e-5, atol=1e-4)


def test_class_log_masses__are_those_in_tiles_without_a_device():
    z, labels = scenarios.cloud(3, 20, 2), scenarios.labels(20, 2)
    for background in (0.0, 0.1):
        got = accelerated.class_log_masses(
            z, z, labels, 2, 1.0, CROSS, background=background, leave_one_out=True
        )
        expected = in_tiles(z, z, labels, 2, 1.0, CROSS, leave_one_out=True)
        assert torch.equal(got, expected)


def test_class_log_masses__below_the_floor_are_computed_again_in_predictions_only(monkeypatch):
    def floored(problem):
        return chunked_class_log_masses(problem).clamp_min(math.log(SMALLEST))

    monkeypatch.setattr("pnca.accelerated.masses.can_be_fused", lambda points, n_classes: True)
    monkeypatch.setattr("pnca.accelerated.masses.fused_class_log_masses", floored)
    a, b = torch.tensor([[[0.0], [100.0]]]), scenarios.cloud(1, 20, 1).float()
    x, y = torch.zeros(2, 3), torch.ones(20, 3)
    fields, factor = (a, b, scenarios.labels(20, 2), 2, 1.0, [slice(0, 1)]), InputFactor(x, y, 3.0, 0.5)
    got = accelerated.class_log_masses(*fields, background=0.1, input_factor=factor)
    torch.testing.assert_close(got, in_tiles(*fields, input_factor=factor))
    assert got[0, 1].max() < -5000
    fields = (a.requires_grad_(), *fields[1:])
    in_training = accelerated.class_log_masses(*fields, background=0.1, input_factor=factor)
    assert in_training[0, 1].max().item() == pytest.approx(math.log(SMALLEST))


def test_holds_pairs__depends_on_the_pairs_of_all_members(monkeypatch):
    monkeypatch.setattr(kernels, "TILED", 1000)
    kernel, cpu = kernels.ExactKernel(bandwidth=1.0, is_shared=True), torch.device("cpu")
    assert kernel.holds_pairs(1, 31, cpu)
    assert not kernel.holds_pairs(1, 32, cpu)
    assert not kernel.holds_pairs(2, 31, cpu)
    assert kernel.holds_pairs(2, 31, torch.device("cuda"))


def test_import__does_not_load_triton():
    code = "import sys, pnca.accelerated; print('triton' in sys.modules)"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "False"
