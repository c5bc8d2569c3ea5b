"""Nadam on a GPU: one kernel a step, where torch has fifteen."""

import torch
from torch import Tensor

from pnca.accelerated.masses import is_available
from pnca.maths.nadam import BETA1, BETA2, EPSILON, coefficients

#: Steps after which the coefficients no longer change, to a part in a billion.
_N_STEPS = 2**17
_BLOCK = 1024


def is_fused(particles: Tensor) -> bool:
    """Whether :class:`FusedNadam` can move these particles."""
    return particles.device.type == "cuda" and particles.dtype == torch.float32 and is_available()


class FusedNadam:
    """Nadam as :func:`pnca.maths.nadam.coefficients` has it, with its step counter on the device.

    Nothing is read by the host, so that a step can be recorded and played.

    Parameters
    ----------
    particles : Tensor of shape (m, p), float32
        On a CUDA device, contiguous; they are changed at every step.
    learning_rate : float
        Step size.
    """

    def __init__(self, particles: Tensor, learning_rate: float) -> None:
        self.particles = particles.detach()
        self.mean, self.sq_mean = torch.zeros_like(self.particles), torch.zeros_like(self.particles)
        self.n_steps = torch.zeros((), dtype=torch.int64, device=particles.device)
        self._coefficients = coefficients(_N_STEPS, learning_rate).float().to(particles.device)

    @torch.no_grad()
    def step(self, direction: Tensor) -> None:
        """Take one step: (m, p)."""
        from pnca.accelerated import _kernels

        n = self.particles.numel()
        _kernels.nadam[(-(-n // _BLOCK),)](
            self.particles,
            direction.contiguous(),
            self.mean,
            self.sq_mean,
            self._coefficients,
            self.n_steps,
            n,
            _N_STEPS - 1,
            BETA1,
            BETA2,
            EPSILON,
            BLOCK=_BLOCK,
        )
        self.n_steps += 1

    def state(self) -> dict[str, Tensor]:
        """What the next steps depend on."""
        return {"mean": self.mean, "sq_mean": self.sq_mean, "n_steps": self.n_steps}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a state."""
        for name, value in self.state().items():
            value.copy_(state[name])
