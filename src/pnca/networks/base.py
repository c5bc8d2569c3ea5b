"""Protocol of networks that run m particles at once."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

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

    #: Whether dropout draws from torch's global generator rather than from a given one.
    uses_global_generator: bool
    #: Whether images come as rows of numbers, or as they are.
    takes_rows: bool

    def __call__(
        self,
        particles: Tensor,
        inputs: Tensor,
        *,
        training: bool = False,
        mixing: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Run every particle on every input: (m, p), (n, ...) -> (m, n, d).

        With ``mixing`` (m, m), the gradient of the particles is ``mixing @ grad``.
        """
        ...


def mix_gradients(particles: Tensor, mixing: Tensor | None) -> Tensor:
    """The particles (m, p) themselves, with gradients multiplied by ``mixing`` (m, m); None is the identity.

    Examples
    --------
    >>> particles = torch.zeros(2, 1, requires_grad=True)
    >>> mix_gradients(particles, torch.tensor([[1.0, 0.5], [0.5, 1.0]]))[0].backward()
    >>> particles.grad
    tensor([[1.0000],
            [0.5000]])
    """
    if mixing is None:
        return particles
    mixed: Tensor = _MixGradients.apply(particles, mixing)  # type: ignore[no-untyped-call]
    return mixed


class _MixGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, particles: Tensor, mixing: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(mixing)
        return particles.view_as(particles)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        return ctx.saved_tensors[0] @ grad, None


def unflatten(particles: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """Views (m, *shape) of the tensors of these shapes that lie end to end in flat particles (m, p).

    Examples
    --------
    >>> [t.shape for t in unflatten(torch.zeros(3, 8), [torch.Size([2, 3]), torch.Size([2])])]
    [torch.Size([3, 2, 3]), torch.Size([3, 2])]
    """
    # split, not slices: its gradient is one concatenation, where each slice would fill a whole buffer.
    parts = torch.split(particles, [math.prod(shape) for shape in shapes], dim=1)
    return [part.view(-1, *shape) for part, shape in zip(parts, shapes, strict=True)]
