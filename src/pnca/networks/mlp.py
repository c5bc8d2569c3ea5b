"""A multilayer perceptron for m particles at once: batched matrix products."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pnca.networks.base import unflatten


class MLP:
    r"""Fully connected layers with ReLU between them.

    .. math:: h_0 = x, \quad h_k = \mathrm{ReLU}(W_k h_{k-1} + b_k), \quad z = W_K h_{K-1} + b_K

    Initial weights are uniform in :math:`\pm\sqrt{6 / (n_{in} + n_{out})}` (Glorot), biases are
    zero: the initialisation behind the paper's figures.

    Parameters
    ----------
    layer_sizes : sequence of int
        Width of the input, of each hidden layer and of the output.
    dropout : float
        Share of the inputs set to zero at random in training, for each particle and example anew; the
        others are scaled up to keep the mean.

    Examples
    --------
    >>> network = MLP([5, 8, 2])
    >>> particles = network.draw(3, torch.Generator().manual_seed(0))
    >>> network(particles, torch.zeros(4, 5)).shape
    torch.Size([3, 4, 2])
    """

    prediction_dtype = torch.float64

    def __init__(self, layer_sizes: Sequence[int], *, dropout: float = 0.0) -> None:
        self.layer_sizes = tuple(layer_sizes)
        self.dropout = dropout
        widths = zip(self.layer_sizes[:-1], self.layer_sizes[1:], strict=True)
        self.shapes = [torch.Size(s) for n_in, n_out in widths for s in ((n_in, n_out), (n_out,))]

    def draw(self, n_particles: int, generator: torch.Generator) -> Tensor:
        """Draw initial parameters: (m, p)."""
        parts = []
        for shape in self.shapes:
            flat = torch.zeros(n_particles, math.prod(shape))
            if len(shape) == 2:
                limit = math.sqrt(6 / sum(shape))
                flat.uniform_(-limit, limit, generator=generator)
            parts.append(flat)
        return torch.cat(parts, dim=1)

    def __call__(
        self, particles: Tensor, inputs: Tensor, *, training: bool = False, mixing: Tensor | None = None
    ) -> Tensor:
        """Run every particle on every input, or on its own: (m, p), ([m,] n, n_in) -> (m, n, n_out).

        With ``mixing`` (m, m), what reaches the particles are its products with their gradients.
        """
        hidden = inputs.expand(particles.shape[0], -1, -1)
        if training and self.dropout:
            hidden = drop(hidden, self.dropout)
        is_shared = hidden.stride(0) == 0
        outputs: Tensor = _Layers.apply(particles, hidden, self.shapes, mixing, is_shared)  # type: ignore[no-untyped-call]
        return outputs


class _Layers(torch.autograd.Function):
    """All layers at once; the gradients are written where they belong in the flat particles.

    Left to torch, every layer's gradient would be a tensor of its own that is then copied there.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        particles: Tensor,
        inputs: Tensor,
        shapes: list[torch.Size],
        mixing: Tensor | None,
        is_shared: bool,
    ) -> Tensor:
        tensors = unflatten(particles, shapes)
        weights, biases = tensors[0::2], tensors[1::2]
        hidden = [inputs]
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            hidden.append(torch.baddbmm(bias[:, None, :], hidden[-1], weight).relu_())
        ctx.save_for_backward(particles, mixing, *hidden)
        ctx.shapes, ctx.weights, ctx.is_shared = shapes, weights, is_shared
        return torch.baddbmm(biases[-1][:, None, :], hidden[-1], weights[-1])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        particles, mixing, *hidden = ctx.saved_tensors
        grad_particles = torch.empty_like(particles)
        weights: list[Tensor] = ctx.weights
        grads = unflatten(grad_particles, ctx.shapes)
        for layer in reversed(range(len(hidden))):
            of_weights, of_biases = grads[2 * layer : 2 * layer + 2]
            if mixing is None or (layer == 0 and ctx.is_shared):
                # Where all particles have the same inputs, mixed outputs make mixed gradients, and are fewer.
                of_outputs = grad if mixing is None else (mixing @ grad.flatten(1)).view_as(grad)
                torch.bmm(hidden[layer].mT, of_outputs, out=of_weights)
                torch.sum(of_outputs, dim=1, out=of_biases)
            else:
                torch.mm(mixing, torch.bmm(hidden[layer].mT, grad).flatten(1), out=of_weights.flatten(1))
                torch.mm(mixing, grad.sum(dim=1), out=of_biases)
            if layer > 0:
                # The gradient of ReLU in one pass; a mask would be two.
                grad = torch.ops.aten.threshold_backward(grad @ weights[layer].mT, hidden[layer], 0)
        grad_inputs = grad @ weights[0].mT if ctx.needs_input_grad[1] else None
        return grad_particles, grad_inputs, None, None, None


def drop(inputs: Tensor, rate: float) -> Tensor:
    """Set a share of the numbers to zero at random and scale the others up to keep the mean.

    Parameters
    ----------
    inputs : Tensor of any shape
        They need no gradient.
    rate : float
        The share, rounded to a multiple of 1/256.

    Returns
    -------
    Tensor of the same shape
    """
    # One random number for eight inputs, each of which takes a byte: forty times faster than
    # torch.nn.functional.dropout on a CPU, where the random numbers take the time.
    level = min(round(256 * rate), 255)
    n = inputs.numel()
    words = torch.empty(-(-n // 8), dtype=torch.int64, device=inputs.device).random_(-(2**63), None)
    kept = words.view(torch.uint8)[:n].view(inputs.shape) >= level
    return inputs * kept * (256 / (256 - level))
