import math
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import reference
import scenarios
from pnca.accelerated.problem import InputFactor, MassProblem
from pnca.accelerated.tiles import _in_threads, _Pairs, _tiles, chunked_class_log_masses
from pnca.maths.kernels import log_expected_kernel, log_input_factor, log_latent_kernel
from pnca.maths.neighbours import LOG_ZERO, class_log_masses, leave_one_out

CROSS = [slice(0, 3)]
SHARED = [slice(0, 1), slice(1, 2), slice(2, 3)]
MODELS = [slice(0, 2), slice(2, 3)]


def in_tiles(*fields, max_pairs=None, **options):
    """Masses of the problem with these fields."""
    return chunked_class_log_masses(MassProblem(*fields, **options), max_pairs)


def materialised(
    a, b, labels, n_classes, bandwidth, answers, *, log_weights=None, own=False, groups=None, factor=None
):
    """The same from the whole kernel, as for small data."""
    kernels = [
        log_expected_kernel(a[part], b[part], bandwidth)
        if part.stop - part.start > 1
        else log_latent_kernel(a[part.start], b[part.start], bandwidth)
        for part in answers
    ]
    log_kernel = torch.stack(kernels)
    if factor is not None:
        log_kernel = log_kernel + log_input_factor(*factor)
    if own:
        log_kernel = leave_one_out(log_kernel, groups)
    weights = None if log_weights is None else log_weights[..., None, :]
    return class_log_masses(log_kernel, labels, n_classes, weights)


