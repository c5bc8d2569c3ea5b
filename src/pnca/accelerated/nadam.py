"""Nadam on a GPU: one kernel a step, where torch has fifteen, and gradients mixed within it."""

import functools

import torch
from torch import Tensor

from pnca.accelerated.compiler import is_available, power_of_two
from pnca.maths.nadam import BETA1, BETA2, EPSILON, coefficients
from pnca.maths.stein import UNMIXED, Mixing

#: Steps after which the coefficients no longer change, to a part in a billion.
_N_STEPS = 2**17
#: Columns of a program that has 16 particles, the fewest that products on a GPU can take.
_BLOCK, _FEWEST = 128, 16
#: Particles at most that are mixed within the step.
_MOST = 64


def is_fused(particles: Tensor) -> bool:
    """Whether :class:`FusedNadam` can move these particles."""
    return particles.device.type == "cuda" and particles.dtype == torch.float32 and is_available()


@functools.lru_cache(maxsize=4)
def _all_coefficients(learning_rate: float, device: torch.device) -> Tensor:
    return coefficients(_N_STEPS, learning_rate, device).float()


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
        self._coefficients = _all_coefficients(learning_rate, particles.device)
        self.mixes = len(particles) <= _MOST

    @torch.no_grad()
    def step(self, gradients: Tensor, mixing: Mixing = UNMIXED) -> None:
        """Take one step along the direction that these gradients (m, p) and the particles are mixed into."""
        from pnca.accelerated import _step_kernels

        m, p = self.particles.shape
        of_gradients, of_particles = (None if t is None else t.contiguous() for t in mixing)
        is_mixed = of_gradients is not None or of_particles is not None
        # All particles if they are mixed; else as many as leave a program enough columns.
        all_rows = power_of_two(m)
        n_rows = max(all_rows, _FEWEST) if is_mixed else min(all_rows, _FEWEST)
        n_columns = _BLOCK * _FEWEST // n_rows
        _step_kernels.nadam[(-(-p // n_columns), -(-m // n_rows))](
            self.particles,
            gradients.contiguous(),
            self.particles if of_gradients is None else of_gradients,
            self.particles if of_particles is None else of_particles,
            self.mean,
            self.sq_mean,
            self._coefficients,
            self.n_steps,
            m,
            p,
            _N_STEPS - 1,
            BETA1,
            BETA2,
            EPSILON,
            MIXES_GRADIENTS=of_gradients is not None,
            MIXES_PARTICLES=of_particles is not None,
            M=n_rows,
            BLOCK=n_columns,
        )
        self.n_steps += 1

    def state(self) -> dict[str, Tensor]:
        """What the next steps depend on."""
        return {"mean": self.mean, "sq_mean": self.sq_mean, "n_steps": self.n_steps}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a state."""
        for name, value in self.state().items():
            value.copy_(state[name])
