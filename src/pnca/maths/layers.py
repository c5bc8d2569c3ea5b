"""A fully connected layer of m particles at once, forward and backward, as batched matrix products."""

import torch
from torch import Tensor


def outputs(inputs: Tensor, weights: Tensor, biases: Tensor, *, relu: bool) -> Tensor:
    r"""Outputs of a layer, with ReLU or without.

    .. math:: o_l = x_l W_l + b_l

    Parameters
    ----------
    inputs : Tensor of shape (m, n, a)
        The inputs :math:`x_l`.
    weights, biases : Tensor of shape (m, a, b) and (m, b)
        The parameters :math:`W_l` and :math:`b_l`.
    relu : bool
        Whether to set negative outputs to zero.

    Returns
    -------
    Tensor of shape (m, n, b)

    Examples
    --------
    >>> outputs(torch.ones(1, 1, 2), torch.ones(1, 2, 1), torch.tensor([[-3.0]]), relu=True)
    tensor([[[0.]]])
    """
    out = torch.baddbmm(biases[:, None, :], inputs, weights)
    return out.relu_() if relu else out


def weight_gradients(inputs: Tensor, of_outputs: Tensor, out: Tensor, out_of_biases: Tensor) -> None:
    """Write gradients of the weights to ``out`` (m, a, b) and of the biases to ``out_of_biases`` (m, b).

    ``inputs`` are those of the layer (m, n, a), ``of_outputs`` the gradients of its outputs (m, n, b).
    """
    torch.bmm(inputs.mT, of_outputs, out=out)
    torch.sum(of_outputs, dim=1, out=out_of_biases)


def input_gradients(of_outputs: Tensor, weights: Tensor, inputs: Tensor) -> Tensor:
    """Gradients (m, n, a) of a layer's inputs before the ReLU that made them.

    Parameters
    ----------
    of_outputs : Tensor of shape (m, n, b)
        Gradients of the outputs.
    weights : Tensor of shape (m, a, b)
        Weights of the layer.
    inputs : Tensor of shape (m, n, a)
        Inputs of the layer: where they are zero, so is the gradient.

    Examples
    --------
    >>> input_gradients(torch.ones(1, 1, 1), torch.tensor([[[2.0], [3.0]]]), torch.tensor([[[0.0, 1.0]]]))
    tensor([[[0., 3.]]])
    """
    # The gradient of ReLU in one pass; a mask would be two.
    of_inputs: Tensor = torch.ops.aten.threshold_backward(of_outputs @ weights.mT, inputs, 0)
    return of_inputs
