"""The matrix products that a step cannot do without, and nothing else: the floor under its time."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch


def network_products(sizes: Sequence[int], m: int, n: int, device: str = "cpu") -> Callable[[], None]:
    """The products of one step through a multilayer perceptron.

    For every layer the forward product, (m, n, a) by (m, a, b), the gradient of the weights, (m, a, n) by
    (m, n, b), and for every layer but the first the gradient of its input, (m, n, b) by (m, b, a). Each is
    one ``torch.bmm`` of float32 matrices that lie in one piece, into memory that is there already.

    Parameters
    ----------
    sizes : sequence of int
        Widths of the layers, from the input to the output.
    m, n : int
        Particles, and examples of a step.
    device : str
        Where.

    Returns
    -------
    callable
        Does the products of one step.
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
    """The products of one step with a kernel between particles.

    The Gram matrix of the particles, (m, p) by (p, m), and the mixing of gradients (and for SVGD of the
    particles too), (m, m) by (m, p).

    Parameters
    ----------
    n_parameters : int
        Parameters p of a particle.
    m : int
        Particles.
    n_mixings : int
        One for PNCA, two for SVGD.
    device : str
        Where.

    Returns
    -------
    callable
        Does the products of one step.
    """
    particles, out = torch.rand(m, n_parameters, device=device), torch.empty(m, n_parameters, device=device)
    gram, kernel = torch.empty(m, m, device=device), torch.rand(m, m, device=device)

    def products() -> None:
        torch.mm(particles, particles.mT, out=gram)
        for _ in range(n_mixings):
            torch.mm(kernel, particles, out=out)

    return products


def repeated(n_steps: int, *products: Callable[[], None]) -> Callable[[], None]:
    """Do the products of many steps."""

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
