"""Triton kernels of the class masses; see :mod:`pnca.accelerated.masses` for what they compute.

Points come sorted by class, every class padded to whole tiles, so a tile has one class and needs no masks;
padding has weight zero. The squared distance of a pair of particles is a product of half-precision parts,
``hi hi + lo hi + hi lo``, plus the norms in float32: as exact as float32, at half precision's rate. The parts
of a point come as two matrices. In JOINT mode one product holds all three: ``[hi hi lo 0]`` for the rows of a
tile, ``[hi lo hi 1]`` for its columns. Otherwise they are ``hi`` (with the ones) and ``lo``.
"""

import triton
import triton.language as tl


@triton.jit
def input_factor(
    x, norms, y, norms_y, out, n_b, log2_weight,
    P: tl.constexpr, BLOCK: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """out[i, j] = 2 ** (log2_weight + x_i . y_j - norm_i - norm_j): a strip (rows, n_b) of input factors."""
    rows = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BK)
    log2_f = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, P, BK):
        of_x = tl.load(x + rows[:, None] * P + start + k[None, :])
        of_y = tl.load(y + cols[:, None] * P + start + k[None, :])
        log2_f = tl.dot(of_x, tl.trans(of_y), log2_f)
    log2_f -= tl.load(norms + rows)[:, None] + tl.load(norms_y + cols)[None, :]
    # Rounding must not make a point nearer than itself.
    tl.store(out + rows[:, None] * n_b + cols[None, :], tl.exp2(tl.minimum(log2_f, 0.0) + log2_weight))


@triton.jit
def _log2_kernel(a_1, a_2, norm_a, b_1, b_2, norm_b, JOINT: tl.constexpr):
    """Log kernel (BM, BN) of one pair of particles, to base two; the small terms first."""
    log2_k = norm_a[:, None] + norm_b[None, :]
    if JOINT:
        return tl.dot(a_1, tl.trans(b_2), log2_k)
    else:
        log2_k = tl.dot(a_2, tl.trans(b_1), log2_k)
        log2_k = tl.dot(a_1, tl.trans(b_2), log2_k)
        return tl.dot(a_1, tl.trans(b_1), log2_k)


@triton.jit
def _load(parts_1, parts_2, at, ROWS: tl.constexpr, JOINT: tl.constexpr):
    """The parts a tile needs; in JOINT mode both names alias one tensor."""
    if JOINT and ROWS:
        part_1 = tl.load(parts_1 + at)
        part_2 = part_1
    elif JOINT:
        part_2 = tl.load(parts_2 + at)
        part_1 = part_2
    else:
        part_1 = tl.load(parts_1 + at)
        part_2 = tl.load(parts_2 + at)
    return part_1, part_2


@triton.jit
def _of_points(
    values, factor, at, group_a, groups_b, cols, HAS_FACTOR: tl.constexpr, HAS_GROUPS: tl.constexpr
):
    """Values (BM, BN) of pairs of points times their input factors, zero within a group."""
    if HAS_FACTOR:
        values *= tl.load(factor + at + cols[None, :])
    if HAS_GROUPS:
        values = tl.where(group_a[:, None] == tl.load(groups_b + cols)[None, :], 0.0, values)
    return values


