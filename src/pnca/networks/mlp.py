"""A multilayer perceptron for m particles at once: batched matrix products."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pnca import accelerated
from pnca.exceptions import InvalidInputError


class MLP:
    r"""Fully connected layers with ReLU between them.

    .. math:: h_0 = x, \quad h_k = \mathrm{ReLU}(W_k h_{k-1} + b_k), \quad z = W_K h_{K-1} + b_K

    As in the paper, initial weights are uniform in :math:`\pm\sqrt{6 / (n_{in} + n_{out})}` and biases zero.
    ``layer_sizes`` are the widths of the input, of each hidden layer and of the output; ``dropout`` is the
    rate on the inputs in training, drawn for each particle and example.

    >>> network = MLP([5, 8, 2])
    >>> network(network.draw(3, torch.Generator().manual_seed(0)), torch.zeros(4, 5)).shape
    torch.Size([3, 4, 2])
    """

    prediction_dtype = torch.float64
    uses_global_generator = False
    takes_rows = True

    def __init__(self, layer_sizes: Sequence[int], *, dropout: float = 0.0) -> None:
        self.layer_sizes = tuple(layer_sizes)
        self.dropout = dropout
        widths = zip(self.layer_sizes[:-1], self.layer_sizes[1:], strict=True)
        self.shapes = [torch.Size(s) for n_in, n_out in widths for s in ((n_in, n_out), (n_out,))]

    def draw(self, n_particles: int, generator: torch.Generator) -> Tensor:
        """Draw initial parameters: (m, p)."""
        n = sum(math.prod(shape) for shape in self.shapes)
        try:
            particles = torch.zeros(n_particles, n, dtype=torch.float32)
        except (RuntimeError, TypeError) as error:  # of memory; of numbers beyond 64 bits
            raise InvalidInputError(
                f"{n_particles:,} particles of {n:,} parameters do not fit into memory: take fewer particles "
                "or smaller layers."
            ) from error
        for part, shape in zip(unflatten(particles, self.shapes), self.shapes, strict=True):
            if len(shape) == 2:
                limit = math.sqrt(6 / sum(shape))
                # Into one piece of memory first: torch draws into scattered rows at half the speed.
                part.copy_(
                    torch.empty_like(part, memory_format=torch.contiguous_format).uniform_(
                        -limit, limit, generator=generator
                    )
                )
        return particles

    def __call__(
        self,
        particles: Tensor,
        inputs: Tensor,
        *,
        training: bool = False,
        mixing: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Run every particle on every input, or on its own: (m, p), ([m,] n, n_in) -> (m, n, n_out)."""
        hidden = inputs.expand(particles.shape[0], -1, -1)
        if training and self.dropout:
            hidden = drop(hidden, self.dropout, generator)
        is_shared = hidden.stride(0) == 0
        outputs: Tensor = _Perceptron.apply(particles, hidden, self.shapes, mixing, is_shared)  # type: ignore[no-untyped-call]
        return outputs


class Layers:
    """A fully connected layer of m particles, forward and backward, as batched matrix products.

    ``pnca.accelerated.layers`` has the same functions for a GPU.
    """

    @staticmethod
    def outputs(inputs: Tensor, weights: Tensor, biases: Tensor, *, relu: bool) -> Tensor:
        """Outputs (m, n, b) for inputs (m, n, a), weights (m, a, b) and biases (m, b), with ReLU or not.

        .. math:: o_l = x_l W_l + b_l

        >>> Layers.outputs(torch.ones(1, 1, 2), torch.ones(1, 2, 1), torch.tensor([[-3.0]]), relu=True)
        tensor([[[0.]]])
        """
        out = torch.baddbmm(biases[:, None, :], inputs, weights)
        return out.relu_() if relu else out

    @staticmethod
    def weight_gradients(inputs: Tensor, of_outputs: Tensor, out: Tensor, out_of_biases: Tensor) -> None:
        """Write gradients of the weights to ``out`` (m, a, b) and of the biases to ``out_of_biases`` (m, b).

        ``inputs`` are those of the layer (m, n, a), ``of_outputs`` the gradients of its outputs (m, n, b).
        """
        torch.bmm(inputs.mT, of_outputs, out=out)
        torch.sum(of_outputs, dim=1, out=out_of_biases)

    @staticmethod
    def input_gradients(of_outputs: Tensor, weights: Tensor, inputs: Tensor) -> Tensor:
        """Gradients (m, n, a) of a layer's inputs before the ReLU that made them: zero where ``inputs`` are.

        From the gradients of its outputs (m, n, b), its weights (m, a, b) and inputs (m, n, a).

        >>> weights, inputs = torch.tensor([[[2.0], [3.0]]]), torch.tensor([[[0.0, 1.0]]])
        >>> Layers.input_gradients(torch.ones(1, 1, 1), weights, inputs)
        tensor([[[0., 3.]]])
        """
        # The gradient of ReLU in one pass; a mask would be two.
        of_inputs: Tensor = torch.ops.aten.threshold_backward(of_outputs @ weights.mT, inputs, 0)
        return of_inputs


