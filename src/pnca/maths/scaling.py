"""Putting inputs on a scale, and asking which scale makes neighbours share a class."""

import torch
from torch import Tensor

from pnca.maths.distances import sq_distances
from pnca.maths.kernels import neighbour_scale
from pnca.maths.neighbours import class_log_masses, leave_one_out, log_class_probabilities

#: The spread that scaled inputs get. Three standard deviations make one unit, so almost all numbers are
#: between -1 and 1, like the grey values of an image.
UNIT = 1 / 3
#: Widths of the kernel that :func:`neighbour_loss` tries, against the distance between neighbours.
_WEIGHTS = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def column_scale(inputs: Tensor) -> tuple[Tensor, Tensor]:
    r"""Centre and spread of each column: for tables, whose columns have units of their own.

    Parameters
    ----------
    inputs : Tensor of shape (n, p)
        Training inputs.

    Returns
    -------
    centre : Tensor of shape (p,)
        Means of the columns.
    spread : Tensor of shape (p,)
        What to divide by: three standard deviations; one for a constant column.

    Examples
    --------
    >>> column_scale(torch.tensor([[0.0, 5.0], [2.0, 5.0]]))
    (tensor([1., 5.]), tensor([3., 1.]))
    """
    centre, spread = inputs.mean(dim=0), inputs.std(dim=0, correction=0)
    # Rounding can leave a constant column a spread of its own.
    noise = 8 * torch.finfo(inputs.dtype).eps * inputs.abs().amax(dim=0)
    return centre, torch.where(spread > noise, spread / UNIT, 1.0)


def common_scale(inputs: Tensor, *, same_centre: bool = False) -> tuple[Tensor, Tensor]:
    r"""One spread for all columns: for pixels, spectra and features, which share a unit.

    Where most of the numbers are zero, zero is the background and stays where it is. Otherwise the
    columns are centred.

    Parameters
    ----------
    inputs : Tensor of shape (n, p)
        Training inputs.
    same_centre : bool
        One centre too, for images: pixels change their places when an image is shifted.

    Returns
    -------
    centre : Tensor of shape (p,)
    spread : Tensor of shape (p,)
        All equal: three times the root mean square of the centred inputs; one if they are constant.

    Examples
    --------
    >>> common_scale(torch.tensor([[0.0, 0.0], [0.0, 2.0]]))
    (tensor([0., 0.]), tensor([3., 3.]))
    """
    is_sparse = (inputs == 0).double().mean() > 0.5
    centre = inputs.mean().expand(inputs.shape[1]) if same_centre else inputs.mean(dim=0)
    centre = torch.zeros_like(centre) if is_sparse else centre
    spread = (inputs - centre).square().mean().sqrt()
    noise = 8 * torch.finfo(inputs.dtype).eps * inputs.abs().amax()
    spread = torch.where(spread > noise, spread / UNIT, 1.0)
    return centre, spread.expand(inputs.shape[1])


def neighbour_loss(
    inputs: Tensor, labels: Tensor, n_classes: int, background: float, groups: Tensor | None = None
) -> float:
    r"""How badly the nearest inputs tell the class, with the kernel width that tells it best.

    The mean leave-one-out loss of a classifier that knows nothing but distances,

    .. math:: \min_\lambda \; -\frac{1}{n} \sum_i \log p_{i y_i}, \quad
              K_{ij} = \exp\left(\lambda (1 - \|x_i - x_j\|^2 / s)\right)

    with :math:`s` the :func:`pnca.maths.kernels.neighbour_scale`. It compares ways to scale the inputs.

    Parameters
    ----------
    inputs : Tensor of shape (n, p)
        Scaled inputs :math:`x_i`.
    labels : Tensor of shape (n,)
        Their classes.
    n_classes : int
        Number of classes c.
    background : float
        The background mass.
    groups : Tensor of shape (n,), optional
        Members of one group are not each other's neighbours.

    Returns
    -------
    float

    Examples
    --------
    >>> inputs = torch.tensor([[0.0], [1.0], [9.0], [10.0]])
    >>> apart, mixed = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    >>> neighbour_loss(inputs, apart, 2, 0.1) < neighbour_loss(inputs, mixed, 2, 0.1)
    True
    """
    closeness = 1 - sq_distances(inputs, inputs) / neighbour_scale(inputs, groups)
    log_prior = (labels.bincount(minlength=n_classes).to(inputs) / len(labels)).log()
    losses = []
    for weight in _WEIGHTS:
        log_masses = class_log_masses(leave_one_out(weight * closeness, groups), labels, n_classes)
        log_probabilities = log_class_probabilities(log_masses, background, log_prior)
        losses.append(-log_probabilities.gather(1, labels[:, None]).mean().item())
    return min(losses)
