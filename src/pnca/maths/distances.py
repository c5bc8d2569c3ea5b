"""Squared Euclidean distances, safe at zero."""

from torch import Tensor


def sq_distances(a: Tensor, b: Tensor) -> Tensor:
    r"""Squared distances between two sets of points.

    .. math:: D_{ij} = \|a_i - b_j\|^2 = \|a_i\|^2 + \|b_j\|^2 - 2\, a_i \cdot b_j

    One matrix product instead of a difference tensor; no square root, whose gradient at zero is NaN. Both
    sets are first centred on the mean of ``b``: a shared offset would cancel only up to rounding.

    Parameters
    ----------
    a, b : Tensor of shape (..., n_a, d) and (..., n_b, d)
        The points :math:`a_i` and :math:`b_j`.

    Returns
    -------
    Tensor of shape (..., n_a, n_b)
        Never negative.

    Examples
    --------
    >>> import torch
    >>> sq_distances(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[25.,  0.]])
    """
    # Only b decides the centre: a row of the result must not depend on the other rows of a.
    centre = b.detach().mean(dim=-2, keepdim=True)
    if a is b:
        b = b - centre
        products = b @ b.mT
        sq_norms_a = sq_norms_b = products.diagonal(dim1=-2, dim2=-1)
    else:
        a, b = a - centre, b - centre
        products = a @ b.mT
        sq_norms_a, sq_norms_b = a.square().sum(dim=-1), b.square().sum(dim=-1)
    return (sq_norms_a[..., :, None] + sq_norms_b[..., None, :] - 2 * products).clamp_min(0)
