r"""Positive random features: kernel mass at a cost linear in the number of points.

The latent kernel is a convolution of two Gaussians, an integral over locations :math:`u` of the latent space,

.. math:: k(z, z') = \Big(\frac{4}{\pi h}\Big)^{d/2} \int e^{-2\|z - u\|^2 / h}\, e^{-2\|z' - u\|^2 / h}\, du

so locations drawn from a density q (called places here) turn it into an inner product of positive features,

.. math:: \phi_k(z) = \Big(\frac{4}{\pi h}\Big)^{d/4} \frac{e^{-2\|z - u_k\|^2 / h}}{\sqrt{f\, q(u_k)}}, \quad
          \mathrm{E}[\phi(z) \cdot \phi(z')] = k(z, z')

and the mass of a class into the inner product with the sum of its examples' features. With q a Gaussian of
variance h / 8 around the origin these are the features of Choromanski et al. (2021); with one that fits the
data, those of Likhosherstov et al. (2022). Their error still explodes with the distance from the origin:
here q is a mixture with one Gaussian around each class. Any q is unbiased; this one lies where the mass is.

Everything is in log space, so no mass is zero and none overflows.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pnca.maths.kernels import sq_distances
from pnca.maths.neighbours import LOG_ZERO, one_hot

#: Numbers held at once by sums in log space; it bounds memory, results do not depend on it.
_MANY_NUMBERS = 2**22


class Places(NamedTuple):
    """Locations of the features, and their scales."""

    points: Tensor  # (..., f, d), the u_k
    log_scales: Tensor  # (..., f), the log of all factors that do not depend on z
    bandwidth: float


def best_variance(sq_spread: Tensor, n_components: int) -> Tensor:
    r"""Variance of the places that minimises the variance of the features.

    .. math:: v = \frac{1 + a}{8}, \quad a = \frac{d + 2 s + \sqrt{(d + 2 s)^2 + 8 d s}}{2 d}, \quad
              s = 2\, \mathrm{E}\|x\|^2

    For a kernel :math:`e^{-\|x - x'\|^2 / 2}` and places drawn from :math:`N(0, v I)` the second moment of
    :math:`\phi_k(x) \phi_k(x')` is, up to factors without v and with :math:`v = (1 + a) / 8`,

    .. math:: \left(\frac{1 + a}{2}\right)^d a^{-d/2} \exp\left(\|x + x'\|^2\, \frac{1 + a}{a}\right)

    and this a minimises its logarithm where :math:`\|x + x'\|^2 = s`, the mean over independent pairs.
    ``sq_spread`` is :math:`\mathrm{E}\|x\|^2`, of any shape; without spread the result is that of Choromanski
    et al., a quarter.

    >>> best_variance(torch.tensor([0.0, 1.0]), n_components=2)
    tensor([0.2500, 0.5702])
    """
    d, s = n_components, 2 * sq_spread
    a = (d + 2 * s + ((d + 2 * s).square() + 8 * d * s).sqrt()) / (2 * d)
    return (1 + a) / 8


def place(directions: Tensor, centres: Tensor, sq_spread: Tensor, bandwidth: float) -> Places:
    r"""Draw f places around c centres (..., c, d), equally many around each.

    .. math:: u_k = \mu_{c(k)} + \sqrt{v h / 2}\, \omega_k, \quad
              q(u) = \sum_c \frac{f_c}{f} N(u;\, \mu_c,\, v h / 2)

    Blocks of d directions go to the centres in turn. Since q is the mixture and not the Gaussian that a
    place came from, a place between classes serves them all, and the features stay unbiased (the balance
    heuristic of Veach and Guibas, 1995).

    The ``directions`` (d, f) are standard Gaussian vectors :math:`\omega_k`, as
    :func:`pnca.maths.features.orthogonal_frequencies` draws them with bandwidth 2; ``sq_spread`` (...) is the
    mean squared distance of a point from its centre; see :func:`class_centres`.
    """
    d, n_features = directions.shape
    n_centres = centres.shape[-2]
    variance = best_variance(sq_spread * (2 / bandwidth), d) * (bandwidth / 2)  # (...)
    number = torch.arange(n_features, device=directions.device)
    # Blocks of d in turn, or one by one where there are too few of them.
    centre = (number // d if n_features >= d * n_centres else number) % n_centres  # (f,)
    points = centres[..., centre, :] + variance.sqrt()[..., None, None] * directions.mT  # (..., f, d)
    shares = one_hot(centre, n_centres, points).mean(dim=0)  # (c,)
    log_parts = shares.log() - sq_distances(points, centres) / (2 * variance[..., None, None])  # (..., f, c)
    log_density = log_parts.logsumexp(dim=-1) - d / 2 * (2 * math.pi * variance).log()[..., None]
    log_factor = d / 4 * math.log(4 / (math.pi * bandwidth)) - math.log(n_features) / 2
    return Places(points, log_factor - log_density / 2, bandwidth)


def class_centres(points: Tensor, members: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean (..., c, d) of each class, and mean squared distance (...) of points from that of their class.

    .. math:: \mu_c = \frac{\sum_{j: y_j = c} w_j z_j}{\sum_{j: y_j = c} w_j}, \quad
              \frac{\sum_j w_j \|z_j - \mu_{y_j}\|^2}{\sum_j w_j}

    ``points`` (..., p, n, d) are clouds of p particles, ``members`` (n, c) the one-hot classes and
    ``weights`` (n,) or (..., n); if all weights are zero, all points count. A class without points gets the
    mean of all.
    """
    total = weights.sum(dim=-1, keepdim=True)
    shares = torch.where(total > 0, weights, 1) / torch.where(total > 0, total, weights.shape[-1])
    of_points = points.mean(dim=-3)  # (..., n, d)
    centre = shares[..., None, :] @ of_points  # (..., 1, d)
    of_classes = shares[..., :, None] * members  # (..., n, c)
    # Small enough to matter only where there is nothing else.
    least = torch.finfo(points.dtype).tiny ** 0.5
    sums = of_classes.mT @ of_points + least * centre
    centres = sums / (of_classes.sum(dim=-2) + least)[..., None]
    sq_dist = (points - (members @ centres)[..., None, :, :]).square().sum(dim=-1).mean(dim=-2)  # (..., n)
    return centres, (shares * sq_dist).sum(dim=-1)


def log_positive_features(points: Tensor, places: Places) -> Tensor:
    r"""Log features, whose exponentials have inner products that approximate the kernel.

    .. math:: \log \phi_k(z) = -\frac{2}{h} \|z - u_k\|^2 + \log s_k, \quad
              \sum_k \phi_k(z) \phi_k(z') \approx e^{-\|z - z'\|^2 / h}

    from points :math:`z` (..., n, d) and f places :math:`u_k` of scales :math:`s_k` to (..., n, f).
    """
    u, rate = places.points, 2 / places.bandwidth
    centre = u.mean(dim=-2, keepdim=True)  # differences of large numbers would round
    z, u = points - centre, u - centre
    sq_norms = z.square().sum(dim=-1, keepdim=True)
    left = torch.cat([z, sq_norms, torch.ones_like(sq_norms)], dim=-1)
    constant = places.log_scales[..., None] - rate * u.square().sum(dim=-1, keepdim=True)
    right = torch.cat([2 * rate * u, torch.full_like(constant, -rate), constant], dim=-1)
    # Exponents do not survive bfloat16: autocast, where it is on, stays outside.
    with torch.autocast(points.device.type, enabled=False):
        return left @ right.mT


def log_mean_features(clouds: Tensor, places: Places) -> Tensor:
    r"""Log of the mean features over particles, whose inner products approximate the expected kernel.

    .. math:: \log \bar\phi_k(z_i) = \log \frac{1}{p} \sum_l \phi_k(z_{il})

    ``clouds`` (..., p, n, d) holds the particles :math:`z_{il}`; with f places the result is (..., n, f).
    """
    of_all = Places(places.points.unsqueeze(-3), places.log_scales.unsqueeze(-2), places.bandwidth)
    log_features = log_positive_features(clouds, of_all)  # (..., p, n, f)
    if clouds.shape[-3] == 1:
        return log_features.squeeze(-3)
    return log_features.logsumexp(dim=-3) - math.log(clouds.shape[-3])


def class_log_features(log_features: Tensor, labels: Tensor, n_classes: int) -> Tensor:
    r"""Log of the summed features (..., c, f) of each class, about ``LOG_ZERO`` for one without points.

    .. math:: \log \Phi_{ck} = \log \sum_{j:\, y_j = c} \phi_{jk}

    from log features (..., n, f), with the log weights of the points added, and their classes (n,).

    >>> class_log_features(torch.zeros(3, 1), torch.tensor([0, 1, 1]), 2).exp().flatten()
    tensor([1., 2.])
    """
    parts, largest = _scaled_by_class(log_features, labels, n_classes)
    return _safe_log(one_hot(labels, n_classes, parts).mT @ parts) + largest


def leave_one_out_log_features(log_features: Tensor, labels: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:
    r""":func:`class_log_features` (..., c, f), and those of a point's class without the point (..., n, f).

    .. math:: \log \Phi_{ck}, \quad \log \sum_{j \ne i,\, y_j = y_i} \phi_{jk}

    Subtracting a point's own feature from the sum cancels only where that feature is by far the largest: if
    another is as large, it is at most half of the sum, which costs one bit. So there are two sums, of all
    points and of all but the largest; the result is exact to rounding, at a cost linear in the points.

    >>> leave_one_out_log_features(torch.tensor([[3.0], [-50.0]]), torch.tensor([0, 0]), 1)[1].flatten()
    tensor([-50.,   3.])
    """
    log_sums, log_others = _LeaveOneOut.apply(log_features, labels, n_classes)  # type: ignore[no-untyped-call]
    return log_sums, log_others


class _LeaveOneOut(torch.autograd.Function):
    """Autograd would take three times the operations backward."""

    @staticmethod
    def forward(ctx: Any, log_features: Tensor, labels: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        members = one_hot(labels, n_classes, log_features)
        parts, largest = _scaled_by_class(log_features, labels, n_classes)
        sums = members.mT @ parts  # (..., c, f), at least one
        log_sums = _safe_log(sums) + largest
        is_largest = parts == 1
        is_only = members.mT @ is_largest.to(parts) == 1  # (..., c, f): no other is as large
        is_largest &= is_only.index_select(-2, labels)
        others = log_features.masked_fill(is_largest, LOG_ZERO)
        rest_parts, largest_rest = _scaled_by_class(others, labels, n_classes)
        rest = members.mT @ rest_parts
        log_rest = (_safe_log(rest) + largest_rest).index_select(-2, labels)
        shares = parts.div_(_floored(sums).index_select(-2, labels))
        left = (1 - shares).masked_fill_(is_largest, 1)  # at least a half
        log_others = torch.where(is_largest, log_rest, left.log().add_(log_sums.index_select(-2, labels)))
        shares_of_rest = rest_parts.div_(_floored(rest).index_select(-2, labels))
        shares_of_rest.masked_fill_(is_largest, 0)
        ctx.save_for_backward(members, labels, shares, left, shares_of_rest, is_largest)
        return log_sums, log_others

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_sums: Tensor, grad_others: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        r"""Add up a point's share of every sum that it is part of.

        With :math:`s_j` its share in the sum of its class and :math:`r_j` in that without the largest point,

        .. math:: \nabla_j = s_j \Big(G_c + \sum_{i \ne j} \frac{g_i}{1 - s_i}\Big) + r_j\, g_{\max}

        where i runs over the points of the class that are not the largest.
        """
        members, labels, shares, left, shares_of_rest, is_largest = ctx.saved_tensors
        of_rest = members.mT @ grad_others.where(is_largest, 0)  # (..., c, f)
        of_others = grad_others.masked_fill(is_largest, 0).div_(left)
        of_sums = (grad_sums + members.mT @ of_others).index_select(-2, labels)
        grad = of_sums.sub_(of_others).mul_(shares)
        grad += shares_of_rest.mul(of_rest.index_select(-2, labels))
        return grad, None, None


def log_inner_products(a: Tensor, b: Tensor) -> Tensor:
    r"""Log inner products (..., n_a, n_b) of positive vectors given by logs (..., n_a, f) and (..., n_b, f).

    .. math:: \log \sum_k e^{a_{ik} + b_{jk}}

    One matrix product of numbers up to one; where it underflows, a sum in log space instead, so every
    result is finite and exact to rounding. Not for training: the time depends on the values.

    >>> log_inner_products(torch.tensor([[0.0, -9e9]]), torch.tensor([[0.0, 0.0], [-9e9, 0.0]]))
    tensor([[ 0.0000e+00, -9.0000e+09]])
    """
    with torch.autocast(a.device.type, enabled=False):
        products, largest = _products(a, b)
    log_products = products.log() + largest
    # Subnormal numbers have lost digits, or part of their sum.
    is_lost = products < torch.finfo(a.dtype).tiny / torch.finfo(a.dtype).eps
    if is_lost.any():
        for lost in torch.split(is_lost.nonzero(), max(1, _MANY_NUMBERS // a.shape[-1])):
            *batch, row, column = lost.unbind(dim=1)
            i, j, pair = (*batch, row), (*batch, column), (*batch, row, column)
            log_products[pair] = (a[i] + b[j]).logsumexp(dim=-1)
    return log_products


def log_leave_one_out_masses(queries: Tensor, support: Tensor, labels: Tensor, n_classes: int) -> Tensor:
    r"""Log mass (..., n, c) that each of c > 1 classes gives each training point, the point itself left out.

    .. math:: \log S_{ic} = \log \sum_k \phi_{ik} \sum_{j \ne i,\, y_j = c} \phi_{jk}

    from log features (..., n, f) of the points as ``queries``, which may be augmented, and as ``support``,
    with their log weights added. There are gradients of a point's own class and of all others together, as
    its log-probability needs; how the others split is a constant.
    """
    with torch.autocast(queries.device.type, enabled=False):
        log_sums, log_others = leave_one_out_log_features(support, labels, n_classes)
        own = (queries + log_others).logsumexp(dim=-1)  # (..., n)
        # The sum of all classes but one is a leave-one-out sum over classes.
        one_class = torch.zeros_like(labels[:1]).expand(n_classes)
        _, log_rest = leave_one_out_log_features(log_sums, one_class, 1)
        rest = (queries + log_rest.index_select(-2, labels)).logsumexp(dim=-1)  # (..., n)
        is_own = one_hot(labels, n_classes, queries) > 0
        with torch.no_grad():
            products = _products(queries, log_sums)[0].masked_fill(is_own, 0)
            log_split = _safe_log(products) - _safe_log(products.sum(dim=-1, keepdim=True))
        return torch.where(is_own, own[..., None], rest[..., None] + log_split)


def _scaled_by_class(log_features: Tensor, labels: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:
    """Features (..., n, f) divided by the largest of their class, and its log (..., c, f), a constant."""
    *batch, _, n_features = log_features.shape
    index = labels[:, None].expand(log_features.shape)
    least = log_features.new_full((*batch, n_classes, n_features), LOG_ZERO)
    largest = least.scatter_reduce(-2, index, log_features.detach(), "amax")
    return (log_features - largest.index_select(-2, labels)).exp(), largest


def _safe_log(sums: Tensor) -> Tensor:
    return _floored(sums).log()


def _floored(sums: Tensor) -> Tensor:
    """At least the smallest normal number."""
    return sums.clamp_min(torch.finfo(sums.dtype).tiny)


def _products(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Products (..., n_a, n_b) of exponentials, and the log factor (..., n_a, 1) taken out of them.

    Each feature of b is scaled to a largest value of one, so that no row has small products alone.
    """
    largest_b = b.amax(dim=-2, keepdim=True)  # (..., 1, f)
    shifted = a + largest_b
    largest = shifted.amax(dim=-1, keepdim=True)  # (..., n_a, 1)
    return (shifted - largest).exp() @ (b - largest_b).exp().mT, largest
