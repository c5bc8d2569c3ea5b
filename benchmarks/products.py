"""The matrix products that a step cannot do without, and nothing else: the floor under its time."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch


def network_products(sizes: Sequence[int], m: int, n: int, device: str = "cpu") -> Callable[[], None]:
    """The products of one step of m multilayer perceptrons of these widths on n examples.

    For every layer the forward product, (m, n, a) by (m, a, b), the gradient of the weights, (m, a, n) by
    (m, n, b), and for every layer but the first the gradient of its input, (m, n, b) by (m, b, a). Each is
    one ``torch.bmm`` of contiguous float32 matrices into memory that is already allocated.
    """
    inputs = torch.rand(n, sizes[0], device=device).expand(m, -1, -1)
    hidden = [inputs, *(torch.rand(m, n, size, device=device) for size in sizes[1:])]
    weights = [torch.rand(m, a, b, device=device) for a, b in pairwise(sizes)]
    gradients = [torch.rand(m, n, size, device=device) for size in sizes]
    of_weights = [torch.empty_like(weight) for weight in weights]

    def products() -> None:
        for layer, weight in enumerate(weights):
            torch.bmm(hidden[layer], weight, out=hidden[layer + 1])
        for layer in reversed(range(len(weights))):
            torch.bmm(hidden[layer].mT, gradients[layer + 1], out=of_weights[layer])
            if layer > 0:
                torch.bmm(gradients[layer + 1], weights[layer].mT, out=gradients[layer])

    return products


def kappa_products(n_parameters: int, m: int, n_mixings: int, device: str = "cpu") -> Callable[[], None]:
    """The products of one step with the kernel between m particles, kappa.

    The Gram matrix of the particles, (m, p) by (p, m), and the mixing, (m, m) by (m, p), of the gradients and
    for SVGD of the particles too.
    """
    particles, out = torch.rand(m, n_parameters, device=device), torch.empty(m, n_parameters, device=device)
    gram, kernel = torch.empty(m, m, device=device), torch.rand(m, m, device=device)

    def products() -> None:
        torch.mm(particles, particles.mT, out=gram)
        for _ in range(n_mixings):
            torch.mm(kernel, particles, out=out)

    return products


def repeated(n_steps: int, *products: Callable[[], None]) -> Callable[[], None]:
    """The products of many steps."""

    def run() -> None:
        for _ in range(n_steps):
            for of_one_step in products:
                of_one_step()

    return run


def n_parameters(sizes: Sequence[int]) -> int:
    """Weights and biases of a multilayer perceptron.

    Examples
    --------
    >>> n_parameters([784, 200, 200, 10])
    199210
    """
    return sum(a * b + b for a, b in pairwise(sizes))
