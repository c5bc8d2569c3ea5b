r"""Positive random features: kernel mass at a cost that grows with the points, not with their pairs.

The latent kernel is an integral over places :math:`u` of the latent space (two Gaussians, folded),

.. math:: k(z, z') = \Big(\frac{4}{\pi h}\Big)^{d/2} \int e^{-2\|z - u\|^2 / h}\, e^{-2\|z' - u\|^2 / h}\, du

so places drawn from a density q turn it into an inner product of features that are all positive,

.. math:: \phi_k(z) = \Big(\frac{4}{\pi h}\Big)^{d/4} \frac{e^{-2\|z - u_k\|^2 / h}}{\sqrt{f\, q(u_k)}}, \quad
          \mathrm{E}[\phi(z) \cdot \phi(z')] = k(z, z')

and the mass of a class into the inner product with one vector, the sum of its examples' features. With
q a Gaussian of variance h / 8 around the origin these are the features of Choromanski et al. (2021); with
the variance that suits the data, those of Likhosherstov et al. (2022). Their error still explodes with
the distance from the origin, near which few examples lie: here q is a mixture with one Gaussian around each
class. Any q leaves the mean as it is; this one puts the places where the mass is.

Everything is in log space, so no mass is zero and none overflows.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pnca.maths.distances import sq_distances
from pnca.maths.neighbours import LOG_ZERO, one_hot

#: Numbers in a part of the sums that are taken in log space. It bounds memory; results do not depend on it.
_MANY_NUMBERS = 2**22


class Places(NamedTuple):
    """Where features look, and how much each of them counts."""

    points: Tensor  # (..., f, d), the u_k
    log_scales: Tensor  # (..., f), the log of all factors that do not depend on z
    bandwidth: float


def best_variance(sq_spread: Tensor, n_components: int) -> Tensor:
    r"""Variance of the places that makes the error of the features least.

    .. math:: v = \frac{1 + a}{8}, \quad a = \frac{d + 2 s + \sqrt{(d + 2 s)^2 + 8 d s}}{2 d}, \quad
              s = 2\, \mathrm{E}\|x\|^2

    For a kernel :math:`e^{-\|x - x'\|^2 / 2}` and places drawn from :math:`N(0, v I)` the second moment of
    :math:`\phi_k(x) \phi_k(x')` is, up to factors without v and with :math:`v = (1 + a) / 8`,

    .. math:: \left(\frac{1 + a}{2}\right)^d a^{-d/2} \exp\left(\|x + x'\|^2\, \frac{1 + a}{a}\right)

    and this a makes its logarithm least where :math:`\|x + x'\|^2 = s`, which is its mean over
    independent pairs around the origin.

    Parameters
    ----------
    sq_spread : Tensor of any shape
        :math:`\mathrm{E}\|x\|^2`.
    n_components : int
        The dimension :math:`d`.

    Returns
    -------
    Tensor of the same shape
        A quarter, which is the variance of Choromanski et al., where there is no spread, and more elsewhere.

    Examples
    --------
    >>> best_variance(torch.tensor([0.0, 1.0]), n_components=2)
    tensor([0.2500, 0.5702])
    """
    d, s = n_components, 2 * sq_spread
    a = (d + 2 * s + ((d + 2 * s).square() + 8 * d * s).sqrt()) / (2 * d)
    return (1 + a) / 8


def place(directions: Tensor, centres: Tensor, sq_spread: Tensor, bandwidth: float) -> Places:
    r"""Put places around several centres, the same number around each.

    .. math:: u_k = \mu_{c(k)} + \sqrt{v h / 2}\, \omega_k, \quad
              q(u) = \sum_c \frac{f_c}{f} N(u;\, \mu_c,\, v h / 2)

    A block of d directions goes to one centre, the next to the next. Since q is the mixture and not the
    Gaussian that a place came from, a place that lies among several classes serves them all, and the
    features are unbiased still (the balance heuristic of Veach and Guibas, 1995).

    Parameters
    ----------
    directions : Tensor of shape (d, f)
        Standard Gaussian vectors :math:`\omega_k`; see :func:`pnca.maths.features.orthogonal_frequencies`,
        with bandwidth 2.
    centres : Tensor of shape (..., c, d)
        The centres :math:`\mu_c`.
    sq_spread : Tensor of shape (...)
        Mean squared distance of a point from its centre.
    bandwidth : float
        The bandwidth :math:`h`.

    Returns
    -------
    Places
    """
    d, n_features = directions.shape
    n_centres = centres.shape[-2]
    variance = best_variance(sq_spread * (2 / bandwidth), d) * (bandwidth / 2)  # (...)
    owner = _owners(d, n_features, n_centres, directions.device)
    points = centres[..., owner, :] + variance.sqrt()[..., None, None] * directions.mT  # (..., f, d)
    shares = one_hot(owner, n_centres, points).mean(dim=0)  # (c,)
    log_parts = shares.log() - sq_distances(points, centres) / (2 * variance[..., None, None])  # (..., f, c)
    log_density = log_parts.logsumexp(dim=-1) - d / 2 * (2 * math.pi * variance).log()[..., None]
    log_factor = d / 4 * math.log(4 / (math.pi * bandwidth)) - math.log(n_features) / 2
    return Places(points, log_factor - log_density / 2, bandwidth)


def _owners(d: int, n_features: int, n_centres: int, device: torch.device) -> Tensor:
    """Centre of each place: blocks of d in turn, or where there are too few of them one by one: (f,)."""
    places = torch.arange(n_features, device=device)
    return (places // d if n_features >= d * n_centres else places) % n_centres


def class_centres(points: Tensor, members: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean of each class, and the mean squared distance of a point from that of its class.

    .. math:: \mu_c = \frac{\sum_{j: y_j = c} w_j z_j}{\sum_{j: y_j = c} w_j}, \quad
              \frac{\sum_j w_j \|z_j - \mu_{y_j}\|^2}{\sum_j w_j}

    Parameters
    ----------
    points : Tensor of shape (..., p, n, d)
        Clouds of p particles each.
    members : Tensor of shape (n, c)
        One in the column of a point's class :math:`y_j`; see :func:`pnca.maths.neighbours.one_hot`.
    weights : Tensor of shape (n,) or (..., n)
        The weights :math:`w_j`; points of weight zero do not count.

    Returns
    -------
    centres : Tensor of shape (..., c, d)
        The mean of all points for a class that has none. If no point counts, all do.
    sq_spread : Tensor of shape (...)
    """
    total = weights.sum(dim=-1, keepdim=True)
    shares = torch.where(total > 0, weights, 1) / torch.where(total > 0, total, weights.shape[-1])
    of_points = points.mean(dim=-3)  # (..., n, d)
    centre = shares[..., None, :] @ of_points  # (..., 1, d)
    of_classes = shares[..., :, None] * members  # (..., n, c)
    # So little that it decides only where there is nothing else.
    least = torch.finfo(points.dtype).tiny ** 0.5
    sums = of_classes.mT @ of_points + least * centre
    centres = sums / (of_classes.sum(dim=-2) + least)[..., None]
    sq_dist = (points - (members @ centres)[..., None, :, :]).square().sum(dim=-1).mean(dim=-2)  # (..., n)
    return centres, (shares * sq_dist).sum(dim=-1)


def log_positive_features(points: Tensor, places: Places) -> Tensor:
    r"""Logarithm of the features: inner products of the features themselves approximate the kernel.

    .. math:: \log \phi_k(z) = -\frac{2}{h} \|z - u_k\|^2 + \log s_k, \quad
              \sum_k \phi_k(z) \phi_k(z') \approx e^{-\|z - z'\|^2 / h}

    Parameters
    ----------
    points : Tensor of shape (..., n, d)
        The points :math:`z`.
    places : Places
        Places :math:`u_k` (..., f, d) and scales :math:`s_k`; see :func:`place`.

    Returns
    -------
    Tensor of shape (..., n, f)
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
    r"""Logarithm of the features of points that are clouds: their mean over the particles.

    .. math:: \log \bar\phi_k(z_i) = \log \frac{1}{p} \sum_l \phi_k(z_{il})

    The inner product of two means is the mean over all pairs of particles: the expected kernel.

    Parameters
    ----------
    clouds : Tensor of shape (..., p, n, d)
        The particles :math:`z_{il}`.
    places : Places
        Of points (..., f, d).

    Returns
    -------
    Tensor of shape (..., n, f)
    """
    of_all = Places(places.points.unsqueeze(-3), places.log_scales.unsqueeze(-2), places.bandwidth)
    log_features = log_positive_features(clouds, of_all)  # (..., p, n, f)
    if clouds.shape[-3] == 1:
        return log_features.squeeze(-3)
    return log_features.logsumexp(dim=-3) - math.log(clouds.shape[-3])


def class_log_features(log_features: Tensor, labels: Tensor, n_classes: int) -> Tensor:
    r"""Logarithm of the sum of the features of each class.

    .. math:: \log \Phi_{ck} = \log \sum_{j:\, y_j = c} \phi_{jk}

    Parameters
    ----------
    log_features : Tensor of shape (..., n, f)
        :math:`\log \phi_{jk}`, with the log weights of the points added.
    labels : Tensor of shape (n,)
        Integer classes :math:`y_j`.
    n_classes : int
        Number of classes :math:`c`.

    Returns
    -------
    Tensor of shape (..., c, f)
        About ``LOG_ZERO`` for a class without points.

    Examples
    --------
    >>> class_log_features(torch.zeros(3, 1), torch.tensor([0, 1, 1]), 2).exp()
    tensor([[1.],
            [2.]])
    """
    parts, largest = _parts_of_class(log_features, labels, n_classes)
    return _safe_log(one_hot(labels, n_classes, parts).mT @ parts) + largest


def leave_one_out_log_features(log_features: Tensor, labels: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:
    r"""Logarithm of the sum of the features of each class, and of each point's class without that point.

    .. math:: \log \Phi_{ck}, \quad \log \sum_{j \ne i,\, y_j = y_i} \phi_{jk}

    Taking a point's own feature off the sum would leave nothing but rounding where that feature is far
    the largest, and only there: if another is as large, the own one is at most half of the sum, and its
    removal costs one bit. So there are two sums, of all points and of all but the largest. The
    result is exact to rounding, at a cost linear in the points.

    Parameters
    ----------
    log_features, labels, n_classes
        See :func:`class_log_features`.

    Returns
    -------
    log_sums : Tensor of shape (..., c, f)
        See :func:`class_log_features`.
    log_others : Tensor of shape (..., n, f)
        About ``LOG_ZERO`` for a point that is alone.

    Examples
    --------
    >>> log_features = torch.tensor([[3.0], [-50.0]])
    >>> leave_one_out_log_features(log_features, torch.tensor([0, 0]), n_classes=1)[1]
    tensor([[-50.],
            [  3.]])
    """
    log_sums, log_others = _LeaveOneOut.apply(log_features, labels, n_classes)  # type: ignore[no-untyped-call]
    return log_sums, log_others


class _LeaveOneOut(torch.autograd.Function):
    """Sums of classes with and without a point; autograd would take three times the steps backward."""

    @staticmethod
    def forward(ctx: Any, log_features: Tensor, labels: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        members = one_hot(labels, n_classes, log_features)
        parts, largest = _parts_of_class(log_features, labels, n_classes)
        sums = members.mT @ parts  # (..., c, f), at least one
        log_sums = _safe_log(sums) + largest
        is_largest = parts == 1
        is_only = members.mT @ is_largest.to(parts) == 1  # (..., c, f): no other is as large
        is_largest &= is_only.index_select(-2, labels)
        rest_parts, largest_rest = _parts_of_class(
            log_features.masked_fill(is_largest, LOG_ZERO), labels, n_classes
        )
        rest = members.mT @ rest_parts
        log_rest = (_safe_log(rest) + largest_rest).index_select(-2, labels)
        shares = parts.div_(_floored(sums).index_select(-2, labels))
        left = (1 - shares).masked_fill_(is_largest, 1)  # at least a half
        log_others = torch.where(is_largest, log_rest, left.log().add_(log_sums.index_select(-2, labels)))
        shares_of_rest = rest_parts.div_(_floored(rest).index_select(-2, labels))
        ctx.save_for_backward(
            members, labels, shares, left, shares_of_rest.masked_fill_(is_largest, 0), is_largest
        )
        return log_sums, log_others

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_sums: Tensor, grad_others: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        r"""Give each point its share of every sum that it is part of.

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
    r"""Logarithm of inner products of positive vectors that are given by their logarithms.

    .. math:: \log \sum_k e^{a_{ik} + b_{jk}}

    One matrix product of numbers up to one. Where it underflows, because two vectors have nothing in
    common, the sum is taken in log space, so every result is finite and exact to rounding.

    Parameters
    ----------
    a : Tensor of shape (..., n_a, f)
        The log vectors :math:`a_i`.
    b : Tensor of shape (..., n_b, f)
        The log vectors :math:`b_j`.

    Returns
    -------
    Tensor of shape (..., n_a, n_b)
        Not for training: how long it takes depends on the values.

    Examples
    --------
    >>> log_inner_products(torch.tensor([[0.0, -9e9]]), torch.tensor([[0.0, 0.0], [-9e9, 0.0]]))
    tensor([[ 0.0000e+00, -9.0000e+09]])
    """
    with torch.autocast(a.device.type, enabled=False):
        products, largest = _products(a, b)
    log_products = products.log() + largest
    # What lies near the smallest number has lost digits, or part of its sum.
    is_lost = products < torch.finfo(a.dtype).tiny / torch.finfo(a.dtype).eps
    if is_lost.any():
        for lost in torch.split(is_lost.nonzero(), max(1, _MANY_NUMBERS // a.shape[-1])):
            *batch, row, column = lost.unbind(dim=1)
            i, j = (*batch, row), (*batch, column)
            pair = (*i, column)
            log_products[pair] = (a[i] + b[j]).logsumexp(dim=-1)
    return log_products


def log_leave_one_out_masses(queries: Tensor, support: Tensor, labels: Tensor, n_classes: int) -> Tensor:
    r"""Log kernel mass that each class gives each training point, the point itself left out.

    .. math:: \log S_{ic} = \log \sum_k \phi_{ik} \sum_{j \ne i,\, y_j = c} \phi_{jk}

    Parameters
    ----------
    queries : Tensor of shape (..., n, f)
        Log features of the points, which may be disturbed.
    support : Tensor of shape (..., n, f)
        Log features of the same points as neighbours, with their log weights added.
    labels : Tensor of shape (n,)
        Integer classes :math:`y_i`.
    n_classes : int
        Number of classes :math:`c`, at least two.

    Returns
    -------
    Tensor of shape (..., n, c)
        Gradients are those of a point's own class and of all others together, which is what its
        log-probability needs; how the others share is a constant.
    """
    with torch.autocast(queries.device.type, enabled=False):
        log_sums, log_others = leave_one_out_log_features(support, labels, n_classes)
        own = (queries + log_others).logsumexp(dim=-1)  # (..., n)
        # The classes but one are left-one-out sums too.
        _, log_rivals = leave_one_out_log_features(
            log_sums, torch.zeros_like(labels[:1]).expand(n_classes), 1
        )
        rivals = (queries + log_rivals.index_select(-2, labels)).logsumexp(dim=-1)  # (..., n)
        is_own = one_hot(labels, n_classes, queries) > 0
        with torch.no_grad():
            products = _products(queries, log_sums)[0].masked_fill(is_own, 0)
            log_split = _safe_log(products) - _safe_log(products.sum(dim=-1, keepdim=True))
        return torch.where(is_own, own[..., None], rivals[..., None] + log_split)


def _parts_of_class(log_features: Tensor, labels: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:
    """Features (..., n, f) as parts of the largest of their class, and the log of that one (..., c, f).

    The latter is a constant: what is divided by it is multiplied by it again.
    """
    *batch, _, n_features = log_features.shape
    index = labels[:, None].expand(log_features.shape)
    least = log_features.new_full((*batch, n_classes, n_features), LOG_ZERO)
    largest = least.scatter_reduce(-2, index, log_features.detach(), "amax")
    return (log_features - largest.index_select(-2, labels)).exp(), largest


def _safe_log(sums: Tensor) -> Tensor:
    """Logarithm, of zero that of the smallest number."""
    return _floored(sums).log()


def _floored(sums: Tensor) -> Tensor:
    return sums.clamp_min(torch.finfo(sums.dtype).tiny)


def _products(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Products (..., n_a, n_b) of exponentials, and the log factor (..., n_a, 1) that they lack.

    The largest of all b is one in each feature, so a point has one product at least that is not small.
    """
    largest_b = b.amax(dim=-2, keepdim=True)  # (..., 1, f)
    shifted = a + largest_b
    largest = shifted.amax(dim=-1, keepdim=True)  # (..., n_a, 1)
    return (shifted - largest).exp() @ (b - largest_b).exp().mT, largest
