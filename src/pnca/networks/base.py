"""Protocol of networks that run m particles at once."""

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