@triton.jit
def masses(
    parts_a1, parts_a2, norms_a, weights_a, groups_a, classes_a,
    parts_b1, parts_b2, norms_b, weights_b, groups_b, classes_b,
    factor, starts, numbers, out,
    n_a, n_b, n_classes, m, first_row, tiles_per_split,
    HAS_FACTOR: tl.constexpr, HAS_GROUPS: tl.constexpr, SYMMETRIC: tl.constexpr,
    JOINT: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Add to out[r, c, i] the sums over tiles; with SYMMETRIC a tile serves its transpose too."""
    start = tl.load(starts + tl.program_id(0))
    r = tl.load(numbers + tl.program_id(0)).to(tl.int64)
    first = first_row + tl.program_id(1) * BM
    i = tl.arange(0, BM)
    j = tl.arange(0, BN)
    rows = first + i
    in_a = rows[:, None] * D + tl.arange(0, D)[None, :]
    in_factor = (tl.program_id(1) * BM + i)[:, None].to(tl.int64) * n_b
    in_b = j[:, None] * D + tl.arange(0, D)[None, :]
    begin = tl.program_id(2) * tiles_per_split
    end = tl.minimum(begin + tiles_per_split, n_b // BN)
    if SYMMETRIC:
        begin = tl.maximum(begin, first // BN)
        weight_a = tl.load(weights_a + r * n_a + rows)
        class_a = tl.load(classes_a + first)
    group_a = rows
    if HAS_GROUPS:
        group_a = tl.load(groups_a + rows)
    for tile in range(begin, end):
        cols = tile * BN + j
        kernel = tl.zeros((BM, BN), tl.float32)
        for l1 in range(start, start + m):
            a_1, a_2 = _load(parts_a1, parts_a2, l1 * n_a * D + in_a, True, JOINT)
            norm_a = tl.load(norms_a + l1 * n_a + rows)
            for l2 in range(start, start + m):
                b_1, b_2 = _load(parts_b1, parts_b2, (l2 * n_b + tile * BN) * D + in_b, False, JOINT)
                norm_b = tl.load(norms_b + l2 * n_b + cols)
                kernel += tl.exp2(_log2_kernel(a_1, a_2, norm_a, b_1, b_2, norm_b, JOINT))
        kernel = _of_points(kernel, factor, in_factor, group_a, groups_b, cols, HAS_FACTOR, HAS_GROUPS)
        class_b = tl.load(classes_b + tile * BN)
        of_rows = tl.sum(kernel * tl.load(weights_b + r * n_b + cols)[None, :], axis=1)
        tl.atomic_add(out + (r * n_classes + class_b) * n_a + rows, of_rows)
        if SYMMETRIC:  # noqa: SIM102 (one is known when it is compiled)
            if tile * BN >= first + BM:
                of_cols = tl.sum(kernel * weight_a[:, None], axis=0)
                tl.atomic_add(out + (r * n_classes + class_a) * n_b + cols, of_cols)


@triton.jit
def _slopes_of_masses(
    slopes_a, slopes_b, weight_a, weights_b, class_a, classes_b, rows, cols, tile, r, n_a, n_b, n_classes,
    AS_QUERIES: tl.constexpr, AS_SUPPORT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Sum (BM, BN) of the gradients of the masses that a pair of points is part of."""
    slope = tl.zeros((BM, BN), tl.float32)
    if AS_QUERIES:
        class_b = tl.load(classes_b + tile * BN)
        slope_a = tl.load(slopes_a + (r * n_classes + class_b) * n_a + rows)
        slope += slope_a[:, None] * tl.load(weights_b + r * n_b + cols)[None, :]
    if AS_SUPPORT:
        slope_b = tl.load(slopes_b + (r * n_classes + class_a) * n_b + cols)
        slope += weight_a[:, None] * slope_b[None, :]
    return slope


@triton.jit
def _sums_of_tile(
    a_1, a_2, norm_a, parts_b1, parts_b2, norms_b, slope, start, m, first_b, in_b, n_b, j,
    HAS_ONES: tl.constexpr, JOINT: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Weighted sums (BM, D) over the columns of a tile, and 16 times the sums of the weights (BM, 16)."""
    sums = tl.zeros((BM, D), tl.float32)
    weight_sums = tl.zeros((BM, 16), tl.float32)
    for l2 in range(start, start + m):
        b_1, b_2 = _load(parts_b1, parts_b2, (l2 * n_b + first_b) * D + in_b, False, JOINT)
        norm_b = tl.load(norms_b + l2 * n_b + first_b + j)
        weight = tl.exp2(_log2_kernel(a_1, a_2, norm_a, b_1, b_2, norm_b, JOINT)) * slope
        weight_half = weight.to(tl.float16)
        sums = tl.dot(weight_half, b_2, sums)
        if not JOINT:
            sums = tl.dot(weight_half, b_1, sums)
        if not HAS_ONES:
            weight_sums = tl.dot(weight_half, tl.full((BN, 16), 1.0, tl.float16), weight_sums)
    return sums, weight_sums


@triton.jit
def weighted_sums(
    parts_a1, parts_a2, norms_a, weights_a, groups_a, classes_a, slopes_a,
    parts_b1, parts_b2, norms_b, weights_b, groups_b, classes_b, slopes_b,
    factor, starts, numbers, out, total,
    n_a, n_b, n_classes, m, first_row, tiles_per_split,
    HAS_FACTOR: tl.constexpr, HAS_GROUPS: tl.constexpr, AS_QUERIES: tl.constexpr, AS_SUPPORT: tl.constexpr,
    HAS_ONES: tl.constexpr, JOINT: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Add to out[l, i] the weighted sum of the partners of particle l of point i, and of the weights.

    The weight is the kernel times the gradients (slopes) of the masses it is part of: with the row as query
    (AS_QUERIES), as support (AS_SUPPORT), or both. Weights are summed in the column of ones, or in ``total``.
    """
    start = tl.load(starts + tl.program_id(0) // m)
    r = tl.load(numbers + tl.program_id(0) // m).to(tl.int64)
    l1 = start + tl.program_id(0) % m
    first = first_row + tl.program_id(1) * BM
    i = tl.arange(0, BM)
    j = tl.arange(0, BN)
    rows = first + i
    in_a = rows[:, None] * D + tl.arange(0, D)[None, :]
    in_factor = (tl.program_id(1) * BM + i)[:, None].to(tl.int64) * n_b
    in_b = j[:, None] * D + tl.arange(0, D)[None, :]
    a_1, a_2 = _load(parts_a1, parts_a2, l1 * n_a * D + in_a, True, JOINT)
    norm_a = tl.load(norms_a + l1 * n_a + rows)
    weight_a, class_a, group_a = norm_a, first, rows
    if AS_SUPPORT:
        weight_a = tl.load(weights_a + r * n_a + rows)
        class_a = tl.load(classes_a + first)
    if HAS_GROUPS:
        group_a = tl.load(groups_a + rows)
    sums = tl.zeros((BM, D), tl.float32)
    weight_sums = tl.zeros((BM, 16), tl.float32)
    begin = tl.program_id(2) * tiles_per_split
    end = tl.minimum(begin + tiles_per_split, n_b // BN)
    for tile in range(begin, end):
        cols = tile * BN + j
        slope = _slopes_of_masses(
            slopes_a, slopes_b, weight_a, weights_b, class_a, classes_b, rows, cols, tile,
            r, n_a, n_b, n_classes, AS_QUERIES, AS_SUPPORT, BM, BN,
        )  # fmt: skip
        slope = _of_points(slope, factor, in_factor, group_a, groups_b, cols, HAS_FACTOR, HAS_GROUPS)
        of_tile, weights_of_tile = _sums_of_tile(
            a_1, a_2, norm_a, parts_b1, parts_b2, norms_b, slope, start, m, tile * BN, in_b, n_b, j,
            HAS_ONES, JOINT, D, BM, BN,
        )  # fmt: skip
        # Tiles are not summed by the tensor cores, which round every partial sum towards zero.
        sums += of_tile
        if not HAS_ONES:
            weight_sums += weights_of_tile
    tl.atomic_add(out + l1 * n_a * D + in_a, sums)
    if not HAS_ONES:
        tl.atomic_add(total + l1 * n_a + rows, tl.sum(weight_sums, axis=1) / 16)
