"""What a network must offer to be run as m particles at once."""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class ParticleNetwork(Protocol):
    """A network that runs many parameter vectors as one batched program.

    Parameters are passed in, not kept: one row of a (m, p) matrix is one particle.
    """

    #: Precision in which predictions are computed; training always uses float32.
    prediction_dtype: torch.dtype

    def draw(self, n_particles: int, generator: torch.Generator) -> Tensor:
        """Draw initial parameters, float32 on the CPU: (m, p)."""
        ...

    def __call__(self, particles: Tensor, inputs: Tensor, *, training: bool = False) -> Tensor:
        """Run every particle on every input: (m, p), (n, ...) -> (m, n, d)."""
        ...


def unflatten(particles: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """Views of the parameter tensors inside flat particles.

    Parameters
    ----------
    particles : Tensor of shape (m, p)
        One flat parameter vector a row.
    shapes : sequence of torch.Size
        Shapes of the tensors laid end to end in a row.

    Returns
    -------
    list of Tensor, each of shape (m, *shape)

    Examples
    --------
    >>> [t.shape for t in unflatten(torch.zeros(3, 8), [torch.Size([2, 3]), torch.Size([2])])]
    [torch.Size([3, 2, 3]), torch.Size([3, 2])]
    """
    # split, not slices: its gradient is one concatenation, where each slice would fill a whole buffer.
    parts = torch.split(particles, [math.prod(shape) for shape in shapes], dim=1)
    return [part.view(-1, *shape) for part, shape in zip(parts, shapes, strict=True)]
