"""Scaling of inputs, and how well neighbours predict the class on a scale."""

import torch
from torch import Tensor

from pnca.maths.distances import sq_distances
from pnca.maths.kernels import neighbour_scale
from pnca.maths.neighbours import class_log_masses, leave_one_out, log_class_probabilities

#: Standard deviation of scaled inputs: almost all numbers lie between -1 and 1, like grey values.
UNIT = 1 / 3
#: Inverse widths of the kernel that :func:`neighbour_loss` tries, relative to the neighbour scale.
_WEIGHTS = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def column_scale(inputs: Tensor) -> tuple[Tensor, Tensor]:
    r"""Centre (p,) and divisor (p,) of each column of inputs (n, p), for tables of mixed units.

    The divisor is three standard deviations, or one for a constant column.

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
    r"""Centre (p,) and one divisor (p,) for all columns, for pixels, spectra and features of one unit.

    Columns are centred, unless most numbers are zero: zero is then the background and stays. The divisor is
    three times the root mean square of the centred inputs, or one if they are constant.

    Parameters
    ----------
    inputs : Tensor of shape (n, p)
        Training inputs.
    same_centre : bool
        One centre for all columns, for images: augmentation shifts their pixels.

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
    r"""Mean leave-one-out loss of a kernel classifier on the inputs themselves, at its best kernel width.

    .. math:: \min_\lambda \; -\frac{1}{n} \sum_i \log p_{i y_i}, \quad
              K_{ij} = \exp\left(\lambda (1 - \|x_i - x_j\|^2 / s)\right)

    with :math:`s` the :func:`pnca.maths.kernels.neighbour_scale`. It compares ways to scale the inputs.

    Parameters
    ----------
    inputs, labels : Tensor of shape (n, p) and (n,)
        Scaled inputs :math:`x_i` and their classes, below ``n_classes``.
    n_classes : int
        Number of classes.
    background : float
        The background mass.
    groups : Tensor of shape (n,), optional
        Points of one group are not each other's neighbours.

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