def problem(n=13, d=2, n_classes=3, answers=CROSS, same=True, seed=0, p=4):
    """Everything at once: weights of which some are zero, groups, an input factor."""
    a = scenarios.cloud(3, n, d, seed).requires_grad_()
    b = a if same else scenarios.cloud(3, n, d, seed + 1).requires_grad_()
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(len(answers), n, generator=generator, dtype=a.dtype)
    weights[:, ::5] = 0
    x = scenarios.cloud(1, n, p, seed + 2)[0]
    return {
        "a": a,
        "b": b,
        "labels": scenarios.labels(n, n_classes, seed),
        "n_classes": n_classes,
        "weights": weights,
        "groups": torch.randint(n // 2, (n,), generator=generator),
        "factor": InputFactor(x, x if same else x.flip(0), 2.5, 0.7),
    }


def run(q, answers, which, max_pairs=None, bandwidth=1.7):
    """Masses by tiles and from the whole kernel: (chunked, materialised)."""
    own = which != "prediction"
    groups = q["groups"] if which == "groups" else None
    log_weights = q["weights"].log().clamp_min(LOG_ZERO)
    args = (q["a"], q["b"], q["labels"], q["n_classes"], bandwidth, answers)
    chunked = in_tiles(
        *args,
        log_weights=log_weights,
        leave_one_out=own,
        groups=groups,
        input_factor=q["factor"],
        max_pairs=max_pairs,
    )
    whole = materialised(*args, log_weights=log_weights, own=own, groups=groups, factor=q["factor"])
    return chunked, whole


@pytest.mark.parametrize("answers", [CROSS, SHARED, MODELS], ids=["cross", "shared", "models"])
@pytest.mark.parametrize("which", ["prediction", "position", "groups"])
@pytest.mark.parametrize("same", [True, False])
def test_chunked_class_log_masses__equals_the_loops_of_the_equation(answers, which, same):
    q = problem(n=7, answers=answers, same=same)
    chunked, _ = run(q, answers, which, max_pairs=40)
    excluded = torch.eye(7) > 0 if which == "position" else q["groups"][:, None] == q["groups"]
    excluded = excluded & (which != "prediction")
    expected = reference.class_masses(
        q["a"],
        q["b"],
        q["labels"],
        3,
        1.7,
        answers,
        q["weights"],
        excluded,
        log_input_factor(*q["factor"]),
    )
    torch.testing.assert_close(chunked.exp(), expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("answers", [CROSS, SHARED, MODELS], ids=["cross", "shared", "models"])
@pytest.mark.parametrize("which", ["prediction", "position", "groups"])
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("max_pairs", [1, 100, None])
def test_chunked_class_log_masses__and_gradient_equal_those_of_the_whole_kernel(
    answers, which, same, max_pairs
):
    q = problem(answers=answers, same=same)
    chunked, whole = run(q, answers, which, max_pairs)
    torch.testing.assert_close(chunked, whole)
    slope = torch.randn(whole.shape, generator=torch.Generator().manual_seed(5), dtype=whole.dtype)
    points = (q["a"],) if same else (q["a"], q["b"])
    for got, expected in zip(
        torch.autograd.grad(chunked, points, slope), torch.autograd.grad(whole, points, slope), strict=True
    ):
        torch.testing.assert_close(got, expected)


def test_chunked_class_log_masses__the_factor_of_the_same_embeddings_need_not_be_symmetric():
    q = problem()
    q["factor"] = q["factor"]._replace(b=q["factor"].b.flip(0))
    chunked, whole = run(q, CROSS, "position", 100)
    torch.testing.assert_close(chunked, whole)


@pytest.mark.parametrize("d", [1, 17, 128])
def test_chunked_class_log_masses__in_any_number_of_dimensions(d):
    chunked, whole = run(problem(d=d), CROSS, "position", 50, bandwidth=2.0 * d)
    torch.testing.assert_close(chunked, whole)


def test_chunked_class_log_masses__of_one_class_and_of_many():
    for n_classes in (1, 13):  # each point its own class: without itself nothing is left of one
        q = problem(n_classes=n_classes)
        chunked, whole = run(q, CROSS, "position", 50)
        torch.testing.assert_close(chunked, whole.clamp_min(LOG_ZERO))
    own = chunked[0].gather(1, q["labels"][:, None])
    assert (own == LOG_ZERO).all()


def test_chunked_class_log_masses__of_a_class_with_no_points_is_log_zero():
    z = scenarios.cloud(1, 6, 2).requires_grad_()
    labels = torch.tensor([0, 2, 2, 0, 2, 0])  # none of class 1, nor of class 3
    masses = in_tiles(z, z, labels, 4, 1.0, [slice(0, 1)], leave_one_out=True)
    assert (masses[..., [1, 3]] == LOG_ZERO).all()
    assert masses[..., [0, 2]].isfinite().all()
    masses.sum().backward()
    assert z.grad.isfinite().all()


def test_chunked_class_log_masses__the_gradient_of_a_class_of_weight_zero_is_zero():
    z = scenarios.cloud(2, 6, 2).requires_grad_()
    labels = torch.tensor([0, 1, 1, 0, 1, 0])
    log_weights = torch.where(labels == 1, LOG_ZERO, 0.0)
    masses = in_tiles(z, z, labels, 2, 1.0, [slice(0, 2)], log_weights=log_weights)
    assert (masses[..., 1] < LOG_ZERO / 2).all()
    masses[..., 1].sum().backward()
    assert (z.grad == 0).all()


def test_chunked_class_log_masses__two_points_solved_on_paper():
    # From 0: exp(-1) of class 0 at 1, twice exp(-4) / 2 of class 1 at 2 (weight one half each).
    b = torch.tensor([[[2.0], [1.0], [2.0]]])
    weights = torch.tensor([0.5, 1.0, 0.5])
    masses = in_tiles(
        torch.zeros(1, 1, 1), b, torch.tensor([1, 0, 1]), 2, 1.0, [slice(0, 1)], log_weights=weights.log()
    )
    torch.testing.assert_close(masses, torch.tensor([[[-1.0, -4.0]]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("answers", [CROSS, SHARED], ids=["cross", "shared"])
def test_chunked_class_log_masses__stay_right_where_the_kernel_underflows(answers, dtype):
    z = scenarios.cloud(3, 12, 2, scale=40).to(dtype).requires_grad_()  # squared distances of thousands
    labels = scenarios.labels(12, 3)
    args = (z, z, labels, 3, 1.0, answers)
    chunked = in_tiles(*args, leave_one_out=True, max_pairs=60)
    assert chunked.min() < -1000
    exact = z.detach().double().requires_grad_()
    expected = materialised(exact, exact, *args[2:], own=True)
    tolerance = {"rtol": 1e-5, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-9}
    torch.testing.assert_close(chunked.double(), expected, **tolerance)
    slope = torch.randn(expected.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    (got,) = torch.autograd.grad(chunked, z, slope.to(dtype))
    (gradient,) = torch.autograd.grad(expected, exact, slope)
    # The rounding of an exponent of thousands is 1e-4 in float32.
    assert (got.double() - gradient).norm() < tolerance["atol"] * gradient.norm()


def test_chunked_class_log_masses__never_exceed_the_number_of_points_in_float32():
    z = torch.ones(1, 40, 2) + 1000 * torch.tensor([1.0, -1.0])
    z = torch.cat([z, -z], dim=1)
    masses = in_tiles(z, z, torch.arange(80) // 40, 2, 1.0, [slice(0, 1)])
    assert (masses <= math.log(40) + 1e-6).all()


@pytest.mark.parametrize("answers", [CROSS, SHARED, MODELS], ids=["cross", "shared", "models"])
def test_chunked_class_log_masses__gradcheck(answers):
    labels, weights = torch.tensor([1, 0, 1, 1]), torch.rand(4, dtype=torch.float64).log()
    x = scenarios.cloud(1, 4, 3, 4)[0]

    def masses(a, b):
        return in_tiles(
            a, b, labels, 2, 1.4, answers, log_weights=weights, input_factor=InputFactor(x, x, 2.0, 0.5)
        )

    a, b = scenarios.cloud(3, 4, 2).requires_grad_(), scenarios.cloud(3, 4, 2, 1).requires_grad_()
    assert torch.autograd.gradcheck(masses, (a, b))
    assert torch.autograd.gradcheck(lambda a: masses(a, a), a)


@settings(max_examples=40, deadline=None)
@given(
    max_pairs=st.integers(1, 500),
    n=st.integers(2, 12),
    n_classes=st.integers(1, 4),
    which=st.sampled_from(["prediction", "position", "groups"]),
    same=st.booleans(),
)
def test_chunked_class_log_masses__do_not_depend_on_the_tiles(max_pairs, n, n_classes, which, same):
    q = problem(n=n, n_classes=n_classes, answers=MODELS, same=same, seed=n)
    (parts, _), (whole, _) = run(q, MODELS, which, max_pairs), run(q, MODELS, which)
    torch.testing.assert_close(parts, whole)
    (got,), (expected,) = (torch.autograd.grad(masses.sum(), q["a"]) for masses in (parts, whole))
    torch.testing.assert_close(got, expected)


def test_chunked_class_log_masses__of_a_query_do_not_depend_on_the_others():
    a, b, labels = scenarios.cloud(2, 9, 2), scenarios.cloud(2, 8, 2, 1), scenarios.labels(8, 2)
    together = in_tiles(a, b, labels, 2, 1.0, [slice(0, 2)])
    alone = in_tiles(a[:, 4:5], b, labels, 2, 1.0, [slice(0, 2)])
    torch.testing.assert_close(alone, together[:, 4:5])


def test_chunked_class_log_masses__are_not_touched_by_autocast():
    z, labels = scenarios.cloud(3, 6, 2).float(), scenarios.labels(6, 2)
    expected = in_tiles(z, z, labels, 2, 1.0, CROSS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(in_tiles(z, z, labels, 2, 1.0, CROSS), expected)


@pytest.mark.parametrize("same", [True, False])
def test_chunked_class_log_masses__do_not_depend_on_the_threads(same):
    q = problem(answers=MODELS, same=same)
    before, results = torch.get_num_threads(), []
    try:
        for n_threads in (1, 3):
            torch.set_num_threads(n_threads)
            masses, _ = run(q, MODELS, "position", 50)
            results.append((masses, *torch.autograd.grad(masses.sum(), q["a"])))
            assert torch.get_num_threads() == n_threads
            with ThreadPoolExecutor(1) as pool:  # nor do later threads begin with another number
                assert pool.submit(torch.get_num_threads).result() == n_threads
    finally:
        torch.set_num_threads(before)
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected)


class LargestTensor(TorchDispatchMode):
    """Watches every operation, also inside the backward, for the most numbers a result has."""

    def __init__(self):
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not func.is_view:
            self.size = max(self.size, result.numel())
        return result


@pytest.mark.parametrize("which", ["position", "groups"])
def test_chunked_class_log_masses__never_hold_a_number_for_each_pair_of_points(which, monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)  # the watch sees its own thread
    n, max_pairs = 2000, 2**14
    q = problem(n=n, d=3, n_classes=4)
    groups = q["groups"] if which == "groups" else None
    with LargestTensor() as largest:
        masses = in_tiles(
            q["a"],
            q["a"],
            q["labels"],
            4,
            1.0,
            [slice(0, 1)],
            leave_one_out=True,
            groups=groups,
            input_factor=q["factor"],
            max_pairs=max_pairs,
        )
        masses.sum().backward()
    linear = 3 * n * (3 + 2)  # the factors of the product
    assert largest.size <= max(max_pairs, linear) < n * n / 100


def test_in_threads__an_error_of_one_ends_the_others(monkeypatch):
    # As Ctrl-C does, which the main thread alone gets: it would wait for all their tiles.
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    z = torch.zeros(1, 300, 1)
    problem = MassProblem(z, z.clone(), torch.zeros(300, dtype=torch.int64), 1, 1.0, [slice(0, 1)])
    pairs, done = _Pairs.of(problem, torch.arange(300), 9), []

    def work(tiles):
        if next(tiles).rows.start == 0:
            raise KeyboardInterrupt
        for tile in tiles:
            done.append(tile)
            time.sleep(0.001)

    with pytest.raises(KeyboardInterrupt):
        _in_threads(work, z, pairs)
    assert len(done) < 100 < len(list(_tiles(300, pairs))) / 2


@pytest.mark.parametrize("max_pairs", [1, 300, 10**6])
@pytest.mark.parametrize("is_symmetric", [True, False])
def test_tiles__cover_every_pair_once(max_pairs, is_symmetric):
    counts = (7, 0, 1, 15)
    pairs = _Pairs(
        bandwidth=1.0,
        answers=(slice(0, 2), slice(2, 3)),
        counts=counts,
        log2_weights=None,
        groups=None,
        is_diagonal=False,
        input_factor=None,
        max_pairs=max_pairs,
        is_symmetric=is_symmetric,
    )
    labels = torch.arange(4).repeat_interleave(torch.tensor(counts))
    seen = torch.zeros(23, 23)
    for rows, columns, column_class, mirror_class in _tiles(23, pairs):
        seen[rows, columns] += 1
        assert (labels[columns] == column_class).all()
        if mirror_class is not None:
            seen[columns, rows] += 1
            assert (labels[rows] == mirror_class).all()
        assert (rows.stop - rows.start) * (columns.stop - columns.start) <= max(1, max_pairs // 4)
    assert (seen == 1).all()
