"""Triton kernels of a small training step: a few large ones in the place of a hundred small ones.

What they compute is said in ``layers.py``, ``stein.py``, ``features.py`` and ``nadam.py``. Long products go
through the tensor cores in three parts, which is as exact as float32; all else is float32.
"""

import triton
import triton.language as tl


@triton.jit
def product(
    a, b, out, bias, gate, sums, n_rows, n_columns, n_inner,
    a_l, a_i, a_k, b_l, b_k, b_j, out_l, out_i, bias_l, gate_l, gate_i, sums_l,
    HAS_BIAS: tl.constexpr, RELU: tl.constexpr, HAS_GATE: tl.constexpr, HAS_SUMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """out[l] = a[l] @ b[l], perhaps plus bias[l], or zero where gate[l] is not positive; sums of b[l]."""
    particle = tl.program_id(1).to(tl.int64)
    n_tiles = tl.cdiv(n_columns, BN)
    tile = tl.program_id(0) // n_tiles
    rows = tile * BM + tl.arange(0, BM)
    cols = (tl.program_id(0) % n_tiles) * BN + tl.arange(0, BN)
    is_row, is_col = rows < n_rows, cols < n_columns
    inner = tl.arange(0, BK)
    at_a = a + particle * a_l + rows[:, None] * a_i + inner[None, :] * a_k
    at_b = b + particle * b_l + inner[:, None] * b_k + cols[None, :] * b_j
    result = tl.zeros((BM, BN), tl.float32)
    of_rows = tl.zeros((BN,), tl.float32)
    for start in range(0, n_inner, BK):
        is_in = start + inner < n_inner
        of_a = tl.load(at_a, mask=is_row[:, None] & is_in[None, :], other=0.0)
        of_b = tl.load(at_b, mask=is_in[:, None] & is_col[None, :], other=0.0)
        result = tl.dot(of_a, of_b, result, input_precision="tf32x3")
        if HAS_SUMS:
            of_rows += tl.sum(of_b, axis=0)
        at_a += BK * a_k
        at_b += BK * b_k
    is_out = is_row[:, None] & is_col[None, :]
    if HAS_BIAS:
        result += tl.load(bias + particle * bias_l + cols, mask=is_col, other=0.0)[None, :]
    if RELU:
        result = tl.maximum(result, 0.0)
    if HAS_GATE:
        at_gate = gate + particle * gate_l + rows[:, None] * gate_i + cols[None, :]
        result = tl.where(tl.load(at_gate, mask=is_out, other=0.0) > 0.0, result, 0.0)
    tl.store(out + particle * out_l + rows[:, None] * out_i + cols[None, :], result, mask=is_out)
    if HAS_SUMS:
        tl.store(sums + particle * sums_l + cols, of_rows, mask=is_col & (tile == 0))


@triton.jit
def gram(particles, out, m, p, n_columns, M: tl.constexpr, BLOCK: tl.constexpr):
    """out[part] = inner products (M, M) of the particles over some of their columns."""
    rows = tl.arange(0, M)
    start = tl.program_id(0) * n_columns
    end = tl.minimum(start + n_columns, p)
    products = tl.zeros((M, M), tl.float32)
    for at in range(start, end, BLOCK):
        cols = at + tl.arange(0, BLOCK)
        is_in = (rows < m)[:, None] & (cols < end)[None, :]
        w = tl.load(particles + rows[:, None].to(tl.int64) * p + cols[None, :], mask=is_in, other=0.0)
        products = tl.dot(w, tl.trans(w), products, input_precision="tf32x3")
    at = rows[:, None] * M + tl.arange(0, M)[None, :]
    tl.store(out + tl.program_id(0) * M * M + at, products)


@triton.jit
def parameter_kernel(gram, kernel, bandwidth, m, noise, log_m, M: tl.constexpr):
    """From inner products (M, M), of which m rows count, to the kernel (m, m) and its median bandwidth."""
    i, j = tl.arange(0, M)[:, None], tl.arange(0, M)[None, :]
    products = tl.load(gram + i * M + j)
    on_diagonal = tl.where(i == j, products, 0.0)
    sq_norms = tl.sum(on_diagonal, axis=1)
    sq_dist = sq_norms[:, None] + tl.sum(on_diagonal, axis=0)[None, :] - 2 * products
    # What rounding leaves between particles that coincide is taken off.
    sq_dist = tl.where((sq_dist > noise * tl.max(sq_norms, axis=0)) & (i != j), sq_dist, 0.0)
    # A large number and not infinity, which the sort of Triton 3.2 multiplies by zero.
    ordered = tl.sort(tl.reshape(tl.where((i < j) & (j < m), sq_dist, 3e38), (M * M,)))
    n_pairs = m * (m - 1) // 2
    place = tl.arange(0, M * M)
    lower = tl.sum(tl.where(place == (n_pairs - 1) // 2, ordered, 0.0), axis=0)
    upper = tl.sum(tl.where(place == n_pairs // 2, ordered, 0.0), axis=0)
    median = (lower + upper) / (2 * log_m)
    h = tl.where(median > 0.0, median, float("inf"))
    tl.store(bandwidth, h)
    tl.store(kernel + i * m + j, tl.exp(-sq_dist / h), mask=(i < m) & (j < m))


@triton.jit
def _phases(z, frequencies, at, f, cols, D: tl.constexpr):
    """Products of a latent point, which begins at ``at``, with some of the frequencies."""
    phases = tl.zeros(cols.shape, tl.float32)
    for k in range(0, D):
        phases += tl.load(z + at + k) * tl.load(frequencies + k * f + cols, mask=cols < f, other=0.0)
    return phases


@triton.jit
def mean_features(z, frequencies, out, n, m, f, scale, D: tl.constexpr, F: tl.constexpr):
    """Cosines and sines of a point's phases, summed over its particles and scaled."""
    i = tl.program_id(0)
    cols = tl.arange(0, F)
    cosines, sines = tl.zeros((F,), tl.float32), tl.zeros((F,), tl.float32)
    for particle in range(0, m):
        phases = _phases(z, frequencies, (particle * n + i) * D, f, cols, D)
        cosines += tl.cos(phases)
        sines += tl.sin(phases)
    tl.store(out + i * 2 * f + cols, cosines * scale, mask=cols < f)
    tl.store(out + i * 2 * f + f + cols, sines * scale, mask=cols < f)


@triton.jit
def row_masses(
    features, labels, log_factor, learns, log_prior, losses, is_correct, own, total,
    n, width, n_classes, background, floor, W: tl.constexpr, BJ: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Mass of each class at a point; its loss, whether its class has most, and what the backward needs."""
    i = tl.program_id(0)
    cols, classes = tl.arange(0, W), tl.arange(0, C)
    of_i = tl.load(features + i * width + cols, mask=cols < width, other=0.0)
    prior = tl.exp(tl.load(log_prior + classes, mask=classes < n_classes, other=float("-inf")))
    masses = background * prior
    for start in range(0, n, BJ):
        j = start + tl.arange(0, BJ)
        is_in = (j < n)[:, None] & (cols < width)[None, :]
        of_j = tl.load(features + j[:, None] * width + cols[None, :], mask=is_in, other=0.0)
        kernel = tl.maximum(tl.sum(of_i[None, :] * of_j, axis=1), 0.0) + floor
        kernel *= tl.exp(tl.load(log_factor + i * n + j, mask=j < n, other=float("-inf")))
        label = tl.load(labels + j, mask=j < n, other=-1)
        masses += tl.sum(tl.where(label[:, None] == classes[None, :], kernel[:, None], 0.0), axis=0)
    label, weight = tl.load(labels + i), tl.load(learns + i)
    tl.store(is_correct + i, tl.where(tl.argmax(masses, axis=0) == label, 1.0, 0.0))
    # A point without a partner has weight zero, and perhaps no mass.
    mass = tl.where(weight > 0.0, tl.sum(tl.where(classes == label, masses, 0.0), axis=0), 1.0)
    all_masses = tl.where(weight > 0.0, tl.sum(masses, axis=0), 1.0)
    tl.store(losses + i, weight * (tl.log(all_masses) - tl.log(mass)))
    tl.store(own + i, weight / mass)
    tl.store(total + i, weight / all_masses)


@triton.jit
def feature_slopes(
    features, labels, log_factor, own, total, out, n, width, W: tl.constexpr, BJ: tl.constexpr,
):  # fmt: skip
    """Gradient of the summed losses in a point's mean features, as query and as support."""
    i = tl.program_id(0)
    cols = tl.arange(0, W)
    of_i = tl.load(features + i * width + cols, mask=cols < width, other=0.0)
    label, own_i, total_i = tl.load(labels + i), tl.load(own + i), tl.load(total + i)
    slopes = tl.zeros((W,), tl.float32)
    for start in range(0, n, BJ):
        j = start + tl.arange(0, BJ)
        is_j = j < n
        is_in = is_j[:, None] & (cols < width)[None, :]
        of_j = tl.load(features + j[:, None] * width + cols[None, :], mask=is_in, other=0.0)
        is_own = tl.load(labels + j, mask=is_j, other=-1) == label
        as_query = tl.exp(tl.load(log_factor + i * n + j, mask=is_j, other=float("-inf")))
        as_query *= total_i - tl.where(is_own, own_i, 0.0)
        as_support = tl.exp(tl.load(log_factor + j * n + i, mask=is_j, other=float("-inf")))
        own_j = tl.load(own + j, mask=is_j, other=0.0)
        as_support *= tl.load(total + j, mask=is_j, other=0.0) - tl.where(is_own, own_j, 0.0)
        slope = tl.where(tl.sum(of_i[None, :] * of_j, axis=1) > 0.0, as_query + as_support, 0.0)
        slopes += tl.sum(slope[:, None] * of_j, axis=0)
    tl.store(out + i * width + cols, slopes, mask=cols < width)


@triton.jit
def latent_slopes(z, frequencies, slopes, grad, out, n, f, scale, D: tl.constexpr, F: tl.constexpr):
    """Gradient in a latent point from that in the mean features of its cloud, times ``grad``."""
    i, particle = tl.program_id(0), tl.program_id(1)
    cols = tl.arange(0, F)
    at = (particle * n + i) * D
    phases = _phases(z, frequencies, at, f, cols, D)
    of_cosines = tl.load(slopes + i * 2 * f + cols, mask=cols < f, other=0.0)
    of_sines = tl.load(slopes + i * 2 * f + f + cols, mask=cols < f, other=0.0)
    of_phases = (tl.cos(phases) * of_sines - tl.sin(phases) * of_cosines) * (scale * tl.load(grad))
    for k in range(0, D):
        frequency = tl.load(frequencies + k * f + cols, mask=cols < f, other=0.0)
        tl.store(out + at + k, tl.sum(of_phases * frequency, axis=0))


@triton.jit
def nadam(
    particles, gradients, of_gradients, of_particles, mean, sq_mean, coefficients, step,
    m, p, last, beta1, beta2, epsilon,
    MIXES_GRADIENTS: tl.constexpr, MIXES_PARTICLES: tl.constexpr, M: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One step of Nadam in place; row ``step`` of ``coefficients`` has what depends on the step alone.

    A program has some columns of up to M particles: of all, if they or their gradients are mixed.
    """
    rows, cols = tl.program_id(1) * M + tl.arange(0, M), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = rows[:, None].to(tl.int64) * p + cols[None, :]
    is_in = (rows < m)[:, None] & (cols < p)[None, :]
    row = coefficients + 3 * tl.minimum(tl.load(step), last)
    of_direction, of_mean, correction = tl.load(row), tl.load(row + 1), tl.load(row + 2)
    g, w = tl.load(gradients + at, mask=is_in, other=0.0), tl.load(particles + at, mask=is_in, other=0.0)
    if MIXES_GRADIENTS or MIXES_PARTICLES:
        i, j = tl.arange(0, M)[:, None], tl.arange(0, M)[None, :]
        is_pair = (i < m) & (j < m)
        if MIXES_GRADIENTS:
            g = tl.dot(tl.load(of_gradients + i * m + j, mask=is_pair, other=0.0), g, input_precision="ieee")
        if MIXES_PARTICLES:
            matrix = tl.load(of_particles + i * m + j, mask=is_pair, other=0.0)
            g = tl.dot(matrix, w, g, input_precision="ieee")
    first = tl.load(mean + at, mask=is_in, other=0.0) * beta1 + (1 - beta1) * g
    second = tl.load(sq_mean + at, mask=is_in, other=0.0) * beta2 + (1 - beta2) * g * g
    w -= (of_direction * g + of_mean * first) / (tl.sqrt(second * correction) + epsilon)
    tl.store(mean + at, first, mask=is_in)
    tl.store(sq_mean + at, second, mask=is_in)
    tl.store(particles + at, w, mask=is_in)