class _Perceptron(torch.autograd.Function):
    """All layers at once; gradients go straight into one flat buffer, where autograd would copy."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        particles: Tensor,
        inputs: Tensor,
        shapes: list[torch.Size],
        mixing: Tensor | None,
        is_shared: bool,
    ) -> Tensor:
        is_fused = particles.is_cuda and accelerated.layers.can_be_fused(particles, inputs)
        how: Any = accelerated.layers if is_fused else Layers
        tensors = unflatten(particles, shapes)
        weights, biases = tensors[0::2], tensors[1::2]
        hidden = [inputs]
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            hidden.append(how.outputs(hidden[-1], weight, bias, relu=True))
        ctx.save_for_backward(particles, mixing, *hidden)
        ctx.shapes, ctx.weights, ctx.is_shared, ctx.how = shapes, weights, is_shared, how
        outputs: Tensor = how.outputs(hidden[-1], weights[-1], biases[-1], relu=False)
        return outputs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        particles, mixing, *hidden = ctx.saved_tensors
        direction = torch.empty_like(particles)
        directions = unflatten(direction, ctx.shapes)
        for layer in reversed(range(len(hidden))):
            of_weights, of_biases = directions[2 * layer : 2 * layer + 2]
            if mixing is not None and not (layer == 0 and ctx.is_shared):
                torch.mm(mixing, torch.bmm(hidden[layer].mT, grad).flatten(1), out=of_weights.flatten(1))
                torch.mm(mixing, grad.sum(dim=1), out=of_biases)
            else:
                # With shared inputs, mixing the output gradients is the same, and they are fewer.
                of_outputs = grad if mixing is None else (mixing @ grad.flatten(1)).view_as(grad)
                ctx.how.weight_gradients(hidden[layer], of_outputs, of_weights, of_biases)
            if layer > 0:
                grad = ctx.how.input_gradients(grad, ctx.weights[layer], hidden[layer])
        grad_inputs = grad @ ctx.weights[0].mT if ctx.needs_input_grad[1] else None
        return direction, grad_inputs, None, None, None


def drop(inputs: Tensor, rate: float, generator: torch.Generator | None = None) -> Tensor:
    """Dropout of inputs of any shape, without gradient; the rate is rounded to a multiple of 1/256."""
    # One random number for eight inputs, a byte each: forty times faster than torch.nn.functional.dropout on
    # a CPU, where drawing takes the time.
    level = min(round(256 * rate), 255)
    n = inputs.numel()
    words = torch.empty(-(-n // 8), dtype=torch.int64, device=inputs.device)
    words.random_(-(2**63), None, generator=generator)
    # Ones and zeros as floats at once, and one product: a mask of bools would be converted twice as slowly.
    kept = torch.empty(inputs.shape, dtype=inputs.dtype, device=inputs.device)
    torch.ge(words.view(torch.uint8)[:n].view(inputs.shape), level, out=kept)
    distinct = inputs[:1] if inputs.stride(0) == 0 else inputs  # expanded, where all particles have the same
    return kept.mul_(distinct * (256 / (256 - level)))


def unflatten(particles: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """Views (m, *shape) of the tensors of these shapes that lie end to end in flat particles (m, p).

    >>> [t.shape for t in unflatten(torch.zeros(3, 8), [torch.Size([2, 3]), torch.Size([2])])]
    [torch.Size([3, 2, 3]), torch.Size([3, 2])]
    """
    # split, not slices: its gradient is one concatenation, where each slice would fill a whole buffer.
    parts = torch.split(particles, [math.prod(shape) for shape in shapes], dim=1)
    return [part.view(-1, *shape) for part, shape in zip(parts, shapes, strict=True)]
